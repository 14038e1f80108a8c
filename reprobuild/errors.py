"""Errors that a user can act on.

Each error has a message and a hint. Each class has one exit code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ReproError(Exception):
    """An error with a message and a hint.

    Args:
        message: one sentence that names the subject and, if known, the file and line.
        hint: the next step for the reader; empty only if no step can be suggested.
        listing: all lines that the sentence sums up; `--verbose` prints them.
        options: texts of the hint, each of quoted options that the user can add to the command; the command line prints
            the whole command in place of each one at the end of a line.
        omitted: values of options that the whole command leaves out, because they have no effect.
        refused: each captured line that was refused, for `--json`: file, line, subject, outcome, class and reason.
    """

    exit_code = 70

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        listing: Sequence[str] = (),
        options: Sequence[str] = (),
        omitted: Sequence[str] = (),
        refused: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.listing = tuple(listing)
        self.options = tuple(options)
        self.omitted = tuple(omitted)
        self.refused = tuple(refused)


class UsageError(ReproError):
    """The command line or `reprobuild.yaml` requests something impossible."""

    exit_code = 2


class SnapshotError(ReproError):
    """The snapshot is missing or damaged, or holds forbidden data."""

    exit_code = 3


class LockError(ReproError):
    """A line cannot be pinned, or a lock is unreadable."""

    exit_code = 4


class FetchError(ReproError):
    """A file is unavailable, or does not match the lock."""

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
    """The check could not have failed, or is incomplete."""

    exit_code = 9


class RoundTripError(ReproError):
    """The image and a captured line disagree without a reason."""

    exit_code = 10


class DistributionError(ReproError):
    """Handing the image over failed."""

    exit_code = 11
