"""Access to a registry: a client with logins, and errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from reprobuild.config.services import read_services
from reprobuild.context import RunContext
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.errors import BuildError, DistributionError, FetchError, LockError
from reprobuild.infra.http.client import Net


def open_net(session: RunContext, services: Mapping[str, str]) -> tuple[Net, str]:
    """Return a client with registry logins, and Docker Hub's address.

    Args:
        session: has the network settings, and the user's environment.
        services: the user's own addresses, by name.

    Raises:
        UsageError: there is no such service.
    """
    hub = read_services(services)["docker-hub"].url
    # A replacement is another host, and gets the user's login for that one.
    gate = Logins(session.env, read_services({})["docker-hub"].url)
    return Net(
        offline=session.net.offline, gate=gate, hidden=session.net.hidden, netrc=session.net.netrc
    ), hub


@contextlib.contextmanager
def convert_errors() -> Iterator[None]:
    """Convert errors of other packages to `DistributionError`."""
    try:
        yield
    except (FetchError, LockError, BuildError) as err:
        raise DistributionError(str(err), hint=err.hint) from None
