"""Addresses of services from one data file, with overrides of a site and of a user.

No configuration of a machine states these addresses.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.display import display_error
from reprobuild.infra.suggest import did_you_mean
from reprobuild.infra.untrusted.decode import decode_toml, decode_value
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Label, Line
from reprobuild.infra.untrusted.yaml_documents import load_yaml

SITE_FILE = "REPROBUILD_SERVICES"  # the file with the addresses of a site
_LARGEST = 1 << 16  # bytes of that file
_FORM = "write one `NAME: URL` in each line, as in `conda-channels: https://mirror.example/conda/{name}`"


ServiceKind = Literal[
    "wheels", "images", "packages of conda", "packages of Debian", "packages of Ubuntu", "keys of archives"
]


class Service(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service: its address, the kind of its files, purpose and last known status.

    The address may have `{placeholders}`. `distance` is the least number of seconds between two requests of
    one run. `versions` and `names` are regular expressions of the versions and distributions whose wheels are
    there, or empty; `links` is true for a page of links instead of a Simple API.
    """

    url: str
    kind: ServiceKind
    note: str
    status: str
    distance: float = 0
    versions: str = ""
    names: str = ""
    links: bool = False


def read_services(addresses: Mapping[str, str] | None = None) -> dict[str, Service]:
    """Return every service by name, with its public address, or with one of `addresses`.

    Raises:
        UsageError: see `change_addresses`.
    """
    raw = files("reprobuild.config").joinpath("services.toml").read_bytes()
    return change_addresses(decode_toml(raw, dict[str, Service]), addresses or {})


def read_site_services(env: Mapping[str, str]) -> dict[str, Service]:
    """Return every service, with the addresses in the file that `REPROBUILD_SERVICES` names.

    Raises:
        UsageError: the file cannot be read, is not valid, or names an unknown service.
    """
    services = read_services()
    if not (named := env.get(SITE_FILE)):
        return services
    if not Path(named).is_absolute():
        raise UsageError(f"{SITE_FILE} is {named}: not an absolute path", hint="give the whole path")
    try:
        raw = load_yaml(read_plain(Path(named), _LARGEST).decode()) or {}
        addresses = decode_value(raw, dict[Label, Line])
    except OSError as err:
        raise UsageError(
            f"{SITE_FILE} is {named}, which cannot be read: {err.strerror}",
            hint=f"unset {SITE_FILE}, or ask those who maintain this machine",
        ) from None
    except msgspec.ValidationError as err:
        raise UsageError(f"{named}: {display_error(err)}", hint=_FORM) from None
    except ValueError as err:
        raise UsageError(f"{named} is not YAML: {err}", hint=_FORM) from None
    return change_addresses(services, addresses, f"{named}: ")


def change_addresses(
    services: Mapping[str, Service], addresses: Mapping[str, str], place: str = ""
) -> dict[str, Service]:
    """Return services with other addresses of some.

    Args:
        services: by name.
        addresses: by the name of the service.
        place: begins the message of an error.

    Raises:
        UsageError: an address is of an unknown service, or is not valid.
    """
    changed = dict(services)
    for name, url in addresses.items():
        if name not in changed:
            raise UsageError(
                f"{place}there is no service named {name!r}",
                hint="\n".join(
                    filter(
                        None, [did_you_mean(name, changed), f"the services are: {', '.join(sorted(changed))}"]
                    )
                ),
            )
        try:
            urlsplit(url)
        except ValueError as err:
            raise UsageError(
                f"{place}the address of the service {name} is not valid: {err}",
                hint="write it as https://HOST[:PORT]/PATH",
            ) from None
        changed[name] = msgspec.structs.replace(
            changed[name], url=url, status="given by the user", distance=0
        )
    return changed


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
