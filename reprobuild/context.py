"""The context of a run of the program."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.config.services import read_services, request_distances
from reprobuild.ecosystems.conda.conda_config import read_channels
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.pypi.indexes import read_indexes
from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.netrc import Netrc
from reprobuild.resolve.context import ResolveContext
from reprobuild.store.caches import Caches
from reprobuild.store.store import Store


class RunContext(Struct, frozen=True, kw_only=True):
    """The context of a run, read at the command line.

    `env` is the user's environment. `say` is called with each step when it begins, so that a person sees
    progress; an empty text ends the last one. `progress` is called with (bytes so far, bytes in all or 0) of
    a step that knows them. `now` is in seconds since 1970. `caches` are the user's caches, from which files
    are taken. `pip` has pip's settings if they were read in advance to save time. `doubted` are sources that
    the user did not name.
    """

    store: Store
    net: Net
    env: Mapping[str, str]
    folder: Path
    say: Callable[[str], None]
    progress: Callable[[int, int], None]
    now: int
    caches: Caches = Caches()
    pip: Asking | None = None
    doubted: frozenset[str] = frozenset()

    def resolve_context(self, captured: Path = Path()) -> ResolveContext:
        """Return the context of a resolution, including the snapshot's directory."""
        indexes = read_indexes(self.env, self.pip)
        services = read_services({})
        net = Net(
            offline=self.net.offline, credentials=indexes.credentials, distances=request_distances(services),
            gate=Logins(self.env, services["docker-hub"].url), configured=indexes.configured,
            hidden=self.net.hidden, netrc=Netrc(self.env),
        )  # fmt: skip
        net.learn({}, indexes.tokens)
        with contextlib.suppress(LockError):  # the resolution of conda packages reports the error
            channels = read_channels(self.env)
            net.learn(channels.credentials, channels.tokens, channels.addresses)
        return ResolveContext(
            store=self.store, net=net, indexes=indexes, env=self.env, folder=self.folder, captured=captured,
            say=self.say, now=self.now, progress=self.progress, doubted=self.doubted,
        )  # fmt: skip

    @property
    def today(self) -> datetime.date:
        """The day of the program's start, in UTC."""
        return datetime.datetime.fromtimestamp(self.now, datetime.timezone.utc).date()
