"""Versions for requirements without one, as of a day in the past.

uv chooses them among the files that were on the index by then (`--exclude-newer`, which needs upload times:
https://docs.astral.sh/uv/concepts/resolution/#reproducible-resolutions). Captured versions stay as they are. A chosen
version is a `solved` line of the lock, never a captured one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.errors import FetchError
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.lock.model import Resolution
from reprobuild.resolve.ages.dated_indexes import DatedIndexes, dated_indexes
from reprobuild.resolve.as_of_moment import SOLVED, choose_moment, describe_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.not_installed import find_conda_python
from reprobuild.resolve.solve_versions import solve_versions
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.snapshot.parsers.conda_names import find_pypi_name
from reprobuild.snapshot.parsers.pip_freeze_hashes import with_hashes
from reprobuild.snapshot.parsers.pip_freeze_unique import is_open, with_extras


class SolvedLines(Struct, frozen=True, kw_only=True):
    """A snapshot whose requirements have versions, and the reason for each chosen version by canonical name.

    `moment` is the moment of the choice, of RFC 3339; empty if none was made. `rulings` are of lines that ask for a
    version which the first line of their name has now.
    """

    snapshot: Snapshot
    reasons: Mapping[str, str] = {}
    moment: str = ""
    rulings: tuple[Resolution, ...] = ()

    def mark(self, rulings: Iterable[Resolution]) -> tuple[Resolution, ...]:
        """Return resolutions in which the pinned lines of chosen versions are `solved`."""
        return tuple(self._mark_one(ruling) for ruling in rulings)

    def _mark_one(self, ruling: Resolution) -> Resolution:
        reason = self.reasons.get(str(canonicalize_name(ruling.subject)))
        if reason is None or ruling.outcome not in ("pinned", "in base"):
            return ruling
        return msgspec.structs.replace(
            ruling, outcome="solved", kind=SOLVED, accepted=True, reason=f"{reason}; {ruling.reason}"
        )


def solve_open_lines(
    snapshot: Snapshot,
    decisions: Decisions,
    python: str,
    machine: str,
    files: FileLists,
    context: ResolveContext,
) -> SolvedLines:
    """Return the snapshot with a version for each requirement, as of a moment.

    Without a moment, or without an open line, the snapshot is returned as it is. The moment is the decision `as_of`,
    or the start of an imported run if the user accepts `solved`.

    Args:
        python: the version of the image's interpreter.
        machine: in the kernel's spelling, `x86_64`.
        files: the file lists of the machine's indexes.

    Raises:
        UsageError: the moment is not a date.
        LockError: no set of versions fits; the message is uv's.
        FetchError: the network is forbidden, or an index of this machine is unavailable.
    """
    moment, evidence = choose_moment(snapshot, decisions)
    lines = [line for line in snapshot.requirements if not is_named(line.name, decisions.drop)]
    if not moment or not lines:
        return SolvedLines(snapshot=snapshot)
    if context.net.offline:
        raise FetchError("versions as of a date are chosen on the index, and --offline forbids it",
                         hint="leave --offline out, or write the versions into requirements.txt")  # fmt: skip
    names = sorted(line.name for line in lines if line.kind == "index")
    if lost := files.lost(names[0]) if names else []:  # uv names the first of them only
        raise lost[0]
    shown = describe_moment(moment)
    context.say(f"python: versions as of {shown} ({evidence}), by uv")
    with dated_indexes(moment, lines, files, context, (python, machine)) as dated:
        provided = _conda_projects(snapshot, decisions, lines)
        chosen = solve_versions(lines, moment, python, machine, files, context, dated, provided)
    return msgspec.structs.replace(
        _apply(snapshot, chosen, f"as of {shown} ({evidence})", dated), moment=moment
    )


def _conda_projects(snapshot: Snapshot, decisions: Decisions, lines: Iterable[Requirement]) -> frozenset[str]:
    """Return the names on an index of conda's packages: pip installs no other version beside them."""
    if find_conda_python(snapshot, decisions) is None:
        return frozenset()
    line_names = {str(canonicalize_name(line.name)) for line in lines}
    names = {find_pypi_name(package.name) for package in snapshot.conda if package.channel != PYPI}
    return frozenset(name for name in names - line_names if is_valid(name, ProjectName))


def _apply(
    snapshot: Snapshot, chosen: Mapping[str, str], when: str, dated: DatedIndexes | None = None
) -> SolvedLines:
    """Return the snapshot with the chosen versions; distributions that no line names are added."""
    reasons: dict[str, str] = {}
    requirements: list[Requirement] = []
    rulings: list[Resolution] = []
    open_lines = _group_open_lines(snapshot, chosen)
    evidence = {name: dated.describe(name, version) if dated else "" for name, version in chosen.items()}
    for line in snapshot.requirements:
        name = str(canonicalize_name(line.name))
        first, *others = open_lines.get(name, [line])
        if line in others:
            reason = f"it asks for the same distribution as {first.place}, and {chosen[name]} is for both"
            rulings.append(make_resolution(line, "excluded", reason, "marker"))
            continue
        if name in open_lines and line is first:
            texts = " and ".join(f"`{item.text}`" for item in open_lines[name])
            reasons[name] = f"{when}, uv chose {chosen[name]}{evidence[name]} for {texts}"
            line = msgspec.structs.replace(_join(first, others), version=chosen[name])
        requirements.append(line)
    known = {str(canonicalize_name(line.name)) for line in (*snapshot.requirements, *snapshot.unlisted)}
    for number, (name, version) in enumerate(sorted(chosen.items()), 1):
        if name not in known:
            reasons[name] = (
                f"{when}, uv chose {version}{evidence[name]}: the requirements of other lines need it"
            )
            requirements.append(
                Requirement(
                    place=SourceLocation(SOLVED, number), text=f"{name}=={version}", kind="index", name=name,
                    version=version,
                )
            )  # fmt: skip
    return SolvedLines(
        snapshot=msgspec.structs.replace(snapshot, requirements=tuple(requirements)), reasons=reasons,
        rulings=tuple(rulings),
    )  # fmt: skip


def _group_open_lines(snapshot: Snapshot, chosen: Mapping[str, str]) -> dict[str, list[Requirement]]:
    """Return the lines with a chosen version, by canonical name."""
    groups: dict[str, list[Requirement]] = {}
    for line in filter(is_open, snapshot.requirements):
        name = str(canonicalize_name(line.name))
        if name in chosen:
            groups.setdefault(name, []).append(line)
    return groups


def _join(first: Requirement, others: Iterable[Requirement]) -> Requirement:
    """Return a line with the extras and the hashes of others of its name."""
    for line in others:
        first = with_extras(with_hashes(first, line.hashes) if line.hashes else first, line)
    return first
