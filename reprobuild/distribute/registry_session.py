"""The way to a registry: a client with the user's logins, and failures as those of handing over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from reprobuild.config.services import read_services
from reprobuild.context import RunContext
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.errors import BuildError, DistributionError, FetchError, LockError
from reprobuild.infra.http.client import Net


def open_net(session: RunContext, services: Mapping[str, str]) -> tuple[Net, str]:
    """Return a client with the user's logins for registries, and the address of Docker's own registry.

    Args:
        session: says whether there is a network, and the user's environment.
        services: the user's own addresses, by name.

    Raises:
        UsageError: there is no such service.
    """
    hub = read_services(services)["docker-hub"].url
    # What stands in its place is another host, and gets the login that the user has for that one.
    gate = Logins(session.env, read_services({})["docker-hub"].url)
    return Net(
        offline=session.net.offline, gate=gate, hidden=session.net.hidden, netrc=session.net.netrc
    ), hub


@contextlib.contextmanager
def shipping() -> Iterator[None]:
    """Let what fails in other rooms be a failure of handing over, with the same words."""
    try:
        yield
    except (FetchError, LockError, BuildError) as err:
        raise DistributionError(str(err), hint=err.hint) from None
