"""The choice of the image's Python, by evidence.

No file of the snapshot states it, so evidence is weighed and shown.

It is the distribution's own if that is the captured X.Y.Z, else a standalone build of exactly that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Mapping
from typing import TypedDict

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import STANDALONE, Base
from reprobuild.resolve.interpreter.evidence import PythonEvidence, Seen
from reprobuild.resolve.interpreter.standalone import Build, NoBuildError
from reprobuild.resolve.interpreter.venv import find_unsupported_venv
from reprobuild.resolve.override_words import PYTHON
from reprobuild.snapshot.model import SourceLocation

HINT = "say it: --python X.Y.Z, or `python:` in reprobuild.yaml"
_DECIDED = "decided by the user"
PATCH = "python-patch"  # the kind of a deviation: another patch release than the captured one
ANY_PATCH = "for any patch release: "  # begins the last part of a reason, or a hint
NO_FILE = "python"  # the file of a resolution for a Python that no captured line shows
GUESS = "python-guess"  # the system's Python, if the environment may have run another one

Find = Callable[[str], Build]


class NoPythonError(LockError):
    """The environment's Python is unavailable, without a replacement."""


class InterpreterChoice(Struct, frozen=True, kw_only=True):
    """The interpreter of the image, and its deviation, if any.

    `lost` is the error if it is unavailable.
    """

    interpreter: Interpreter
    rulings: tuple[Resolution, ...] = ()
    lost: LockError | None = None


def resolve_interpreter(evidence: PythonEvidence, decided: str | None) -> Interpreter:
    """Choose the interpreter of the image.

    Args:
        evidence: of the captured environment.
        decided: the user's override, `X.Y` or `X.Y.Z`, followed by `t` for a free-threaded one.

    Returns:
        The system's own Python if the captured list has it, else a standalone build, whose `file` is still to be found
        (`choose_build`). Without a list the system's own is to be tried first (`finalise_interpreter`).

    Raises:
        LockError: there is no evidence, or the evidence contradicts itself or the user's override.
    """
    system = evidence.system
    if decided is not None:
        return _apply_python_decision(decided, evidence)
    if python := _find_agreed_python(evidence):
        return _choose_interpreter(python, system, evidence.has_packages)
    if not system and (rpm := evidence.rpm):
        return _system_interpreter(rpm.version, rpm.evidence)
    if not system:
        raise LockError("no file of the snapshot shows which Python it was", hint=HINT)
    if len(system) > 1:
        default = evidence.default_minor
        if default not in system:
            raise LockError(f"the system has several Pythons: {', '.join(system.values())}", hint=HINT)
        system = {default: system[default]}
    minor, version = next(iter(system.items()))
    return _system_interpreter(version, f"apt-packages.txt lists python{minor}")


def choose_build(interpreter: Interpreter, evidence: PythonEvidence, find: Find) -> InterpreterChoice:
    """Find the build of a standalone interpreter.

    Without a build, return the system's Python of the captured list.

    Any other interpreter is returned unchanged.

    Raises:
        NoPythonError: there is no build, and the captured list has no Python of that minor version.
    """
    if interpreter.kind != "standalone":
        return InterpreterChoice(interpreter=interpreter)
    try:
        build = find(format_build_version(interpreter))
    except NoBuildError as err:
        if interpreter.free_threaded:
            raise NoPythonError(
                f"Python {interpreter.version} ({interpreter.evidence}) is free-threaded, which no package of the "
                f"system is, and {err}",
                **propose_any_patch(interpreter, evidence, err.hint),
            ) from None
        version = evidence.system.get(interpreter.minor)
        if version is None:
            raise NoPythonError(
                f"Python {interpreter.version} ({interpreter.evidence}) is not among the captured packages, and {err}",
                **propose_any_patch(interpreter, evidence, err.hint),
            ) from None
        return _make_choice(
            _system_interpreter(version, interpreter.evidence), evidence, interpreter.version, str(err)
        )
    return _make_choice(with_build(interpreter, build), evidence)


