"""The base with the system packages that wheels and sources need."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.system import Base
from reprobuild.resolve.base_and_python import ResolvedBase, ResolveRequest
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.captured import (
    interpreter_elf_files,
    required_system_libraries,
    resolve_missing_libraries,
)
from reprobuild.resolve.system.calls import find_callers
from reprobuild.resolve.system.needed import find_programs, select_called_packages
from reprobuild.resolve.system.packages import ASKED, list_uncalled_packages
from reprobuild.resolve.system.shared_libraries import (
    choose_library_packages,
    required_libraries,
    rule_newer_libraries,
)
from reprobuild.resolve.system.wheel_libraries import open_wheels
from reprobuild.snapshot.captured_command import list_captured_commands
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.store.fetch import fetch

_SHOWN = 5  # names in one line


def add_libraries(
    ground: ResolvedBase,
    wheels: Sequence[Wheel],
    sources: Sequence[Source],
    subject: ResolveRequest,
    context: ResolveContext,
) -> tuple[Base, list[Resolution]]:
    """Return the base with the needs of wheels and sources.

    The resolutions of packages and libraries are returned, too.
    """
    system, base, packages = ground.system, ground.base, ground.packages
    files = [wheel.file for wheel in wheels]
    missing = [file for file in files if not context.store.has(file.sha256, file.size)]
    fetch(missing, context.store, context.net, context.progress)
    context.say("system: what the shared libraries of the wheels need")
    opened = open_wheels(wheels, subject.machine, context.store)
    interpreter_files = interpreter_elf_files(ground.interpreter, subject.machine, context.store)
    interpreter_asks = required_system_libraries(interpreter_files)
    needed, drop = required_libraries(opened), subject.decisions.drop
    libraries, _ = choose_library_packages(
        (*interpreter_asks, *needed), subject.snapshot, system.index, base, drop
    )
    if libraries:
        whose = "shared libraries of the wheels" + (
            " and of the captured Python" if interpreter_files else ""
        )
        context.say(f"system: {len(libraries)} packages more, for the {whose}")
    called = _find_called_packages(wheels, sources, subject, context)
    if called:
        context.say(f"system: the code calls programs of {len(called)} packages")
    if libraries or called:
        base, packages = system.pin(libraries, {**ground.listed, **called})
    if uncalled_packages := list_uncalled_packages(packages):
        context.say(
            f"system: {len(uncalled_packages)} manually installed packages are left out, because no code "
            f"calls them: {_shorten_names(uncalled_packages)}; `--system all` installs every one, `--package "
            "NAME` one of them"
        )
    _, left_out = choose_library_packages(needed, subject.snapshot, system.index, base, drop)
    _, lost = choose_library_packages(interpreter_asks, subject.snapshot, system.index, base, drop)
    return base, [
        *packages,
        *left_out,
        *resolve_missing_libraries(ground.interpreter, lost, interpreter_asks),
        *rule_newer_libraries((*interpreter_files, *opened), base),
    ]


def _shorten_names(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _find_called_packages(
    wheels: Sequence[Wheel], sources: Sequence[Source], subject: ResolveRequest, context: ResolveContext
) -> dict[str, str]:
    """Return the captured packages with called programs.

    Each has its caller.
    """
    snapshot, workload = subject.snapshot, subject.decisions.workload
    if subject.decisions.system == "all":
        return {}
    names = [package.name for package in snapshot.packages if package.mark in ASKED]
    commands = [shlex.join(workload.command)] if workload else []
    captured = list_captured_commands(load_capture(context.captured)) if snapshot.captured else ()
    callers_by_program = find_callers(
        wheels, sources, commands, find_programs(names), context.store, captured
    )
    return dict(select_called_packages(names, callers_by_program))
