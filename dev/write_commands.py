"""The table of commands for each format in docs/importing.md.

It follows the open questions of `show` on a small import of each format, until `show` has no question.

    python dev/write_commands.py

tests/snapshot/importers/test_commands.py makes the table again and compares.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from reprobuild.cli.main import run_line  # noqa: E402  the path above must name the checkout first
from tests.snapshot.importers.typical import TYPICAL  # noqa: E402  the path above must name the checkout first

PAGE = ROOT / "docs" / "importing.md"
START = "<!-- Commands by format, written by dev/write_commands.py: do not edit -->\n"
END = "<!-- End of the commands -->"
# Values that only the user knows, with those that stand in for them here.
VALUES = {"X.Y.Z": "3.11.2", "DATE": "2024-01-15"}
_MOST = 5  # rounds of questions


class Steps(NamedTuple):
    """The commands from an unknown import to its image: their number, and the options of the last one."""

    commands: int
    options: tuple[str, ...]

    @property
    def values(self) -> list[str]:
        """The words of the options that only the user knows."""
        return [word for word in self.options if word in VALUES]


def show(path: Path, options: Sequence[str]) -> tuple[str, ...] | None:
    """Return the options that `show` proposes beside the given ones; None if it has no question."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = run_line(["show", str(path), *options])
    assert code == 0, said.getvalue()
    words = shlex.split(said.getvalue().splitlines()[-1])
    if words[:4] == ["can", "be", "frozen:", "yes,"]:
        return None
    assert words[:5] == ["next:", "reprobuild", "from-snapshot", str(path), "-o"], words
    given, proposed = words[6:][: len(options)], words[6:][len(options) :]
    assert sorted(given) == sorted(options), words
    return tuple(proposed)


def follow(path: Path) -> Steps:
    """Answer the questions of `show` until there is none; each round is one command, and the image the last."""
    answers: list[str] = []
    options: list[str] = []
    for rounds in range(_MOST):
        proposed = show(path, answers)
        if proposed is None:
            return Steps(commands=max(rounds, 1) + 1, options=tuple(options))
        options += proposed
        answers += [VALUES.get(word, word) for word in proposed]
    raise AssertionError(f"{path}: no end of questions after {_MOST} rounds: {options}")


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write the files of an import, and return its path: a single file, or the directory."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder / next(iter(files)) if len(files) == 1 else folder


def table() -> str:
    """Return the table, in the order of the samples."""
    rows = ["| format | commands | options of the last one | of them, you look up |", "|---|---|---|---|"]
    for name, files in TYPICAL.items():
        with tempfile.TemporaryDirectory() as scratch:
            steps = follow(write(Path(scratch), files))
        options = f"`{' '.join(steps.options)}`" if steps.options else ""
        values = ", ".join(f"`{value}`" for value in steps.values) or "none"
        rows.append(f"| {name} | {steps.commands} | {options} | {values} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """Return the page with the present table."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table()}\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
