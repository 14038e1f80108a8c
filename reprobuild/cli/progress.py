"""The progress of a command, on standard error.

Each step is a line. On a terminal a last line moves, and goes away before other output. Elsewhere (a pipe, a
log of CI, TERM=dumb) there are lines alone: each step, and one now and then if a step takes long, so that
people and CI servers do not take it for dead. The moving line respects NO_COLOR (https://no-color.org).
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
from typing import Protocol

import click

from reprobuild.cli import console
from reprobuild.infra.escape import escape_text

FIRST, AGAIN = 30.0, 60.0  # seconds of silence before the first such line, and before each further one
_LONGEST_LINE = 20_000  # characters
# A word as long as a token of a vendor, but no digest.
_LONG_WORD = re.compile(r"(?<![\w-])(?![0-9a-f]+(?![\w-]))[\w-]{20}")
_PULSE = 0.5
_WARNING = "warning: "


class _Sight(Protocol):
    """A display of one step after the other."""

    def say(self, line: str, step: str) -> None: ...
    def progress(self, done: int, total: int, text: str) -> None: ...
    def stop(self) -> None: ...


class Steps:
    """The steps of one command; threads may share them."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sight: _Sight | None = None

    def say(self, text: str) -> None:
        """Print a step that begins.

        An empty text ends the step before, and prints no line.
        """
        if not text:
            stop()
            return
        if _quiet.is_set() and not text.startswith(_WARNING):
            return
        _begin_display(self).say(
            f"[{time.monotonic() - self._began:6.1f} s] {sanitise_text(text)}", sanitise_text(text)
        )

    def progress(self, done: int, total: int, detail: str = "", *, unit: str = "") -> None:
        """Show how much of the step is done; see `infra.progress`."""
        amount = f"{done}{f' of {total}' if total else ''} {unit}" if unit else format_amount(done, total)
        text = f"{sanitise_text(detail)}, {amount}" if detail else amount
        if _quiet.is_set():
            return
        _begin_display(self).progress(done, total, text)

    def sight(self) -> _Sight:
        """Return the display of the steps, begun if necessary."""
        if self._sight is None:
            self._sight = _Moving() if is_redrawable() else _Lines(self._began)
        return self._sight

    def end(self) -> None:
        """End the display until the next step."""
        if self._sight is not None:
            self._sight.stop()
            self._sight = None


_LOCK = threading.RLock()
_quiet = threading.Event()  # steps are not shown
_shown: list[Steps] = []  # at most one: two would draw over each other


def _begin_display(steps: Steps) -> _Sight:
    with _LOCK:
        if steps not in _shown:
            stop()
            _shown.append(steps)
        return steps.sight()


def silence(quiet: bool = True) -> None:
    """Show no steps from here on, or show them again; warnings are shown."""
    _quiet.set() if quiet else _quiet.clear()


def stop() -> None:
    """Remove the moving line before other output."""
    with _LOCK:
        while _shown:
            _shown.pop().end()


def is_redrawable() -> bool:
    """Return whether standard error is a terminal with redrawable lines."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in console.MUTE_TERMINALS


def sanitise_text(text: str) -> str:
    """Escape what a terminal or a CI server acts on, and redact secrets and logins in addresses.

    Others chose the names of files. Each error, hint, note and step goes through here, so that a log never
    has a login.
    """
    text = "\n".join(map(_shorten_line, text.split("\n")))
    if _LONG_WORD.search(text) or any(
        mark in text for mark in ("@", "://", "%40")
    ):  # else the import would cost more than the rest
        from reprobuild_portable.secrets.redact import cut_secrets

        text = cut_secrets(text)
    return escape_text(text, lines=True)


def _shorten_line(line: str) -> str:
    """Return a line, or its length: no line of a message is that long, and looking for logins in it takes minutes."""
    return line if len(line) <= _LONGEST_LINE else f"({len(line)} characters: too long to show)"


def format_amount(done: int, total: int) -> str:
    """Format bytes for people: `12 of 40 MB`."""
    return f"{done / 1e6:.0f}{f' of {total / 1e6:.0f}' if total else ''} MB"


class _Lines:
    """A display of lines alone.

    A thread of its own checks whether a step has been silent for long.
    """

    def __init__(self, began: float) -> None:
        self._began, self._guard, self._end = began, threading.Lock(), threading.Event()
        self._step, self._amount = "", ""
        self._since = self._told = time.monotonic()
        self._wait = FIRST
        with contextlib.suppress(
            RuntimeError
        ):  # if no more threads are allowed, steps are printed, and no more
            threading.Thread(target=self._watch, daemon=True, name="progress").start()

    def say(self, line: str, step: str) -> None:
        with self._guard:
            self._step, self._amount, self._wait = step, "", FIRST
            self._since = self._told = time.monotonic()
            console.print_report(line, sys.stderr)

    def progress(self, done: int, total: int, text: str) -> None:
        self._amount = f", {text}"

    def stop(self) -> None:
        self._end.set()

    def _watch(self) -> None:
        while not self._end.wait(_PULSE):
            with self._guard:
                now = time.monotonic()
                if now - self._told < self._wait or self._end.is_set():
                    continue
                self._told, self._wait = now, AGAIN
                about = f": {self._step}" if self._step else ""
                since = f"{now - self._since:.0f} s{self._amount}"
                with contextlib.suppress(
                    OSError, ValueError
                ):  # the reader is gone: the command itself notices
                    click.echo(f"[{now - self._began:6.1f} s] still at it ({since}){about}", err=True)


class _Moving:
    """A display with a moving line, by rich.

    rich is imported only for a terminal.
    """

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        utf = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
        self._bars = Progress(
            SpinnerColumn("dots" if utf else "line"), TimeElapsedColumn(),
            TextColumn("{task.fields[told]}", markup=False),  # it has names of files
            BarColumn(bar_width=30), console=console.make_console(sys.stderr), transient=True, refresh_per_second=4,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bars.add_task("", total=None, told="")
        self._bars.start()

    def say(self, line: str, step: str) -> None:
        self._bars.console.print(console.style(line), soft_wrap=True)
        self._bars.reset(self._task, total=None, told="")

    def progress(self, done: int, total: int, text: str) -> None:
        self._bars.update(self._task, completed=done, total=total or None, told=text)

    def stop(self) -> None:
        self._bars.stop()
