"""The check that a lock is sealed."""

from __future__ import annotations

from reprobuild.errors import BuildError
from reprobuild.lock.model import Lock, SealedLock


def require_sealed(lock: Lock) -> SealedLock:
    """Return a lock that is sealed.

    Raises:
        BuildError: the lock has no realised outputs, so parts of the image are missing.
    """
    if not isinstance(lock, SealedLock):
        raise BuildError(
            "the lock is not sealed", hint="run `reprobuild build` or `from-snapshot`, which seal it"
        )
    return lock
