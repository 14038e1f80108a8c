"""Errors that a user can act on.

Each error has a message and a hint. Each class has one exit code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ReproError(Exception):
    """An error with a message and a hint for the user.

    Args:
        what: one sentence that names the subject and, if known, the file and line.
        hint: the next step for the reader; empty only if no step can be suggested.
        listing: all lines that the sentence sums up; `--verbose` prints them.
        refused: each captured line that was refused, for `--json`: file, line, subject, outcome, class and reason.
    """

    exit_code = 70

    def __init__(
        self,
        what: str,
        *,
        hint: str = "",
        listing: Sequence[str] = (),
        refused: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(what)
        self.hint = hint
        self.listing = tuple(listing)
        self.refused = tuple(refused)


class UsageError(ReproError):
    """The command line or `reprobuild.yaml` asks for something that cannot be."""

    exit_code = 2


class SnapshotError(ReproError):
    """The captured folder is missing, damaged, or holds what must not travel."""

    exit_code = 3


class LockError(ReproError):
    """A captured line cannot be pinned, or a lock cannot be read."""

    exit_code = 4


class FetchError(ReproError):
    """Bytes cannot be had, or are not the bytes that were locked."""

    exit_code = 5


class EngineError(ReproError):
    """A container engine, or another program, is absent or failed."""

    exit_code = 6


class BuildError(ReproError):
    """Realising or building the image failed."""

    exit_code = 7


class DriftError(ReproError):
    """Two runs of one image on one machine differ in bytes."""

    exit_code = 8


class InconclusiveError(ReproError):
    """The check could not have failed, or did not cover what was asked."""

    exit_code = 9


class RoundTripError(ReproError):
    """What is in the image is not what was captured, and no reason explains it."""

    exit_code = 10


class DistributionError(ReproError):
    """Handing the image over failed."""

    exit_code = 11
