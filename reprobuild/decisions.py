"""Decisions: what evidence cannot decide, from `reprobuild.yaml` beside the snapshot or from options.

They are copied into the lock.
"""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.guard.plain import read_plain
from reprobuild.profiles import check_profile
from reprobuild.secrets import strip_credentials

_LARGEST = 4 << 20  # of a file that people write

FILENAME = "reprobuild.yaml"


class WorkloadDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own check: a command, and the files below `{out}` that it must write alike twice."""

    command: tuple[str, ...]
    outputs: tuple[str, ...]


class ArchiveDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An archive of system packages beside the distribution's: an address or `ppa:OWNER/NAME`, and its key.

    `{time}` in the address stands for a moment, where the archive keeps its past. Without `suites` it is the release's
    code name, without `components` `main`; `key` is the fingerprint of the certificate that signs it.
    """

    url: str
    key: str = ""
    suites: tuple[str, ...] = ()
    components: tuple[str, ...] = ()


class BuildDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one project is built, where its own files do not tell.

    `requires` come to its build requirements, `packages` (of the system) to the compilers; `variables` are set for
    the build. With `environment` the build imports what the image has (pip's `--no-build-isolation`); None: what is
    known of the project.
    """

    requires: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    environment: bool | None = None


class Decisions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every decision, each with the value that means "decide from evidence".

    `sources` maps the name of an editable install to a path (folder, git bundle) or `URL[@REV]`;
    `bake` maps a variable to its value, or to None for the captured one. `profile` may name several, with commas
    between. `debs` are `.deb` files, or folders of them; `indexes` maps the name of a distribution to the only index
    that it is to come from; `channels` are addresses or names of channels of conda. `build` is by project; `devel` is
    the image to compile in.
    """

    python: str | None = None
    base: str | None = None
    platform: str | None = None
    sources: dict[str, str] = {}
    services: dict[str, str] = {}
    archives: tuple[ArchiveDecision, ...] = ()
    debs: tuple[str, ...] = ()
    indexes: dict[str, str] = {}
    channels: tuple[str, ...] = ()
    bake: dict[str, str | None] = {}
    drop: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    profile: str | None = None
    seed: int | None = None
    workload: WorkloadDecision | None = None
    build: dict[str, BuildDecision] = {}
    devel: str | None = None

    def recorded(self) -> dict[str, Any]:
        """Return what the lock keeps: all but credentials, and addresses and paths that belong to one machine."""
        sources = {name: strip_credentials(place)[0] for name, place in self.sources.items()}
        indexes = {name: strip_credentials(place)[0] for name, place in self.indexes.items()}
        archives = tuple(
            msgspec.structs.replace(one, url=strip_credentials(one.url)[0]) for one in self.archives
        )
        channels = tuple(strip_credentials(one)[0] for one in self.channels)
        kept: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(
                msgspec.structs.replace(
                    self,
                    services={},
                    debs=(),
                    sources=sources,
                    archives=archives,
                    indexes=indexes,
                    channels=channels,
                )
            )
        )
        return kept


def read_decisions(path: Path) -> Decisions:
    """Read a `reprobuild.yaml`.

    Raises:
        UsageError: it cannot be read, or holds what is not a decision; the message names the key.
    """
    try:
        raw = yaml.safe_load(read_plain(path, _LARGEST).decode()) or {}
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror}", hint="check the path") from None
    except (yaml.YAMLError, ValueError, RecursionError) as err:  # a date that is none is a ValueError
        raise UsageError(f"{path} is not YAML: {err}", hint="see docs/decisions.md for an example") from None
    if isinstance(raw, dict) and isinstance(raw.get("bake"), list):
        raw["bake"] = dict(parse_bake(str(item)) for item in raw["bake"])
    if isinstance(raw, dict) and isinstance(raw.get("archives"), list):
        raw["archives"] = [{"url": one} if isinstance(one, str) else one for one in raw["archives"]]
    if isinstance(raw, dict) and isinstance(raw.get("python"), float):
        raise UsageError(
            f"{path}: python: {raw['python']} is a number in YAML", hint='write it in quotes: python: "3.10"'
        )
    try:
        decisions = msgspec.convert(raw, type=Decisions)
    except msgspec.ValidationError as err:
        known = ", ".join(Decisions.__struct_fields__)
        raise UsageError(f"{path}: {err}", hint=f"the decisions are: {known}") from None
    if decisions.profile is None:
        return decisions
    return msgspec.structs.replace(decisions, profile=check_profile(decisions.profile, f"{path}: "))


def is_pattern(word: str) -> bool:
    """Tell whether a word of `bake` or `drop` may mean several names: `*`, `?` and `[...]` as in a shell."""
    return any(sign in word for sign in "*?[")


def is_named(name: str, words: Collection[str]) -> bool:
    """Tell whether one of the words of `drop` or `bake` means a name."""
    return name in words or any(is_pattern(word) and fnmatchcase(name, word) for word in words)


def parse_bake(text: str) -> tuple[str, str | None]:
    """Return (name, value) of `NAME=VALUE`, or (name, None) of `NAME`."""
    name, equals, value = text.partition("=")
    return name, value if equals else None


def parse_archive(text: str) -> ArchiveDecision:
    """Return the archive of `URL` or `URL=KEY`."""
    url, equals, key = text.rpartition("=")
    return ArchiveDecision(url=url, key=key) if equals and "/" not in key else ArchiveDecision(url=text)


def find_decisions(snapshot: Path) -> Path | None:
    """Return the `reprobuild.yaml` in the snapshot's folder, or the one beside that folder, or None."""
    inside, beside = snapshot / FILENAME, snapshot.resolve().parent / FILENAME
    if inside.is_file() and beside.is_file():
        raise UsageError(
            f"there are two files of decisions: {inside} and {beside}",
            hint="keep one, or name it with --decisions",
        )
    return inside if inside.is_file() else beside if beside.is_file() else None


def merge(base: Decisions, options: Decisions) -> Decisions:
    """Return the file's decisions with the command line's put over them; lists and maps are joined."""
    default = Decisions()
    changed: dict[str, Any] = {}
    for field in Decisions.__struct_fields__:
        mine, given = getattr(base, field), getattr(options, field)
        if isinstance(given, dict):
            changed[field] = {**mine, **given}
        elif isinstance(given, tuple):
            changed[field] = tuple(dict.fromkeys((*mine, *given)))
        elif given != getattr(default, field):
            changed[field] = given
    return msgspec.structs.replace(base, **changed)
