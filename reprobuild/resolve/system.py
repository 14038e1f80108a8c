"""The system under the environment: from captured packages to exact `.deb` files, with a ruling for each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from debian.debian_support import Version

from reprobuild.apt.index import SystemIndex
from reprobuild.decisions import is_named
from reprobuild.lock import Base, Deb, Outcome, Ruling
from reprobuild.resolve.closure import Choice, Closure, upstream
from reprobuild.resolve.system_rules import exclusion
from reprobuild.snapshot.model import Package

APT_LIST = "apt-packages.txt"
# What realising the base needs beside it: ownership without privileges. Not part of the image.
TOOLS = ("fakeroot", "libfakeroot")
_DROPPED = "dropped by decision"
_NOT_NEEDED = "not needed by what was asked for"


def resolve_base(
    packages: tuple[Package, ...],
    *,
    index: SystemIndex,
    roots: Iterable[str],
    drop: Collection[str] = (),
) -> tuple[Base, tuple[Ruling, ...]]:
    """Choose the packages of the base and say what became of each captured one.

    The base holds the essential packages, the roots, and what a person had asked apt for unless it is the
    host's business; with all that these need, in the captured versions where the index still has them.

    Args:
        packages: the captured list; empty when there was none.
        index: the packages of the captured release.
        roots: names that the rest of the lock needs (`python3.11`, ...).
        drop: names that the user decided to leave out.

    Returns:
        The base, and the rulings: one for each captured package, one of kind `added` for each package
        that was not captured. `replaced` and `unresolved` ones await the user's acceptance; where that is
        given, the base is right as it stands.

    Raises:
        LockError: a root, or something that a package needs, is not in the index.
    """
    installed = {p.name: p for p in packages if _is_installed(p, index)}
    captured = {name: p.version for name, p in installed.items()}
    wanted = dict.fromkeys(index.essential, "every system")
    wanted |= {name: "the environment" for name in roots if name not in wanted}
    refused = {p.name: _refusal(p, index, drop) for p in packages}
    for name, package in installed.items():
        if package.mark in ("manual", "local", "upgradable") and not refused[name] and index.versions(name):
            wanted.setdefault(name, f"{package.place}")
    closure = Closure(index, captured)
    chosen = closure.close(wanted)
    essential = _reachable(index.essential, chosen)
    tools = closure.close(dict.fromkeys(TOOLS, "realising the base"))
    base = Base(
        distribution=index.distribution,
        release=index.release,
        packages=tuple(_deb(chosen[name], name in essential) for name in sorted(chosen)),
        tools=tuple(_deb(tools[n], False) for n in sorted(tools) if n in TOOLS or n not in chosen),
    )
    rulings = [_ruling(p, chosen, refused[p.name], index) for p in packages]
    rulings += [_added(c) for name, c in sorted(chosen.items()) if packages and name not in captured]
    if not packages:
        rulings.append(_no_list(index))
    return base, tuple(rulings)


def _is_installed(package: Package, index: SystemIndex) -> bool:
    return package.mark != "residual" and package.architecture in (index.architecture, "all")


def _refusal(package: Package, index: SystemIndex, drop: Collection[str]) -> str:
    if package.mark == "residual":
        return "removed before the capture; only its configuration was left"
    if package.architecture not in (index.architecture, "all"):
        return f"a package for {package.architecture}; the image is for {index.architecture}"
    if is_named(package.name, drop):
        return _DROPPED
    return exclusion(package.name)


def _reachable(names: Iterable[str], chosen: Mapping[str, Choice]) -> set[str]:
    """Return the names and all that they need."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left.extend(chosen[name].needs)
    return found


def _deb(choice: Choice, essential: bool) -> Deb:
    candidate = choice.candidate
    return Deb(
        name=candidate.name,
        version=candidate.version,
        architecture=candidate.architecture,
        essential=essential,
        file=candidate.file,
    )


def _ruling(package: Package, chosen: Mapping[str, Choice], refusal: str, index: SystemIndex) -> Ruling:
    """Say what became of one captured package."""
    place, name, version = package.place, package.name, package.version

    def ruled(outcome: Outcome, reason: str, kind: str = "") -> Ruling:
        return Ruling(
            file=place.file,
            line=place.line,
            subject=name,
            outcome=outcome,
            reason=reason,
            kind=kind,
        )

    if not _is_installed(package, index):
        return ruled(
            "excluded", refusal, "not-needed" if package.mark == "residual" else "other-architecture"
        )
    if name not in chosen:
        if refusal:
            return ruled("excluded", refusal, "decision" if refusal == _DROPPED else "host-package")
        if package.mark in ("automatic", "auto-removable"):
            return ruled("excluded", _NOT_NEEDED, "not-needed")
        return ruled(
            "unresolved",
            f"{name} {version} was asked for, and {index.label} has no package of that name",
            "unknown-package",
        )
    taken = chosen[name].candidate.version
    if taken == version:
        return ruled("pinned", f"{name} {version} from {index.label}, needed by {chosen[name].asked_by}")
    there = any(candidate.version == version for candidate in index.versions(name))
    why = f"{name} {version} " + (
        "does not fit the versions that the rest has to take"
        if there
        else f"is not in {index.label} any more"
    )
    if upstream(taken) == upstream(version) and Version(taken) > Version(version):
        reason = f"{why}; {taken} is the nearest later revision of the same upstream version"
        return ruled("replaced", reason, "withdrawn")
    reason = f"{why}, and no later revision of it can be had; {taken} would be taken"
    return ruled("unresolved", reason, "unknown-version")


def _added(choice: Choice) -> Ruling:
    candidate = choice.candidate
    return Ruling(
        file=APT_LIST,
        line=0,
        subject=candidate.name,
        outcome="in base",
        reason=f"{candidate.name} {candidate.version} was not captured; needed by {choice.asked_by}",
        kind="added",
    )


def _no_list(index: SystemIndex) -> Ruling:
    return Ruling(
        file=APT_LIST,
        line=0,
        subject=APT_LIST,
        outcome="replaced",
        reason=f"no package list was captured; the base is what {index.label} holds now of what is needed",
        kind="no-apt-list",
    )
