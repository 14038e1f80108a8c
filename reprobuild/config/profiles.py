"""The names of the profiles, and the variables that each sets: from the data of the runtime package."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError

DEFAULT = "torch"


class ProfileEntry(Struct, frozen=True):
    """One setting, as far as it matters here; `value` is that of a switch, a variable's text, or null."""

    name: str
    value: bool | int | str | None = None


class Profile(Struct, frozen=True):
    """One profile: which others it includes, and what it sets."""

    settings: tuple[ProfileEntry, ...]
    includes: tuple[str, ...] = ()


class Consumer(Struct, frozen=True):
    """A library that reads settings, and the distributions that bring it."""

    distributions: tuple[str, ...]


class _Data(Struct, frozen=True):
    profiles: dict[str, Profile]
    consumers: dict[str, Consumer]


@cache
def _data() -> _Data:
    content = files("reprobuild_runtime").joinpath("profiles/profiles.json").read_bytes()
    return msgspec.json.decode(content, type=_Data)


def read_profiles() -> dict[str, Profile]:
    """Return every profile by name."""
    return _data().profiles


def suggestions(names: Collection[str], text: str) -> list[str]:
    """Return a sentence for each profile that extends `torch` for a library of the image and is not in force.

    Args:
        names: canonical names of the distributions in the image.
        text: the profiles in force, with commas between.
    """
    chosen = text.split(",")
    found = []
    for name, profile in read_profiles().items():
        brings = {one.replace("_", "-") for one in _data().consumers.get(name, Consumer(())).distributions}
        if name not in chosen and DEFAULT in profile.includes and (there := sorted(brings & {*names})):
            found.append(
                f"{there[0]} has rules of its own for deterministic runs: `--profile {name}` applies them"
            )
    return found


def check_profile(text: str, where: str = "") -> str:
    """Return a decision's profiles in their one form: names with commas between, each once.

    Args:
        text: as it was decided.
        where: what an error begins with.

    Raises:
        UsageError: it names no profile, or one that is none; the hint names those that there are.
    """
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    known = read_profiles()
    for name in names or ("",):
        if name not in known:
            raise UsageError(
                f"{where}there is no profile {name!r}",
                hint=f"name one of {', '.join(known)}, or several with commas between: docs/profiles.md",
            )
    return ",".join(names)


def variables(text: str) -> frozenset[str]:
    """Return the names of the variables that profiles set for a chosen seed; of a name that is none, nothing."""
    known, found, waiting = read_profiles(), set[str](), text.split(",")
    while waiting:
        profile = known.get(waiting.pop())
        if profile is not None:
            waiting += profile.includes
            found |= {entry.name for entry in profile.settings if "." not in entry.name}
    return frozenset(found)


def values(text: str) -> dict[str, bool | int | str | None]:
    """Return {name: value} of what profiles set; of a name that is none, nothing. Included ones are outweighed."""
    known, found = read_profiles(), dict[str, bool | int | str | None]()
    for name in text.split(","):
        profile = known.get(name)
        if profile is not None:
            for included in profile.includes:
                found |= values(included)
            found |= {entry.name: entry.value for entry in profile.settings}
    return found
