"""The base with the system packages that wheels and sources need."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.system import Base
from reprobuild.resolve.base_and_python import ResolvedBase, ResolveRequest
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.captured import asked_of_system, asks_of, judged
from reprobuild.resolve.system.calls import callers
from reprobuild.resolve.system.needed import needed_for, programs
from reprobuild.resolve.system.packages import ASKED, not_called
from reprobuild.resolve.system.shared_libraries import asks, system_libraries, too_new
from reprobuild.resolve.system.wheel_libraries import open_wheels
from reprobuild.snapshot.captured_command import captured_commands
from reprobuild.store.fetch import fetch

_SHOWN = 5  # names in one line


def add_libraries(
    ground: ResolvedBase,
    wheels: Sequence[Wheel],
    sources: Sequence[Source],
    subject: ResolveRequest,
    around: ResolveContext,
) -> tuple[Base, list[Resolution]]:
    """Return the base with the needs of wheels and sources.

    The resolutions of packages and libraries are returned, too.
    """
    system, base, packages = ground.system, ground.base, ground.packages
    missing = [wheel.file for wheel in wheels if not around.store.has(wheel.file.sha256)]
    fetch(missing, around.store, around.net, around.progress)
    around.say("system: what the shared libraries of the wheels need")
    opened = open_wheels(wheels, subject.machine, around.store)
    interpreter_files = asks_of(ground.interpreter, subject.machine, around.store)
    interpreter_asks = asked_of_system(interpreter_files)
    needed, drop = asks(opened), subject.decisions.drop
    libraries, _ = system_libraries((*interpreter_asks, *needed), subject.snapshot, system.index, base, drop)
    if libraries:
        whose = "shared libraries of the wheels" + (
            " and of the captured Python" if interpreter_files else ""
        )
        around.say(f"system: {len(libraries)} packages more, for the {whose}")
    called = _called(wheels, sources, subject, around)
    if called:
        around.say(f"system: {len(called)} packages whose programs are called")
    if libraries or called:
        base, packages = system.pin(libraries, {**ground.listed, **called})
    if uncalled_packages := not_called(packages):
        around.say(
            f"system: {len(uncalled_packages)} packages that a person had installed are left out, because no code "
            f"calls them: {_some(uncalled_packages)}; `--system all` installs every one, `--package NAME` one of them"
        )
    _, left_out = system_libraries(needed, subject.snapshot, system.index, base, drop)
    _, lost = system_libraries(interpreter_asks, subject.snapshot, system.index, base, drop)
    return base, [
        *packages,
        *left_out,
        *judged(ground.interpreter, lost, interpreter_asks),
        *too_new((*interpreter_files, *opened), base),
    ]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")


def _called(
    wheels: Sequence[Wheel], sources: Sequence[Source], subject: ResolveRequest, around: ResolveContext
) -> dict[str, str]:
    """Return the captured packages with called programs.

    Each has its caller.
    """
    snapshot, workload = subject.snapshot, subject.decisions.workload
    if subject.decisions.system == "all":
        return {}
    names = [package.name for package in snapshot.packages if package.mark in ASKED]
    commands = [shlex.join(workload.command)] if workload else []
    captured = captured_commands(around.captured) if snapshot.captured else ()
    callers_by_program = callers(wheels, sources, commands, programs(names), around.store, captured)
    return dict(needed_for(names, callers_by_program))
