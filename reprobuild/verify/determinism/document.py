"""The document of the determinism tests, read strictly.

It comes from inside the image, and is untrusted.

The program that makes it, `reprobuild_runtime/probes/run.py`, documents its parts. A document that does not fit this
form, or is too large, is not an answer; its statements are checked whenever possible.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_json

FORMAT = 2
# About thirty probes in four modes are 100 kB.
LARGEST = 8 << 20
# Limits for the parts and depth of values without a form of their own: fingerprint and start.
MOST_PARTS, DEEPEST, LONGEST = 2000, 6, 4000
# The names of all values of such a part: each repeats the keys above its value. Those of a GPU have 750 characters.
MOST_CHARACTERS = 200_000

Device = Literal["cpu", "cuda"]
ModeName = Literal["default", "profile", "strict", "warn"]
Seen = Literal["IDENTICAL", "REFUSED", "DRIFT", "ERROR", "SKIPPED"]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.:+/()=, -]*\Z")]
Text = Annotated[str, Meta(max_length=20_000)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
# Of free form: the statements of a machine about itself, at most `DEEPEST` levels of them. msgspec has no recursive
# type.
_Word = Annotated[str, Meta(max_length=LONGEST)]
_Leaf: TypeAlias = _Word | float | int | bool | None
_Level5: TypeAlias = _Leaf | list[_Leaf] | dict[_Word, _Leaf]
_Level4: TypeAlias = _Leaf | list[_Level5] | dict[_Word, _Level5]
_Level3: TypeAlias = _Leaf | list[_Level4] | dict[_Word, _Level4]
_Level2: TypeAlias = _Leaf | list[_Level3] | dict[_Word, _Level3]
_Level1: TypeAlias = _Leaf | list[_Level2] | dict[_Word, _Level2]
Free = Annotated[dict[_Word, _Level1], Meta(max_length=500)]


class Observed(Struct, frozen=True, kw_only=True):
    """The result of one probe in one mode.

    It was run `repeats` times in `processes`; `digest` is the common digest of all runs.
    """

    verdict: Seen
    digest: Digest | None = None
    distinct: Count = 0
    repeats: Count = 0
    processes: Count = 0
    why: Text = ""

    @property
    def is_whole(self) -> bool:
        """Whether it is IDENTICAL and free of contradictions."""
        single_digest = self.digest is not None and self.distinct == 1 and self.repeats > 0
        return self.verdict == "IDENTICAL" and single_digest


Modes = Annotated[dict[ModeName, Observed], Meta(max_length=4)]


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """One probe: torch's documentation of it, and its results."""

    name: Name
    modes: Modes
    kind: Text = ""
    dtype: Text = ""
    shape: Text = ""
    documented: Literal["refused", "deterministic", "none"] = "none"


class ControlAnswer(Struct, frozen=True, kw_only=True):
    """A control: known drift, and its cure.

    It drifts by default, but not in strict mode or with another cure.
    """

    name: Name
    device: Device
    modes: Annotated[dict[Name, Observed], Meta(max_length=8)]
    why: Text = ""


class CollectivesAnswer(Struct, frozen=True, kw_only=True):
    """Reductions over several processes or GPUs, with their control.

    `algorithms` are those that NCCL reports.
    """

    verdict: Seen
    why: Text = ""
    backend: Text = ""
    world: Count = 0
    probes: Annotated[tuple[ProbeAnswer, ...], Meta(max_length=200)] = ()
    controls: Annotated[tuple[ControlAnswer, ...], Meta(max_length=10)] = ()
    algorithms: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()


class StressAnswer(Struct, frozen=True, kw_only=True):
    """Whether a load ran beside each process that was to have one.

    It keeps the processors or the GPU busy.
    """

    ran: bool
    why: Text = ""


class Expectations(Struct, frozen=True, kw_only=True):
    """The image's own documentation of torch operations.

    It lists those that are deterministic in strict mode, and those that refuse.
    """

    source: Text = ""
    deterministic: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()
    refused: Annotated[tuple[Text, ...], Meta(max_length=1000)] = ()


class Document(Struct, frozen=True, kw_only=True):
    """The whole answer of one container."""

    format: Literal[2]
    ran: bool
    why: Text = ""
    device: Device = "cpu"
    start: Free = {}
    fingerprint: Free = {}
    expectations: Expectations = Expectations()
    probes: Annotated[tuple[ProbeAnswer, ...], Meta(max_length=500)] = ()
    controls: Annotated[tuple[ControlAnswer, ...], Meta(max_length=50)] = ()
    comparator: Annotated[dict[Name, bool], Meta(max_length=100)] = {}
    collectives: CollectivesAnswer | None = None
    stress: StressAnswer | None = None
    threads: Annotated[dict[ModeName, Count], Meta(max_length=4)] = {}
    seconds: Seconds = 0


def read_document(data: bytes, device: Device) -> Document | str:
    """Return the document that a container printed, or an error text.

    `device` is the device that it was asked about.
    """
    if len(data) > LARGEST:
        return f"the answer has {len(data)} bytes; no determinism test gives more than {LARGEST}"
    try:
        document = decode_json(data, Document)
        misfit = _find_contradiction(document, device)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        return f"the answer is no document of the determinism test: {display_error(err)}"
    return f"the answer contradicts itself: {misfit}" if misfit else document


def flatten_fingerprint(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, value) of a fingerprint in order.

    A name is for example `cuda.gpus.0.name`.
    """
    for key, inner in sorted(value.items()):
        name = f"{above}.{key}" if above else key
        if isinstance(inner, dict):
            yield from flatten_fingerprint(inner, name)
        elif isinstance(inner, list):
            yield from flatten_fingerprint({str(number): item for number, item in enumerate(inner)}, name)
        else:
            yield name, inner if isinstance(inner, str) else json.dumps(inner)


def _find_contradiction(document: Document, device: Device) -> str:
    """Return the first contradiction in a document, or an empty string."""
    if document.ran and document.device != device:
        return f"it was asked about {device} and answers about {document.device}"
    several = document.collectives.probes if document.collectives else ()
    for names in (
        [probe.name for probe in document.probes],
        [probe.name for probe in several],
        [f"{control.device} {control.name}" for control in document.controls],
        [control.name for control in document.collectives.controls] if document.collectives else [],
    ):
        if len(set(names)) < len(names):
            return "a name stands in it twice"
    for part in (document.start, document.fingerprint):
        if excess := find_excess(part):
            return excess
    return ""


def find_excess(part: Mapping[str, Any]) -> str:
    """Return why a fingerprint or start is larger than any machine's, or an empty string.

    A few kilobytes can be gigabytes of names: `flatten_fingerprint` is for a value that passed this.

    Raises:
        ValueError: see `_list_parts`.
    """
    if sum(1 for _ in islice(_list_parts(part), MOST_PARTS + 1)) > MOST_PARTS:
        return f"a part of it has more than {MOST_PARTS} values"
    if sum(len(name) for name, _ in flatten_fingerprint(part)) > MOST_CHARACTERS:
        return f"the names in a part of it have more than {MOST_CHARACTERS} characters"
    return ""


def _list_parts(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the parts of a value of free form: keys, values, and those that hold others.

    Raises:
        ValueError: it is deeper, or a text in it longer, than in any output of the determinism tests.
    """
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} levels")
    if isinstance(value, (dict, list)):
        yield value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _list_parts(key, depth + 1)
            yield from _list_parts(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_parts(inner, depth + 1)
    elif isinstance(value, str) and len(value) > LONGEST:
        raise ValueError(f"a text of {len(value)} characters")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is none")
    else:
        yield value
