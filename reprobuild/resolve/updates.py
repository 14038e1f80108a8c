"""Today's versions of a lock: the same top-level requirements, solved again without their versions.

A top-level requirement is a distribution that no other one of the lock requires. The interpreter, the base, sources and
packages of conda stay as they are: only distributions of indexes differ. A chosen version is a `solved` line.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as ParsedRequirement
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.requires import marker_environment, marker_holds, with_requires
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError, LockError, UsageError
from reprobuild.lock.consistent import check_readable
from reprobuild.lock.model import Lock, Resolution, unseal
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.requirements import read_requirement
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.ages.dated_indexes import dated_indexes
from reprobuild.resolve.as_of_moment import SOLVED
from reprobuild.resolve.builds.build_requires import BuildWheelSource, lock_build_wheels
from reprobuild.resolve.builds.extensions import Toolkit
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.context import make_file_lists, make_line_context
from reprobuild.resolve.python.prebuilt import use_prebuilt_wheels
from reprobuild.resolve.python.resolve import ResolvedLines, resolve_requirements
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.resolve.resolver import base_glibc, make_fetcher
from reprobuild.resolve.solve_versions import solve_versions
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation
from reprobuild.store.fetch import fetch

_GIVE = "give a second lock instead of --since: `reprobuild bisect A B -- CMD`"


class LockUpdate(Struct, frozen=True, kw_only=True):
    """A lock with today's versions.

    Attributes:
        lock: the new lock.
        requirements: the names of the top-level requirements.
        changes: by name, the version before and now; None if a side lacks it.
    """

    lock: Lock
    requirements: tuple[str, ...]
    changes: Mapping[str, tuple[str | None, str | None]]


def update_lock(old: Lock, day: str, context: ResolveContext, *, foreign: bool) -> LockUpdate:
    """Return a lock with today's versions of its top-level requirements.

    Args:
        old: the lock.
        day: today's date, for the record.
        context: the store, the network and the indexes.
        foreign: the lock was not made here, so that its `--index` decisions are not the user's.

    Raises:
        UsageError: the lock has no distribution of an index.
        LockError: no versions fit together, or a chosen one has no file for the image.
        FetchError: the network is forbidden, or an index is unavailable.
    """
    before = _environment(old)
    extras = list_requested_extras(old)
    names = sorted({*find_top_level(before.values()), *(extras.keys() & before.keys())})
    if not names:
        raise UsageError("--since: the lock has no distribution of an index", hint=_GIVE)
    if context.net.offline:
        raise FetchError(
            "today's versions are chosen on the index, and --offline forbids it",
            hint=f"leave --offline out, or {_GIVE}",
        )
    indexes = old.decisions.indexes
    if indexes and foreign:
        context.say(
            f"python: the lock was not made here, so its indexes are not asked: {', '.join(sorted(indexes))}"
        )
        indexes = {}
    files = make_file_lists(Decisions(indexes=indexes), context.services, context)
    if lost := files.lost(names[0]):
        raise lost[0]
    context.say(f"python: today's versions of {', '.join(names)}, by uv")
    lines = [_make_line(number, name, extras=extras.get(name, ())) for number, name in enumerate(names, 1)]
    fixed = _conda_versions(old)
    local = {*fixed, *(str(canonicalize_name(source.name)) for source in old.sources if source.installed)}
    try:
        pins = [_make_line(0, name, version) for name, version in _required(before.values(), fixed)]
        chosen = _solve([*lines, *pins], old, files, context)
        pairs = [pair for pair in sorted(chosen.items()) if pair[0] not in local]
        lines = [_make_line(number, *pair) for number, pair in enumerate(pairs, 1)]
        lock = _lock_lines(old, lines, names, day, files, context)
    except LockError as err:
        raise LockError(str(err), hint=_GIVE, listing=err.listing) from None
    after = _environment(lock)
    names_of_both = sorted({*before, *after})
    versions = [{name: item.version for name, item in side.items()} for side in (before, after)]
    changes = {name: (versions[0].get(name), versions[1].get(name)) for name in names_of_both}
    changes = {name: pair for name, pair in changes.items() if pair[0] != pair[1]}
    return LockUpdate(lock=lock, requirements=tuple(names), changes=changes)


def _solve(
    lines: Sequence[Requirement], old: Lock, files: FileLists, context: ResolveContext
) -> dict[str, str]:
    python, machine = old.interpreter.version, old.machine
    with dated_indexes("", lines, files, context, (python, machine)) as dated:
        return solve_versions(lines, "", python, machine, files, context, dated)


def _environment(lock: Lock) -> dict[str, Wheel | Sdist]:
    """Return the distributions of an environment that come from an index, by name."""
    installed: list[Wheel | Sdist] = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    return {item.name: item for item in [*installed, *lock.sdists]}


def find_top_level(items: Iterable[Wheel | Sdist]) -> list[str]:
    """Return the names of the distributions that no other one requires.

    Of distributions that require each other, and which no other one requires, the first by name counts.
    """
    requires = {item.name: _requirements(item) - {item.name} for item in items}
    required = {name for names in requires.values() for name in names}
    top = {name for name in requires if name not in required}
    reached = set[str]()
    for name in (*sorted(top), *sorted(required & set(requires))):
        if name in reached:
            continue
        top.add(name)
        waiting = [name]
        while waiting:
            if (other := waiting.pop()) not in reached:
                reached.add(other)
                waiting += requires.get(other, ())
    return sorted(top)


def _requirements(item: Wheel | Sdist) -> set[str]:
    names = set()
    for text in getattr(item, "requires", ()):
        try:
            names.add(str(canonicalize_name(ParsedRequirement(text).name)))
        except InvalidRequirement:  # of another program's lock
            continue
    return names


def _conda_versions(lock: Lock) -> dict[str, str]:
    return {name: package.version for package in lock.conda for name in package.distributions}


def _required(items: Iterable[Wheel | Sdist], versions: Mapping[str, str]) -> list[tuple[str, str]]:
    required = {name for item in items for name in _requirements(item)}
    return [(name, version) for name, version in versions.items() if name in required]


def list_requested_extras(lock: Lock) -> dict[str, frozenset[str]]:
    """Return the extras that captured lines for the lock's environment name, by canonical name."""
    markers = marker_environment(lock.interpreter.version, lock.machine)
    extras: dict[str, frozenset[str]] = {}
    for ruling in lock.rulings:
        line = read_requirement(ruling.captured) if "[" in ruling.captured else None
        if line is not None and marker_holds(line.marker, markers):
            name = str(canonicalize_name(line.name))
            extras[name] = extras.get(name, frozenset()) | {
                str(canonicalize_name(item)) for item in line.extras
            }
    return {name: known for name, known in extras.items() if known}


