"""Pythons on this machine with the exact build of the snapshot.

Each candidate is run to get its build: so it must be in a directory of the user's own managers or on PATH, and only the
user and root may be able to change it. A path that only the snapshot names is never run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.capture import launch
from reprobuild.errors import EngineError, LockError, SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.own_python import SAFE
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import AbsolutePath, Line
from reprobuild.lock.python import OF_MACHINE
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.interpreter.captured import adopt_interpreter, describe_interpreter
from reprobuild.resolve.interpreter.installations import (
    find_changeable_path,
    find_installations,
    is_below_roots,
)
from reprobuild.resolve.interpreter.standalone import Build, NoBuildError
from reprobuild.snapshot.capture_model import PackedInterpreter
from reprobuild.snapshot.model import MachineReport
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.snapshot.python_build import StatedBuild, find_stated_build, format_build

_MOST = 16  # Pythons that are asked
_SHOWN = 3  # of them in an error
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
_ASK = (
    "import json, platform, sys, sysconfig; print(json.dumps({'version': platform.python_version(), "
    "'build': platform.python_build(), 'compiler': platform.python_compiler(), 'text': sys.version.splitlines()[0], "
    "'platform': sysconfig.get_platform(), 'prefix': sys.base_prefix}))"
)


class _Answer(Struct, frozen=True):
    """An interpreter's statements about itself.

    `text` is the first line of `python -VV` without its first word.
    """

    version: Line
    build: tuple[Line, Line]
    compiler: Line
    text: Line
    platform: Line
    prefix: AbsolutePath

    @property
    def words(self) -> str:
        return format_build(self.version, self.build, self.compiler)

    def is_build(self, stated: StatedBuild) -> bool:
        """Return whether this is the exact build."""
        return self.platform == stated.platform and stated.words in (self.words, self.text.strip())


class _PassedError(Exception):
    """A Python of this machine is not used; the message says why."""


def find_local(
    version: str, reports: Sequence[MachineReport], machine: str, none: NoBuildError, context: ResolveContext
) -> Build:
    """Return this machine's Python with the snapshot's exact build.

    It is packed into the store.

    Args:
        version: the needed version, `X.Y.Z`.
        reports: of the snapshot.
        machine: of the image, in the kernel's spelling.
        none: the error if there is no standalone build.
        context: the snapshot's directory, this machine's environment, and the store.

    Raises:
        NoBuildError: there is no such Python here; the message names candidates with another build.
    """
    captured = any(report.kind == "capture" for report in reports)
    stated = find_stated_build(load_capture(context.captured) if captured else None, reports)
    if stated is None or stated.version != version or stated.platform != f"linux-{machine}":
        raise none
    minor = ".".join(version.split(".")[:2])
    passed = []
    bases = find_installations(minor, stated.prefix, context.env)
    for base in bases[:_MOST]:
        try:
            return _pack_build(base, minor, stated, machine, context)
        except _PassedError as err:
            passed.append(f"{escape_text(str(base))} {err}")
    if _is_elsewhere(stated, bases, context):
        place = escape_text(stated.prefix)
        passed.insert(
            0, f"{place} is not looked at: no directory of PATH leads to it, and no manager keeps it"
        )
    more = [f"and {len(passed) - _SHOWN} more"] if len(passed) > _SHOWN else []
    message = "; ".join([str(none), *passed[:_SHOWN], *more])
    raise NoBuildError(message, hint=none.hint)


def _is_elsewhere(stated: StatedBuild, bases: Sequence[Path], context: ResolveContext) -> bool:
    """Return whether the snapshot's Python may be in an unknown directory.

    Only the snapshot names the directory.
    """
    prefix = stated.prefix
    if not prefix.startswith("/") or prefix == "/usr" or os.path.realpath(prefix) in map(str, bases):
        return False
    try:
        return Path(prefix).is_dir() and not is_below_roots(prefix, context.env)
    except OSError:  # a name that is too long
        return False


def _pack_build(base: Path, minor: str, stated: StatedBuild, machine: str, context: ResolveContext) -> Build:
    program = base / "bin" / f"python{minor}"
    if open_to_others := find_changeable_path(base, minor):
        raise _PassedError(f"is not run: others can change {escape_text(str(open_to_others))}")
    answer = _query_interpreter(program)
    if not answer.is_build(stated):
        raise _PassedError(f"is another build ({escape_text(answer.words)}, not {escape_text(stated.words)})")
    if os.path.realpath(answer.prefix) != str(base):
        raise _PassedError(f"belongs to {escape_text(answer.prefix)}")
    context.say(
        f"python: Python {stated.version} of this machine, {escape_text(str(base))}: the build that ran"
    )
    with context.store.scratch() as scratch:
        try:
            output = launch.pack_interpreter(program, scratch, _ENVIRONMENT)
            packed = decode_json(output, PackedInterpreter)
            evidence = f"{OF_MACHINE}{describe_interpreter(packed)}"
            taken = adopt_interpreter(packed, scratch, evidence, machine, context.store)
        except (ProcessFailedError, EngineError, SnapshotError, LockError, msgspec.DecodeError) as err:
            raise _PassedError(f"cannot be packed: {escape_text(str(err))}") from None
    if packed.left_out:
        context.say(
            f"python: {len(packed.left_out)} of its files are left out, {packed.left_out[0].path} first"
        )
    assert taken.file is not None
    return Build(version=taken.version, file=taken.file, evidence=evidence)


def _query_interpreter(program: Path) -> _Answer:
    """Return an interpreter's statements about itself."""
    argv = [str(program), *launch.ISOLATED, "-c", _ASK]
    try:
        output = run(argv, env=_ENVIRONMENT, purpose="tell its build", cwd=SAFE, timeout=60, most=1 << 16)
        return decode_json(output, _Answer)
    except (ProcessFailedError, EngineError):
        raise _PassedError("does not start") from None
    except msgspec.DecodeError:
        raise _PassedError("does not state its build") from None
