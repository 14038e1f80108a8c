"""The tables of docs/profiles.md, written from the profiles' data.

    python dev/list_profiles.py

The text between the two marks is replaced; `tests/test_profiles.py` fails on a page that is out of date.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "profiles.md"
BEGIN, END = "<!-- begin: python dev/list_profiles.py -->\n", "<!-- end -->\n"


def tables() -> str:
    """Return a section for each profile, with a table of settings."""
    runtime = ROOT / "reprobuild_runtime" / "profiles"
    data: dict[str, Any] = json.loads((runtime / "profiles.json").read_text(encoding="utf-8"))
    lines = [line for name, profile in data["profiles"].items() for line in _section(name, profile)]
    refusals: dict[str, Any] = json.loads((runtime / "refusals.json").read_text(encoding="utf-8"))
    lines += [
        "### What strict refuses, and what can stand in for it",
        "",
        f"Source: {refusals['source']}",
        "",
    ]
    lines += ["| torch's name begins with | instead |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in refusals["alternatives"].items()]
    return "\n".join(lines) + "\n"


def _section(name: str, profile: dict[str, Any]) -> Iterator[str]:
    yield from (f"### {name}", "", profile["text"])
    if profile.get("includes"):
        yield "Includes " + ", ".join(f"`{one}`" for one in profile["includes"]) + "."
    yield ""
    if profile["settings"]:
        yield "| setting | value | binds | consumer | why | source | seen |"
        yield "|---|---|---|---|---|---|---|"
        yield from (_row(entry) for entry in profile["settings"])
        yield ""
    for rule in profile.get("arguments", ()):
        words = [f"needs `{word}`" for word in rule.get("needs", ())]
        words += [f"must not have `{word}`" for word in rule.get("refuses", ())]
        release = f" {rule['versions']}" if rule.get("versions") else ""
        whose = f"The command line of {rule['consumer']}{release}"
        yield f"* {whose} {', '.join(words)}: {rule['why']} ([source]({rule['source']}))"
    if profile.get("arguments"):
        yield ""


def _row(entry: dict[str, Any]) -> str:
    value = "left unset" if entry["value"] is None and not entry.get("call") else f"`{_value(entry)}`"
    also = [word for word in entry.get("valid", ()) if word != entry["value"]]
    if also:
        value += ", also " + ", ".join(f"`{word}`" for word in also)
    if entry.get("list"):
        value += ", several with commas"
    if entry.get("append"):
        value += ", added"
    consumer = f"{entry['consumer']} {entry.get('versions', '')}".strip()
    cells = (
        f"`{entry['name']}`", value, entry["binds"], consumer, entry["why"], f"[link]({entry['source']})",
        entry["seen"],
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _value(entry: dict[str, Any]) -> str:
    if entry.get("call"):
        return "called" if entry["value"] is None else f"called with {entry['value']}"
    return str(entry["value"])


def renewed(page: str) -> str:
    """Return the page with new tables."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{tables()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
