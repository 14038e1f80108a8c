"""Whether a virtual environment was made by the system's Python: the environment itself does not say it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.display import display_text
from reprobuild.snapshot.model import Snapshot, SourceLocation

_VARIABLE = "VIRTUAL_ENV"
# Debian's Pythons make environments with pip only where one of these is installed:
# https://packages.debian.org/bookworm/python3-venv, https://packages.debian.org/bookworm/python3-virtualenv
_MAKERS = ("python{}-venv", "virtualenv", "python3-virtualenv")
_MAKER = re.compile(r"python3\.\d{1,3}-venv|virtualenv|python3-virtualenv")
# pip of Debian and Ubuntu wrote it into environments that their Python made: https://bugs.launchpad.net/bugs/1635463.
# It is evidence of the interpreter here; `resolve/python/classify.py` excludes the line.
_PHANTOM = ("pkg-resources", "0.0.0")
# The Python that a wheel of a file is for alone; one of the stable ABI (abi3) is for later ones, too.
_WHEEL = re.compile(r".*-cp3(?P<minor>\d{1,3})-cp3(?P=minor)t?-[^/]*\.whl")


class VenvEvidence(Struct, frozen=True, kw_only=True):
    """The facts about the Python of a virtual environment.

    `place` is that of the variable that names its directory, `prefix`. `paths` are the `X.Y` in paths of its libraries,
    `wheels` those that wheels of the freeze are for. `makers` are the system's packages that make environments.
    `marked`: Debian's own pip left its mark in it.
    """

    place: SourceLocation
    prefix: str
    paths: frozenset[str] = frozenset()
    wheels: frozenset[str] = frozenset()
    makers: frozenset[str] = frozenset()
    marked: bool = False


def gather_venv_evidence(snapshot: Snapshot) -> VenvEvidence | None:
    """Read the facts about the virtual environment that a variable names, if any."""
    variable = next(
        (variable for variable in snapshot.variables if variable.name == _VARIABLE and variable.value), None
    )
    if variable is None:
        return None
    prefix = variable.value or ""
    return VenvEvidence(
        place=variable.place, prefix=prefix, paths=frozenset(_path_versions(snapshot, prefix)),
        wheels=frozenset(_wheel_versions(snapshot)), makers=_installed_makers(snapshot),
        marked=any((canonicalize_name(line.name), line.version) == _PHANTOM for line in snapshot.requirements),
    )  # fmt: skip


def find_unsupported_venv(
    venv: VenvEvidence | None, minor: str, pinned: Callable[[], Collection[str]]
) -> tuple[SourceLocation, str] | None:
    """Return the variable of a virtual environment that nothing ties to the system's Python, and words on it.

    Args:
        venv: of a snapshot where no file shows which Python ran.
        minor: the `X.Y` of the system's Python.
        pinned: asks for which `X.Y` every pinned release has a wheel; it needs the indexes, so it comes last.
    """
    if venv is None:
        return None
    words = f"{_VARIABLE} is {display_text(venv.prefix)}"
    if others := venv.paths - {minor}:
        return venv.place, f"{words}, whose directories are of Python {', '.join(sorted(others))}"
    makes_venvs = venv.marked or any(maker.format(minor) in venv.makers for maker in _MAKERS)
    if venv.paths or venv.wheels == {minor} or makes_venvs or set(pinned()) == {minor}:
        return None
    return venv.place, f"{words}, and no file says which Python made it"


def _path_versions(snapshot: Snapshot, prefix: str) -> Iterator[str]:
    """Yield the versions in the paths of an environment's libraries, `lib/pythonX.Y`."""
    below = re.compile(re.escape(prefix.rstrip("/")) + r"/lib(?:64)?/python(3\.\d{1,3})(?=/|:|\s|\Z)")
    for variable in snapshot.variables:
        yield from below.findall(variable.value or "")
    for line in snapshot.requirements:
        yield from below.findall(line.path or "")


def _wheel_versions(snapshot: Snapshot) -> Iterator[str]:
    """Yield the versions that wheels of the freeze are for, by the names of their files."""
    for line in snapshot.requirements:
        if line.kind == "archive" and (match := _WHEEL.fullmatch(line.path or line.url or "")):
            yield f"3.{match['minor']}"


def _installed_makers(snapshot: Snapshot) -> frozenset[str]:
    """Return the installed packages of the system that make environments with pip, for any Python."""
    installed = (package.name for package in snapshot.packages if package.mark != "residual")
    return frozenset(name for name in installed if _MAKER.fullmatch(name))
