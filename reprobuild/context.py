"""The context of a run of the program."""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from reprobuild.config.services import Service, read_services, request_distances
from reprobuild.ecosystems.conda.conda_config import read_channels
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.pypi.indexes import PackageIndexes, read_indexes
from reprobuild.ecosystems.pypi.pip_config import Asking, read_certificates
from reprobuild.errors import LockError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.netrc import Netrc
from reprobuild.infra.progress import Progress
from reprobuild.infra.stage_clock import StageClock
from reprobuild.resolve.context import ResolveContext
from reprobuild.store.caches import Caches
from reprobuild.store.store import Store


class IndexSettings:
    """The indexes and channels that this machine configures, read once in a run.

    Args:
        asking: a query to pip that was started in advance, to save time.
    """

    def __init__(self, asking: Asking | None = None) -> None:
        self._asking = asking
        self._lock = threading.Lock()
        self._indexes: PackageIndexes | None = None

    def read(self, env: Mapping[str, str], net: Net) -> PackageIndexes:
        """Return the indexes; the first call gives `net` their logins, and those of conda's channels.

        Raises:
            LockError: see `read_indexes`.
        """
        with self._lock:
            if self._indexes is None:
                self._indexes = read_indexes(env, self._asking)
                net.learn(self._indexes.credentials, self._indexes.tokens, self._indexes.configured)
                with contextlib.suppress(LockError):  # the resolution of conda packages reports the error
                    channels = read_channels(env)
                    net.learn(channels.credentials, channels.tokens, channels.addresses)
            return self._indexes


class RunContext(Struct, frozen=True, kw_only=True):
    """The context of a run, read at the command line.

    `env` is the user's environment. `net` is the one HTTP client of the run. `say` is called with each step when it
    begins, so that a person sees progress; an empty text ends the last one. `progress` shows how much of a step is
    done. `now` is in seconds since 1970. `caches` are the user's caches, from which files are taken. `doubted` are
    sources that the user did not name. `services` are the public services, with the addresses of the site. `clock`
    measures the stages.
    """

    store: Store
    net: Net
    env: Mapping[str, str]
    folder: Path
    say: Callable[[str], None]
    progress: Progress
    now: int
    caches: Caches = Caches()
    indexes: IndexSettings = field(default_factory=IndexSettings)
    doubted: frozenset[str] = frozenset()
    services: Mapping[str, Service] = field(default_factory=read_services)
    clock: StageClock = field(default_factory=StageClock)

    def resolve_context(self, captured: Path = Path()) -> ResolveContext:
        """Return the context of a resolution, including the snapshot's directory."""
        return ResolveContext(
            store=self.store, net=self.net, indexes=self.indexes.read(self.env, self.net), env=self.env,
            folder=self.folder, captured=captured, say=self.say, now=self.now, progress=self.progress,
            doubted=self.doubted, services=self.services,
        )  # fmt: skip

    @property
    def today(self) -> datetime.date:
        """The day of the program's start, in UTC."""
        return datetime.datetime.fromtimestamp(self.now, datetime.timezone.utc).date()


def open_client(
    env: Mapping[str, str], services: Mapping[str, Service] | None = None, *, offline: bool = False
) -> Net:
    """Return the HTTP client of a run, with the logins of netrc and of registries, and the site's authorities."""
    services = read_services() if services is None else services
    return Net(
        offline=offline,
        distances=request_distances(services),
        gate=Logins(env, services["docker-hub"].url),
        netrc=Netrc(env),
        authorities=Authorities(env, lambda: read_certificates(env)),
    )
