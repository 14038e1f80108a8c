"""What a person sees while a verb works: each step as a line on standard error, and that it is still going on.

On a terminal a last line moves, and goes away before anything else is printed. Elsewhere (a pipe, a log of CI,
TERM=dumb) there are lines alone: each step, and one now and then where a step takes long, so that neither a person nor
a CI server takes it for dead. NO_COLOR is respected by what draws (https://no-color.org).
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from typing import Protocol

import click

FIRST, AGAIN = 30.0, 60.0  # seconds of silence before the first such line, and before each further one
_PULSE = 0.5


class _Sight(Protocol):
    """How one step after the other is shown."""

    def say(self, line: str, step: str) -> None: ...
    def progress(self, done: int, total: int) -> None: ...
    def stop(self) -> None: ...


class Steps:
    """Tells the steps of one verb; threads may share it."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sight: _Sight | None = None

    def say(self, text: str) -> None:
        """Tell a step that begins; an empty text ends the one before, and tells nothing."""
        if not text:
            stop()
            return
        _show(self).say(f"[{time.monotonic() - self._began:6.1f} s] {harmless(text)}", harmless(text))

    def progress(self, done: int, total: int) -> None:
        """Tell how many bytes of the step are done, and of how many; 0 where that is not known."""
        _show(self).progress(done, total)

    def sight(self) -> _Sight:
        """Return what shows the steps, begun where it was not."""
        if self._sight is None:
            self._sight = _Moving() if moves() else _Lines(self._began)
        return self._sight

    def end(self) -> None:
        """Show nothing more until the next step."""
        if self._sight is not None:
            self._sight.stop()
            self._sight = None


_LOCK = threading.RLock()
_shown: list[Steps] = []  # at most one: two would draw over each other


def _show(steps: Steps) -> _Sight:
    with _LOCK:
        if steps not in _shown:
            stop()
            _shown.append(steps)
        return steps.sight()


def stop() -> None:
    """Take away what moves, before anything else is printed."""
    with _LOCK:
        while _shown:
            _shown.pop().end()


def moves() -> bool:
    """Tell whether standard error is a terminal on which a line can be drawn again."""
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def harmless(text: str) -> str:
    """Escape what steers a terminal, for others chose names of files, and cut the logins out of addresses.

    Each error, hint, note and step goes through here, so that a log never has a login.
    """
    if any(mark in text for mark in ("@", "://", "%40")):  # else the import would cost more than the rest
        from reprobuild_portable.secrets.redact import without_logins

        text = without_logins(text)
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def amount(done: int, total: int) -> str:
    """Return bytes as people read them: `12 of 40 MB`."""
    return f"{done / 1e6:.0f}{f' of {total / 1e6:.0f}' if total else ''} MB"


class _Lines:
    """Lines alone. A thread of its own looks whether a step has been silent for long."""

    def __init__(self, began: float) -> None:
        self._began, self._guard, self._end = began, threading.Lock(), threading.Event()
        self._step, self._amount = "", ""
        self._since = self._told = time.monotonic()
        self._wait = FIRST
        with contextlib.suppress(
            RuntimeError
        ):  # where no more threads are allowed, steps are told, and no more
            threading.Thread(target=self._watch, daemon=True, name="progress").start()

    def say(self, line: str, step: str) -> None:
        with self._guard:
            self._step, self._amount, self._wait = step, "", FIRST
            self._since = self._told = time.monotonic()
            click.echo(line, err=True)

    def progress(self, done: int, total: int) -> None:
        self._amount = f", {amount(done, total)}"

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
                ):  # nobody reads any more: the verb itself notices
                    click.echo(f"[{now - self._began:6.1f} s] still at it ({since}){about}", err=True)


class _Moving:
    """A line that moves, by rich; it is imported where there is a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        utf = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
        self._bars = Progress(
            SpinnerColumn("dots" if utf else "line"), TimeElapsedColumn(), TextColumn("{task.fields[told]}"),
            BarColumn(bar_width=30), console=Console(stderr=True), transient=True, refresh_per_second=4,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._task = self._bars.add_task("", total=None, told="")
        self._bars.start()

    def say(self, line: str, step: str) -> None:
        self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._bars.reset(self._task, total=None, told="")

    def progress(self, done: int, total: int) -> None:
        self._bars.update(self._task, completed=done, total=total or None, told=amount(done, total))

    def stop(self) -> None:
        self._bars.stop()
