"""Resolution of captured system packages to exact `.deb` files.

Each has a resolution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from reprobuild.config.overrides import is_named
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.system import Base, Deb, dpkg_name
from reprobuild.resolve.system.alternatives import describe_other_version, is_later_revision
from reprobuild.resolve.system.closure import Closure, PackageChoice, find_reachable
from reprobuild.resolve.system.metapackages import parts_without_drivers
from reprobuild.resolve.system.missing_list import APT_LIST, rule_missing_list
from reprobuild.resolve.system.needed import is_interpreter_part, is_library_or_data
from reprobuild.resolve.system.system_rules import find_exclusion
from reprobuild.snapshot.model import RpmPackage, SystemPackage

# Packages that realising the base needs: ownership without privileges. They are not part of the image.
TOOLS = ("fakeroot", "libfakeroot")
ASKED = ("manual", "local", "upgradable")
_POCKETS = ("updates", "security", "backports", "proposed")
_UNRESOLVED = ("local-build", "unknown-package")


class _Refusal(Struct, frozen=True):
    """The reason for not requesting a captured package.

    It has the kind of the resolution, and the text.
    """

    kind: str
    reason: str


_RESIDUAL = _Refusal("residual", "removed before the capture; only its configuration was left")
_DROPPED = _Refusal("decision", "dropped by decision")
_DRIVEN = _Refusal(
    "driver", "it needs a driver, which is the host's; what else it stands for is asked for instead"
)
_NOT_NEEDED = _Refusal("not-needed", "not needed by what was asked for")
_NOT_CALLED = _Refusal("not-needed", "not needed by the environment: no code of it calls a program of it")


def foreign_architectures(
    packages: tuple[SystemPackage, ...], architecture: str, drop: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the foreign architectures that the image needs, sorted.

    They are those of the captured packages that were requested and are not the host's; empty if the image is for
    another machine than the captured one.

    Args:
        packages: the captured list.
        architecture: of the image, in Debian's spelling.
        drop: names that the user leaves out.
    """
    if _changes_architecture(packages, architecture):
        return ()
    architectures = {
        package.architecture
        for package in packages
        if package.mark in ASKED and _refusal(package, architecture, drop, moved=False) is None
    }
    return tuple(sorted(architectures - {architecture, "all"}))


def resolve_base(
    packages: tuple[SystemPackage, ...],
    *,
    index: SystemIndex,
    roots: Iterable[str],
    drop: Collection[str] = (),
    chosen_for: str = "",
    libraries: Mapping[str, str] = MappingProxyType({}),
    called: Mapping[str, str] | None = None,
    rpms: Sequence[RpmPackage] = (),
) -> tuple[Base, tuple[Resolution, ...]]:
    """Choose the packages of the base; resolve captured ones.

    The base holds the essential packages, the roots, and packages that a person requested, except host packages and
    those that no code calls; with all that these need, in the captured versions if the index still has them. Packages
    of a foreign architecture are included by the same rule, if the index has that architecture.

    Args:
        packages: the captured list; empty without one.
        index: the packages of the captured release, of the architectures that `foreign_architectures` names.
        roots: names that the rest of the lock needs (`python3.11`, ...).
        drop: names that the user leaves out; `NAME:ARCHITECTURE` means a foreign one alone.
        chosen_for: the reason for this release, without a captured package list.
        libraries: packages of shared libraries, each with the asking package.
        called: captured packages with called programs, each with its caller; None: every requested one.
        rpms: the packages of an rpm host, for the reason of the deviation.

    Returns:
        The base, and the resolutions: one for each captured package, one of kind `added` for each package that was not
        captured. `replaced` and `unresolved` ones await the user's acceptance; once accepted, the base is valid
        unchanged. Their kinds are those of docs/system.md.

    Raises:
        LockError: a root, or a dependency of a package, is not in the index; or two packages conflict.
    """
    native = index.architecture
    moved = _changes_architecture(packages, native)
    refused = {_package_key(p, native): _refusal(p, native, drop, moved=moved) for p in packages}
    installed = {
        _package_key(p, native): p
        for p in packages
        if p.mark != "residual" and not (moved and _is_foreign(p, native))
    }
    captured = {key: package.version for key, package in installed.items()}
    requests = dict.fromkeys(index.essential, "every system")
    roots = tuple(roots)
    requests |= {name: "the environment" for name in roots if name not in requests}
    requests |= dict.fromkeys(_interpreter_packages(installed, refused, index, roots), "the interpreter")
    requests |= {name: asker for name, asker in libraries.items() if name not in requests}
    if called is not None:
        refused |= _refuse_uncalled(installed, refused, requests, called)
    askers = _further_requests(installed, refused, captured, index, requests)
    callers = called or {}
    requests |= {key: callers.get(package.name, f"{package.place}") for key, package in askers.items()}
    drops = {name: name for name in libraries}
    drops |= {key: _package_key(package, native) for key, package in askers.items()}
    chosen = Closure(index, captured, drops).close(requests)
    essential = find_reachable(index.essential, chosen)
    versions = {key: choice.candidate.version for key, choice in chosen.items()}
    tools = Closure(index, captured | versions).close(dict.fromkeys(TOOLS, "realising the base"))
    base = Base(
        distribution=index.distribution,
        release=index.release,
        packages=tuple(_make_deb(chosen[key], key in essential) for key in sorted(chosen)),
        tools=tuple(_make_deb(tools[n], False) for n in sorted(tools) if n in TOOLS or n not in chosen),
    )
    rulings = [_make_resolution(p, chosen, refused[_package_key(p, native)], index) for p in packages]
    rulings += [_rule_addition(c) for key, c in sorted(chosen.items()) if packages and key not in captured]
    if not packages:
        evidence = f"; {chosen_for}" if chosen_for else ""
        rulings.append(rule_missing_list(rpms, f"what {index.label} holds now of what is needed{evidence}"))
    return base, tuple(rulings)


