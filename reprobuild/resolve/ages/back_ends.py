"""The release of a build back end, as evidence of the age of what it built."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from packaging.version import InvalidVersion, Version

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.resolve.ages.age import FAR, Age, day

_GENERATOR = re.compile(r"(?P<name>[A-Za-z0-9._-]{1,60})[ (]+(?P<version>[0-9][0-9A-Za-z.]{0,30})\)?")


def built_age(generator: str, *, free: bool) -> Age:
    """Return the bounds that the back end of a wheel gives for its age.

    Args:
        generator: its name and version in the WHEEL of the wheel.
        free: whether the project builds with any release of the back end, so with the newest.
    """
    match = _GENERATOR.fullmatch(generator.strip())
    releases = _releases().get(match["name"].lower(), ()) if match else ()
    try:
        version = Version(match["version"]) if match else None
    except InvalidVersion:
        return Age()
    if version is None or not releases:
        return Age()
    known = [number for number, (release, _) in enumerate(releases) if release <= version]
    if not known:
        return Age()
    release, since = releases[known[-1]]
    later = releases[known[-1] + 1][1] if known[-1] + 1 < len(releases) else FAR
    words = (
        f"built by {generator} of {day(since)}"
        if release == version
        else f"built by {generator}, after {day(since)}"
    )
    if not free or release != version or later == FAR:
        return Age(since=since, words=words)
    return Age(since=since, until=later, words=f"{words}, which was the newest until {day(later)}")


@cache
def _releases() -> Mapping[str, tuple[tuple[Version, int], ...]]:
    """Return the releases of each back end, in order, with their times."""
    raw = files("reprobuild.resolve.ages").joinpath("back_ends.toml").read_bytes()
    read = decode_toml(raw, dict[str, dict[str, datetime.datetime]])
    return {
        name: tuple(sorted((Version(version), int(when.timestamp())) for version, when in rows.items()))
        for name, rows in read.items()
    }
