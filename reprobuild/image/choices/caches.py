"""The table of caches in which compilers keep their choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from msgspec import Struct
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock

INDUCTOR = "inductor"  # the cache of torch's compiler
MOUNT = "/var/cache/reprobuild-choices"  # cached code has absolute paths, so this path never changes


class CompilerCache(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cache of one consumer; `caches.toml` explains the fields.

    `measured`, `compiled`, `generated` and `left_out` are regular expressions of whole paths below the cache's
    directory.
    """

    packages: tuple[str, ...]
    since: str
    variable: str
    measured: tuple[str, ...]
    compiled: tuple[str, ...]
    left_out: tuple[str, ...]
    key: str
    source: str
    generated: tuple[str, ...] = ()
    file: str = ""
    settings: dict[str, str] = {}

    def variables(self, name: str) -> dict[str, str]:
        """Return the variables that place the cache below `MOUNT`, in the directory `name`."""
        place = f"{MOUNT}/{name}/{self.file}" if self.file else f"{MOUNT}/{name}"
        return {self.variable: place, **self.settings}


@cache
def read_caches() -> dict[str, CompilerCache]:
    """Return the table, by the name of the consumer."""
    raw = files("reprobuild.image.choices").joinpath("caches.toml").read_bytes()
    return decode_toml(raw, dict[str, CompilerCache])


def find_caches(lock: Lock) -> dict[str, CompilerCache]:
    """Return the caches of the consumers in an image."""
    versions = distributions(lock)
    return {
        name: table
        for name, table in read_caches().items()
        if any(_has_cache(versions.get(canonicalize_name(package)), table) for package in table.packages)
    }


def _has_cache(versions: frozenset[str] | None, table: CompilerCache) -> bool:
    """Return whether a distribution is new enough; one without a known version is."""
    return versions is not None and all(_is_since(version, table.since) for version in versions)


def _is_since(version: str, since: str) -> bool:
    try:
        return Version(version) >= Version(since)
    except InvalidVersion:
        return True


def matches(patterns: Sequence[str], path: str) -> bool:
    """Return whether a path matches one of the patterns as a whole."""
    return any(re.fullmatch(pattern, path) for pattern in patterns)
