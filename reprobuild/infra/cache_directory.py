"""The directory of a user's caches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from reprobuild.errors import UsageError


def find_cache_directory(env: Mapping[str, str]) -> Path | None:
    """Return the directory of the user's caches, or None for a user without a home.

    https://specifications.freedesktop.org/basedir-spec/ has `XDG_CACHE_HOME` and its default. Without `HOME`, the home
    is that of the password database: a directory that all users share, such as /var/tmp, is no cache of one user.

    Args:
        env: the user's environment.
    """
    if named := env.get("XDG_CACHE_HOME"):
        return Path(named)
    home = env.get("HOME") or _registered_home()
    return Path(home, ".cache") if home else None


def cache_directory(env: Mapping[str, str]) -> Path:
    """Return the directory of the user's caches.

    Raises:
        UsageError: no variable names it, and the user has no home.
    """
    if directory := find_cache_directory(env):
        return directory
    raise UsageError(
        "HOME is not set, and the user has no home directory",
        hint="let XDG_CACHE_HOME name a directory of yours: `export XDG_CACHE_HOME=DIR`",
    )


def _registered_home() -> str:
    try:
        import pwd  # not on Windows

        return pwd.getpwuid(os.geteuid()).pw_dir
    except (ImportError, KeyError):
        return ""
