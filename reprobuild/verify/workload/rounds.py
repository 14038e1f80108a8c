"""The comparisons of one artefact in several runs, as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from reprobuild.verify.verdict import WorkComparison

_GRAVEST = {"drift": 0, "identical": 2}
_SHOWN = 8  # numbers of runs


def merge_rounds(rounds: Sequence[Sequence[WorkComparison]]) -> list[WorkComparison]:
    """Return the most severe comparison of each name, with its runs.

    Args:
        rounds: the comparisons of run 2 with the first, of run 3 with the first, and so on.
    """
    by_name: dict[str, list[tuple[int, WorkComparison]]] = {}
    for number, comparisons in enumerate(rounds, 2):
        for comparison in comparisons:
            by_name.setdefault(comparison.name, []).append((number, comparison))
    return [_merge_comparisons(pairs, len(rounds)) for pairs in by_name.values()]


def _merge_comparisons(pairs: Sequence[tuple[int, WorkComparison]], rounds: int) -> WorkComparison:
    """Return the most severe comparison of one artefact.

    Each has the number of its run.
    """
    worst = min(
        (comparison for _, comparison in pairs), key=lambda candidate: _GRAVEST.get(candidate.verdict, 1)
    )
    if rounds == 1:
        return worst
    excused: Counter[str] = Counter()
    for _, comparison in pairs:
        excused |= Counter(comparison.excused)
    detail = worst.detail
    if worst.verdict != "identical":
        numbers = [number for number, comparison in pairs if comparison.verdict == worst.verdict]
        which = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
        detail = f"run{'s' * (len(numbers) != 1)} {which} of {rounds + 1} beside the first: {detail}"
    warnings = dict.fromkeys(line for _, comparison in pairs for line in comparison.warnings)
    return msgspec.structs.replace(worst, detail=detail, excused=dict(excused), warnings=tuple(warnings))
