"""Conda channels: recognition of different spellings of one channel."""

from __future__ import annotations

import re
from functools import cache
from urllib.parse import quote

from reprobuild.snapshot.model import CapturedCondaPackage
from reprobuild.snapshot.parsers.conda_list import PLATFORM
from reprobuild_portable import secrets

# conda's name for the channels of Anaconda: https://docs.conda.io/projects/conda/en/stable/user-guide/concepts/channels.html
_DEFAULTS = re.compile(r"(.*/)?pkgs/(main|r|free|pro|msys2)")
_PLATFORM = re.compile(rf"/{PLATFORM}\Z")
_UNKNOWN = ("<unknown>", "unknown", "")


def channels(package: CapturedCondaPackage) -> str:
    """Return the possible channels of a package, separated by blanks.

    The result is empty if a list does not name them.
    """
    folder = (package.url or "").rpartition("/")[0]
    candidates = (package.channel or folder,) if package.channel or folder else package.among or ()
    return _format_names(candidates)


@cache
def _format_names(names: tuple[str, ...]) -> str:
    """Return names separated by blanks.

    It is cached, because the packages of one environment have the same names.
    """
    return " ".join(secrets.redact(quote(name, safe="/:@+~")) for name in names if name not in _UNKNOWN)


def same_channel(first: str, second: str) -> bool:
    """Return whether two spellings mean one channel.

    Of a name and an address, the address must end with the name.
    """
    (first_host, first_name), (second_host, second_name) = _split_address(first), _split_address(second)
    if first_host and second_host:
        return (first_host, first_name) == (second_host, second_name)
    if "file" in (first_host, second_host):
        return "local" in (first_name, second_name)
    if not first_host and not second_host:
        return (
            first_name == second_name
            or _is_default(first_name, second_name)
            or _is_default(second_name, first_name)
        )
    short, long = (first_name, second_name) if second_host else (second_name, first_name)
    return f"/{long}".endswith(f"/{short}") or _is_default(short, long)


def _split_address(channel: str) -> tuple[str, str]:
    """Return an address's host and path, or "" and the name."""
    bare = _PLATFORM.sub("", channel.rstrip("/"))
    scheme, mark, rest = bare.partition("://")
    if not mark:
        return "", bare
    host, _, path = rest.partition("/")
    return ("file" if scheme == "file" else host.lower()), path


def _is_default(name: str, path: str) -> bool:
    return name == "defaults" and _DEFAULTS.fullmatch(path) is not None
