"""What a run of the program works with."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.config.services import distances, read_services
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
    """What a run of the program works with, read once at the command line.

    `env` is the user's environment. `say` is told each step when it begins, so that a person sees that it goes on
    however long it takes; an empty text ends the last one. `progress` is told (bytes so far, bytes in all or 0) of a
    step that knows them. `now` is in seconds since 1970. `caches` are the user's, whose files are taken. `pip` was
    asked for its settings before, where that saves time. `doubted` are sources that the user did not name.
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

    def surroundings(self, captured: Path = Path()) -> ResolveContext:
        """Return what resolving may touch, the folder of the snapshot among it."""
        indexes = read_indexes(self.env, self.pip)
        services = read_services({})
        net = Net(
            offline=self.net.offline, credentials=indexes.credentials, distances=distances(services),
            gate=Logins(self.env, services["docker-hub"].url), configured=indexes.configured,
            hidden=self.net.hidden, netrc=Netrc(self.env),
        )  # fmt: skip
        net.learn({}, indexes.tokens)
        with contextlib.suppress(LockError):  # who resolves packages of conda is told
            channels = read_channels(self.env)
            net.learn(channels.credentials, channels.tokens, channels.addresses)
        return ResolveContext(
            store=self.store, net=net, indexes=indexes, env=self.env, folder=self.folder, captured=captured,
            say=self.say, now=self.now, progress=self.progress, doubted=self.doubted,
        )  # fmt: skip

    @property
    def today(self) -> datetime.date:
        """The day on which the program was started, in UTC."""
        return datetime.datetime.fromtimestamp(self.now, datetime.timezone.utc).date()