def _make_line(
    number: int, name: str, version: str | None = None, extras: Collection[str] = ()
) -> Requirement:
    names = f"[{','.join(sorted(extras))}]" if extras else ""
    text = f"{name}{names}=={version}" if version else name + names
    return Requirement(
        place=SourceLocation(SOLVED, number), text=text, kind="index", name=name, version=version
    )


def _lock_lines(
    old: Lock, lines: list[Requirement], names: list[str], day: str, files: FileLists, context: ResolveContext
) -> Lock:
    """Return the lock with the files of these lines instead of its own distributions."""
    target = WheelTarget(
        python=old.interpreter.version, glibc=base_glibc(old.base), machine=old.machine,
        free_threaded=old.interpreter.free_threaded,
    )  # fmt: skip
    snapshot = Snapshot(digest=old.snapshot)
    known = make_line_context(snapshot, context.services, old.base, context)
    python = resolve_requirements(lines, files, target, known)
    files.save()
    check_availability(python.lost, python.rulings, ())
    accept_deviations(python.rulings, ())
    python = use_prebuilt_wheels(python, {line.name for line in lines}, target, context.services, context)
    fetch([wheel.file for wheel in python.wheels], context.store, context.net)
    toolkit = Toolkit(version="", packages=frozenset(old.base.installed), image=old.build_base is not None)
    shelf = BuildWheelSource(
        files, target, context.store, make_fetcher(context), python.wheels, toolkit, _conda_versions(old)
    )
    built = lock_build_wheels((), python.sdists, {}, shelf)
    if built.packages and old.build_base is None:
        raise LockError(
            f"today's versions need a compiler, and the lock has none: {next(iter(built.packages.values()))}"
        )
    wheels = with_requires(python.wheels, target, context.store, list_requested_extras(old))
    return check_readable(
        msgspec.structs.replace(
            unseal(old), sdists=built.sdists, rulings=_rule(old, python, names, day),
            wheels=_merge_wheels(old, (*wheels, *built.wheels)),
            decisions=msgspec.structs.replace(old.decisions, as_of=day),
        )
    )  # fmt: skip


def _merge_wheels(old: Lock, new: Iterable[Wheel]) -> tuple[Wheel, ...]:
    """Return the new wheels with those that the old lock's sources are built with."""
    needed = {sha256 for source in old.sources for sha256 in source.building.requires}
    wheels = {(wheel.role, wheel.file.sha256): wheel for wheel in new}
    for wheel in old.wheels:
        if wheel.role == "build" and wheel.file.sha256 in needed:
            wheels.setdefault((wheel.role, wheel.file.sha256), wheel)
    return tuple(wheels.values())


def _rule(old: Lock, python: ResolvedLines, names: list[str], day: str) -> tuple[Resolution, ...]:
    """Return the resolutions: those of the old lock's other lines, and a solved one of each chosen version."""
    replaced = _environment(old)
    stayed = [ruling for ruling in old.rulings if str(canonicalize_name(ruling.subject)) not in replaced]
    why = {True: "of the lock's top-level requirements", False: "the requirements of others need it"}
    solved = [
        msgspec.structs.replace(
            ruling, outcome="solved", kind=SOLVED, accepted=True,
            reason=f"as of {day} (--since), uv chose it: {why[ruling.subject in names]}; {ruling.reason}",
        )
        for ruling in python.rulings
    ]  # fmt: skip
    return (*stayed, *solved)