def finalise_interpreter(
    choice: InterpreterChoice, base: Base, evidence: PythonEvidence, find: Find
) -> InterpreterChoice:
    """Compare the system's Python with that of the base.

    If they differ, use a standalone build.

    Without such a build, the base's own is a deviation; `kind` of the result shows the choice.
    """
    interpreter = choice.interpreter
    if interpreter.kind != "system":
        return choice
    match = re.match(r"3\.\d+\.\d+", base.installed.get(f"python{interpreter.minor}", "").rpartition(":")[2])
    version = match[0] if match else interpreter.version
    base_interpreter = msgspec.structs.replace(interpreter, version=version)
    if f"{version}.".startswith(f"{interpreter.version}."):
        return InterpreterChoice(
            interpreter=base_interpreter,
            rulings=choice.rulings or _make_choice(base_interpreter, evidence).rulings,
        )
    try:
        build = find(interpreter.version)
    except NoBuildError as err:
        return _make_choice(base_interpreter, evidence, interpreter.version, str(err))
    return _make_choice(with_build(interpreter, build), evidence)


def rule_guessed_python(
    evidence: PythonEvidence,
    decided: str | None,
    interpreter: Interpreter,
    pinned: Callable[[], Collection[str]],
) -> tuple[Resolution, ...]:
    """Return the deviation of a guessed system Python.

    The variables lead to another Python, or no evidence supports this one.

    Args:
        evidence: of the captured environment.
        decided: the user's override, if any.
        interpreter: the chosen one.
        pinned: asks for which `X.Y` every pinned release has a wheel.
    """
    if decided is not None or evidence.pythons or interpreter.kind == "conda":
        return ()
    other = evidence.other
    words = f"{other[1]}, which may be another Python" if other else ""
    if other is None and evidence.system:
        other = find_unsupported_venv(evidence.venv, interpreter.minor, pinned)
        words = other[1] if other else ""
    if other is None:
        return ()
    ruling = Resolution(
        file=other[0].file, line=other[0].line, subject="python", outcome="replaced", kind=GUESS,
        reason=f"the image would have Python {interpreter.version} ({interpreter.evidence}), a guess: {words}; "
        "say which one ran: --python X.Y.Z (`python -VV` prints it)",
    )  # fmt: skip
    return (ruling,)


def make_standalone(interpreter: Interpreter) -> Interpreter:
    """Return the same version as a standalone build, still without a file."""
    executable = f"{STANDALONE}/bin/{interpreter.executable.rpartition('/')[2]}"
    return msgspec.structs.replace(interpreter, kind="standalone", executable=executable)


def try_choose_build(interpreter: Interpreter, evidence: PythonEvidence, find: Find) -> InterpreterChoice:
    """Find the build as `choose_build` does, but tolerate a missing one.

    Then the result has no file, so that resolving goes on.
    """
    try:
        return choose_build(interpreter, evidence, find)
    except NoPythonError as err:
        return InterpreterChoice(interpreter=interpreter, lost=err)


def with_build(interpreter: Interpreter, build: Build) -> Interpreter:
    """Return the interpreter of a build.

    It is a standalone one, or one of this machine as a captured one.
    """
    result = msgspec.structs.replace(make_standalone(interpreter), version=build.version, file=build.file)
    return (
        msgspec.structs.replace(result, kind="captured", evidence=build.evidence)
        if build.evidence
        else result
    )


def format_build_version(interpreter: Interpreter) -> str:
    """Return an interpreter's version in the form of builds.

    Examples are `3.13.1` and `3.13.1t`.
    """
    return interpreter.version + "t" * interpreter.free_threaded


class HintArguments(TypedDict):
    """The arguments of an error for its hint, and for the options in it."""

    hint: str
    options: list[str]


def propose_any_patch(interpreter: Interpreter, evidence: PythonEvidence, hint: str) -> HintArguments:
    """Return a hint that begins with the option for any patch release.

    It begins so if the user named a patch release, and the snapshot does not show the minor version.
    """
    minor, shown = interpreter.minor, {_minor_version(python.version) for python in evidence.pythons}
    if interpreter.evidence != _DECIDED or interpreter.version == minor or minor in shown:
        return {"hint": hint, "options": []}
    option = f"--python {shlex.quote(minor + 't' * interpreter.free_threaded)}"
    return {"hint": f"{ANY_PATCH}{option}\n{hint}", "options": [option]}


