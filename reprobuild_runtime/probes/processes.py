"""Child processes with output by line and time limits."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

ABSENT = ("no torch", "no numpy")  # the keys for a failed import of the probed module
_HERE = os.path.dirname(os.path.abspath(__file__))
CHILD = [sys.executable, os.path.join(_HERE, "child.py")]
CHILDREN = {"torch": CHILD, "arrays": [sys.executable, os.path.join(_HERE, "arrays", "child.py")]}
LONGEST = 64 << 20  # bytes of one answer: more is invalid
FIRST = 5  # factor for the first line, after the import of torch, maybe from a cold network disk


class ChildOutput:
    """A child's output: JSON objects by line, and an error.

    The error is the reason if it ended early, else empty.
    """

    def __init__(self) -> None:
        self.lines: "List[Dict[str, Any]]" = []
        self.why = ""

    def said(self, key: str) -> "Any":
        """Return a key's value in the first line with it, else None."""
        return next((line[key] for line in self.lines if key in line), None)

    @property
    def absent(self) -> str:
        """The reason if the probed module cannot be imported, or ""."""
        return next((str(line[key]) for line in self.lines for key in ABSENT if key in line), "")


def run_child(command: "List[str]", environ: "Dict[str, str]", limit: float) -> ChildOutput:
    """Run a child to its end and return its answer.

    Args:
        limit: seconds that it may be silent, at first FIRST times as long; after that it is killed, with all that it
            started.
    """
    answer = ChildOutput()
    try:
        child = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
        )
    except OSError as err:
        answer.why = f"it could not be started: {err}"
        return answer
    try:
        silent = _read(child, answer, limit)
        if silent:
            answer.why = silent
        else:
            child.wait(limit)
    except subprocess.TimeoutExpired:
        answer.why = f"it did not end within {limit:g} s"
    finally:
        kill(child)
    if not answer.why:
        answer.why = _judge(answer, child.returncode)
    return answer


def _read(child: "Any", answer: ChildOutput, limit: float) -> str:
    """Read lines until the end of the output.

    Return the reason if it was given up, or the empty text.
    """
    file, rest, total, silence = child.stdout.fileno(), b"", 0, FIRST * limit
    deadline = time.monotonic() + silence
    while True:
        ready, _, _ = select.select([file], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return f"it was silent for {silence:g} s and was killed"
        block = os.read(file, 1 << 16)
        if not block:
            return "it said something that is no JSON object" if rest.strip() else ""
        total += len(block)
        if total > LONGEST:
            return "it said more than can be an answer"
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            try:
                value = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict):
                return "it said something that is no JSON object"
            answer.lines.append(value)
            silence, deadline = limit, time.monotonic() + limit


def _judge(answer: ChildOutput, code: int) -> str:
    if code:
        return _describe_exit(code)
    last = answer.lines[-1] if answer.lines else {}
    if "failed" in last:
        return str(last["failed"])
    return "" if "done" in last or any(key in last for key in ABSENT) else "it ended before it was done"


def _describe_exit(code: int) -> str:
    if code < 0:
        return f"it died by {_signal(-code)}" + (", as for too much memory" if code == -9 else "")
    return f"it ended with exit code {code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class Companion:
    """A process that runs beside another.

    It prints one line on start.
    """

    def __init__(self, command: "List[str]", environ: "Dict[str, str]") -> None:
        self._child: "Optional[Any]" = None
        try:
            self._child = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as err:
            self._why = f"it could not be started: {err}"

    def end(self) -> str:
        """End the process; return why it did not run throughout.

        The text is empty if it did.
        """
        child = self._child
        if child is None:
            return self._why
        code = child.poll()
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        lines = _lines(child.stdout)
        kill(child)
        if code is not None:
            failed = next(
                (str(line[key]) for line in lines for key in ("failed", *ABSENT) if key in line), ""
            )
            return failed or _describe_exit(code)
        return "" if any("begin" in line for line in lines) else "it had not begun when the other was done"


def _lines(stream: "Any") -> "List[Dict[str, Any]]":
    """Return the JSON lines of an ended process's output."""
    values = []
    for line in os.read(stream.fileno(), 1 << 16).split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(line.decode("utf-8"))
            if isinstance(value, dict):
                values.append(value)
    return values


def kill(child: "Any") -> None:
    """End a process and its children, and wait for it."""
    with contextlib.suppress(OSError):  # it and all of its group have ended
        os.killpg(child.pid, signal.SIGKILL)
    if child.stdout is not None:
        child.stdout.close()
    child.wait()
