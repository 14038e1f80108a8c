"""From the lines of a freeze to exact files: the captured version, for the captured interpreter.

A freeze is closed: nothing is resolved again, no dependency is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from msgspec import UNSET, Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.lock import Artefact, Outcome, Ruling, Wheel
from reprobuild.resolve.files import Distribution, FileLists, at_address, same_version
from reprobuild.snapshot.model import Requirement

WORKERS = 8


class Target(Struct, frozen=True, kw_only=True):
    """What a wheel must fit: Python (`3.11.2`), glibc (`2, 36`) and machine (`x86_64`)."""

    python: str
    glibc: tuple[int, int]
    machine: str

    def tags(self) -> list[Tag]:
        """Return the wheel tags that fit, best first (PEP 425, PEP 600)."""
        minor = tuple(int(part) for part in self.python.split(".")[:2])
        legacy = {(2, 17): "manylinux2014", (2, 12): "manylinux2010", (2, 5): "manylinux1"}
        platforms = []
        for glibc_minor in range(self.glibc[1], 4, -1):
            platforms.append(f"manylinux_{self.glibc[0]}_{glibc_minor}_{self.machine}")
            if (self.glibc[0], glibc_minor) in legacy:
                platforms.append(f"{legacy[self.glibc[0], glibc_minor]}_{self.machine}")
        platforms.append(f"linux_{self.machine}")
        interpreter = f"cp{minor[0]}{minor[1]}"
        return [
            *cpython_tags(minor, platforms=platforms),
            *compatible_tags(minor, interpreter=interpreter, platforms=platforms),
        ]


def resolve_requirements(
    requirements: Iterable[Requirement], files: FileLists, target: Target
) -> tuple[tuple[Wheel, ...], tuple[Ruling, ...]]:
    """Find the file of every line that names a version on an index.

    conda's own build of a distribution is on no index. Where its version is known, the wheel of the same version
    replaces it, which must be accepted (`conda-build`).

    Args:
        requirements: lines of kind `index`, `archive` and `conda`; editable and VCS lines are sources, not files.
        files: the file lists of the machine's indexes.
        target: what the wheels must fit.

    Returns:
        The wheels, and one ruling for each line given.
    """
    tags = target.tags()
    with ThreadPoolExecutor(WORKERS) as pool:
        answers = list(pool.map(lambda line: _one(line, files, target, tags), requirements))
    return tuple(wheel for wheel, _ in answers if wheel), tuple(ruling for _, ruling in answers)


def _ruling(line: Requirement, outcome: Outcome, reason: str, kind: str = "") -> Ruling:
    return Ruling(
        file=line.place.file, line=line.place.line, subject=line.name, outcome=outcome,
        reason=reason, kind=kind, captured=line.text,
    )  # fmt: skip


def _one(
    line: Requirement, files: FileLists, target: Target, tags: Sequence[Tag]
) -> tuple[Wheel | None, Ruling]:
    if line.version is None or line.kind not in ("index", "archive", "conda"):
        return None, _ruling(line, "unresolved", _WITHOUT_FILE[line.kind], f"{line.kind}-line")
    found = files.of(line.name, line.version)
    same = [item for item in found if same_version(item.version, line.version)]
    if line.kind == "archive":
        same = _captured_file(line, same, files)
        if not same:
            return None, _ruling(line, "unresolved", _OTHER_FILE, "archive-line")
    if not same:
        return None, _unknown(line, found)
    wheel = choose_wheel(same, target, tags)
    if wheel is None:
        return None, _no_wheel(line, same, target)
    reason = f"{wheel.filename} from {wheel.index}"
    if wheel.yanked is not None:
        reason += f"; its publisher yanked it: {wheel.yanked or 'no reason given'}"
    chosen = Wheel(
        name=canonicalize_name(line.name), version=line.version, role="environment",
        file=files.artefact(wheel), yanked=wheel.yanked or "",
    )  # fmt: skip
    if line.kind == "conda":
        source = f" ({line.version_from})" if line.version_from is not UNSET else ""
        reason = (
            f"conda's build {line.version}{source} is replaced by the wheel of the same version: {reason}"
        )
        return chosen, _ruling(line, "replaced", reason, "conda-build")
    return chosen, _ruling(line, "pinned", reason)


def _captured_file(line: Requirement, same: Sequence[Distribution], files: FileLists) -> list[Distribution]:
    """Return the very file of an archive line: by its sha256 where the freeze tells it, else by its name."""
    address = line.url or line.path or ""
    filename = unquote(address.partition("?")[0].rpartition("/")[2])
    if line.sha256 is None:
        return [item for item in same if item.filename == filename]
    known = [item for item in same if files.hash_of(item) == line.sha256]
    direct = None if known or not line.url else at_address(line.name, filename, line.url, line.sha256)
    return known or ([direct] if direct else [])


_OTHER_FILE = "it was installed from one file, and no index of this machine has that very file"
_WITHOUT_FILE = {
    "index": "the freeze tells no version",
    "archive": "the freeze tells no version",
    "vcs": "a version-control line is locked as a source, which needs its repository",
    "editable": "an editable install is locked as a source, which needs its repository",
    "directory": "it was installed from a folder, which is in no file of the snapshot",
    "conda": "conda wrote its own build path; the version is in no file of the snapshot",
    "leftover": "an interrupted uninstall left this folder behind",
}


def _unknown(line: Requirement, found: Sequence[Distribution]) -> Ruling:
    if not found:
        return _ruling(line, "unresolved", f"no index of this machine has {line.name}", "unknown-project")
    versions = sorted({item.version for item in found if _valid(item.version)}, key=Version)
    assert line.version is not None
    near = [v for v in versions if v.split("+")[0] == line.version.split("+")[0]] or versions[-3:]
    reason = f"{line.name} {line.version} is on no index of this machine; there is {', '.join(near)}"
    return _ruling(line, "unresolved", reason, "unknown-version")


def _no_wheel(line: Requirement, same: Sequence[Distribution], target: Target) -> Ruling:
    if any(item.tags for item in same):
        return _ruling(
            line, "unresolved",
            f"no wheel of {line.name} {line.version} fits Python {target.python} on {target.machine} "
            f"with glibc {target.glibc[0]}.{target.glibc[1]}", "no-wheel",
        )  # fmt: skip
    return _ruling(line, "unresolved", f"{line.name} {line.version} exists only as source", "source-only")


def _valid(version: str) -> bool:
    try:
        Version(version)
    except InvalidVersion:
        return False
    return True


def choose_wheel(found: Iterable[Distribution], target: Target, tags: Sequence[Tag]) -> Distribution | None:
    """Return the wheel pip would take among files of one version: first index, best tag, newest build."""
    rank = {tag: place for place, tag in enumerate(tags)}
    best: tuple[int, int, tuple[int, str]] | None = None  # the greatest wins
    chosen = None
    for item in found:
        places = [rank[tag] for tag in item.tags if tag in rank]
        if not places or not _python_fits(item.requires_python, target.python):
            continue
        key = (-item.rank, -min(places), item.build or (0, ""))
        if best is None or key > best:
            best, chosen = key, item
    return chosen


def _python_fits(requires: str | None, python: str) -> bool:
    try:
        return not requires or SpecifierSet(requires).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True  # pip ignores what it cannot read, too


def newest(name: str, specifier: str, files: FileLists, target: Target) -> tuple[str, Artefact] | None:
    """Return (version, file) of the newest release that fits, for what a build needs and no freeze names.

    Args:
        name: the distribution.
        specifier: the versions allowed, as in a requirement; empty for any.
    """
    allowed = SpecifierSet(specifier)
    tags = target.tags()
    found = files.of(name, None)
    versions = {item.version for item in found if _valid(item.version) and item.yanked is None}
    for version in allowed.filter(sorted(versions, key=Version, reverse=True)):
        wheel = choose_wheel([item for item in found if item.version == version], target, tags)
        if wheel:
            return version, files.artefact(wheel)
    return None
