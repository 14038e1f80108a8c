"""Bounds on the requests to the remotes of captured repositories.

A snapshot may name any number of remotes and of commits, and each server may stay silent until git is ended.
"""

from __future__ import annotations

MOST_FETCHES = 20  # of single commits, from one remote
MOST_SECONDS = 300  # of requests without the commit, after which no other is made


class RemoteAllowance:
    """The time of requests without the commit, of all repositories of a command together.

    Requests that bring one do not count: a large repository may take long.
    """

    def __init__(self) -> None:
        self._spent = 0.0

    def spend(self, seconds: float) -> None:
        """Count a request without the commit."""
        self._spent += seconds

    @property
    def is_over(self) -> bool:
        """Whether no other request may be made."""
        return self._spent > MOST_SECONDS


def describe_unasked(number: int) -> str:
    """Describe remotes that are not asked for this reason."""
    return f"{number} more were not asked after {MOST_SECONDS} s"
