"""Addresses of services from one data file, with overrides.

No configuration of a machine states these addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.decode import decode_toml


class Service(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service: its address, purpose and last known status.

    The address may have `{placeholders}`. `distance` is the least number of seconds between two requests of
    one run. `versions` and `names` are regular expressions of the versions and distributions whose wheels are
    there, or empty; `links` is true for a page of links instead of a Simple API.
    """

    url: str
    note: str
    status: str
    distance: float = 0
    versions: str = ""
    names: str = ""
    links: bool = False


def read_services(overrides: Mapping[str, str]) -> dict[str, Service]:
    """Return every service by name, with the user's addresses applied.

    Raises:
        UsageError: an override names an unknown service, or its address is not valid.
    """
    shipped = decode_toml(
        files("reprobuild.config").joinpath("services.toml").read_bytes(), dict[str, Service]
    )
    for name, url in overrides.items():
        if name not in shipped:
            raise UsageError(
                f"there is no service named {name!r}", hint="the services are: " + ", ".join(sorted(shipped))
            )
        try:
            urlsplit(url)
        except ValueError as err:
            raise UsageError(
                f"the address of the service {name} is none: {err}",
                hint="write it as https://HOST[:PORT]/PATH",
            ) from None
        shipped[name] = msgspec.structs.replace(
            shipped[name], url=url, status="given by the user", distance=0
        )
    return shipped


def fill_address(service: Service, **values: str | None) -> str:
    """Return the address of a service with its placeholders filled.

    Raises:
        UsageError: the user's own address has other placeholders.
    """
    try:
        return service.url.format(**values)
    except (KeyError, IndexError, ValueError, AttributeError):
        known = ", ".join(f"{{{name}}}" for name in values) or "none"
        raise UsageError(
            f"the address {service.url} of a service has a placeholder that nothing fills",
            hint=f"it may have: {known}",
        ) from None


def request_distances(services: Mapping[str, Service]) -> dict[str, float]:
    """Return the distances between requests, in seconds, by host.

    `http.Net` takes them in this form.
    """
    return {
        urlsplit(service.url).netloc: service.distance for service in services.values() if service.distance
    }
