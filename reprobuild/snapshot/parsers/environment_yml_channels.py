"""Channels of an `environment.yml`."""

from __future__ import annotations

from collections.abc import Iterable

import yaml
from msgspec import UnsetType
from msgspec.structs import replace

from reprobuild.infra.display import escape_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage
from reprobuild_portable import secrets

HINT = "write it again with `conda env export`, or take it out of the directory"
_CHANNELS = 100  # an export has some three


def channel_name(node: yaml.ScalarNode) -> str:
    """Return the name or address of a channel, without credentials."""
    return escape_text(secrets.strip_credentials(node.value)[0])


def add_channels(
    package: CapturedCondaPackage, channels: tuple[str, ...] | UnsetType
) -> CapturedCondaPackage:
    """Return a conda package with the environment's channels.

    The channels are added only if the package has no channel of its own.
    """
    return package if package.channel is not None else replace(package, among=channels)


def bound_channels(channels: Iterable[str], file: str) -> tuple[str, ...]:
    """Return each channel once; too many are refused, because a snapshot has them beside each package."""
    names = tuple(dict.fromkeys(channel for channel in channels if channel != "nodefaults"))
    if len(names) > _CHANNELS or sum(map(len, names)) > text.LONGEST_ROW:
        raise text.parse_error(file, f"{len(names)} channels are too many for an environment", HINT)
    return names
