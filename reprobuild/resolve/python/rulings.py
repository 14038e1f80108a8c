"""What became of a line of a freeze, in words for people."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence

from reprobuild.ecosystems.pypi.choose import ChosenFile, differing
from reprobuild.ecosystems.pypi.files import IndexDistribution, IndexOffer
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import nearest, public, same_version
from reprobuild.errors import FetchError
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve.python.classify import Lookup
from reprobuild.resolve.python.python_versions import in_words, pythons_of
from reprobuild.snapshot.model import Requirement

UNFIT = ("no-wheel", "source-only")  # classes of releases without a file for the target
BUILT = "; built from its source, once"  # of what has no wheel
# Of a file without a published hash.
BROUGHT = "; no sha256 of it is published, so it is what stood there when the lock was made"
_NIGHTLY = "; nightly builds are removed after about 60 days"


def rule(line: Requirement, outcome: Outcome, reason: str, kind: str = "") -> Resolution:
    """Return the ruling on a line."""
    return Resolution(
        file=line.place.file, line=line.place.line, subject=line.name, outcome=outcome,
        reason=reason, kind=kind, captured=line.text,
    )  # fmt: skip


def why_yanked(file: IndexDistribution) -> str:
    """Return why a publisher yanked a file, empty where he did not."""
    return "" if file.yanked is None else file.yanked or "no reason given"


def told(choice: ChosenFile, line: Requirement, *, decided: bool) -> str:
    """Say which file was chosen and where, and what else there was to choose from."""
    file = choice.file
    reason = f"{file.filename} from {file.index}" + (", which was decided" if decided else "")
    for offer in choice.passed:
        source = any(not item.tags for item in offer.files)
        has = "but not this version"
        if offer.files:
            has = "but only a source of this version" if source else "but no file of this version that fits"
        reason += f"; {offer.index.url}, which comes before it, has {line.name}, too, {has}"
    for item in choice.later:
        reason += f"; {item.index} has {item.filename}: decide it with --index {_decision(line, item)}"
    for item in choice.unsure:
        reason += f"; {item.index} has a file of this name, too, and nothing tells whether it is the same"
    if file.yanked is not None:
        reason += f"; its publisher yanked it: {why_yanked(file)}"
    return reason


def ambiguous(
    line: Requirement, choice: ChosenFile, facts_of: Callable[[IndexDistribution], Mapping[str, str]]
) -> Resolution:
    """Rule a line that two indexes have differently: nobody can tell which was installed."""
    one, other = choice.file, choice.clash or choice.rival or choice.file
    if choice.clash:
        mine, theirs = facts_of(one), facts_of(other)
        fact = differing(mine, theirs) or "size"
        what = (
            f"{one.filename} is one file on {one.index} ({fact} {mine[fact][:12]}) and another on "
            f"{other.index} ({fact} {theirs[fact][:12]})"
        )
    else:
        what = (
            f"{one.index} has {one.filename}, and {other.index}, which comes after it, has {other.filename}: "
            "pip, which knows no order of indexes, would have taken that one"
        )
    reason = f"{what}: decide it, --index {_decision(line, one)} or --index {_decision(line, other)}"
    return rule(line, "unresolved", reason, "ambiguous-index")


def _decision(line: Requirement, item: IndexDistribution) -> str:
    """Return the value of `--index` that takes a line from the index of a file, as a shell reads it."""
    return f"{shlex.quote(line.name)}={shlex.quote(item.index)}"


def no_hash(line: Requirement, item: IndexDistribution, err: FetchError) -> Resolution:
    """Rule a line whose file has no published hash, and could not be had to take it."""
    reason = (
        f"{item.filename} of {item.index} has no published sha256, and the file itself cannot be had for it ({err}); "
        f"name a place that has it: --index {shlex.quote(line.name)}=URL"
    )
    return rule(line, "unresolved", reason, "no-hash")


def unlisted(line: Requirement, err: FetchError) -> Resolution:
    """Rule a line for which a place gives no list of files; lines of one place have one reason."""
    return rule(line, "unresolved", f"{err}; {err.hint}", "unreachable-index")


def other_hash(line: Requirement, found: Sequence[IndexDistribution]) -> Resolution:
    """Rule a line whose hashes no file has: one was uploaded again under the same name, or an index is another one."""
    there = ", ".join(
        f"{item.filename} from {item.index}" + (f" (sha256 {item.sha256[:12]})" if item.sha256 else "")
        for item in found[:3]
    )
    reason = f"no file of {line.name} {line.version or ''} has a hash that the freeze names; there is {there}"
    return rule(line, "unresolved", reason, "other-hash")


def missing(line: Requirement, versions: Sequence[str], lookup: Lookup) -> str:
    """Say that no index has a version, and what there is of the project."""
    version = line.version or ""
    near = ", ".join(nearest(versions, version)) or "no version of it"
    nightly = _NIGHTLY if ".dev" in version and lookup.where == "rule" else ""
    return f"{line.name} {version} is on no index of this machine; there is {near}{nightly}"


def nowhere(line: Requirement, versions: Sequence[str], lookup: Lookup, more: str) -> Resolution:
    """Rule a line whose version no index has, and name what could replace it.

    Args:
        line: the line.
        versions: what there is of the project.
        lookup: says how it came to be, where its version tells.
        more: what else is known, for instance a file of an earlier lock.
    """
    built = f"; it was {lookup.why}: give its wheel with pip's find-links" if lookup.why else ""
    if not versions:
        reason = f"no index of this machine has {line.name}{built}{more}"
        return rule(line, "unresolved", reason, "unknown-project")
    return rule(line, "unresolved", f"{missing(line, versions, lookup)}{built}{more}", "unknown-version")


def unlabelled(versions: Sequence[str], version: str) -> str | None:
    """Return the version without its label, where there is one."""
    return next((one for one in versions if "+" in version and same_version(one, public(version))), None)


def no_file(line: Requirement, target: WheelTarget, offers: Sequence[IndexOffer]) -> Resolution:
    """Rule a line whose version is there, but not for this interpreter and machine."""
    wheels = any(item.tags for offer in offers for item in offer.files)
    what = "wheel" if wheels else "source"
    reason = f"no {what} of {line.name} {line.version} fits {target}"
    pythons = pythons_of([item for offer in offers for item in offer.files], target, wheels_only=wheels)
    reason += f"; its {what}s are for Python {in_words(pythons)}" if pythons else ""
    return rule(line, "unresolved", reason, UNFIT[0] if wheels else UNFIT[1])
