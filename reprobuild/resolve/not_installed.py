"""Captured packages that no image is made of.

They are rpm's, and conda's if wheels replace them. Each line has its resolution.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve.interpreter.evidence import is_free_threaded
from reprobuild.snapshot.model import CapturedCondaPackage, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.snapshot.parsers.conda_names import find_pypi_name


def find_conda_python(snapshot: Snapshot, decisions: Decisions) -> CapturedCondaPackage | None:
    """Return the captured Python of conda, if it is to be used.

    Return None if wheels make the environment.

    An override `python` that is not the exact captured patch release means the system's or a standalone one; conda's
    packages are then only evidence.
    """
    if is_named("python", decisions.drop):
        return None
    python = next(
        (package for package in snapshot.conda if package.name == "python" and package.channel != PYPI), None
    )
    if python is None or decisions.python is None:
        return python
    version = python.version + "t" * is_free_threaded(python, snapshot.conda)
    return python if version == decisions.python and version.count(".") == 2 else None


def rule_uninstalled_packages(snapshot: Snapshot, decisions: Decisions) -> Iterator[Resolution]:
    """Yield resolutions for packages that are not installed.

    They are packages of rpm, packages of conda if wheels make the environment, and dropped directories of the job.
    """
    names = {str(canonicalize_name(line.name)) for line in snapshot.requirements}
    drop = decisions.drop
    for package in () if find_conda_python(snapshot, decisions) else snapshot.conda:
        outcome, reason, kind = _decide_conda_package(package, names, drop)
        yield _make_resolution(package.place, package.name, outcome, reason, kind)
    for repository in snapshot.captured.repositories if snapshot.captured else ():
        if repository.parent is None and not repository.distributions and is_named(repository.name, drop):
            place = SourceLocation("capture.json", 0)
            yield _make_resolution(
                place,
                repository.name,
                "excluded",
                "the directory of the job: dropped by decision",
                "decision",
            )
    for rpm in snapshot.rpms:
        reason = "an rpm of the captured host; the image's system is another distribution"
        yield _make_resolution(rpm.place, rpm.name, "excluded", reason, "host-package")


def _decide_conda_package(
    package: CapturedCondaPackage, names: Collection[str], drop: Collection[str]
) -> tuple[Outcome, str, str]:
    if is_named(package.name, drop):
        return "excluded", "dropped by decision", "decision"
    if find_pypi_name(package.name) in names:
        return "excluded", "the freeze has it, too, and says what becomes of it", "conda"
    if package.name == "python":
        return "excluded", "the interpreter; the image has its own of this version", "conda"
    build = f" {package.build}" if package.build else ""
    reason = "the image's Python is not conda's, and no wheel was captured for it"
    return "unresolved", f"{package.version}{build} of conda: {reason}", "conda-package"


def _make_resolution(
    place: SourceLocation, name: str, outcome: Outcome, reason: str, kind: str
) -> Resolution:
    return Resolution(
        file=place.file, line=place.line, subject=name, outcome=outcome, reason=reason, kind=kind
    )
