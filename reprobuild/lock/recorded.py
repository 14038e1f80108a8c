"""The user's decisions as recorded in a lock.

They are for people who ask for reasons. An image does not depend on them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.strings import Line, Seed, Value


class RecordedWorkload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The recorded decision `workload`."""

    command: tuple[Value, ...]
    outputs: tuple[Value, ...]


class RecordedArchive(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One archive of the recorded decision `archives`."""

    url: Line
    key: Line = ""
    suites: tuple[Line, ...] = ()
    components: tuple[Line, ...] = ()


class RecordedBuild(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The recorded decision `build` of one project."""

    requires: tuple[Line, ...] = ()
    packages: tuple[Line, ...] = ()
    variables: dict[Line, Value] = {}
    environment: bool | None = None


class RecordedDecisions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """All decisions in a lock, by the names of `reprobuild.yaml`."""

    python: Line | None = None
    base: Line | None = None
    platform: Line | None = None
    sources: dict[Line, Line] = {}
    archives: tuple[RecordedArchive, ...] = ()
    indexes: dict[Line, Line] = {}
    channels: tuple[Line, ...] = ()
    bake: dict[Line, Value | None] = {}
    drop: tuple[Line, ...] = ()
    accept: tuple[Line, ...] = ()
    profile: Line | None = None
    seed: Seed | None = None
    workload: RecordedWorkload | None = None
    build: dict[Line, RecordedBuild] = {}
    build_image: Line | None = None
    system: Literal["needed", "all"] | None = None
    packages: tuple[Line, ...] = ()
    as_of: Line | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the decisions by name; unset decisions are left out."""
        decisions: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return decisions
