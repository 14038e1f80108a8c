"""Values of a capture: parts, results and reasons."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import Any, Dict, Mapping, NamedTuple, Sequence

VERSION = 1  # of capture.json
REPORT_VERSION = 1  # of the document of --json
PROGRAM = "reprobuild capture"
REASONS = {
    "done": "complete",
    "not-there": "this machine or environment has none of it",
    "failed": "an error; `why` tells which",
    "timed-out": "its time budget, or that of the whole, was used up",
    "too-large": "over the size budget",
    "too-many": "over the budget of numbers",
    "unreadable": "it cannot be read by this user",
    "special-file": "a device, pipe, socket, or a directory where a file was named",
    "filtered": "a filter of git (not LFS) stands between the file and what git keeps; it was not run",
    "lfs": "a large file of git LFS, unchanged: its pointer is there, its content is with the LFS server",
    "not-initialised": "files in the directory of a submodule that was not initialised, of which git knows nothing",
    "changed-meanwhile": "it was changed while it was read",
    "secret": "it is a secret, or looks like one",
    "provided": "packages bring it; `why` tells which",
    "untrusted": "a repository of another user, or with parts that may be of another repository; `why` tells which",
}

# Modes of a private snapshot: other users of the machine may not read it, with any umask.
FILE_MODE, FOLDER_MODE = 0o600, 0o700


class GaveUpError(Exception):
    """An error for a part that cannot be captured.

    `reason` is a key of `REASONS`. `why` holds no value of the environment.
    """

    def __init__(self, reason: str, why: str = "") -> None:
        super().__init__(reason, why)
        self.reason = reason
        self.why = why


class UnwritableError(Exception):
    """An error for an output directory that cannot be written."""


class Context(NamedTuple):
    """The input of a part.

    It has the environment, the deadline, and a private directory for scratch files.
    """

    environ: Dict[str, str]
    deadline: float
    scratch: str
    program: bool  # whether this is a process of its own, not a call in a training script
    secrets: Sequence[bytes] = ()  # values of the environment's secrets
    accept: Sequence[str] = ()  # files that look like secrets and are to be captured
    include: Sequence[
        str
    ] = ()  # absolute paths of files to capture though git ignores them, or has no repository

    def left(self) -> float:
        """Return the seconds left.

        Raises:
            GaveUpError: no time is left.
        """
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise GaveUpError("timed-out")
        return seconds


class Taken(NamedTuple):
    """The result of a part.

    It has the part's entry in capture.json, text files by name, and finished files to be moved in.
    """

    facts: Any
    texts: Mapping[str, bytes] = MappingProxyType({})
    files: Mapping[str, str] = MappingProxyType({})
    withheld: Sequence[Dict[str, str]] = ()
