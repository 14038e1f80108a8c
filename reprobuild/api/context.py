"""The context of a run in this process: its store, its environment and its network."""

from __future__ import annotations

import contextlib
import os
import shlex
import stat
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reprobuild.context import IndexSettings, RunContext, open_client
from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.errors import UsageError
from reprobuild.store.caches import Caches, user_caches
from reprobuild.store.keyring import keyring
from reprobuild.store.sharing import check_writers
from reprobuild.store.store import Store
from reprobuild_portable.host import host

STORE = "REPROBUILD_STORE"  # the directory of the store of commands without `--store`


def open_context(
    store: Path | str | None = None,
    *,
    offline: bool = False,
    folder: Path | str = "",
    say: Callable[[str], None] = lambda text: None,
    progress: Callable[..., None] = lambda *_, **__: None,
    doubt: Callable[[Store], object] = lambda store: None,
    caches: bool = True,
    pip: Asking | None = None,
    sharing: bool = False,
    doubted: frozenset[str] = frozenset(),
) -> RunContext:
    """Return the context of a run. Environment and clock are read here.

    Args:
        store: its directory; by default that of `REPROBUILD_STORE`, or else that in the user's cache directory.
        offline: use no network.
        folder: the directory of relative paths in decisions; by default the current one.
        say: receives each step when it begins.
        progress: shows how much of a step is done; `infra.progress` has its arguments.
        doubt: receives the store once if the user does not trust its key, so that results in it do not count.
        caches: take files from the caches of pip, uv and conda.
        pip: a query to pip that was started before.
        sharing: do not refuse a store that others can write to.
        doubted: names of sources that no user confirmed: they get no login.

    Raises:
        UsageError: other users may write to the store, or `REPROBUILD_STORE` names no directory.
    """
    env = without_relative_directories(os.environ)
    if os.name == "nt":
        env.setdefault("HOME", str(Path.home()))
    place = Store(_find_store(store, env, missing=sharing), keyring(env), doubt)
    if not sharing:
        check_writers(place)
    return RunContext(
        store=place, net=open_client(env, offline=offline), env=env, doubted=doubted, folder=Path(folder), say=say,
        progress=progress, now=int(time.time()), caches=user_caches(env) if caches else Caches(),
        indexes=IndexSettings(pip),
    )  # fmt: skip


def _find_store(store: Path | str | None, env: Mapping[str, str], *, missing: bool) -> Path:
    """Return the directory of the store: that of the caller, of `REPROBUILD_STORE`, or of the user's cache.

    The store of the variable is a shared one, as a rule: a new private one in its place would go unnoticed.

    Raises:
        UsageError: the variable names no absolute path, or no directory; with `missing`, the directory may be missing.
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
    cache = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/var/tmp")) / ".cache") / "reprobuild"
    _restrict_to_owner(cache)
    return cache.absolute()


def process_environment() -> dict[str, str]:
    """Return the environment variables of this process."""
    return dict(os.environ)


def without_relative_directories(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without relative directories of settings.

    So no settings and caches are in the current directory.
    https://specifications.freedesktop.org/basedir-spec/: "if an implementation encounters a relative path in
    any of these variables it should consider the path invalid and ignore it".
    """
    names = (
        "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "CONDA_PREFIX",
        "CONDA_ROOT", "CONDA_EXE", "MAMBA_ROOT_PREFIX", "CONDARC", "MAMBARC",
    )  # fmt: skip
    return {name: value for name, value in env.items() if name not in names or Path(value).is_absolute()}


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
