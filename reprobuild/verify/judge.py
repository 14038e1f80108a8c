"""From answers to verdicts, without running anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from reprobuild.verify.verdict import Comparison, Determinism, V


def compare_probes(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Comparison]:
    """Compare the probe answers of two fresh processes, probe by probe.

    An answer that is missing on either side is inconclusive, never a pass.
    """
    for answer in (first, second):
        if not answer.get("ran"):
            return [
                Comparison(name="probes", verdict="inconclusive", detail=str(answer.get("why", "no answer")))
            ]
    one, two = first.get("probes", {}), second.get("probes", {})
    failed = {**first.get("failed", {}), **second.get("failed", {})}
    names = sorted({*one, *two, *failed})
    if not names:
        return [Comparison(name="probes", verdict="inconclusive", detail="no probe answered")]
    found = [_compare_probe(name, one.get(name), two.get(name), failed.get(name)) for name in names]
    start, again = first.get("start"), second.get("start")
    found.append(_compare_probe("seeding hook", _digest(start), _digest(again), None))
    return found


def _digest(value: object) -> str | None:
    return json.dumps(value, sort_keys=True) if value else None


def _compare_probe(name: str, one: str | None, two: str | None, why: str | None) -> Comparison:
    if one is None or two is None:
        return Comparison(
            name=name, verdict="inconclusive", detail=why or "one of two processes gave no answer"
        )
    if one == two:
        return Comparison(name=name, verdict="identical", detail=one)
    return Comparison(name=name, verdict="drift", detail=f"{one} and {two}")


def judge_control(answer: Mapping[str, Any] | None) -> Comparison:
    """Judge the control: work that is known to drift must be seen drifting."""
    if answer is None:
        return Comparison(name="control", verdict="not-run", detail="the control was left out")
    if not answer.get("ran"):
        return Comparison(name="control", verdict="inconclusive", detail=str(answer.get("why", "no answer")))
    control = answer.get("control") or {}
    seen = f"{control.get('distinct')} different results in {control.get('repeats')} repeats"
    if control.get("effective"):
        return Comparison(name="control", verdict="drift", detail=f"{seen}, as it must")
    return Comparison(
        name="control", verdict="inconclusive",
        detail=f"{seen} on {control.get('threads')} threads: a drift would not have been seen here",
    )  # fmt: skip


def judge_cpu(comparisons: Sequence[Comparison], control: Comparison) -> V:
    """Return the CPU's verdict: drift if anything drifted, identical only if the control shows it could."""
    verdicts = {comparison.verdict for comparison in comparisons}
    if "drift" in verdicts:
        return "drift"
    if not verdicts or verdicts != {"identical"} or control.verdict != "drift":
        return "inconclusive"
    return "identical"


def judge_determinism(
    comparisons: Sequence[Comparison], control: Comparison, *, cuda_build: bool | None, cpu_only: bool
) -> tuple[Determinism, list[str]]:  # fmt: skip
    """Return one answer for each scope, and what there is to say about those that were not checked.

    Args:
        cuda_build: the image's torch is built for CUDA; None where there is a torch that did not say.
        cpu_only: the user said that the CPU is enough for now.
    """
    cpu = judge_cpu(comparisons, control)
    if cuda_build is False:
        return Determinism(cpu=cpu, gpu="not-applicable", collectives="not-applicable"), []
    if cpu_only:
        return (
            Determinism(cpu=cpu, gpu="not-applicable", collectives="not-applicable"),
            ["the GPU and collectives were left out by --scope cpu: nothing is known about them"],
        )
    if cuda_build is None:
        note = "torch did not say whether it is built for CUDA"
        return Determinism(cpu=cpu, gpu="inconclusive", collectives="inconclusive"), [note]
    note = "torch is built for CUDA, and no GPU was checked: run `reprobuild verify` on a machine with one"
    return Determinism(cpu=cpu, gpu="not-covered", collectives="not-covered"), [note]
