"""`times.json` in an output directory: how long each stage took.

It is outside of the image, and only the report reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reprobuild.image.model import Image
from reprobuild.infra.atomic import write_file
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Digest

TIMES = "times.json"
Stage = Literal["lock", "fetch", "realise", "image", "load", "check"]
STAGES: tuple[Stage, ...] = ("lock", "fetch", "realise", "image", "load", "check")
# A later run of these takes what the store has.
_MADE_ONCE: tuple[Stage, ...] = ("lock", "fetch", "realise", "image")
_LARGEST = 1 << 16  # bytes
_VERSION = 1
Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class _StageTimes(Struct, frozen=True, kw_only=True):
    """The file: seconds by stage, for the image of a manifest's digest."""

    version: Literal[1]
    image: Digest
    seconds: dict[Stage, Seconds]


def read_times(out: Path, image: Image) -> dict[str, float]:
    """Return the seconds of each stage in the order of the stages; empty without a file of this image."""
    try:
        document = decode_json(read_plain(out / TIMES, _LARGEST), _StageTimes)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError):
        return {}
    seconds = document.seconds if document.image == image.manifest else {}
    return {stage: seconds[stage] for stage in STAGES if stage in seconds}


def write_times(out: Path, image: Image, seconds: Mapping[str, float]) -> dict[str, float]:
    """Write the seconds of the stages that ran, and return those of all stages.

    A stage that did not run keeps its time, and so does one that took its result from the store.
    """
    known = read_times(out, image)
    for stage, value in seconds.items():
        if stage in STAGES:
            before = known.get(stage, 0.0) if stage in _MADE_ONCE else 0.0
            known[stage] = max(before, round(value, 3))
    document = {"version": _VERSION, "image": image.manifest, "seconds": known}
    write_file(out / TIMES, msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    return read_times(out, image)
