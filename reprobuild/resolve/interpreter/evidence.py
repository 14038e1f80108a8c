"""Evidence for the Python of an environment, by file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.resolve.interpreter.venv import VenvEvidence, gather_venv_evidence
from reprobuild.snapshot.model import CapturedCondaPackage, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_names import INTERPRETER

# Directories of PATH in which a manager of Pythons keeps them, and those that carry a version in their name.
_MANAGED = re.compile(
    r"(?i)(?:^|/)(?P<tool>\.?pyenv|uv/python|\.?asdf|mise|\.rye|\.?(?:mini|ana)conda\d?|miniforge\d?|mambaforge|micromamba)"
    r"(?:/|$)"
)
_VERSIONED = re.compile(r"(?i)(?:^|/)(?:cpython|python)[/-]?(?P<version>3\.\d+(?:\.\d+)?)")
_CONDA = re.compile(r"/condabin/?$")  # of every shell that conda was set up for: it holds no Python
# Variables by which a manager names the Python that it runs.
_NAMING = ("PYENV_VERSION", "PYENV_VIRTUAL_ENV", "UV_PYTHON", "ASDF_PYTHON_VERSION", "MISE_PYTHON_VERSION")
FREE_THREADED = re.compile(r"(^|_)cp3\d+t(_|$)")  # in the build of a package of conda


class Seen(Struct, frozen=True, kw_only=True):
    """A version in the evidence, `X.Y.Z` or `X.Y`, and its place.

    `ran`: the environment itself ran on it. `free_threaded`: the evidence shows the build of PEP 703; if it is not set,
    this may only be unknown.
    """

    version: str
    evidence: str
    place: SourceLocation
    ran: bool = False
    free_threaded: bool = False


class PythonEvidence(Struct, frozen=True, kw_only=True):
    """The facts of a snapshot about its Python.

    `pythons` are those in reports, conda's lists, the freeze and modules; `modules` are the last ones. `system`
    is {X.Y: X.Y.Z} of the distribution's interpreters, `default_minor` the `X.Y` of its `python3`, or empty. `rpm` is
    an rpm host's. `has_packages`: a list of the system's packages was captured. `other` is the variable that leads to
    another Python, in words. `conda_line` is the first line of the freeze that conda built.
    """

    pythons: tuple[Seen, ...] = ()
    modules: tuple[Seen, ...] = ()
    system: dict[str, str] = {}
    default_minor: str = ""
    rpm: Seen | None = None
    has_packages: bool = False
    other: tuple[SourceLocation, str] | None = None
    conda_line: SourceLocation | None = None
    venv: VenvEvidence | None = None


def gather_evidence(snapshot: Snapshot) -> PythonEvidence:
    """Read the facts of a snapshot about its Python, each once."""
    modules = tuple(_module_pythons(snapshot))
    installed = (*_report_pythons(snapshot), *_conda_pythons(snapshot), *_freeze_pythons(snapshot))
    return PythonEvidence(
        pythons=(*installed, *modules), modules=modules, system=_system_pythons(snapshot),
        default_minor=_default_minor(snapshot), rpm=_rpm_python(snapshot), has_packages=bool(snapshot.packages),
        other=_find_other_python(snapshot), venv=gather_venv_evidence(snapshot),
        conda_line=next((line.place for line in snapshot.requirements if line.kind == "conda"), None),
    )  # fmt: skip


def describe_unused_modules(evidence: PythonEvidence) -> Iterable[str]:
    """Yield a message for each loaded but unused Python module.

    The environment ran on another Python.
    """
    ran = next((python for python in evidence.pythons if python.ran), None)
    for module in evidence.modules if ran else ():
        assert ran is not None
        if not f"{module.version}.".startswith(f"{ran.version}."):
            yield f"{module.evidence} was loaded, and the environment ran Python {ran.version} ({ran.evidence})"


def _find_other_python(snapshot: Snapshot) -> tuple[SourceLocation, str] | None:
    """Return the variable that leads to a non-system Python, or None.

    The value is described in words.

    A virtual environment does not show the Python that made it. If a directory of pyenv, uv or conda comes before
    `/usr/bin` on PATH, the system's own Python in a list of packages is not evidence.
    """
    values = {variable.name: variable for variable in snapshot.variables if variable.value}
    for name in _NAMING:
        if name in values:
            return values[name].place, f"{name} is {values[name].value}"
    prefix, virtual = (
        values[name].value if name in values else "" for name in ("CONDA_PREFIX", "VIRTUAL_ENV")
    )
    if prefix and prefix != virtual:
        return values["CONDA_PREFIX"].place, f"CONDA_PREFIX is {prefix}"
    for folder in (values["PATH"].value or "").split(":") if "PATH" in values else ():
        if folder in ("/usr/bin", "/bin"):
            break
        if not _CONDA.search(folder) and (_MANAGED.search(folder) or _VERSIONED.search(folder)):
            return values["PATH"].place, f"PATH has {folder} before /usr/bin"
    return None


def _system_pythons(snapshot: Snapshot) -> dict[str, str]:
    """Return {X.Y: X.Y.Z} of the distribution's interpreters."""
    versions = {}
    for package in snapshot.packages:
        name = re.fullmatch(r"python(3\.\d+)(?:-minimal)?", package.name)
        upstream = re.match(r"3\.\d+\.\d+", package.version.rpartition(":")[2])
        if name and upstream and package.mark != "residual":
            versions[name.group(1)] = upstream.group()
    return versions


