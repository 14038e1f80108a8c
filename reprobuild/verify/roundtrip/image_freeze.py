"""The image's own freeze, read strictly: it comes from inside the image, and may be anything.

The program that makes it is `reprobuild_runtime/freeze.py`. What does not fit this form is no answer.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

LARGEST = 32 << 20
Line = Annotated[str, Meta(max_length=20_000)]


class FrozenDistribution(Struct, frozen=True, kw_only=True):
    """One distribution: its line, its version, and the git tree of its source, where it has one."""

    name: Line
    freeze: Line
    version: Line = ""
    tree: Line | None = None


class Broken(Struct, frozen=True, kw_only=True):
    """Metadata of a distribution that cannot be used."""

    path: Line
    why: Line = ""


class SourceTree(Struct, frozen=True, kw_only=True):
    """The files of one source, as a git tree; None where its folder is gone."""

    name: Line
    tree: Line | None


class Frozen(Struct, frozen=True, kw_only=True):
    """What the image says is installed."""

    python: Line
    distributions: Annotated[tuple[FrozenDistribution, ...], Meta(max_length=20_000)]
    broken: Annotated[tuple[Broken, ...], Meta(max_length=20_000)] = ()
    sources: Annotated[tuple[SourceTree, ...], Meta(max_length=20_000)] = ()


def read_frozen(data: bytes) -> Frozen | str:
    """Return what a container printed that was asked for its freeze, or why it is none."""
    if len(data) > LARGEST:
        return f"the answer has {len(data)} bytes; no freeze has more than {LARGEST}"
    try:
        return msgspec.json.decode(data, type=Frozen)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        return f"the answer is no freeze: {str(err).encode('unicode_escape').decode()[:300]}"
