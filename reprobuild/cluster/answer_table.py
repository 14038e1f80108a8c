"""Answers of nodes, compact enough for ten thousand in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.verify.certificate.compare import MODES, REFUSED, START, answer_digests
from reprobuild.verify.determinism.document import Device, ModeName
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.platform import platform_facts
from reprobuild.verify.determinism.summary import drifting_probes
from reprobuild.verify.verdict import ProbeVerdict, Smoke, Verdict
from reprobuild_portable import secrets

WIDTH = 16  # bytes of an answer that are kept: two answers equal in them would be a collision of SHA-256
NONE = bytes(WIDTH)
MOST_REASONS, LONGEST = 5, 300
LARGEST_PLATFORM = 20_000  # characters; one with eight GPUs has 3000
OTHER = "was it made by another reprobuild? Check the node again, with the one that is here"
SEVERAL = "collectives: "  # before the names of answers of several processes, as in `answers`
OPEN = ("inconclusive", "not-covered", "not-run")
NOT_COVERED = "collectives: not-covered"  # as in `failure_reasons`


class NodeAnswers(Struct, frozen=True, kw_only=True):
    """A node on one device.

    Attributes:
        platform: the facts on which its results may depend, as (name, value).
        packed: for each name of the `AnswerTable` the first bytes of its answer, or zeros.
        drifts: names of answers that must be the same twice on this node, and were not.
        loose: names of answers that drift with the image's profile, as they may if strict mode cures or
            refuses it.
    """

    node: str
    device: Device
    platform: tuple[tuple[str, str], ...]
    packed: bytes
    drifts: tuple[str, ...] = ()
    loose: tuple[str, ...] = ()


class AnswerTable:
    """The names of an image's possible answers, by device.

    It also stores each text once.

    Args:
        expected: the answers of the program in the image.
    """

    def __init__(self, expected: Mapping[Device, Expected]) -> None:
        # One kind of device may have the collectives of another, if its torch has them.
        several = {name for expectation in expected.values() for name in expectation.collectives}
        self.expected = dict(expected)
        self.names: dict[Device, tuple[str, ...]] = {
            device: tuple(sorted({*_answer_names(expectation, several), START}))
            for device, expectation in expected.items()
        }
        # The answers that every torch must give between nodes: reprobuild_runtime/probes/between.py
        self.between: dict[Device, tuple[str, ...]] = {
            device: expectation.between for device, expectation in expected.items()
        }
        self._places = {
            device: {name: place * WIDTH for place, name in enumerate(names)}
            for device, names in self.names.items()
        }
        self._packed: dict[bytes, bytes] = {}
        self._platforms: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}

    def read(self, node: str, verdict: Verdict) -> Iterator[NodeAnswers]:
        """Yield a node's answers, a member for each device.

        Raises:
            UsageError: it has an answer that the image cannot give, so it is not a verdict of this image.
        """
        for smoke in verdict.smoke:
            if not smoke.fingerprint or smoke.verdict == "not-covered":
                continue
            platform, packed = platform_facts(smoke), self._pack(smoke)
            if sum(len(name) + len(value) for name, value in platform) > LARGEST_PLATFORM:
                raise UsageError(
                    "the verdict file tells more of its platform than there is to tell", hint=OTHER
                )
            yield NodeAnswers(
                node=node, device=smoke.device, platform=self._platforms.setdefault(platform, platform),
                packed=self._packed.setdefault(packed, packed), drifts=tuple(sorted(self._drifts(smoke, verdict))),
                loose=tuple(f"{probe.name} (profile)" for probe in drifting_probes(smoke)),
            )  # fmt: skip

    def _pack(self, smoke: Smoke) -> bytes:
        places = self._places.get(smoke.device, {})
        packed = bytearray(len(places) * WIDTH)
        for name, value in answer_digests(smoke).items():
            place = places.get(name)
            if place is None:
                raise UsageError(
                    f"the verdict file has an answer that this image does not give: {name}",
                    hint=OTHER,
                )
            text = name == START or value == REFUSED
            short = hashlib.sha256(value.encode()).digest() if text else bytes.fromhex(value[: 2 * WIDTH])
            packed[place : place + WIDTH] = short[:WIDTH]
        return bytes(packed)

    def _drifts(self, smoke: Smoke, verdict: Verdict) -> set[str]:
        """Return the drifts in the node's own verdict.

        They are names that the image has, or else only the scope.
        """
        places = self._places.get(smoke.device, {})
        unstable = {(probe.name, "strict") for probe in smoke.probes if probe.verdict == "drift"}
        several = smoke.collectives.probes if smoke.collectives else ()
        unstable |= {(f"{SEVERAL}{probe.name}", "strict") for probe in several if probe.verdict == "drift"}
        drifts = {f"{name} ({mode})" for name, mode in unstable} | (
            {START} if smoke.hook == "drift" else set()
        )
        named = {name for name in drifts if name in places}
        several_drift = bool(smoke.collectives and smoke.collectives.verdict == "drift")
        if several_drift and not any(name.startswith(SEVERAL) for name in named):
            named.add("collectives")
        # A control that drifts, or a name from an image of another program, is not in the table, but still a
        # drift.
        if not named and (smoke.verdict == "drift" or smoke.device in drifting_scopes(verdict)):
            named.add("the determinism test")
        return named


def drifting_scopes(verdict: Verdict) -> set[str]:
    """Return the devices with drift in a verdict's scopes.

    A drift of collectives counts for all devices that it has.
    """
    determinism = verdict.determinism
    scopes = {
        device
        for device, answer in (("cpu", determinism.cpu), ("cuda", determinism.gpu))
        if answer == "drift"
    }
    if determinism.collectives == "drift":
        scopes |= {smoke.device for smoke in verdict.smoke} or {"collectives"}
    return scopes


def failure_reasons(verdict: Verdict) -> tuple[str, ...]:
    """Return the reasons why a verdict does not pass."""
    determinism = verdict.determinism
    texts = [f"{smoke.device}: {why}" for smoke in verdict.smoke for why in smoke.open]
    scopes = {"gpu" if smoke.device == "cuda" else "cpu" for smoke in verdict.smoke if smoke.open}
    for scope, answer in (
        ("cpu", determinism.cpu),
        ("gpu", determinism.gpu),
        ("collectives", determinism.collectives),
    ):
        if answer in OPEN and scope not in scopes:
            texts.append(f"{scope}: {answer}")
    more = [f"and {len(texts) - MOST_REASONS} more"] if len(texts) > MOST_REASONS else []
    return tuple(escape_text(why) for why in [*texts[:MOST_REASONS], *more])


def lacks_peers(verdict: Verdict) -> bool:
    """Return whether collectives lack coverage due to too few GPUs."""
    several = [smoke.collectives for smoke in verdict.smoke if smoke.device == "cuda" and smoke.collectives]
    return (
        verdict.determinism.collectives == "not-covered" == next((result.verdict for result in several), "")
    )


def find_missing_answers(
    verdict: Verdict, members: Collection[NodeAnswers], expected: Mapping[Device, Expected]
) -> tuple[str, ...]:
    """Return the answers that a verdict claims identical but lacks.

    reprobuild itself writes no such verdict.

    Args:
        members: the answers that were read from it.
    """
    texts = [f"{smoke.device}: {why}" for smoke in verdict.smoke for why in _find_missing(smoke, expected)]
    determinism, devices = verdict.determinism, {member.device for member in members}
    for device, scope, answer in (("cpu", "cpu", determinism.cpu), ("cuda", "gpu", determinism.gpu)):
        if answer == "identical" and device not in devices:
            texts.append(f"{scope}: identical, and no determinism test tells of it")
    several = {smoke.collectives.verdict for smoke in verdict.smoke if smoke.collectives}
    if determinism.collectives == "identical" and "identical" not in several:
        texts.append("collectives: identical, and no determinism test tells of it")
    return tuple(escape_text(why) for why in texts)


def _find_missing(smoke: Smoke, expected: Mapping[Device, Expected]) -> Iterator[str]:
    expectation, digests = expected.get(smoke.device), answer_digests(smoke)
    if expectation and smoke.collectives and smoke.collectives.verdict == "identical":
        silent = [name for name in expectation.collectives if f"{SEVERAL}{name} (strict)" not in digests]
        if silent:
            yield f"collectives identical, and no answer of {abbreviate_names(silent, MOST_REASONS)}"
    if smoke.verdict != "identical" or expectation is None:
        return
    probes = {probe.name: probe for probe in smoke.probes}
    names = (*expectation.probes, *(expectation.thorough if smoke.thorough else ()))
    lacking = [
        name
        for name in names
        if name not in probes or not _supports_verdict(probes[name], digests, expectation)
    ]
    if lacking:
        yield f"identical, and no answer of probe {abbreviate_names(lacking, MOST_REASONS)}"
    if away := sorted(
        {*expectation.controls} - {f"{control.device} {control.name}" for control in smoke.controls}
    ):
        yield f"identical, and no answer of control {abbreviate_names(away, MOST_REASONS)}"


def _supports_verdict(probe: ProbeVerdict, digests: Mapping[str, str], expectation: Expected) -> bool:
    """Return whether a probe's answers support its verdict.

    A probe that was skipped by permission has its own reason.
    """
    if probe.verdict == "not-applicable":
        return probe.name in expectation.optional
    if probe.verdict == "informational":
        return probe.name in expectation.informational
    return f"{probe.name} (strict)" in digests


def escape_text(text: str) -> str:
    """Return a node's text on one line, without secrets and control characters.

    It is cut to `LONGEST` characters.
    """
    return secrets.redact(text[: 16 * LONGEST]).encode("unicode_escape").decode()[:LONGEST]


def abbreviate_names(names: Sequence[str], most: int) -> str:
    """Return names in one line, escaped and shortened.

    Names past `most` are only counted.
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(escape_text(name) for name in names[:most]) + more


def _answer_names(expected: Expected, several: Iterable[str]) -> Iterator[str]:
    modes: Iterable[ModeName] = MODES
    probes = {*expected.probes, *expected.thorough, *expected.optional, *expected.informational}
    for name, mode in product(sorted(probes), modes):
        yield f"{name} ({mode})"
    for name, mode in product(several, modes):
        yield f"{SEVERAL}{name} ({mode})"
