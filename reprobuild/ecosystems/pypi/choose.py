"""The choice of index and file for a version."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from reprobuild.ecosystems.pypi.files import FileLists, IndexDistribution, IndexOffer
from reprobuild.ecosystems.pypi.indexes import PackageIndex
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import is_valid
from reprobuild.infra.untrusted.wheels import list_wheel_tags
from reprobuild.lock.system import Artefact


class ChosenFile(Struct, frozen=True, kw_only=True):
    """A chosen file of one index.

    `passed` are the offers before it that have the project, and `later` the best files after it that have
    other names; `rival` is the one of these that pip, which does not order indexes, would have taken. `clash`
    is a file of the same name and other bytes elsewhere, and `unsure` are those of the same name that cannot
    be compared.
    """

    file: IndexDistribution
    place: PackageIndex
    passed: tuple[IndexOffer, ...] = ()
    later: tuple[IndexDistribution, ...] = ()
    rival: IndexDistribution | None = None
    clash: IndexDistribution | None = None
    unsure: tuple[IndexDistribution, ...] = ()


def choose_file(offers: Sequence[IndexOffer], files: FileLists, target: WheelTarget) -> ChosenFile | None:
    """Return the file of the first index that fits.

    A wheel comes before a source distribution; None if no index has one.

    Args:
        offers: the offers of each index for the version, in the order of preference.
        files: has the hashes of files.
        target: the environment that it must fit.
    """
    for place, offer in enumerate(offers):
        file = choose_wheel(offer.files, target) or choose_sdist(offer.files, target)
        if file is None:
            continue
        after = offers[place + 1 :]
        clash, unsure = _compare_offers(file, [*offers[:place], *after], files)
        return ChosenFile(
            file=file, place=offer.index, passed=tuple(offer for offer in offers[:place] if offer.known),
            later=_other_names(file, after, target), rival=_pip_choice(file, offer.index, after, target),
            clash=clash, unsure=unsure,
        )  # fmt: skip
    return None


def _other_names(
    file: IndexDistribution, offers: Iterable[IndexOffer], target: WheelTarget
) -> tuple[IndexDistribution, ...]:
    """Return the best files of offers that have another name.

    It has at most one file of each offer.
    """
    best = (
        choose_wheel(offer.files, target) or (None if file.is_wheel else choose_sdist(offer.files, target))
        for offer in offers
    )
    return tuple(item for item in best if item and item.filename != file.filename)


def _pip_choice(
    file: IndexDistribution, place: PackageIndex, offers: Iterable[IndexOffer], target: WheelTarget
) -> IndexDistribution | None:
    """Return the file that pip would prefer, or None.

    uv takes the first of its own indexes, and rules are ours, so pip does not compare these.
    """
    candidates = [offer for offer in offers if not (place.uv or offer.index.uv or offer.index.ruled)]
    others = [item for item in _other_names(file, candidates, target) if item.is_wheel]
    best = max(others, key=lambda item: _sort_key(item, target), default=None)  # the first of equals
    return best if best and (not file.is_wheel or _sort_key(best, target) > _sort_key(file, target)) else None


def _compare_offers(
    chosen: IndexDistribution, others: Iterable[IndexOffer], files: FileLists
) -> tuple[IndexDistribution | None, tuple[IndexDistribution, ...]]:
    """Return a clashing file of another index, and uncertain files.

    These have the chosen file's name; the former has other bytes, the latter may have.
    """
    named = [item for offer in others for item in offer.files if item.filename == chosen.filename]
    return _compare_files(chosen, named, files)


def _compare_files(
    chosen: IndexDistribution, named: Iterable[IndexDistribution], files: FileLists
) -> tuple[IndexDistribution | None, tuple[IndexDistribution, ...]]:
    unsure = []
    for item in named:
        chosen_facts, item_facts = files.facts_of(chosen), files.facts_of(item)
        if differing_fact(chosen_facts, item_facts):
            return item, ()
        if chosen_facts.keys() & item_facts.keys() <= {"size"}:
            unsure.append(item)
    return None, tuple(unsure)


def filter_by_hash(offer: IndexOffer, hashes: Collection[str], files: FileLists) -> IndexOffer:
    """Return an offer's files that have one of these sha256.

    Files without a published sha256 stay, too.
    """
    known = ((item, files.hash_of(item)) for item in offer.files)
    items = tuple(item for item, sha256 in known if sha256 is None or sha256.lower() in hashes)
    return msgspec.structs.replace(offer, files=items)


def with_hash(choice: ChosenFile, sha256: str, files: FileLists) -> ChosenFile:
    """Return a choice with the computed hash of its file.

    The file had no published hash; it is compared with files of the same name again.
    """
    file = msgspec.structs.replace(
        choice.file, sha256=sha256, hashes={**choice.file.hashes, "sha256": sha256}
    )
    clash, unsure = _compare_files(file, choice.unsure, files)
    return msgspec.structs.replace(choice, file=file, clash=clash, unsure=unsure)


def differing_fact(first: Mapping[str, str], second: Mapping[str, str]) -> str | None:
    """Return the name of the first differing fact, or None.

    If both files have a sha256, only that counts.
    """
    both = [name for name in first if name in second]
    counting = ["sha256"] if "sha256" in both else both
    return next((name for name in counting if first[name] != second[name]), None)


def choose_wheel(files: Iterable[IndexDistribution], target: WheelTarget) -> IndexDistribution | None:
    """Return pip's wheel among files of one version, or None.

    The order is: first index, not yanked, best tag, newest build.
    """
    rank = target.ranks()
    fitting = (
        item for item in files
        if item.is_wheel and any(tag in rank for tag in list_wheel_tags(item.filename))
        and python_fits(item.requires_python, target.python)
    )  # fmt: skip
    return max(fitting, key=lambda item: (-item.rank, _sort_key(item, target)), default=None)


def _sort_key(wheel: IndexDistribution, target: WheelTarget) -> tuple[bool, int, tuple[int, str]]:
    """Return pip's sort key for fitting wheels; the greatest wins."""
    rank = target.ranks()
    best = min(rank[tag] for tag in list_wheel_tags(wheel.filename) if tag in rank)
    return wheel.yanked is None, -best, wheel.build or (0, "")


