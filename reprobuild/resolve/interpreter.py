"""Which Python the environment had: no file of the snapshot says it, so evidence is weighed and shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from reprobuild.errors import LockError
from reprobuild.lock import Base, Interpreter
from reprobuild.snapshot.model import Snapshot

HINT = "say it: --python X.Y.Z, or `python:` in reprobuild.yaml"


def resolve_interpreter(snapshot: Snapshot, decided: str | None) -> Interpreter:
    """Find the interpreter.

    The distribution's own Python is the only one that can be put into an image today, so other evidence
    (capture.json, collect_env, a module, conda) that contradicts it is an error rather than a guess. Without a package
    list there is nothing to contradict: the version is then X.Y alone, and `as_in_base` tells the rest.

    Args:
        snapshot: the captured environment.
        decided: the user's word, `X.Y` or `X.Y.Z`.

    Raises:
        LockError: no evidence, or evidence that contradicts itself.
    """
    system = _system_pythons(snapshot)
    if decided is not None:
        return _decided(decided, system)
    if seen := _seen(snapshot):
        version, evidence = seen
        if not snapshot.packages and re.match(r"3\.\d", version):
            return _interpreter(_minor(version), f"Python {version}: {evidence}")
        found = system.get(_minor(version), "")
        if found and f"{found}.".startswith(f"{version}."):
            return _interpreter(found, evidence)
        raise LockError(
            f"the environment ran Python {version} ({evidence}), and the captured system has "
            f"{', '.join(system.values()) or 'none'}",
            hint=f"to run it with the system's: {HINT}",
        )
    if not system and (rpm := _from_rpms(snapshot)):
        return _interpreter(*rpm)
    if not system:
        raise LockError("no file of the snapshot shows which Python it was", hint=HINT)
    if len(system) > 1:
        default = _default_minor(snapshot)
        if default not in system:
            raise LockError(f"the system has several Pythons: {', '.join(system.values())}", hint=HINT)
        system = {default: system[default]}
    minor, version = next(iter(system.items()))
    return _interpreter(version, f"apt-packages.txt lists python{minor}")


def as_in_base(interpreter: Interpreter, base: Base) -> Interpreter:
    """Return the interpreter with the whole version that the base has of it, where only X.Y was known."""
    name = interpreter.executable.rpartition("/")[2]
    for deb in base.packages:
        upstream = re.match(r"3\.\d+\.\d+", deb.version.rpartition(":")[2])
        if deb.name == name and upstream and interpreter.version.count(".") == 1:
            return msgspec.structs.replace(interpreter, version=upstream.group())
    return interpreter


def _seen(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return (version, evidence) of the Python that something saw, the most exact first.

    Raises:
        LockError: two of them saw different ones.
    """
    seen = [*_from_reports(snapshot), *_from_conda(snapshot), *_from_modules(snapshot)]
    if not seen:
        conda = [line for line in snapshot.requirements if line.kind == "conda"]
        return ("of conda, unknown", f"{conda[0].place} was built by conda") if conda else None
    first = max(seen, key=lambda one: one[0].count("."))
    for version, evidence in seen:
        if not f"{first[0]}.".startswith(f"{version}."):
            raise LockError(
                f"the snapshot shows two Pythons: {first[0]} ({first[1]}) and {version} ({evidence})",
                hint=HINT,
            )
    return first


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _interpreter(version: str, evidence: str) -> Interpreter:
    return Interpreter(version=version, executable=f"/usr/bin/python{_minor(version)}", evidence=evidence)


def _system_pythons(snapshot: Snapshot) -> dict[str, str]:
    """Return {X.Y: X.Y.Z} of the installed interpreters of the distribution."""
    found = {}
    for package in snapshot.packages:
        name = re.fullmatch(r"python(3\.\d+)(?:-minimal)?", package.name)
        upstream = re.match(r"3\.\d+\.\d+", package.version.rpartition(":")[2])
        if name and upstream and package.mark != "residual":
            found[name.group(1)] = upstream.group()
    return found


def _default_minor(snapshot: Snapshot) -> str:
    for package in snapshot.packages:
        if package.name == "python3" and (match := re.match(r"3\.\d+", package.version)):
            return match.group()
    return ""


def _from_rpms(snapshot: Snapshot) -> tuple[str, str] | None:
    """Return (X.Y, evidence) of an rpm host's Python: the only one, or the one that `python3` is."""
    found: dict[str, tuple[str, str]] = {}
    for rpm in snapshot.rpms:
        upstream = re.match(r"3\.\d+(?=\.)", rpm.version.rpartition(":")[2])
        if upstream and rpm.name in ("python3", f"python{upstream[0]}"):
            found[rpm.name] = (upstream[0], f"rpm's {rpm.name} {rpm.version}, {rpm.place}")
    if len({version for version, _ in found.values()}) == 1:
        return next(iter(found.values()))
    return found.get("python3")


def _from_modules(snapshot: Snapshot) -> Sequence[tuple[str, str]]:
    named = [(f"{module.name}/{module.version}", module.place) for module in snapshot.modules]
    return [
        (match.group(1), f"module {name}, {place}")
        for name, place in named
        if (match := re.search(r"(?i)(?:^|/)(?:cray-)?python/(3\.\d+\.\d+)", name))
    ]


def _from_conda(snapshot: Snapshot) -> Sequence[tuple[str, str]]:
    return [
        (package.version, f"conda's python, {package.place}")
        for package in snapshot.conda
        if package.name == "python"
        and package.channel != "pypi"
        and re.fullmatch(r"3\.\d+(\.\d+)?", package.version)
    ]


def _from_reports(snapshot: Snapshot) -> Sequence[tuple[str, str]]:
    return [
        (report.python, f"{report.kind}, {report.place('Python version')}")
        for report in snapshot.reports
        if report.python
    ]


def _decided(decided: str, system: dict[str, str]) -> Interpreter:
    if not re.fullmatch(r"3\.\d+(\.\d+)?", decided):
        raise LockError(f"{decided!r} is not a version of Python", hint="write it as 3.11 or 3.11.2")
    version = system.get(_minor(decided), decided)
    if decided.count(".") == 2 and version != decided:
        raise LockError(
            f"Python {decided} was decided, and the captured system has {version}",
            hint=f"only the system's own Python can be put into the image today: --python {version}",
        )
    return _interpreter(version, "decided by the user")
