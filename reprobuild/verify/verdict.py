"""Verdict: what was checked, what came out, and what was not checked. A non-answer has a name of its own."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from reprobuild.errors import DriftError, InconclusiveError, RoundTripError

V = Literal["identical", "drift", "inconclusive", "not-covered", "not-applicable", "not-run"]
RoundTrip = Literal["exact", "explained", "residue", "not-run"]
VERSION = 2


class Determinism(Struct, frozen=True, kw_only=True):
    """One answer for each scope."""

    cpu: V
    gpu: V
    collectives: V


class Comparison(Struct, frozen=True, kw_only=True):
    """One piece of work done twice: its name, whether the bytes agreed, and what there is to say.

    `details` are lines on what differs, what was excused, and how it was compared.
    """

    name: str
    verdict: V
    detail: str = ""
    details: tuple[str, ...] = ()


# Why a captured line is not in the image as it was: docs/round-trip.md.
Code = Literal[
    "base-provided", "host-only", "secret-withheld", "site-variable", "not-baked", "not-needed", "path-rewritten",
    "replaced-version", "other-spelling", "decision", "unrecoverable", "unexplained",
]  # fmt: skip


class Difference(Struct, frozen=True, kw_only=True):
    """One line of a captured list that the image does not repeat, or that only the image has, and why.

    `reason` is the code in words, empty where nothing explains it.
    """

    list: str
    captured: str
    image: str
    reason: str
    code: Code


class Verdict(Struct, frozen=True, kw_only=True):
    """The certificate of one check: which image, with which seed, on what, and every answer."""

    version: int
    image: str
    seed: int
    determinism: Determinism
    round_trip: RoundTrip
    comparisons: tuple[Comparison, ...]
    control: Comparison
    differences: tuple[Difference, ...]
    fingerprint: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code that this verdict calls for; the gravest wins."""
        answers = (self.determinism.cpu, self.determinism.gpu, self.determinism.collectives)
        if "drift" in answers:
            return DriftError.exit_code
        if self.round_trip == "residue":
            return RoundTripError.exit_code
        if {"inconclusive", "not-covered", "not-run"} & set(answers) or self.round_trip == "not-run":
            return InconclusiveError.exit_code
        return 0
