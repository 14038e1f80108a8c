"""Resolutions of freeze lines, with texts for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from reprobuild.ecosystems.pypi.choose import ChosenFile, differing_fact
from reprobuild.ecosystems.pypi.files import IndexDistribution, IndexOffer
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import nearest_versions, public_version, same_version
from reprobuild.errors import FetchError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python.classify import Lookup
from reprobuild.resolve.python.misspelt import suggest_project
from reprobuild.resolve.python.python_versions import format_python_ranges, pythons_of
from reprobuild.snapshot.model import Requirement

UNFIT = ("no-wheel", "source-only")  # classes of releases without a file for the target
BUILT = "; built from its source, once"  # for projects without a wheel
# Of a file without a published hash.
BROUGHT = "; no sha256 of it is published, so it is what stood there when the lock was made"
_NIGHTLY = "; nightly builds are removed after about 60 days"


def describe_yank(file: IndexDistribution) -> str:
    """Return a publisher's reason for yanking a file.

    It is empty if the file is not yanked.
    """
    return "" if file.yanked is None else file.yanked or "no reason given"


def describe_choice(choice: ChosenFile, line: Requirement, *, decided: bool) -> str:
    """Describe the chosen file, its index, and the alternatives."""
    file = choice.file
    reason = f"{file.filename} from {file.index}" + (", which was decided" if decided else "")
    for offer in choice.passed:
        source = any(not item.is_wheel for item in offer.files)
        has = "but not this version"
        if offer.files:
            has = "but only a source of this version" if source else "but no file of this version that fits"
        reason += f"; {offer.index.url}, which comes before it, has {line.name}, too, {has}"
    for item in choice.later:
        reason += f"; {item.index} has {item.filename}: decide it with --index {_index_option(line, item)}"
    for item in choice.unsure:
        reason += f"; {item.index} has a file of this name, too, and nothing tells whether it is the same"
    if file.yanked is not None:
        reason += f"; its publisher yanked it: {describe_yank(file)}"
    return reason


def rule_ambiguous_index(
    line: Requirement, choice: ChosenFile, facts_of: Callable[[IndexDistribution], Mapping[str, str]]
) -> Resolution:
    """Return the resolution of a line with conflicting indexes.

    The index of the installed file cannot be determined.
    """
    first, second = choice.file, choice.clash or choice.rival or choice.file
    if choice.clash:
        first_facts, second_facts = facts_of(first), facts_of(second)
        fact = differing_fact(first_facts, second_facts) or "size"
        conflict = (
            f"{first.filename} is one file on {first.index} ({fact} {first_facts[fact][:12]}) and another on "
            f"{second.index} ({fact} {second_facts[fact][:12]})"
        )
    else:
        conflict = (
            f"{first.index} has {first.filename}, and {second.index}, which comes after it, has {second.filename}: "
            "pip, which knows no order of indexes, would have taken that one"
        )
    reason = f"{conflict}: decide it, --index {_index_option(line, first)} or --index {_index_option(line, second)}"
    return make_resolution(line, "unresolved", reason, "ambiguous-index")


def _index_option(line: Requirement, item: IndexDistribution) -> str:
    """Return the `--index` value for a file's index, quoted for a shell."""
    return f"{shlex.quote(line.name)}={shlex.quote(item.index)}"


def rule_missing_hash(line: Requirement, item: IndexDistribution, err: FetchError) -> Resolution:
    """Return the resolution for a file without an available hash.

    No hash is published, and the file cannot be fetched.
    """
    reason = (
        f"{item.filename} of {item.index} has no published sha256, and the file itself cannot be had for it ({err}); "
        f"name a place that has it: --index {shlex.quote(line.name)}=URL"
    )
    return make_resolution(line, "unresolved", reason, "no-hash")


def rule_unlisted_index(line: Requirement, err: FetchError) -> Resolution:
    """Return the resolution for an index without a list.

    Lines of one index have one reason.
    """
    return make_resolution(line, "unresolved", f"{err}; {err.hint}", "unreachable-index")


def rule_other_hash(line: Requirement, items: Sequence[IndexDistribution]) -> Resolution:
    """Return the resolution for hashes that no file has.

    A file was uploaded again under the same name, or an index is another one.
    """
    listing = ", ".join(
        f"{item.filename} from {item.index}" + (f" (sha256 {item.sha256[:12]})" if item.sha256 else "")
        for item in items[:3]
    )
    reason = (
        f"no file of {line.name} {line.version or ''} has a hash that the freeze names; there is {listing}"
    )
    return make_resolution(line, "unresolved", reason, "other-hash")


def describe_missing_version(line: Requirement, versions: Sequence[str], lookup: Lookup) -> str:
    """Describe a version that no index has, and near versions."""
    version = line.version or ""
    near = ", ".join(nearest_versions(versions, version)) or "no version of it"
    nightly = _NIGHTLY if ".dev" in version and lookup.where == "rule" else ""
    return f"{line.name} {version} is on no index of this machine; there is {near}{nightly}"


def rule_unknown_version(line: Requirement, versions: Sequence[str], lookup: Lookup, more: str) -> Resolution:
    """Return the resolution for a version that no index has.

    It names possible replacements.

    Args:
        line: the line.
        versions: the versions of the project on indexes.
        lookup: explains the origin, if the version shows it.
        more: further facts, for instance a file of an earlier lock.
    """
    built = f"; it was {lookup.why}: give its wheel with pip's find-links" if lookup.why else ""
    if not versions:
        meant = "" if lookup.why else suggest_project(line.name)
        reason = f"no index of this machine has {line.name}{meant}{built}{more}"
        return make_resolution(line, "unresolved", reason, "unknown-project")
    return make_resolution(
        line,
        "unresolved",
        f"{describe_missing_version(line, versions, lookup)}{built}{more}",
        "unknown-version",
    )


def find_unlabelled_version(versions: Sequence[str], version: str) -> str | None:
    """Return the version without its label, if it exists."""
    return next(
        (
            candidate
            for candidate in versions
            if "+" in version and same_version(candidate, public_version(version))
        ),
        None,
    )


def rule_unfit_files(line: Requirement, target: WheelTarget, offers: Sequence[IndexOffer]) -> Resolution:
    """Return the resolution for a version without a fitting file.

    Its files are for other interpreters or machines.
    """
    wheels = any(item.is_wheel for offer in offers for item in offer.files)
    kind = "wheel" if wheels else "source"
    reason = f"no {kind} of {line.name} {line.version} fits {target}"
    pythons = pythons_of([item for offer in offers for item in offer.files], target, wheels_only=wheels)
    reason += f"; its {kind}s are for Python {format_python_ranges(pythons)}" if pythons else ""
    return make_resolution(line, "unresolved", reason, UNFIT[0] if wheels else UNFIT[1])
