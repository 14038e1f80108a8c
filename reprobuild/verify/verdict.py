"""The verdict: the checks, their results, and the gaps.

A missing answer has a name of its own.

`verdict.json` is this value: months later `verify --against` compares with it.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import DriftError, InconclusiveError, RoundTripError
from reprobuild.infra.untrusted.strings import Digest as ImageDigest
from reprobuild.infra.untrusted.strings import Instant, Profile, Version
from reprobuild.verify.determinism.document import (
    Count,
    Device,
    Digest,
    Free,
    ModeName,
    Name,
    Seconds,
    Seen,
    Text,
)
from reprobuild.verify.workload.conditions import WorkRecord

V = Literal["identical", "drift", "inconclusive", "not-covered", "not-applicable", "not-run"]
RoundTrip = Literal["exact", "explained", "residue", "not-run"]
# Of one probe: `refused` is torch's refusal in strict mode, as its own text documents; `informational` is a probe for
# which torch promises no determinism in any mode.
ProbeV = Literal["identical", "refused", "drift", "inconclusive", "not-applicable", "informational"]
# The parts of a check. A verdict counts those that were requested.
Part = Literal["round-trip", "probes", "workload"]
PARTS: tuple[Part, ...] = ("round-trip", "probes", "workload")
VERSION = 3
# The run that is compared with the first: under the same condition, stopped and resumed, or disturbed.
Condition = Literal["same", "resumed", "disturbed"]


class Determinism(Struct, frozen=True, kw_only=True):
    """One answer for each scope."""

    cpu: V
    gpu: V
    collectives: V


class WorkComparison(Struct, frozen=True, kw_only=True):
    """One artefact of two runs: name, verdict, and notes.

    `details` are lines on differences, excuses and the method of comparison. `excused` counts the excused values, by
    kind, and `warnings` are lines on NaN, on empty files, and on files that were not compared. `condition` is that
    of the run that was compared with the first.
    """

    name: Text
    verdict: V
    condition: Condition = "same"
    detail: Text = ""
    details: tuple[Text, ...] = ()
    excused: Annotated[dict[Name, Count], Meta(max_length=20)] = {}
    warnings: tuple[Text, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether the comparison is an answer: a disturbance that is not possible on this machine is no answer."""
        return not (self.condition == "disturbed" and self.verdict == "not-applicable")


class DriftTrace(Struct, frozen=True, kw_only=True):
    """The first difference of two runs of a drifting workload.

    `runs` counts the traced runs. `first` is the first record that differs, with its step. The cause has the class
    `kind`, a `subject`, the `place` FILE:LINE, a `reason` and a `remedy`. `tested` is the result of the remedy in two
    more runs. `why` is the reason if there is no cause. A text is empty if it is not known.
    """

    runs: Count = 0
    first: Text = ""
    kind: Text = ""
    subject: Text = ""
    place: Text = ""
    reason: Text = ""
    remedy: Text = ""
    tested: Text = ""
    why: Text = ""


class Mode(Struct, frozen=True, kw_only=True):
    """One probe in one mode.

    `digest` is the common digest of all `runs`, and `again` that of a second, fresh container; None if there is no
    single digest. `upper` bounds the share of runs that drift, at 95 %: 3/N if no run of N did (the rule of three).
    """

    verdict: Seen
    digest: Digest | None
    again: Digest | None
    distinct: Count
    runs: Count
    processes: Count
    upper: Annotated[float, Meta(ge=0, le=1)]
    why: Text = ""


Modes = Annotated[dict[ModeName, Mode], Meta(max_length=4)]


class ProbeVerdict(Struct, frozen=True, kw_only=True):
    """One probe: torch's documentation, results by mode, and verdict."""

    name: Name
    kind: Text
    dtype: Text
    shape: Text
    documented: Literal["refused", "deterministic", "none"]
    verdict: ProbeV
    modes: Modes
    why: Text = ""


class ControlVerdict(Struct, frozen=True, kw_only=True):
    """A control, which must drift by default and be cured.

    It is `effective` if it drifted by default, and not in strict mode or with its cure.
    """

    name: Name
    device: Device
    verdict: Literal["effective", "ineffective", "drift"]
    modes: Annotated[dict[Name, Mode], Meta(max_length=8)]
    why: Text = ""


class Collectives(Struct, frozen=True, kw_only=True):
    """Reductions over `world` processes or GPUs, with their controls.

    `algorithms` are those that NCCL reports.
    """

    verdict: V
    backend: Text = ""
    world: Count = 0
    probes: Annotated[tuple[ProbeVerdict, ...], Meta(max_length=200)] = ()
    why: Text = ""
    algorithms: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()
    controls: Annotated[tuple[ControlVerdict, ...], Meta(max_length=10)] = ()


