"""Deviations of a lock: accepted by name, or refused with advice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.resolve.accepted_words import names_of
from reprobuild.resolve.deviation_remedies import LISTED, suggest_options, suggest_remedies
from reprobuild.resolve.interpreter.choice import NO_FILE

_EXAMPLES = 2  # lines of a group that is summed up
_GROUP = 4  # lines that are summed up: smaller groups are shown in full


def accept_deviations(
    rulings: Iterable[Resolution], accepted: Iterable[str], pythons: Sequence[str] = ()
) -> tuple[Resolution, ...]:
    """Mark the deviations that the user accepts.

    They are accepted by class, by name or by `file:line`.

    Args:
        rulings: of every captured line.
        accepted: classes, names and places.
        pythons: each `X.Y` with a file for every pinned release, if the chosen Python is not among them.

    Raises:
        LockError: a line is unresolved or replaced and was not accepted; the hint lists the packages that the image
            would lack.
    """
    words, rulings = set(accepted), tuple(rulings)
    marked, refused = [], []
    for ruling in rulings:
        if ruling.outcome in ("replaced", "unresolved"):
            if words & names_of(ruling):
                marked.append(msgspec.structs.replace(ruling, accepted=True))
                continue
            refused.append(ruling)
        marked.append(ruling)
    if refused:
        groups = _group_by_title(refused)
        lines = [line for title, group in groups.items() for line in _summary(title, group)]
        raise LockError(
            f"{_describe_refused(refused)} cannot be repeated exactly:\n" + "\n".join(lines),
            hint="\n".join(suggest_remedies(words, rulings, refused, pythons)),
            options=suggest_options(refused, pythons),
            listing=["all of them:", *map(_format_resolution, refused)] if _has_long_group(groups) else (),
            refused=[_resolution_facts(ruling) for ruling in refused],
        )
    return tuple(marked)


def _group_by_title(refused: Iterable[Resolution]) -> dict[str, list[Resolution]]:
    """Return the refused lines by file, outcome and class.

    The key is a title.
    """
    groups: dict[str, list[Resolution]] = {}
    for ruling in refused:
        groups.setdefault(f"{ruling.file}: {ruling.outcome} ({ruling.kind})", []).append(ruling)
    return groups


def _has_long_group(groups: Mapping[str, Sequence[Resolution]]) -> bool:
    return any(len(group) >= _GROUP for group in groups.values())


def _summary(title: str, group: Sequence[Resolution]) -> list[str]:
    """Return a group in lines: in full, or its number and examples."""
    if not _has_long_group({title: group}):
        return [_format_resolution(ruling) for ruling in group]
    more = len(group) - _EXAMPLES
    examples = [f"    {r.place}: {r.subject}: {r.reason}" for r in group[:_EXAMPLES]]
    return [f"  {len(group)} of {title}:", *examples, f"    and {more} more, {LISTED}"]


def _resolution_facts(ruling: Resolution) -> dict[str, object]:
    return {
        "file": ruling.file, "line": ruling.line, "subject": ruling.subject, "outcome": ruling.outcome,
        "class": ruling.kind, "reason": ruling.reason,
    }  # fmt: skip


def _format_resolution(ruling: Resolution) -> str:
    name = "" if ruling.subject == ruling.place else f"{ruling.subject}: "  # a file that is absent as a whole
    return f"  {ruling.place}: {name}{ruling.outcome} ({ruling.kind}): {ruling.reason}"


def _describe_refused(refused: Sequence[Resolution]) -> str:
    """Return the number of refused lines, and the Python if the user named it: no line was captured for it."""
    lines = sum(ruling.file != NO_FILE for ruling in refused)
    parts = [f"{lines} captured line" + "s" * (lines > 1)] if lines else []
    return " and ".join([*parts, *(["the chosen Python"] if lines < len(refused) else [])])