def _default_minor(snapshot: Snapshot) -> str:
    """Return the `X.Y` of `python3` in the captured Debian packages.

    It is empty if they do not have it.
    """
    for package in snapshot.packages:
        if package.name == "python3" and (match := re.match(r"3\.\d+", package.version)):
            return match.group()
    return ""


def _rpm_python(snapshot: Snapshot) -> Seen | None:
    """Return an rpm host's Python: the only one, or `python3`."""
    pythons: dict[str, Seen] = {}
    for rpm in snapshot.rpms:
        upstream = re.match(r"(3\.\d+)\.\d+", rpm.version.rpartition(":")[2])
        if upstream and rpm.name in ("python3", f"python{upstream[1]}"):
            evidence = f"rpm's {rpm.name} {rpm.version}, {rpm.place}"
            pythons[rpm.name] = Seen(version=upstream[0], evidence=evidence, place=rpm.place)
    if len({python.version for python in pythons.values()}) == 1:
        return next(iter(pythons.values()))
    return pythons.get("python3")


def _module_pythons(snapshot: Snapshot) -> Iterable[Seen]:
    for module in snapshot.modules:
        name = f"{module.name}/{module.version}"
        if match := re.search(r"(?i)(?:^|/)(?:cray-)?python/(3\.\d+\.\d+)", name):
            evidence = f"module {name}, {module.place}"
            yield Seen(version=match[1], evidence=evidence, place=module.place)


def is_free_threaded(python: CapturedCondaPackage, packages: Iterable[CapturedCondaPackage]) -> bool:
    """Return whether conda's Python is free-threaded.

    Its build (`5_cp313t`) shows it, or a package that requires such a build.
    """
    return bool(FREE_THREADED.search(python.build or "")) or any(
        package.name == "python-freethreading" for package in packages
    )


def _conda_pythons(snapshot: Snapshot) -> Iterable[Seen]:
    for package in snapshot.conda:
        of_conda = package.name == "python" and package.channel != "pypi"
        if of_conda and re.fullmatch(r"3\.\d+(\.\d+)?", package.version):
            evidence = f"conda's python, {package.place}"
            free = is_free_threaded(package, snapshot.conda)
            yield Seen(
                version=package.version, evidence=evidence, place=package.place, ran=True, free_threaded=free
            )


def _freeze_pythons(snapshot: Snapshot) -> Iterable[Seen]:
    """Yield the Python that a freeze names as a package.

    Lists made from conda's do that.
    """
    for line in snapshot.requirements:
        python = line.kind == "index" and canonicalize_name(line.name) == INTERPRETER
        if python and re.fullmatch(r"3\.\d+(\.\d+)?", line.version or ""):
            evidence = f"{line.name}=={line.version}, {line.place}"
            yield Seen(version=line.version or "", evidence=evidence, place=line.place, ran=True)


def _report_pythons(snapshot: Snapshot) -> Iterable[Seen]:
    for report in snapshot.reports:
        if report.python:
            place = report.place("Python version")
            evidence = f"{report.kind}, {place}"
            free = report.free_threaded is True
            yield Seen(version=report.python, evidence=evidence, place=place, ran=True, free_threaded=free)