def list_uncalled_packages(rulings: Iterable[Resolution]) -> list[str]:
    """Return manually installed packages without a caller.

    They are left out.
    """
    return [ruling.subject for ruling in rulings if ruling.reason == _NOT_CALLED.reason]


def _interpreter_packages(
    installed: Mapping[str, SystemPackage],
    refused: Mapping[str, _Refusal | None],
    index: SystemIndex,
    roots: Collection[str],
) -> list[str]:
    """Return captured packages with parts of the standard library.

    They count even if they were not requested.
    """
    return [
        key
        for key, package in installed.items()
        if is_interpreter_part(package.name, roots) and not refused[key] and index.versions(key)
    ]


def _refuse_uncalled(
    installed: Mapping[str, SystemPackage],
    refused: Mapping[str, _Refusal | None],
    requests: Collection[str],
    called: Collection[str],
) -> dict[str, _Refusal]:
    """Return manually installed packages that are not needed."""
    return {
        key: _NOT_CALLED
        for key, package in installed.items()
        if package.mark in ASKED and not refused[key]
        and key not in requests and package.name not in called and not is_library_or_data(package.name)
    }  # fmt: skip


def _further_requests(
    installed: Mapping[str, SystemPackage],
    refused: dict[str, _Refusal | None],
    captured: Mapping[str, str],
    index: SystemIndex,
    requests: Collection[str],
) -> dict[str, SystemPackage]:
    """Return further requests of the captured list.

    Each has the asking package. Packages that need a driver are refused.
    """
    askers: dict[str, SystemPackage] = {}
    metas: dict[str, tuple[str, ...] | None] = {}
    for key, package in installed.items():
        if package.mark not in ASKED or refused[key] or not index.versions(key):
            continue
        foreign = _is_foreign(package, index.architecture)
        parts = None if foreign else parts_without_drivers(key, index, captured, metas)
        if parts is not None:
            refused[key] = _DRIVEN
        for request in (key,) if parts is None else parts:
            if request not in requests:
                askers.setdefault(request, package)
    return askers


def _changes_architecture(packages: Iterable[SystemPackage], native: str) -> bool:
    """Return whether the image is for another architecture.

    The captured one is that of most packages.
    """
    counts = Counter(package.architecture for package in packages if package.architecture != "all")
    return counts[native] < max(counts.values(), default=0)


def _package_key(package: SystemPackage, native: str) -> str:
    return dpkg_name(package.name, package.architecture, native)


def _is_foreign(package: SystemPackage, native: str) -> bool:
    return package.architecture not in (native, "all")


