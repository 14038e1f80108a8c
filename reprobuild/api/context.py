"""The context of a run in this process: its store, its environment and its network."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from reprobuild.config.services import read_site_services
from reprobuild.context import IndexSettings, RunContext, open_client
from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.store.caches import Caches, user_caches
from reprobuild.store.keyring import keyring
from reprobuild.store.location import find_store
from reprobuild.store.sharing import check_writers
from reprobuild.store.store import Store


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
        UsageError: other users may write to the store, `REPROBUILD_STORE` names no directory, or the file of
            `REPROBUILD_SERVICES` is not valid.
    """
    env = without_relative_directories(os.environ)
    if os.name == "nt":
        env.setdefault("HOME", str(Path.home()))
    place = Store(find_store(store, env, missing=sharing), keyring(env), doubt)
    if not sharing:
        check_writers(place)
    services = read_site_services(env)
    return RunContext(
        store=place, net=open_client(env, services, offline=offline), env=env, doubted=doubted, folder=Path(folder),
        say=say, progress=progress, now=int(time.time()), caches=user_caches(env) if caches else Caches(),
        indexes=IndexSettings(pip), services=services,
    )  # fmt: skip


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
