"""Profiles and their variables, from the runtime package's data."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.decode import decode_json

DEFAULT = "torch"


class ProfileEntry(Struct, frozen=True):
    """A setting: a switch, a variable's text, or null.

    `value` is that of the setting. Other fields of the data are ignored here.
    """

    name: str
    value: bool | int | str | None = None


class Profile(Struct, frozen=True):
    """A profile: the profiles it includes, and its settings."""

    settings: tuple[ProfileEntry, ...]
    includes: tuple[str, ...] = ()


class Consumer(Struct, frozen=True):
    """A library that reads settings, and its distributions."""

    distributions: tuple[str, ...]


class _Data(Struct, frozen=True):
    profiles: dict[str, Profile]
    consumers: dict[str, Consumer]


@cache
def _read_data() -> _Data:
    content = files("reprobuild_runtime").joinpath("profiles/profiles.json").read_bytes()
    return decode_json(content, _Data)


def read_profiles() -> dict[str, Profile]:
    """Return every profile by name."""
    return _read_data().profiles


def suggest_profiles(names: Collection[str], text: str) -> list[str]:
    """Return a hint for each unused profile that fits.

    Such a profile extends `torch` for a library of the image.

    Args:
        names: canonical names of the distributions in the image.
        text: the profiles in force, separated by commas.
    """
    chosen = text.split(",")
    hints = []
    for name, profile in read_profiles().items():
        brings = {
            distribution.replace("_", "-")
            for distribution in _read_data().consumers.get(name, Consumer(())).distributions
        }
        if name not in chosen and DEFAULT in profile.includes and (matches := sorted(brings & {*names})):
            hints.append(
                f"{matches[0]} has rules of its own for deterministic runs: `--profile {name}` applies them"
            )
    return hints


def check_profile(text: str, where: str = "") -> str:
    """Return an override's profiles in canonical form.

    These are names separated by commas, each once.

    Args:
        text: the text of the override.
        where: the beginning of an error message.

    Raises:
        UsageError: it names no profile, or an unknown one; the hint lists the known names.
    """
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    known = read_profiles()
    for name in names or ("",):
        if name not in known:
            raise UsageError(
                f"{where}there is no profile {display_text(name)!r}",
                hint=f"name one of {', '.join(known)}, or several with commas between: docs/profiles.md",
            )
    return ",".join(names)


def profile_variables(text: str) -> frozenset[str]:
    """Return the variables that profiles set for a chosen seed.

    An unknown profile has no variables.
    """
    known, names, waiting = read_profiles(), set[str](), text.split(",")
    while waiting:
        profile = known.get(waiting.pop())
        if profile is not None:
            waiting += profile.includes
            names |= {entry.name for entry in profile.settings if "." not in entry.name}
    return frozenset(names)


def profile_values(text: str) -> dict[str, bool | int | str | None]:
    """Return {name: value} of the settings of profiles.

    An unknown profile has no settings. A profile outweighs those it includes.
    """
    known, settings = read_profiles(), dict[str, bool | int | str | None]()
    for name in text.split(","):
        profile = known.get(name)
        if profile is not None:
            for included in profile.includes:
                settings |= profile_values(included)
            settings |= {entry.name: entry.value for entry in profile.settings}
    return settings
