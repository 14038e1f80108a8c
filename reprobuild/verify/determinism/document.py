"""The document of the smoke test, read strictly: it comes from inside the image, and may be anything.

The program that makes it, `reprobuild_runtime/probes/run.py`, says what its parts mean. What does not fit this
form, or is larger than it can be, is no answer; nothing that stands in it is believed where it can be checked.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

FORMAT = 2
# About thirty probes in four modes are 100 kB.
LARGEST = 8 << 20
# Parts and depth of what has no form of its own: fingerprint and start.
MOST_PARTS, DEEPEST, LONGEST = 2000, 6, 4000

Device = Literal["cpu", "cuda"]
ModeName = Literal["default", "profile", "strict", "warn"]
Seen = Literal["IDENTICAL", "REFUSED", "DRIFT", "ERROR", "SKIPPED"]
Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_.:+/()=, -]*\Z")]
Text = Annotated[str, Meta(max_length=20_000)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=10**9)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
# Of free form: what a machine says of itself, at most `DEEPEST` levels of it. msgspec has no type that holds itself.
_Word = Annotated[str, Meta(max_length=LONGEST)]
_Leaf: TypeAlias = _Word | float | int | bool | None
_Level5: TypeAlias = _Leaf | list[_Leaf] | dict[_Word, _Leaf]
_Level4: TypeAlias = _Leaf | list[_Level5] | dict[_Word, _Level5]
_Level3: TypeAlias = _Leaf | list[_Level4] | dict[_Word, _Level4]
_Level2: TypeAlias = _Leaf | list[_Level3] | dict[_Word, _Level3]
_Level1: TypeAlias = _Leaf | list[_Level2] | dict[_Word, _Level2]
Free = Annotated[dict[_Word, _Level1], Meta(max_length=500)]


class Observed(Struct, frozen=True, kw_only=True):
    """What one probe did in one mode: `repeats` runs in `processes`, and the digest that all of them gave."""

    verdict: Seen
    digest: Digest | None = None
    distinct: Count = 0
    repeats: Count = 0
    processes: Count = 0
    why: Text = ""

    @property
    def whole(self) -> bool:
        """Whether it says IDENTICAL, and nothing else in it says otherwise."""
        one = self.digest is not None and self.distinct == 1 and self.repeats > 0
        return self.verdict == "IDENTICAL" and one


Modes = Annotated[dict[ModeName, Observed], Meta(max_length=4)]


class ProbeAnswer(Struct, frozen=True, kw_only=True):
    """One probe, what torch's own text says of it, and what was seen."""

    name: Name
    modes: Modes
    kind: Text = ""
    dtype: Text = ""
    shape: Text = ""
    documented: Literal["refused", "deterministic", "none"] = "none"


class ControlAnswer(Struct, frozen=True, kw_only=True):
    """Work that is known to drift by default, and not to in strict mode, or where something else cures it."""

    name: Name
    device: Device
    modes: Annotated[dict[Name, Observed], Meta(max_length=8)]
    why: Text = ""


class CollectivesAnswer(Struct, frozen=True, kw_only=True):
    """Reductions over several processes or GPUs, their control, and what NCCL says that it used."""

    verdict: Seen
    why: Text = ""
    backend: Text = ""
    world: Count = 0
    probes: Annotated[tuple[ProbeAnswer, ...], Meta(max_length=200)] = ()
    controls: Annotated[tuple[ControlAnswer, ...], Meta(max_length=10)] = ()
    algorithms: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()


class StressAnswer(Struct, frozen=True, kw_only=True):
    """Whether something kept the processors or the GPU busy beside each process that it was asked for."""

    ran: bool
    why: Text = ""


class Expectations(Struct, frozen=True, kw_only=True):
    """What the torch in the image says of itself: which operations are deterministic in strict mode or refuse."""

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
    """Return the document that a container printed when it was asked about a device, or why there is none."""
    if len(data) > LARGEST:
        return f"the answer has {len(data)} bytes; no smoke test gives more than {LARGEST}"
    try:
        found = msgspec.json.decode(data, type=Document)
        misfit = _misfit(found, device)
    except (msgspec.MsgspecError, ValueError, RecursionError) as err:
        return f"the answer is no document of the smoke test: {err}"
    return f"the answer contradicts itself: {misfit}" if misfit else found


def flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, value) of all that stands in a fingerprint, as `cuda.gpus.0.name`, in order."""
    for key, inner in sorted(value.items()):
        name = f"{above}.{key}" if above else key
        if isinstance(inner, dict):
            yield from flat(inner, name)
        elif isinstance(inner, list):
            yield from flat({str(number): item for number, item in enumerate(inner)}, name)
        else:
            yield name, inner if isinstance(inner, str) else json.dumps(inner)


def _misfit(found: Document, device: Device) -> str:
    """Return what in a document cannot be, or nothing."""
    if found.ran and found.device != device:
        return f"it was asked about {device} and answers about {found.device}"
    several = found.collectives.probes if found.collectives else ()
    for names in (
        [probe.name for probe in found.probes],
        [probe.name for probe in several],
        [f"{control.device} {control.name}" for control in found.controls],
        [control.name for control in found.collectives.controls] if found.collectives else [],
    ):
        if len(set(names)) < len(names):
            return "a name stands in it twice"
    for part in (found.start, found.fingerprint):
        if sum(1 for _ in _parts(part)) > MOST_PARTS:
            return f"a part of it has more than {MOST_PARTS} values"
    return ""


def _parts(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what is in a value of free form.

    Raises:
        ValueError: it is deeper, or a text in it longer, than any that the smoke test makes.
    """
    if depth > DEEPEST:
        raise ValueError(f"more than {DEEPEST} levels")
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _parts(key, depth + 1)
            yield from _parts(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _parts(inner, depth + 1)
    elif isinstance(value, str) and len(value) > LONGEST:
        raise ValueError(f"a text of {len(value)} characters")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a number that is none")
    else:
        yield value
