"""The round trip: the image's own lists against captured lines.

No program is run here.

Each difference has a code that explains it; a difference without a code is unexplained.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.config import profiles
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.lock.distributions import distributions, find_replaced_projects
from reprobuild.lock.model import OF_NO_LINE, Lock, Resolution
from reprobuild.lock.python import Source
from reprobuild.lock.system import dpkg_name
from reprobuild.resolve.environment.environment import read_environment_rules
from reprobuild.resolve.environment.modules import EVIDENCE
from reprobuild.resolve.python.base_distributions import OF_BASE
from reprobuild.resolve.python.debian_names import packages_of
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.verify.roundtrip.direct_urls import explain_repetition
from reprobuild.verify.roundtrip.image_freeze import Frozen, FrozenDistribution
from reprobuild.verify.verdict import Code, RoundTrip, RoundTripDifference
from reprobuild.verify.workload.judge import display_line

FREEZE, PACKAGES, VARIABLES, SOURCES = "requirements.txt", "apt-packages.txt", "env.txt", "sources"
CONDA = "conda"
_ANSWERED = ("pinned", "solved", "replaced")  # of a line with a replacement in the environment
_PINNED = re.compile(r"[^\s=]+==(?P<version>\S+)")

# Why a line was left out, by the kind of its resolution; other kinds are unexplained.
_EXCLUDED: dict[str, Code] = {
    "secret": "secret-withheld", "decision": "decision", "path": "path-rewritten", "preload": "path-rewritten",
    "session": "site-variable", "scheduler": "site-variable", "modules": "site-variable", "fabric": "site-variable",
    "fetching": "site-variable", "image-label": "site-variable", "cache": "not-baked", "unknown": "not-baked",
    "locale": "not-baked",
    "host-package": "host-only", "other-architecture": "host-only", "not-needed": "not-needed",
    "residual": "not-needed", "base": "base-provided", "desktop": "host-only", "kernel": "host-only",
    "driver": "host-only", "container": "host-only", "init": "host-only", "provisioning": "host-only",
    "daemon": "host-only", "host-fabric": "host-only", "host-scheduler": "host-only",
    "marker": "not-needed", "module": "base-provided", "conda": "base-provided", "leftover": "not-needed",
    "interpreter": "base-provided",
    "host-library": "host-only", "plugin-library": "not-needed", "missing-library": "not-needed",
}  # fmt: skip


def compare_captured(lock: Lock) -> list[RoundTripDifference]:
    """Return captured lines that the image omits by decision, but for those of the freeze.

    The other functions compare the lines that it must repeat with its contents.
    """
    return [
        RoundTripDifference(
            list=ruling.file, captured=ruling.subject, image="", reason=ruling.reason, code=code
        )
        for ruling in lock.rulings
        if not ruling.captured
        and ruling.kind not in OF_NO_LINE
        and (code := _difference_code(ruling)) is not None
    ]


def _difference_code(ruling: Resolution) -> Code | None:
    """Return why the image lacks a line as captured, or None."""
    if ruling.outcome == "pinned":
        return "path-rewritten" if ruling.kind == "path" else None
    if ruling.outcome == "in base":
        return "base-provided"
    if ruling.outcome == "replaced":
        return "replaced-version"
    if ruling.outcome == "solved":
        return "solved-version"
    if ruling.outcome == "unresolved":
        return "unrecoverable"
    if ruling.kind == "module" and ruling.reason == EVIDENCE:
        return "unrecoverable"
    return _EXCLUDED.get(ruling.kind, "unexplained")


def compare_freeze(lock: Lock, frozen: Frozen) -> list[RoundTripDifference]:
    """Compare the image's freeze with the captured one, line by line.

    Its interpreter is compared with the locked one.

    Args:
        lock: its resolutions hold the captured lines and the outcome of each.
        frozen: the answer of the runtime's `freeze.py` inside the image.
    """
    inside: dict[str, FrozenDistribution] = {}
    for distribution in frozen.distributions:
        inside.setdefault(str(canonicalize_name(distribution.name)), distribution)
    sources = {source.name: source for source in lock.sources if source.installed}
    lines = [(str(canonicalize_name(ruling.subject)), ruling) for ruling in lock.rulings if ruling.captured]
    answered = {name for name, ruling in lines if ruling.outcome in _ANSWERED}
    locked = distributions(lock)
    differences: list[RoundTripDifference] = []
    for name, ruling in lines:
        # Else the item belongs to another line.
        owns_item = ruling.outcome in _ANSWERED or name not in answered
        item, versions = (inside.get(name), locked.get(name)) if owns_item else (None, None)
        if ruling.outcome != "pinned" and not _matches_lock(lock, ruling, item, versions):
            differences.append(_difference(FREEZE, ruling.captured, item.freeze if item else ""))
        elif item is not None and (reason := explain_repetition(lock, ruling, item.freeze)):
            differences.append(_difference(FREEZE, ruling.captured, item.freeze, reason, "other-spelling"))
        else:
            differences += _compare_line(ruling, item, sources.get(name))
    named = {name for name, _ in lines}
    conda_names = {name: package.name for package in lock.conda for name in package.distributions}
    for name, item in inside.items():
        if name in named:
            continue
        package = conda_names.get(name)
        reason = f"conda's {package} brings it; the freeze has no such line" if package else ""
        differences.append(_difference(FREEZE, "", item.freeze, reason, "base-provided" if reason else None))
    over = find_replaced_projects(lock)
    differences += _find_extra_records(
        frozen, inside, {name: conda_name for name, conda_name in conda_names.items() if name not in over}
    )
    locked_python, python = lock.interpreter.version, frozen.python
    # 3.11 asks for no more than that.
    if python != locked_python and not python.startswith(f"{locked_python}."):
        differences.append(_difference("python", locked_python, python))
    return differences


def _find_extra_records(
    frozen: Frozen, inside: Mapping[str, FrozenDistribution], conda_names: Mapping[str, str]
) -> Iterator[RoundTripDifference]:
    """Yield duplicate and unusable records of distributions.

    All are in the environment's own directories, which get one record of each name: with two, it is unknown which one
    Python finds. The base's distributions for the system's own Python are not among them.

    Args:
        frozen: the image's answer.
        inside: the first record of each name.
        conda_names: the conda package of a name, if no distribution of pip overrides it.
    """
    for item in frozen.distributions:
        name = str(canonicalize_name(item.name))
        first = inside[name]
        if item is first:
            continue
        same = (item.freeze, item.version, item.tree) == (first.freeze, first.version, first.tree)
        twice = same and name in conda_names
        reason = f"conda's {conda_names[name]} has two records of it, which say the same" if twice else ""
        image = f"{item.freeze}, a further record of {name}"
        yield _difference(FREEZE, "", image, reason, "base-provided" if reason else None)
    for broken in frozen.broken:
        yield _difference(
            FREEZE, "", f"{broken.path}, whose metadata cannot be used: {display_line(broken.why)}"
        )


def _matches_lock(
    lock: Lock, ruling: Resolution, item: FrozenDistribution | None, versions: frozenset[str] | None
) -> bool:
    """Return whether the image has exactly the lock's item for a line.

    Args:
        lock: with the packages of the base.
        ruling: of a line that is not pinned.
        item: the distribution of that name in the image's Python.
        versions: the lock's versions of that name, as `distributions` has them; None if the lock has no such name.
    """
    if versions is not None:
        image_version = _frozen_version(item) if item else ""
        return item is not None and (
            not versions or any(same_version(image_version, version) for version in versions)
        )
    if ruling.kind == OF_BASE and lock.interpreter.shared:  # beside the environment's own directories
        return item is None
    if ruling.outcome in ("replaced", "in base"):  # by a package of the base, for the system's own Python
        return item is None and any(name in lock.base.installed for name in packages_of(ruling.subject))
    return item is None


def _frozen_version(item: FrozenDistribution) -> str:
    pinned = _PINNED.fullmatch(item.freeze)
    return pinned["version"] if pinned else item.version


def _compare_line(
    ruling: Resolution, item: FrozenDistribution | None, source: Source | None
) -> Iterator[RoundTripDifference]:
    captured, code = ruling.captured, None if ruling.outcome == "pinned" else _difference_code(ruling)
    reason = f"{ruling.outcome}: {ruling.reason}" if code else ""
    if item is None:
        yield _difference(FREEZE, captured, "", reason, code)
        return
    if source and item.tree != source.tree:
        yield _difference(FREEZE, f"{captured} with tree {source.tree}", f"tree {item.tree}")
    elif item.freeze == captured:
        return
    elif _normalise_line(item.freeze) == _normalise_line(captured):
        reason = "the same, spelled differently by another version of pip or uv"
        yield _difference(FREEZE, captured, item.freeze, reason, "other-spelling")
    elif source and _is_path(captured) and source.path in item.freeze:
        reason = "the same files, at their place in the image"
        yield _difference(FREEZE, captured, item.freeze, reason, "path-rewritten")
    else:
        yield _difference(FREEZE, captured, item.freeze, reason, code)


def _is_path(line: str) -> bool:
    """Return whether an editable line names a captured directory.

    Other editable lines name a repository.
    """
    target = line.rpartition("-e ")[2]
    return "-e " in line and target.startswith(("/", "file:///"))


def _normalise_line(line: str) -> str:
    line = line.replace("git+ssh://git@", "git+https://").strip()
    name, equals, version = line.partition("==")
    return (
        f"{canonicalize_name(name)}=={_normalise_version(version.lstrip('='))}"
        if equals
        else line.lower().replace("_", "-")
    )


def _normalise_version(version: str) -> str:
    """Return a version in PEP 440's normal form.

    `1.0-1` becomes `1.0.post1`; other texts stay as they are.
    """
    try:
        return str(Version(version))
    except InvalidVersion:
        return version


def _difference(
    where: str, captured: str, image: str, reason: str = "", code: Code | None = None
) -> RoundTripDifference:
    return RoundTripDifference(
        list=where, captured=captured, image=image, reason=reason, code=code or "unexplained"
    )


def compare_folders(lock: Lock, frozen: Frozen) -> list[RoundTripDifference]:
    """Compare the files of the sources without installed packages.

    These are the directories that the job ran in.
    """
    trees = {folder.name: folder.tree for folder in frozen.sources}
    return [
        _difference(SOURCES, f"{source.name} with tree {source.tree}", f"tree {trees.get(source.name)}")
        for source in lock.sources
        if not source.installed and trees.get(source.name) != source.tree
    ]


def compare_packages(lock: Lock, again: Snapshot) -> list[RoundTripDifference]:
    """Compare the image's system packages with the locked ones.

    The image's list is from a capture inside it.

    They have dpkg's names; packages of a foreign architecture include it.
    """
    native = lock.platform.rpartition("/")[2]
    installed = {
        dpkg_name(package.name, package.architecture, native): package.version
        for package in again.packages
        if package.mark != "residual"
    }
    image = lock.base.image.packages if lock.base.image else ()
    locked = {dpkg_name(package.name, package.architecture, native): package.version for package in image}
    locked |= {dpkg_name(deb.name, deb.architecture, native): deb.version for deb in lock.base.packages}
    return [
        _difference(
            PACKAGES, f"{name} {locked.get(name, '')}".strip(), f"{name} {installed.get(name, '')}".strip()
        )
        for name in sorted({*locked, *installed})
        if locked.get(name) != installed.get(name)
    ]


def compare_conda(lock: Lock, again: Snapshot) -> list[RoundTripDifference]:
    """Compare conda's records in the image with the locked packages.

    The records are from a capture inside it.

    Distributions that pip installed over one of them are pip's alone.
    """
    over = find_replaced_projects(lock)
    locked = {
        package.name: f"{package.name} {package.version} {package.build} sha256:{package.file.sha256}"
        for package in lock.conda
        if not over & set(package.distributions)
    }
    inside = {
        package.name: f"{package.name} {package.version} {package.build} sha256:{package.sha256}"
        for package in again.conda
        if package.channel != PYPI
    }
    return [
        _difference(CONDA, locked.get(name, ""), inside.get(name, ""))
        for name in sorted({*locked, *inside})
        if locked.get(name) != inside.get(name)
    ]


def compare_environment(lock: Lock, again: Snapshot) -> list[RoundTripDifference]:
    """Compare a command's variables in the image with the baked ones.

    An uncaptured variable that changes results is an unexplained difference.
    """
    inside = {variable.name: variable.value for variable in again.variables}
    hook_variables = {"PYTHONHASHSEED"} | profiles.profile_variables(
        lock.profile
    )  # our hooks set these for a seed
    image = lock.base.image.environment if lock.base.image else ()
    below = {setting.name: setting.value for setting in image if setting.name != "PATH"}
    baked = below | {setting.name: setting.value for setting in lock.environment}
    wrong = [
        _difference(VARIABLES, name, "another value" if name in inside else "")
        for name, value in sorted(baked.items())
        if inside.get(name) != value and not (name in hook_variables and not value)
    ]
    strangers = sorted(inside.keys() - baked.keys() - hook_variables)
    return wrong + [_difference(VARIABLES, "", name) for name in strangers if _affects_results(name)]


def _affects_results(name: str) -> bool:
    rule = next(rule for pattern, rule in read_environment_rules() if pattern.fullmatch(name))
    return rule.kind in ("numerics", "preload")


def judge_round_trip(differences: Sequence[RoundTripDifference], unanswered: Sequence[str] = ()) -> RoundTrip:
    """Return `exact`, `explained` or `residue` for differences.

    They are `explained` if each has its code. The result is `not-run` if a list could not be compared (`unanswered`)
    and the others leave no unexplained difference.
    """
    if any(difference.code == "unexplained" for difference in differences):
        return "residue"
    if unanswered:
        return "not-run"
    return "explained" if differences else "exact"
