"""Which Python the image gets: no file of the snapshot says it, so evidence is weighed and shown.

The distribution's own where it is the captured X.Y.Z, else a standalone build of exactly that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.lock.lock import STANDALONE, Base, Interpreter, Ruling
from reprobuild.resolve.interpreter.evidence import (
    Seen,
    another_python,
    default_minor,
    rpm_python,
    seen_pythons,
    system_pythons,
)
from reprobuild.resolve.interpreter.standalone import Build, NoBuild
from reprobuild.resolve.interpreter.venv import unsupported
from reprobuild.snapshot.model import Place, Snapshot

HINT = "say it: --python X.Y.Z, or `python:` in reprobuild.yaml"
PATCH = "python-patch"  # the kind of a deviation: another patch release than the captured one
GUESS = "python-guess"  # the system's Python, where the environment may have run another one

Find = Callable[[str], Build]


class NoPython(LockError):
    """The Python that the environment ran cannot be had, and no other stands in for it."""


class Choice(Struct, frozen=True, kw_only=True):
    """The interpreter of the image, and the deviation that it is, if it is one; `lost` says why it cannot be had."""

    interpreter: Interpreter
    rulings: tuple[Ruling, ...] = ()
    lost: LockError | None = None


def resolve_interpreter(snapshot: Snapshot, decided: str | None) -> Interpreter:
    """Find the interpreter that the image is to have.

    Args:
        snapshot: the captured environment.
        decided: the user's word, `X.Y` or `X.Y.Z`, with a `t` behind it for a free-threaded one.

    Returns:
        The system's own Python where the captured list has it, else a standalone build, whose `file` is still to be
        found (`bring`). Without a list the system's own is to be tried first (`settle`).

    Raises:
        LockError: no evidence, or evidence that contradicts itself or the user's word.
    """
    system = system_pythons(snapshot)
    if decided is not None:
        return _decided(decided, snapshot, system)
    if seen := _agreed(snapshot):
        return _wanted(seen, snapshot, system)
    if not system and (rpm := rpm_python(snapshot)):
        return _interpreter(rpm.version, rpm.evidence)
    if not system:
        raise LockError("no file of the snapshot shows which Python it was", hint=HINT)
    if len(system) > 1:
        default = default_minor(snapshot)
        if default not in system:
            raise LockError(f"the system has several Pythons: {', '.join(system.values())}", hint=HINT)
        system = {default: system[default]}
    minor, version = next(iter(system.items()))
    return _interpreter(version, f"apt-packages.txt lists python{minor}")


def bring(wanted: Interpreter, snapshot: Snapshot, find: Find) -> Choice:
    """Return a standalone interpreter with its build; where there is none, the system's of the captured list.

    Any other interpreter comes back as it is.

    Raises:
        NoPython: there is no build, and the captured list has no Python of that minor version.
    """
    if wanted.kind != "standalone":
        return Choice(interpreter=wanted)
    try:
        build = find(requested(wanted))
    except NoBuild as err:
        if wanted.free_threaded:
            raise NoPython(
                f"Python {wanted.version} ({wanted.evidence}) is free-threaded, which no package of the system is, "
                f"and {err}",
                hint=err.hint,
            ) from None
        version = system_pythons(snapshot).get(wanted.minor)
        if version is None:
            raise NoPython(
                f"Python {wanted.version} ({wanted.evidence}) is not among the captured packages, and {err}",
                hint=err.hint,
            ) from None
        return _choice(_interpreter(version, wanted.evidence), snapshot, wanted.version, str(err))
    return _choice(with_build(wanted, build), snapshot)


def settle(choice: Choice, base: Base, snapshot: Snapshot, find: Find) -> Choice:
    """Compare a system's Python with the one that the base has; where they differ, take a standalone build.

    Where there is no such build, the base's own is a deviation; `kind` of what comes back says which it is.
    """
    wanted = choice.interpreter
    if wanted.kind != "system":
        return choice
    found = re.match(r"3\.\d+\.\d+", base.installed.get(f"python{wanted.minor}", "").rpartition(":")[2])
    version = found[0] if found else wanted.version
    own = msgspec.structs.replace(wanted, version=version)
    if f"{version}.".startswith(f"{wanted.version}."):
        return Choice(interpreter=own, rulings=choice.rulings or _choice(own, snapshot).rulings)
    try:
        build = find(wanted.version)
    except NoBuild as err:
        return _choice(own, snapshot, wanted.version, str(err))
    return _choice(with_build(wanted, build), snapshot)


def guess(
    snapshot: Snapshot, decided: str | None, interpreter: Interpreter, pinned: Callable[[], Collection[str]]
) -> tuple[Ruling, ...]:
    """Return the deviation of a system's Python that stands in for one that the variables lead to.

    Args:
        snapshot: the captured environment.
        decided: the user's word, if there is one.
        interpreter: the chosen one.
        pinned: asks for which `X.Y` every pinned release has a wheel.
    """
    if decided is not None or seen_pythons(snapshot) or interpreter.kind == "conda":
        return ()
    other = another_python(snapshot)
    words = f"{other[1]}, which may be another Python" if other else ""
    if other is None and system_pythons(snapshot):
        other = unsupported(snapshot, interpreter.minor, pinned)
        words = other[1] if other else ""
    if other is None:
        return ()
    ruling = Ruling(
        file=other[0].file, line=other[0].line, subject="python", outcome="replaced", kind=GUESS,
        reason=f"the image would have Python {interpreter.version} ({interpreter.evidence}), a guess: {words}; "
        "say which one ran: --python X.Y.Z (`python -VV` prints it)",
    )  # fmt: skip
    return (ruling,)


def standalone(wanted: Interpreter) -> Interpreter:
    """Return the same version as a standalone build, which is still to be found."""
    executable = f"{STANDALONE}/bin/{wanted.executable.rpartition('/')[2]}"
    return msgspec.structs.replace(wanted, kind="standalone", executable=executable)


def brought(wanted: Interpreter, snapshot: Snapshot, find: Find) -> Choice:
    """Return what `bring` does; where it cannot be had, the wanted one without a file, so that resolving goes on."""
    try:
        return bring(wanted, snapshot, find)
    except NoPython as err:
        return Choice(interpreter=wanted, lost=err)


def with_build(wanted: Interpreter, build: Build) -> Interpreter:
    """Return the interpreter that a build is: a standalone one, or one of this machine as a captured one."""
    found = msgspec.structs.replace(standalone(wanted), version=build.version, file=build.file)
    return (
        msgspec.structs.replace(found, kind="captured", evidence=build.evidence) if build.evidence else found
    )


def requested(wanted: Interpreter) -> str:
    """Return the version of an interpreter as builds are asked for: `3.13.1`, or `3.13.1t`."""
    return wanted.version + "t" * wanted.free_threaded


def _choice(interpreter: Interpreter, snapshot: Snapshot, wanted: str = "", why: str = "") -> Choice:
    """Return the choice, with its ruling where another patch release was captured, or `wanted`."""
    captured = [one for one in seen_pythons(snapshot) if _minor(one.version) == interpreter.minor]
    fits = any(f"{interpreter.version}.".startswith(f"{one.version}.") for one in captured)
    place = captured[0].place if captured else None
    if (fits or not captured) and not wanted:
        return Choice(interpreter=interpreter)
    ran = (
        f"{captured[0].version} ({captured[0].evidence})"
        if captured
        else f"{wanted} ({interpreter.evidence})"
    )
    ruling = Ruling(
        file=place.file if place else "python", line=place.line if place else 0, subject="python",
        outcome="replaced", kind=PATCH,
        reason=f"the environment ran Python {ran}, and the image has {interpreter.version}: "
        + ("; ".join(line.strip() for line in why.splitlines()) or interpreter.evidence),
    )  # fmt: skip
    return Choice(interpreter=interpreter, rulings=(ruling,))


def _agreed(snapshot: Snapshot) -> Seen | None:
    """Return the most exact of what files show; what was only loaded counts where nothing shows what ran.

    Raises:
        LockError: two of them show different ones, or conda's Python of an unknown version.
    """
    every = seen_pythons(snapshot)
    seen = [one for one in every if one.ran] or every
    if not seen:
        conda = [line for line in snapshot.requirements if line.kind == "conda"]
        if conda:
            raise LockError(
                f"the environment ran Python of conda, unknown ({conda[0].place} was built by conda)",
                hint=HINT,
            )
        return None
    first = max(seen, key=lambda one: one.version.count("."))
    for other in seen:
        if not f"{first.version}.".startswith(f"{other.version}."):
            raise LockError(
                f"the snapshot shows two Pythons: {first.version} ({first.evidence}) and {other.version} "
                f"({other.evidence})",
                hint=HINT,
            )
    return msgspec.structs.replace(first, free_threaded=any(one.free_threaded for one in seen))


def _wanted(seen: Seen, snapshot: Snapshot, system: dict[str, str]) -> Interpreter:
    """Return the system's own Python where it is of this version, or may be; else a standalone build.

    No distribution's own Python is free-threaded.
    """
    version, evidence = seen.version, seen.evidence
    if seen.free_threaded:
        plain = _interpreter(version, evidence)
        return standalone(msgspec.structs.replace(plain, executable=f"{plain.executable}t"))
    if not snapshot.packages:
        return _interpreter(version, evidence)
    own = system.get(_minor(version), "")
    if own and f"{own}.".startswith(f"{version}."):
        return _interpreter(own, evidence)
    return standalone(_interpreter(version, evidence))


def _decided(decided: str, snapshot: Snapshot, system: dict[str, str]) -> Interpreter:
    if not re.fullmatch(r"3\.\d+(\.\d+)?t?", decided):
        raise LockError(f"{decided!r} is not a version of Python", hint="write it as 3.11 or 3.11.2")
    word, decided, free = decided, decided.removesuffix("t"), decided.endswith("t")
    ran = [one for one in seen_pythons(snapshot) if one.ran]
    same = [one for one in ran if _minor(one.version) == _minor(decided)]
    if ran and not same:
        raise LockError(
            f"Python {word} was decided, and the environment ran {ran[0].version} ({ran[0].evidence})",
            hint=f"another minor version is another environment: "
            f"--python {shlex.quote(ran[0].version)}{'t' * ran[0].free_threaded}",
        )
    if not free and (other := next((one for one in same if one.free_threaded), None)):
        raise LockError(
            f"Python {word} was decided, and the environment ran {other.version}, free-threaded ({other.evidence})",
            hint=f"an ordinary Python is another environment: --python {shlex.quote(other.version)}t",
        )
    exact = next((one.version for one in same if one.version.startswith(f"{decided}.")), decided)
    version = exact if snapshot.packages and _minor(decided) not in system else decided
    asked = Seen(
        version=version, evidence="decided by the user", place=Place("python", 0), free_threaded=free
    )
    return _wanted(asked, snapshot, system)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _interpreter(version: str, evidence: str) -> Interpreter:
    return Interpreter(version=version, executable=f"/usr/bin/python{_minor(version)}", evidence=evidence)
