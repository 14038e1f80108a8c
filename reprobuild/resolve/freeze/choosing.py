"""Which file a version is: one index, and of its files the one that pip would take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import Version

from reprobuild.lock import Artefact
from reprobuild.resolve.freeze.files import Distribution, FileLists, Offer
from reprobuild.resolve.freeze.target import Target
from reprobuild.resolve.freeze.versions import is_valid


class Choice(Struct, frozen=True, kw_only=True):
    """One file of one index. `passed` are the indexes before it that have the project, and `later` those after it that
    have a wheel where this one has only a source. `clash` is a file of the same name and other bytes elsewhere, and
    `unsure` are those of the same name that nothing can be compared with."""

    file: Distribution
    passed: tuple[Offer, ...] = ()
    later: tuple[Offer, ...] = ()
    clash: Distribution | None = None
    unsure: tuple[Distribution, ...] = ()


def choose(offers: Sequence[Offer], files: FileLists, target: Target) -> Choice | None:
    """Return the file of the first index that has one that fits, a wheel before a source; None where none has.

    Args:
        offers: what each index has of the version, in the order of preference.
        files: gives the hashes of files.
        target: what it must fit.
    """
    for place, offer in enumerate(offers):
        found = choose_wheel(offer.files, target) or choose_sdist(offer.files, target)
        if found is None:
            continue
        later = () if found.tags else offers[place + 1 :]
        clash, unsure = _compared(found, [*offers[:place], *offers[place + 1 :]], files)
        return Choice(
            file=found, passed=tuple(one for one in offers[:place] if one.known),
            later=tuple(one for one in later if choose_wheel(one.files, target)),
            clash=clash, unsure=unsure,
        )  # fmt: skip
    return None


def _compared(
    chosen: Distribution, others: Iterable[Offer], files: FileLists
) -> tuple[Distribution | None, tuple[Distribution, ...]]:
    """Return a file of another index with the chosen one's name and other bytes, and those that may have others."""
    named = [item for offer in others for item in offer.files if item.filename == chosen.filename]
    return _compared_with(chosen, named, files)


def _compared_with(
    chosen: Distribution, named: Iterable[Distribution], files: FileLists
) -> tuple[Distribution | None, tuple[Distribution, ...]]:
    unsure = []
    for item in named:
        mine, other = files.facts_of(chosen), files.facts_of(item)
        if differing(mine, other):
            return item, ()
        if mine.keys() & other.keys() <= {"size"}:
            unsure.append(item)
    return None, tuple(unsure)


def hashed(choice: Choice, sha256: str, files: FileLists) -> Choice:
    """Return a choice whose file had no published hash, with the one that it has, compared with the same names."""
    file = msgspec.structs.replace(
        choice.file, sha256=sha256, hashes={**choice.file.hashes, "sha256": sha256}
    )
    clash, unsure = _compared_with(file, choice.unsure, files)
    return msgspec.structs.replace(choice, file=file, clash=clash, unsure=unsure)


def differing(mine: Mapping[str, str], other: Mapping[str, str]) -> str | None:
    """Return by which known fact two files differ; where both have a sha256, nothing else counts."""
    both = [name for name in mine if name in other]
    counting = ["sha256"] if "sha256" in both else both
    return next((name for name in counting if mine[name] != other[name]), None)


def choose_wheel(found: Iterable[Distribution], target: Target) -> Distribution | None:
    """Return the wheel pip would take among files of one version: first index, best tag, newest build."""
    rank = target.ranks()
    best: tuple[int, int, tuple[int, str]] | None = None  # the greatest wins
    chosen = None
    for item in found:
        places = [rank[tag] for tag in item.tags if tag in rank]
        if not places or not python_fits(item.requires_python, target.python):
            continue
        key = (-item.rank, -min(places), item.build or (0, ""))
        if best is None or key > best:
            best, chosen = key, item
    return chosen


def choose_sdist(found: Iterable[Distribution], target: Target) -> Distribution | None:
    """Return the source distribution of one version, `.tar.gz` before `.zip` (PEP 625)."""
    fitting = [item for item in found if not item.tags and python_fits(item.requires_python, target.python)]
    return min(fitting, key=lambda item: (not item.filename.endswith(".tar.gz"), item.filename), default=None)


def python_fits(requires: str | None, python: str) -> bool:
    """Tell whether a `requires-python` allows a version."""
    try:
        return not requires or SpecifierSet(requires).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True  # pip ignores what it cannot read, too


def newest(name: str, specifier: str, files: FileLists, target: Target) -> tuple[str, Artefact] | None:
    """Return (version, file) of the newest release that fits, for what a build needs and no freeze names.

    No release of a later index is taken, however new: it may be somebody else's.

    Args:
        name: the distribution.
        specifier: the versions allowed, as in a requirement; empty for any.
    """
    allowed = SpecifierSet(specifier)
    found = files.releases(name)
    versions = {item.version for item in found if is_valid(item.version) and item.yanked is None}
    for version in allowed.filter(sorted(versions, key=Version, reverse=True)):
        wheel = choose_wheel([item for item in found if item.version == version], target)
        if wheel:
            return version, files.artefact(wheel)
    return None
