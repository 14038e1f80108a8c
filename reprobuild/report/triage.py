"""Report of `show` on variables and modules.

It lists those in the image and those left out, with reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from reprobuild.infra.display import escape_text
from reprobuild.lock.model import Resolution

_SHOWN = 20  # names of one class


def render_triage(rulings: Iterable[Resolution]) -> str:
    """Return lines for baked and overridden variables.

    Others are counted by class. Unknown variables are named: one of them may be a parameter of the job.
    """
    lines: list[str] = []
    counts: Counter[str] = Counter()
    unknown: list[str] = []
    for ruling in rulings:
        name, reason = escape_text(ruling.subject), escape_text(ruling.reason)
        if ruling.outcome == "pinned":
            lines.append(f"baked         {name} ({ruling.kind}): {reason}")
        elif ruling.outcome in ("unresolved", "replaced"):
            lines.append(f"{ruling.outcome:<12}  {name} ({ruling.kind}): {reason}")
        elif ruling.kind in ("module", "decision") or reason.startswith("left out: "):
            lines.append(f"left out      {name} ({ruling.kind}): {reason.removeprefix('left out: ')}")
        else:
            counts[ruling.kind] += 1
            if ruling.kind == "unknown":
                unknown.append(name)
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        names = ", ".join(sorted(unknown)[:_SHOWN])
        lines.append(f"left out      {names}{more} (unknown): --bake NAME puts one into the image")
    others = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    return "\n".join([*sorted(lines), f"left out      {others or 'nothing else'}; all with --json"])
