"""Reports on a store: removed and damaged files."""

from __future__ import annotations

from reprobuild.report.units import in_bytes
from reprobuild.store.gc import Amount, GcResult, StoreCheck


def render_collected(result: GcResult) -> str:
    """Return the report on kept and removed files."""
    would = "would be " if result.dry_run else ""
    lines = [f"kept for {_shown(path)}" for path in result.locks]
    lines += [
        f"{_shown(lock.path)} is kept as it was: cannot be read ({_shown(lock.reason)})"
        for lock in result.unread
    ]
    lines += [f"no lock is at {_shown(path)} any more" for path in result.gone]
    lines += [
        f"{_amount(result.kept)} kept",
        f"{_amount(result.removed)} {would}removed, which {'would free' if result.dry_run else 'freed'} "
        f"{in_bytes(result.removed.freed)}",
    ]
    if result.young.files:
        lines.append(
            f"{_amount(result.young)} left though no lock needs them: this file system has no locks between "
            "processes, so what was written or used in the last three days stays"
        )
    return "\n".join(lines)


def render_checked(check: StoreCheck) -> str:
    """Return the report on damaged files."""
    lines = []
    for blob in check.damaged:
        names = ", ".join(map(_shown, blob.names)) or "nothing that a known lock names"
        became = f"set aside as {_shown(blob.aside)}" if blob.aside else "removed"
        lines.append(f"damaged: {_shown(blob.sha256)}, {in_bytes(blob.size)}: {names}; {became}")
    lines += [f"not checked: {_shown(b.path)} cannot be read ({_shown(b.reason)})" for b in check.unreadable]
    if check.damaged:
        lines.append("the next `reprobuild fetch` or `build` brings again what stands at an address")
    whole = check.files - len(check.damaged) - len(check.unreadable)
    return "\n".join([*lines, f"{whole} of {check.files} files ({in_bytes(check.bytes)}) are whole"])


def _amount(amount: Amount) -> str:
    return f"{amount.files} files ({in_bytes(amount.bytes)})"


def _shown(text: str) -> str:
    """Escape characters that control a terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
