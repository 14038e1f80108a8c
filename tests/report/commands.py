"""The commands of the run box, as a reader copies them from a page."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path

EXPECTED = re.compile(r"# expect ([0-9a-f]{64})")


class Box(HTMLParser):
    """The text of each tab's commands, by the title of the tab."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.lines: dict[str, list[str]] = {}
        self._tab = ""
        self._is_line = False
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        label = dict(attrs).get("aria-label") or ""
        if tag == "pre" and label.startswith("Commands for "):
            self._tab = label.removeprefix("Commands for ")
            self.lines[self._tab] = []
        elif tag == "code" and self._tab:
            self.lines[self._tab].append("")
            self._is_line = True

    def handle_endtag(self, tag: str) -> None:
        self._is_line = self._is_line and tag != "code"
        self._tab = "" if tag == "pre" else self._tab

    def handle_data(self, data: str) -> None:
        if self._tab and self._is_line:
            self.lines[self._tab][-1] += data


def read_commands(page: str, title: str) -> str:
    """Return the commands of one tab of a page."""
    return "\n".join(Box(page).lines[title])


def run_commands(commands: str, folder: Path, env: Mapping[str, str]) -> list[str]:
    """Run commands in a directory, and return the lines of their output."""
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
