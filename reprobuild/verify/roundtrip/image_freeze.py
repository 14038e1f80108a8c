"""The image's own freeze, read strictly.

It comes from inside the image, and is untrusted.

The program that makes it is `reprobuild_runtime/freeze.py`. Data of another form is not an answer.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.infra.untrusted.decode import decode_json

LARGEST = 32 << 20
Line = Annotated[str, Meta(max_length=20_000)]


class FrozenDistribution(Struct, frozen=True, kw_only=True):
    """One distribution: its line, version, and source's git tree, if any."""

    name: Line
    freeze: Line
    version: Line = ""
    tree: Line | None = None


class Broken(Struct, frozen=True, kw_only=True):
    """Unusable metadata of a distribution."""

    path: Line
    why: Line = ""


class SourceTree(Struct, frozen=True, kw_only=True):
    """The files of one source, as a git tree.

    The tree is None if the directory is missing.
    """

    name: Line
    tree: Line | None


class Frozen(Struct, frozen=True, kw_only=True):
    """The image's own list of installed distributions."""

    python: Line
    distributions: Annotated[tuple[FrozenDistribution, ...], Meta(max_length=20_000)]
    broken: Annotated[tuple[Broken, ...], Meta(max_length=20_000)] = ()
    sources: Annotated[tuple[SourceTree, ...], Meta(max_length=20_000)] = ()


def read_frozen(data: bytes) -> Frozen | str:
    """Return the freeze that a container printed, or an error text."""
    if len(data) > LARGEST:
        return f"the answer has {len(data)} bytes; no freeze has more than {LARGEST}"
    try:
        return decode_json(data, Frozen)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        return f"the answer is no freeze: {str(err).encode('unicode_escape').decode()[:300]}"
