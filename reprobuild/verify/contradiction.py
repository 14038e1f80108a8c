"""Headlines of a verdict that contradict its own answers."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reprobuild.verify.determinism.summary import judge_determinism
from reprobuild.verify.roundtrip.compare import judge_round_trip
from reprobuild.verify.verdict import ControlVerdict, ProbeVerdict, Smoke, V, Verdict

_SEVERITY = {
    "exact": 0,
    "explained": 1,
    "not-run": 1,
    "residue": 2,
}  # of a round trip; one not run states nothing


def find_contradiction(verdict: Verdict) -> str:
    """Return the headline of a verdict that is better than its probes, workload and lists; empty if none is.

    Only a better headline is a contradiction: earlier versions had other words for a scope without an answer.
    """
    judged = {smoke.device: _judge_again(smoke) for smoke in verdict.smoke}
    again, _ = judge_determinism(
        judged.get("cpu"), judged.get("cuda"), verdict.comparisons, cpu_only=False, profile=verdict.profile
    )
    for scope in ("cpu", "gpu", "collectives"):
        stated, judged_again = getattr(verdict.determinism, scope), getattr(again, scope)
        if stated != judged_again and (stated == "identical" or judged_again == "drift"):
            return f"it states {scope} {stated}, and its answers give {judged_again}"
    lists = judge_round_trip(verdict.differences)
    if _SEVERITY[verdict.round_trip] < _SEVERITY[lists]:
        return f"it states that the round trip is {verdict.round_trip}, and its differences give {lists}"
    return ""


def _judge_again(smoke: Smoke) -> Smoke:
    """Return the answers of a device with verdicts that are no better than its probes and controls."""
    collectives = smoke.collectives
    if collectives:
        verdict = _limit(collectives.verdict, collectives.probes, collectives.controls)
        collectives = msgspec.structs.replace(collectives, verdict=verdict)
    verdict = _limit(smoke.verdict, smoke.probes, smoke.controls)
    if smoke.hook == "drift":
        verdict = "drift"
    elif smoke.open and verdict == "identical":
        verdict = "inconclusive"
    return msgspec.structs.replace(smoke, verdict=verdict, collectives=collectives)


def _limit(stated: V, probes: Sequence[ProbeVerdict], controls: Sequence[ControlVerdict]) -> V:
    """Return a stated verdict, or the worse one of probes and controls."""
    verdicts = {probe.verdict for probe in probes}
    if "drift" in verdicts or any(control.verdict == "drift" for control in controls):
        return "drift"
    whole = "identical" in verdicts and "inconclusive" not in verdicts
    return "inconclusive" if stated == "identical" and not whole else stated