def choose_sdist(files: Iterable[IndexDistribution], target: WheelTarget) -> IndexDistribution | None:
    """Return the source distribution of one version, or None.

    The order is: not yanked, `.tar.gz` before `.zip` (PEP 625).
    """
    fitting = [
        item for item in files if not item.is_wheel and python_fits(item.requires_python, target.python)
    ]
    return min(
        fitting, default=None,
        key=lambda item: (item.yanked is not None, not item.filename.endswith(".tar.gz"), item.filename),
    )  # fmt: skip


def python_fits(requires: str | None, python: str) -> bool:
    """Return whether a `requires-python` allows a version."""
    try:
        return not requires or SpecifierSet(requires).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True  # pip also ignores an unreadable value


def find_newest(
    name: str, specifier: str, files: FileLists, target: WheelTarget, among: Collection[Version] | None = None
) -> tuple[str, Artefact] | None:
    """Return (version, file) of the newest fitting release, or None.

    It is for a build requirement that no freeze names. Releases of a later index are ignored, however new:
    they may be another project's.

    Args:
        name: the distribution.
        specifier: the versions allowed, as in a requirement; empty for any.
        among: the versions that count; None for all.
    """
    allowed = SpecifierSet(specifier)
    items = files.releases(name)
    versions = {item.version for item in items if is_valid(item.version) and item.yanked is None}
    if among is not None:
        versions = {version for version in versions if Version(version) in among}
    for version in allowed.filter(sorted(versions, key=Version, reverse=True)):
        wheel = choose_wheel([item for item in items if item.version == version], target)
        if wheel:
            return version, files.artefact(wheel)
    return None