class Smoke(Struct, frozen=True, kw_only=True):
    """The determinism tests on one device, with the verdict's reasons.

    `hook` states whether the draws before any seeding were the same in both containers, and `start` holds digests of
    those draws. `open` has the reasons if the verdict is inconclusive. `left_out` are probes that were not run: they
    take long, and `thorough` was not requested. `stress` is the reason if the load did not disturb them, and `threads`
    the number of torch's threads in each mode. `libraries` counts the identical probes of each distribution if the
    image has no torch; then NumPy and libraries that build on it were probed, and `strict` was one thread.
    """

    device: Device
    verdict: V
    hook: V
    probes: Annotated[tuple[ProbeVerdict, ...], Meta(max_length=1000)] = ()
    controls: Annotated[tuple[ControlVerdict, ...], Meta(max_length=50)] = ()
    comparator: Annotated[dict[Name, bool], Meta(max_length=100)] = {}
    collectives: Collectives | None = None
    expectations: Text = ""
    fingerprint: Free = {}
    start: Free = {}
    open: tuple[Text, ...] = ()
    seconds: Seconds = 0
    thorough: bool = False
    left_out: Annotated[tuple[Name, ...], Meta(max_length=500)] = ()
    stress: Text = ""
    threads: Annotated[dict[ModeName, Count], Meta(max_length=4)] = {}
    libraries: Annotated[dict[Name, Count], Meta(max_length=20)] = {}


# Why a captured line is not in the image as it was: docs/round-trip.md.
Code = Literal[
    "base-provided", "host-only", "secret-withheld", "site-variable", "not-baked", "not-needed", "path-rewritten",
    "replaced-version", "solved-version", "other-spelling", "decision", "unrecoverable", "unexplained",
]  # fmt: skip


class RoundTripDifference(Struct, frozen=True, kw_only=True):
    """One difference between a captured list and the image.

    The captured line is not repeated by the image, or only the image has it.

    `reason` is the code in words, empty if the difference is unexplained.
    """

    list: Text
    captured: Text
    image: Text
    reason: Text
    code: Code


class Deviation(Struct, frozen=True, kw_only=True):
    """One difference between an earlier verdict and this check.

    A value is None if that side does not have it.
    """

    scope: Text
    name: Text
    then: Text | None
    now: Text | None


_OPEN = ("inconclusive", "not-covered")  # answers of a test that ran, and does not decide


class Against(Struct, frozen=True, kw_only=True):
    """The comparison with an earlier verdict of the same image.

    `certificate` is the sha256 of its file. `platform` are differences of the machines, which explain others; `failed`
    are digests that differ though the platform is the same, `other` those on another platform, and `unmatched` those
    that only one of the two has, or that were computed on another kind of device. `beside` are differences that change
    no result, and explain no other difference. `mounts` are mounts of the workload that differ, or have no digest: the
    workload is then not compared. With `same_platform`, the user requires the platform of the earlier verdict.
    """

    certificate: ImageDigest
    made: Instant
    verdict: Literal["same", "differ", "other-platform", "inconclusive"]
    compared: int
    platform: tuple[Deviation, ...] = ()
    failed: tuple[Deviation, ...] = ()
    other: tuple[Deviation, ...] = ()
    unmatched: tuple[Deviation, ...] = ()
    beside: tuple[Deviation, ...] = ()
    mounts: tuple[Deviation, ...] = ()
    same_platform: bool = False

    @property
    def is_open(self) -> bool:
        """Whether the comparison does not answer the question of the user."""
        return self.verdict == "inconclusive" or (self.same_platform and self.verdict == "other-platform")


class Verdict(Struct, frozen=True, kw_only=True):
    """The verdict of one check, with all answers.

    It states the image, the seed, the time and the machine.

    `made` is the time in UTC, `program` the version of reprobuild; `image` is the manifest's digest. The comparisons
    are of the workload, `work`, and `trace` explains its drift. `engine` ran the containers, and `gpus` are the
    requested GPUs. `parts` were requested: the others do not count.
    """

    version: int
    made: Instant
    program: Version
    image: ImageDigest
    tree: ImageDigest
    lock: ImageDigest
    seed: int
    profile: Profile
    determinism: Determinism
    round_trip: RoundTrip
    smoke: tuple[Smoke, ...]
    comparisons: tuple[WorkComparison, ...]
    differences: tuple[RoundTripDifference, ...]
    notes: tuple[Text, ...] = ()
    against: Against | None = None
    work: WorkRecord | None = None
    engine: Text = ""
    gpus: Text = ""
    parts: Annotated[tuple[Part, ...], Meta(min_length=1, max_length=len(PARTS))] = PARTS
    trace: DriftTrace | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of this verdict; the most severe one wins."""
        return self._judge()[0]

    @property
    def exit_reason(self) -> str:
        """The reason of the exit code, in words; empty for 0."""
        return self._judge()[1]

    def _judge(self) -> tuple[int, str]:
        """Return the exit code and its reason."""
        answers = msgspec.structs.asdict(self.determinism)
        if drifting := [name for name, answer in answers.items() if answer == "drift"]:
            return DriftError.exit_code, f"two runs gave different bytes ({', '.join(drifting)})"
        if self.against is not None and self.against.verdict == "differ":
            return DriftError.exit_code, f"other results than the verdict of {self.against.made}"
        if self.round_trip == "residue":
            return RoundTripError.exit_code, "the image has differences that no line of the lock explains"
        if no_answer := [f"{name} {answer}" for name, answer in answers.items() if answer in _OPEN]:
            return InconclusiveError.exit_code, f"a determinism test has no answer ({', '.join(no_answer)})"
        # The workload answers if the determinism tests were left out.
        if self.parts != ("round-trip",) and self.determinism.cpu == "not-run":
            return InconclusiveError.exit_code, "no determinism test ran"
        if "round-trip" in self.parts and self.round_trip == "not-run":
            return InconclusiveError.exit_code, "the round trip was not compared"
        if self.against and self.against.is_open:
            earlier = f"the verdict of {self.against.made}"
            return InconclusiveError.exit_code, f"the comparison with {earlier} has no answer"
        return 0, ""
