"""Verdict: what was checked, what came out, and what was not checked. A non-answer has a name of its own.

`verdict.json` is this value, and is the certificate: months later `verify --against` compares with it.
"""

from __future__ import annotations

from typing import Annotated, Literal

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
# Of one probe: `refused` is torch's refusal in strict mode, where its own text says that it refuses;
# `informational` is what torch promises in no mode.
ProbeV = Literal["identical", "refused", "drift", "inconclusive", "not-applicable", "informational"]
VERSION = 3


class Determinism(Struct, frozen=True, kw_only=True):
    """One answer for each scope."""

    cpu: V
    gpu: V
    collectives: V


class WorkComparison(Struct, frozen=True, kw_only=True):
    """One piece of work done twice: its name, whether the bytes agreed, and what there is to say.

    `details` are lines on what differs, what was excused, and how it was compared. `excused` counts the values that
    were excused, by kind, and `warnings` are lines on NaN, on empty files, and on files that nothing compared.
    """

    name: Text
    verdict: V
    detail: Text = ""
    details: tuple[Text, ...] = ()
    excused: Annotated[dict[Name, Count], Meta(max_length=20)] = {}
    warnings: tuple[Text, ...] = ()


class Mode(Struct, frozen=True, kw_only=True):
    """One probe in one mode.

    `digest` is what all `runs` gave, and `again` what a second, fresh container gave; None where there is no one
    digest. `upper` bounds the share of runs that drift, at 95 %: 3/N where none of N did (the rule of three).
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
    """One probe: what torch's own text says of it, what was seen in each mode, and what that means."""

    name: Name
    kind: Text
    dtype: Text
    shape: Text
    documented: Literal["refused", "deterministic", "none"]
    verdict: ProbeV
    modes: Modes
    why: Text = ""


class ControlVerdict(Struct, frozen=True, kw_only=True):
    """A control: `effective` where it was seen drifting by default, and no more in strict mode or once cured."""

    name: Name
    device: Device
    verdict: Literal["effective", "ineffective", "drift"]
    modes: Annotated[dict[Name, Mode], Meta(max_length=8)]
    why: Text = ""


class Collectives(Struct, frozen=True, kw_only=True):
    """Reductions over `world` processes, or GPUs, their controls, and by which `algorithms`, where NCCL tells."""

    verdict: V
    backend: Text = ""
    world: Count = 0
    probes: Annotated[tuple[ProbeVerdict, ...], Meta(max_length=200)] = ()
    why: Text = ""
    algorithms: Annotated[tuple[Text, ...], Meta(max_length=200)] = ()
    controls: Annotated[tuple[ControlVerdict, ...], Meta(max_length=10)] = ()


class Smoke(Struct, frozen=True, kw_only=True):
    """The smoke test on one device, and all that its verdict follows from.

    `hook` says whether what was drawn before anything was seeded was the same in both containers, and `start`
    holds digests of those draws. `open` says why it is inconclusive. `left_out` are probes that were not run: they
    take long, and `thorough` was not asked for. `stress` says why what was to disturb them did not, and
    `threads` how many torch had in each mode. `libraries` counts the identical probes of each distribution where
    the image has no torch; NumPy and what builds on it were probed then, and `strict` was one thread.
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
    "replaced-version", "other-spelling", "decision", "unrecoverable", "unexplained",
]  # fmt: skip


class RoundTripDifference(Struct, frozen=True, kw_only=True):
    """One line of a captured list that the image does not repeat, or that only the image has, and why.

    `reason` is the code in words, empty where nothing explains it.
    """

    list: Text
    captured: Text
    image: Text
    reason: Text
    code: Code


class Deviation(Struct, frozen=True, kw_only=True):
    """Something that a certificate and this check say differently; None where one of them does not say it."""

    scope: Text
    name: Text
    then: Text | None
    now: Text | None


class Against(Struct, frozen=True, kw_only=True):
    """This check compared with an earlier certificate of the same image.

    `certificate` is the sha256 of its file. `platform` are differences of the machines, which explain others;
    `failed` are digests that differ though the platform is the same, `other` those on another platform, and
    `unmatched` is what only one of the two has, or was computed on another kind of device. `beside` are differences
    that change no result, and explain none. `mounts` of the user's own work that were others, or have no digest: that
    work is then not compared.
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


class Verdict(Struct, frozen=True, kw_only=True):
    """The certificate of one check: which image, with which seed, when, on what, and every answer.

    `made` is the time in UTC, `program` the version of reprobuild; `image` is the manifest's digest. The
    comparisons are of the user's own `work`. `engine` ran the containers, and `gpus` are those that were asked for.
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

    @property
    def exit_code(self) -> int:
        """The exit code that this verdict calls for; the gravest wins."""
        answers = (self.determinism.cpu, self.determinism.gpu, self.determinism.collectives)
        before = self.against.verdict if self.against else "same"
        if "drift" in answers or before == "differ":
            return DriftError.exit_code
        if self.round_trip == "residue":
            return RoundTripError.exit_code
        open_answers = {"inconclusive", "not-covered"} & set(answers)
        nothing = (
            self.determinism.cpu == "not-run"
        )  # the user's own work answers where the smoke test was left out
        if open_answers or nothing or self.round_trip == "not-run" or before == "inconclusive":
            return InconclusiveError.exit_code
        return 0
