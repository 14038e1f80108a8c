"""The addresses of channel names: those of the machine's settings, else of the services."""

from __future__ import annotations

from collections.abc import Mapping

from reprobuild.config.services import Service, read_services
from reprobuild.ecosystems.conda.channels import ChannelResolver
from reprobuild.ecosystems.conda.conda_config import Channels

_PUBLIC, _DEFAULTS = "conda-channels", "conda-defaults"


def make_channel_resolver(channels: Channels, services: Mapping[str, Service]) -> ChannelResolver:
    """Return the resolver of channel names.

    Args:
        channels: the settings of this machine.
        services: with the user's addresses.
    """
    shipped = read_services()
    return ChannelResolver(
        channels,
        services[_PUBLIC].url,
        services[_DEFAULTS].url,
        (shipped[_PUBLIC].url, shipped[_DEFAULTS].url),
    )
