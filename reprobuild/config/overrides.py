"""Overrides of the user, from `reprobuild.yaml` or from options.

They decide the questions that evidence cannot decide, and are copied into the lock. A file that only lies
beside a snapshot may come from the author of the snapshot, so it decides less than one that the user names:
see `override_text.list_unconfirmed`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.profiles import check_profile
from reprobuild.errors import UsageError
from reprobuild.infra.display import display_error
from reprobuild.infra.git.addresses import without_login
from reprobuild.infra.http.redaction import redact_index
from reprobuild.infra.suggest import did_you_mean
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import (
    Label,
    Line,
    NamePattern,
    ProjectName,
    Reference,
    Seed,
    Value,
    VariableName,
    Version,
)
from reprobuild.infra.untrusted.yaml_documents import load_yaml
from reprobuild_portable.secrets.redact import strip_credentials

_LARGEST = 1 << 20  # of a file that people write
_MOST_PATTERNS = 100  # of one list: each is compared with each captured name

# Overrides by project; its name has several spellings.
_BY_PROJECT = ("sources", "indexes", "build")

FILENAME = "reprobuild.yaml"


class WorkloadDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's workload: a command and its outputs below `{out}`.

    The command must write these files alike twice.
    """

    command: tuple[Value, ...]
    outputs: tuple[Line, ...]


class ArchiveDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An archive of system packages in addition to the distribution's.

    `url` is an address or `ppa:OWNER/NAME`; `{time}` in it stands for a moment, if the archive keeps its
    past. Without `suites` it is the release's code name, without `components` `main`; `key` is the
    fingerprint of the certificate that signs it.
    """

    url: Line
    key: Line = ""
    suites: tuple[Line, ...] = ()
    components: tuple[Line, ...] = ()


class BuildDecision(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Build settings of one project whose own files lack them.

    `requires` are added to its build requirements, `packages` (of the system) to the compilers; `variables`
    are set for the build. With `environment` the build imports the packages of the image (pip's
    `--no-build-isolation`); None uses the known setting of the project.
    """

    requires: tuple[Line, ...] = ()
    packages: tuple[Line, ...] = ()
    variables: dict[VariableName, Value] = {}
    environment: bool | None = None


_NESTED: dict[str, type[Struct]] = {
    "workload": WorkloadDecision, "archives": ArchiveDecision, "build": BuildDecision,
}  # fmt: skip


