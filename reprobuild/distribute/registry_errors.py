"""Errors of the access to a registry."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from reprobuild.errors import BuildError, DistributionError, FetchError, LockError


@contextlib.contextmanager
def convert_errors() -> Iterator[None]:
    """Convert errors of other packages to `DistributionError`."""
    try:
        yield
    except (FetchError, LockError, BuildError) as err:
        raise DistributionError(str(err), hint=err.hint) from None