def _refusal(package: SystemPackage, native: str, drop: Collection[str], *, moved: bool) -> _Refusal | None:
    """Return the reason for not requesting a captured package.

    `moved` is set if the image is for another machine.
    """
    if package.mark == "residual":
        return _RESIDUAL
    if moved and _is_foreign(package, native):
        reason = f"a package for {package.architecture}; the image is for {native}"
        return _Refusal("other-architecture", reason)
    if is_named(package.name, drop) or is_named(_package_key(package, native), drop):
        return _DROPPED
    rule = find_exclusion(package.name)
    return _Refusal(rule.class_, rule.reason) if rule else None


def _make_deb(choice: PackageChoice, essential: bool) -> Deb:
    candidate = choice.candidate
    return Deb(
        name=candidate.name,
        version=candidate.version,
        architecture=candidate.architecture,
        essential=essential,
        file=candidate.file,
    )


def _make_resolution(
    package: SystemPackage, chosen: Mapping[str, PackageChoice], refusal: _Refusal | None, index: SystemIndex
) -> Resolution:
    """Return the resolution of one captured package."""
    place, version, key = package.place, package.version, _package_key(package, index.architecture)

    def ruled(outcome: Outcome, reason: str, kind: str = "") -> Resolution:
        return Resolution(
            file=place.file,
            line=place.line,
            subject=key,
            outcome=outcome,
            reason=reason,
            kind=kind,
        )

    if key not in chosen or (refusal and refusal.kind in ("residual", "other-architecture")):
        cause = refusal or _omission_refusal(package, index)
        return ruled("unresolved" if cause.kind in _UNRESOLVED else "excluded", cause.reason, cause.kind)
    taken = chosen[key].candidate.version
    if taken == version:
        return ruled("pinned", f"{key} {version} from {index.label}, needed by {chosen[key].asked_by}")
    why = f"{key} {version} {_unfit_reason(package, key, chosen, index)}"
    if is_later_revision(taken, version):
        reason = f"{why}; {taken} is the nearest later revision of the same upstream version"
        return ruled("replaced", reason, "withdrawn")
    other = describe_other_version(taken, version, index.versions(key))
    return ruled("unresolved", f"{why}, and {other}", "unknown-version")


def _unfit_reason(
    package: SystemPackage, key: str, chosen: Mapping[str, PackageChoice], index: SystemIndex
) -> str:
    """Return the reason against a captured version."""
    versions = [candidate.version for candidate in index.versions(key)]
    if package.version not in versions:
        if _was_in_archive(package, versions, index.release):
            return f"is not in {index.label} any more"
        return f"is not in {index.label} (if it came from another archive, name that with `--archive`)"
    twin = next((other for other in chosen if other != key and other.partition(":")[0] == package.name), None)
    if twin:
        return f"does not fit {twin}, which must have the same version"
    return "does not fit the versions that the rest has to take"


def _was_in_archive(package: SystemPackage, versions: Iterable[str], release: str) -> bool:
    """Return whether an archive of the release had a version.

    A later revision of it shows that, or a suite of updates.

    Third-party archives may have suites of the same name, but they do not have its updates.
    """
    pockets = {f"{name}-{pocket}" for name in (release, "stable", "oldstable") for pocket in _POCKETS}
    return not pockets.isdisjoint(package.suites) or any(
        is_later_revision(version, package.version) for version in versions
    )


def _omission_refusal(package: SystemPackage, index: SystemIndex) -> _Refusal:
    """Return the reason for leaving out a package of the environment."""
    key = _package_key(package, index.architecture)
    if package.mark not in ASKED:
        if _is_foreign(package, index.architecture):
            reason = f"a package for {package.architecture}, {_NOT_NEEDED.reason}"
            return _Refusal("other-architecture", reason)
        return _NOT_NEEDED
    if package.mark == "local":
        kind, why = "local-build", "was installed by hand or from a source that is gone"
    else:
        kind, why = "unknown-package", "was asked for"
    return _Refusal(kind, f"{key} {package.version} {why}, and {index.label} has no package of that name")


def _rule_addition(choice: PackageChoice) -> Resolution:
    candidate = choice.candidate
    return Resolution(
        file=APT_LIST,
        line=0,
        subject=candidate.key,
        outcome="in base",
        reason=f"{candidate.key} {candidate.version} was not captured; needed by {choice.asked_by}",
        kind="added",
    )