class Decisions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every override; each default means "decide from evidence".

    `sources` maps the name of an editable install to a path (directory, git bundle) or `URL[@REV]`; `bake`
    maps a variable to its value, or to None for the captured one. `profile` may name several, separated by
    commas. `debs` are `.deb` files, or directories of them; `indexes` maps the name of a distribution to its
    only permitted index; `channels` are addresses or names of channels of conda. `build` is by project;
    `build_image` is the image to compile in. `system` selects the captured system packages of the base: all, or
    only the needed ones (the default, None); `packages` are more of them, by name. `as_of` is a date or moment: uv
    chooses versions of then for requirements without one.
    """

    python: Version | None = None
    base: Reference | None = None
    platform: Label | None = None
    sources: dict[ProjectName, Line] = {}
    services: dict[Label, Line] = {}
    archives: tuple[ArchiveDecision, ...] = ()
    debs: tuple[Line, ...] = ()
    indexes: dict[ProjectName, Line] = {}
    channels: tuple[Line, ...] = ()
    bake: dict[NamePattern, Value | None] = {}
    drop: tuple[Line, ...] = ()
    accept: tuple[Line, ...] = ()
    profile: Value | None = None  # `check_profile` lists the known names
    seed: Seed | None = None
    workload: WorkloadDecision | None = None
    build: dict[ProjectName, BuildDecision] = {}
    build_image: Reference | None = None
    system: Literal["needed", "all"] | None = None
    packages: tuple[Line, ...] = ()
    as_of: Line | None = None

    def lock_document(self) -> dict[str, Any]:
        """Return the overrides to record in the lock.

        Credentials are left out, and so are addresses and paths that belong to one machine.
        """
        sources = {name: without_login(place) for name, place in self.sources.items()}
        indexes = {name: redact_index(strip_credentials(place)[0]) for name, place in self.indexes.items()}
        archives = tuple(
            msgspec.structs.replace(archive, url=strip_credentials(archive.url)[0])
            for archive in self.archives
        )
        channels = tuple(redact_index(strip_credentials(channel)[0]) for channel in self.channels)
        record: dict[str, Any] = msgspec.json.decode(
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
        return record


def read_decisions(path: Path) -> Decisions:
    """Read a `reprobuild.yaml`.

    Raises:
        UsageError: it cannot be read, or has an unknown or invalid override; the message names the key.
    """
    try:
        raw = load_yaml(read_plain(path, _LARGEST).decode()) or {}
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror}", hint="check the path") from None
    except ValueError as err:  # broken text among them
        raise UsageError(f"{path} is not YAML: {err}", hint="see docs/decisions.md for an example") from None
    if isinstance(raw, dict) and isinstance(raw.get("bake"), list):
        raw["bake"] = dict(_parse_bake_item(item, path) for item in raw["bake"])
    if isinstance(raw, dict) and isinstance(raw.get("archives"), list):
        raw["archives"] = [
            {"url": archive} if isinstance(archive, str) else archive for archive in raw["archives"]
        ]
    if isinstance(raw, dict) and isinstance(raw.get("python"), float):
        raise UsageError(
            f"{path}: python: {raw['python']} is a number in YAML", hint='write it in quotes: python: "3.10"'
        )
    try:
        decisions = decode_value(raw, Decisions)
    except msgspec.ValidationError as err:
        raise UsageError(f"{path}: {display_error(err)}", hint=_key_hint(str(err))) from None
    _check_spellings(decisions, path)
    _check_patterns(decisions, path)
    if decisions.profile is None:
        return decisions
    return msgspec.structs.replace(decisions, profile=check_profile(decisions.profile, f"{path}: "))


def _key_hint(error: str) -> str:
    """Return the keys that are valid at the place of an error of msgspec, and the one that was meant."""
    at, unknown = re.search(r"at `\$\.(\w+)", error), re.search("unknown field `(.*?)`", error)
    name = at[1] if at and at[1] in _NESTED else ""
    keys = (_NESTED[name] if name else Decisions).__struct_fields__
    listing = f"{f'the keys of {name}' if name else 'the decisions'} are: {', '.join(keys)}"
    return "\n".join(filter(None, [did_you_mean(unknown[1], keys) if unknown else "", listing]))


def _parse_bake_item(item: object, path: Path) -> tuple[str, str | None]:
    if not isinstance(item, str):
        raise UsageError(f"{path}: an item of bake is no text", hint="write each as NAME or NAME=VALUE")
    return parse_bake(item)


def is_pattern(word: str) -> bool:
    """Return whether a word of an override is a pattern.

    The word is one of `bake` or `drop`. The signs are those of a shell: `*`, `?` and `[...]`.
    """
    return any(sign in word for sign in "*?[")


def is_named(name: str, words: Collection[str]) -> bool:
    """Return whether a word of an override matches a name.

    The words are those of `drop` or `bake`.
    """
    return name in words or any(fnmatchcase(name, word) for word in _find_patterns(tuple(words)))


@lru_cache(maxsize=64)
def _find_patterns(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(filter(is_pattern, words))


def parse_bake(text: str) -> tuple[str, str | None]:
    """Return the name and the value of `NAME=VALUE`.

    Of `NAME` the value is None.
    """
    name, equals, value = text.partition("=")
    return name, value if equals else None


def parse_archive(text: str) -> ArchiveDecision:
    """Return the archive of `URL` or `URL=KEY`."""
    url, equals, key = text.rpartition("=")
    return ArchiveDecision(url=url, key=key) if equals and "/" not in key else ArchiveDecision(url=text)


def find_decisions(snapshot: Path) -> Path | None:
    """Return the `reprobuild.yaml` beside the snapshot's directory, or None."""
    beside = snapshot.resolve().parent / FILENAME
    return beside if beside.is_file() else None


def find_inner_decisions(snapshot: Path) -> Path | None:
    """Return the `reprobuild.yaml` in the snapshot's directory, or None.

    It is read only when the user names it.
    """
    path = snapshot / FILENAME
    return path if path.is_file() else None


def _merge_key(field: str, name: str) -> str:
    return canonicalize_name(name) if field in _BY_PROJECT else name


def _check_spellings(decisions: Decisions, path: Path) -> None:
    """Refuse two spellings of one project.

    Their order would decide which of them counts.
    """
    for field in _BY_PROJECT:
        spellings: dict[str, str] = {}
        for name in getattr(decisions, field):
            other = spellings.setdefault(canonicalize_name(name), name)
            if other != name:
                raise UsageError(
                    f"{path}: {field}: {other} and {name} are one project", hint="keep the one that you mean"
                )


def _check_patterns(decisions: Decisions, path: Path) -> None:
    """Refuse a list of patterns that would take hours."""
    for field in ("drop", "bake"):
        count = len(_find_patterns(tuple(getattr(decisions, field))))
        if count > _MOST_PATTERNS:
            raise UsageError(
                f"{path}: {field} has {count} patterns, and at most {_MOST_PATTERNS} are compared",
                hint="write names, or one pattern for several of them",
            )


def merge_decisions(base: Decisions, options: Decisions) -> Decisions:
    """Return the file's overrides with the command line's applied.

    Lists and maps are joined.
    """
    default = Decisions()
    changed: dict[str, Any] = {}
    for field in Decisions.__struct_fields__:
        base_value, option = getattr(base, field), getattr(options, field)
        if isinstance(option, dict):
            named = {canonicalize_name(name) for name in option} if field in _BY_PROJECT else option.keys()
            rest = {name: value for name, value in base_value.items() if _merge_key(field, name) not in named}
            changed[field] = {**rest, **option}
        elif isinstance(option, tuple):
            changed[field] = tuple(dict.fromkeys((*base_value, *option)))
        elif option != getattr(default, field):
            changed[field] = option
    return msgspec.structs.replace(base, **changed)
