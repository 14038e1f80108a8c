"""Text of an import: the format, the origins, and the fields that are not used."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from reprobuild.infra.shell_words import quote_path
from reprobuild.snapshot.import_facts import ImportFacts


def render_import(facts: ImportFacts, out: Path) -> str:
    """Return the summary of an import for a terminal."""
    started = f", started {facts.started}" if facts.started else ""
    lines = [f"{facts.format}{started}"]
    for file, count in Counter(origin.file for origin in facts.origins).items():
        sources = dict.fromkeys(origin.source for origin in facts.origins if origin.file == file)
        whole = any(origin.line == 0 for origin in facts.origins if origin.file == file)
        lines.append(
            f"  {file}: {'the whole file' if whole else _count(count, 'line')} from {', '.join(sources)}"
        )
    if facts.data:
        lines.append(f"  {_count(len(facts.data), 'fingerprint')} of data in import.json")
    if facts.unused:
        lines.append(f"  not used: {len(facts.unused)} fields, each with its reason in import.json")
        reasons = Counter(f"{field.reason}" for field in facts.unused)
        lines += [f"    {count} x {reason}" for reason, count in reasons.most_common()]
    shown = quote_path(out)
    return "\n".join([*lines, f"wrote {shown}; next: reprobuild show {shown}"])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
