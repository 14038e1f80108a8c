"""The commands that a build proposes last: run the image, and check the user's own work."""

from __future__ import annotations

from pathlib import Path

from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import Lock
from reprobuild.verify.verdict import Verdict

_CHECKED_WORK = "--workload 'COMMAND {out}/FILE' --output-file '{out}/FILE'"


def run_command(lock: Lock, out: Path) -> str:
    """Return the command that runs the image."""
    return " ".join((f"reprobuild run {quote_path(out)} --seed 7", *_mount(lock), "-- COMMAND"))


def check_lines(verdict: Verdict, lock: Lock, out: Path) -> list[str]:
    """Return the command for a check of the user's own work, or nothing after such a check."""
    if verdict.comparisons or "workload" not in verdict.parts:
        return []
    command = (f"reprobuild verify {quote_path(out)}", _CHECKED_WORK, *_mount(lock))
    return [f"your work is not checked; check it: {' '.join(command)}"]


def _mount(lock: Lock) -> tuple[str, ...]:
    """Return the options that mount the working directory: an image without sources has none of the user's code."""
    return () if lock.sources else ('-v "$PWD":/job --workdir /job',)
