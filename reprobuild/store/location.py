"""The directory of the store."""

from __future__ import annotations

import contextlib
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.cache_directory import cache_directory
from reprobuild_portable.host import host

STORE = "REPROBUILD_STORE"  # the directory of the store of commands without `--store`


def find_store(store: Path | str | None, env: Mapping[str, str], *, missing: bool) -> Path:
    """Return the directory of the store: that of the caller, of `REPROBUILD_STORE`, or of the user's cache.

    The store of the variable is a shared one, as a rule: a new private one in its place would go unnoticed.

    Args:
        store: the directory that the caller names; None for the others.
        env: the environment of the user, with absolute directories of settings.
        missing: let the directory of the variable be missing.

    Raises:
        UsageError: the variable names no absolute path, or no directory.
    """
    if store:
        return Path(store).absolute()
    if named := env.get(STORE):
        if not Path(named).is_absolute():
            raise UsageError(f"{STORE} is {named}: not an absolute path", hint="give the whole path")
        if not missing and not Path(named).is_dir():
            raise UsageError(
                f"{STORE} is {named}, and there is no such directory",
                hint=f"unset it, or make a store for you alone by `mkdir -m 700 {shlex.quote(named)}`, "
                "or one of a group by `reprobuild store share --group NAME`",
            )
        return Path(named)
    cache = cache_directory(env) / "reprobuild"
    _restrict_to_owner(cache)
    return cache.absolute()


def _restrict_to_owner(folder: Path) -> None:
    """Restrict the user's own store to its owner.

    Earlier versions made it open; a shared store stays shared. A directory without blobs is not a store: a
    link of another user may lead to any directory.
    """
    with contextlib.suppress(OSError):
        number = host.open(folder, host.O_RDONLY | host.O_DIRECTORY)
        try:
            facts = host.fstat(number)
            if facts.st_uid == host.geteuid() and not facts.st_mode & stat.S_IWGRP:
                host.stat("blobs", dir_fd=number, follow_symlinks=False)
                host.fchmod(number, 0o700)
        finally:
            host.close(number)
