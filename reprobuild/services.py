"""Addresses of services that no machine configures, from one data file, each with an override."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError


class Service(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One service: its address (with `{placeholders}`), what it is for, and whether it was seen to answer."""

    url: str
    note: str
    status: str


def read_services(overrides: Mapping[str, str]) -> dict[str, Service]:
    """Return every service by name, with the user's addresses put over the shipped ones.

    Raises:
        UsageError: an override names a service that is not in the data file.
    """
    shipped = msgspec.toml.decode(
        files("reprobuild").joinpath("services.toml").read_bytes(), type=dict[str, Service]
    )
    for name, url in overrides.items():
        if name not in shipped:
            raise UsageError(
                f"there is no service named {name!r}", hint="the services are: " + ", ".join(sorted(shipped))
            )
        shipped[name] = msgspec.structs.replace(shipped[name], url=url, status="given by the user")
    return shipped