def _make_choice(
    interpreter: Interpreter, evidence: PythonEvidence, version: str = "", why: str = ""
) -> InterpreterChoice:
    """Return the choice, with a resolution for another patch release.

    The other release is the captured one, or `version`.
    """
    captured = [python for python in evidence.pythons if _minor_version(python.version) == interpreter.minor]
    fits = any(f"{interpreter.version}.".startswith(f"{python.version}.") for python in captured)
    place = captured[0].place if captured else None
    if (fits or not captured) and not version:
        return InterpreterChoice(interpreter=interpreter)
    ran = (
        f"{captured[0].version} ({captured[0].evidence})"
        if captured
        else f"{version} ({interpreter.evidence})"
    )
    start, any_patch = f"the environment ran Python {ran}, and", ""
    if (fits or not captured) and interpreter.evidence == _DECIDED:
        start, place = f"Python {version} was decided, and no published build of it was found:", None
        any_patch = f"; {ANY_PATCH}--python {shlex.quote(interpreter.minor)}"
    ruling = Resolution(
        file=place.file if place else NO_FILE, line=place.line if place else 0, subject="python",
        outcome="replaced", kind=PATCH,
        reason=f"{start} the image has {interpreter.version}: "
        + ("; ".join(line.strip() for line in why.splitlines()) or interpreter.evidence)
        + any_patch,
    )  # fmt: skip
    return InterpreterChoice(interpreter=interpreter, rulings=(ruling,))


def _find_agreed_python(evidence: PythonEvidence) -> Seen | None:
    """Return the most exact version that files show.

    A version that was only loaded counts if no file shows one that ran.

    Raises:
        LockError: two of them differ, or conda's Python has an unknown version.
    """
    all_pythons = evidence.pythons
    pythons = [python for python in all_pythons if python.ran] or all_pythons
    if not pythons:
        if evidence.conda_line:
            raise LockError(
                f"the environment ran Python of conda, unknown ({evidence.conda_line} was built by conda)",
                hint=HINT,
            )
        return None
    first = max(pythons, key=lambda python: python.version.count("."))
    for other in pythons:
        if not f"{first.version}.".startswith(f"{other.version}."):
            raise LockError(
                f"the snapshot shows two Pythons: {first.version} ({first.evidence}) and {other.version} "
                f"({other.evidence})",
                hint=HINT,
            )
    return msgspec.structs.replace(first, free_threaded=any(python.free_threaded for python in pythons))


def _choose_interpreter(python: Seen, system: Mapping[str, str], has_packages: bool) -> Interpreter:
    """Return the system's Python if its version may fit.

    Else return a standalone build.

    No distribution's own Python is free-threaded.
    """
    version, evidence = python.version, python.evidence
    if python.free_threaded:
        plain = _system_interpreter(version, evidence)
        return make_standalone(msgspec.structs.replace(plain, executable=f"{plain.executable}t"))
    if not has_packages:
        return _system_interpreter(version, evidence)
    system_version = system.get(_minor_version(version), "")
    if system_version and f"{system_version}.".startswith(f"{version}."):
        return _system_interpreter(system_version, evidence)
    return make_standalone(_system_interpreter(version, evidence))


def _apply_python_decision(decided: str, evidence: PythonEvidence) -> Interpreter:
    if not PYTHON.fullmatch(decided):
        raise LockError(f"{decided!r} is not a version of Python", hint="write it as 3.11 or 3.11.2")
    word, decided, free = decided, decided.removesuffix("t"), decided.endswith("t")
    ran = [python for python in evidence.pythons if python.ran]
    same = [python for python in ran if _minor_version(python.version) == _minor_version(decided)]
    if ran and not same:
        option = f"--python {shlex.quote(ran[0].version)}{'t' * ran[0].free_threaded}"
        raise LockError(
            f"Python {word} was decided, and the environment ran {ran[0].version} ({ran[0].evidence})",
            hint=f"another minor version is another environment: {option}", options=[option],
        )  # fmt: skip
    if not free and (other := next((python for python in same if python.free_threaded), None)):
        option = f"--python {shlex.quote(other.version)}t"
        raise LockError(
            f"Python {word} was decided, and the environment ran {other.version}, free-threaded ({other.evidence})",
            hint=f"an ordinary Python is another environment: {option}", options=[option],
        )  # fmt: skip
    exact = next((python.version for python in same if python.version.startswith(f"{decided}.")), decided)
    version = exact if evidence.has_packages and _minor_version(decided) not in evidence.system else decided
    decision = Seen(version=version, evidence=_DECIDED, place=SourceLocation("python", 0), free_threaded=free)
    return _choose_interpreter(decision, evidence.system, evidence.has_packages)


def _minor_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _system_interpreter(version: str, evidence: str) -> Interpreter:
    return Interpreter(
        version=version, executable=f"/usr/bin/python{_minor_version(version)}", evidence=evidence
    )
