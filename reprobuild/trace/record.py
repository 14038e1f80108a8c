"""The records of a traced run. They come from a container: untrusted."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from reprobuild.infra.untrusted.strings import Line

_MOST_REPLAYS = 1000  # repetitions of one operation
TraceDigest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Kind = Literal[
    "batch", "loss", "gradients", "parameters", "state", "generator", "operation", "mark", "output", "stride",
    "component", "call",
]  # fmt: skip
Count = Annotated[int, Meta(ge=-1, le=1 << 53)]
_Replays = Annotated[tuple[Annotated[int, Meta(ge=1, le=_MOST_REPLAYS)], ...], Meta(max_length=_MOST_REPLAYS)]


class ComparedFields(Struct, frozen=True, kw_only=True):
    """The fields of a record that are part of a step's digest, if the record has them."""

    kind: Kind
    name: Line
    arguments: Line | UnsetType = UNSET
    inputs: tuple[TraceDigest, ...] | UnsetType = UNSET
    outputs: tuple[TraceDigest, ...] | UnsetType = UNSET


class TraceRecord(Struct, frozen=True, kw_only=True):
    """One record of a run.

    Attributes:
        kind: of the record.
        name: of the operation, or of the subject.
        number: in its step, from 0.
        inputs, outputs: digests.
        writers: for each input, the number of the record that wrote it, or -1.
        place: FILE:LINE of the program.
        module: the module of PyTorch that ran.
        backward: the node of the backward pass, or empty.
        arguments: numbers and words of a call.
        generator: whether the last input is the state of a generator.
        replayed: how often the repetitions of the operation had each result, in falling order.
        seconds: a measured value, which runs do not share.
        detail: whether a run without operations has no such record, beside the operations.
    """

    kind: Kind
    name: Line
    number: Count
    inputs: tuple[TraceDigest, ...] = ()
    outputs: tuple[TraceDigest, ...] = ()
    writers: tuple[Count, ...] = ()
    place: Line = ""
    module: Line = ""
    backward: Line = ""
    arguments: Line = ""
    generator: bool = False
    replayed: _Replays = ()
    seconds: float = 0.0
    detail: bool = False

    @property
    def is_work(self) -> bool:
        """Whether the program did this; the states of generators and the strides of the recorder are always there."""
        return self.kind not in ("generator", "stride")

    @property
    def is_of_each_run(self) -> bool:
        """Whether a run without operations has this record, too."""
        return not self.detail and self.kind != "operation"

    @property
    def call(self) -> tuple[str, str, str, int, int]:
        """The facts that two runs must share before their digests are compared."""
        return self.kind, self.name, self.arguments, len(self.inputs), len(self.outputs)
