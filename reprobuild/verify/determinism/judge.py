"""Verdicts on the determinism tests of one device.

No program is run here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from reprobuild.verify.determinism.document import (
    CollectivesAnswer,
    ControlAnswer,
    Device,
    Document,
    ProbeAnswer,
    StressAnswer,
)
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.judge_probe import (
    ImageRules,
    judge_mode,
    judge_probe,
    make_probe_verdict,
    merge_modes,
    shorten_reason,
)
from reprobuild.verify.determinism.trust import (
    DRAWS,
    DRAWS_WITHOUT_TORCH,
    doubt_platform,
    doubt_profile,
    judge_start,
)
from reprobuild.verify.verdict import Collectives, ControlVerdict, ProbeVerdict, Smoke, V

NOT_APPLICABLE = "not applicable here: "
LEFT_OUT = "they were left out: only some probes were asked for"
MOST_SECONDS = 1e9  # the most that a verdict file holds


def judge_smoke(
    device: Device, first: Document | str, second: Document | str, expected: Expected, *, controls: bool,
    thorough: bool = False, profile: str = "log-only", pinned: Collection[str] = (), only: Collection[str] = (),
    compiled: bool = False,
) -> Smoke:  # fmt: skip
    """Judge the determinism tests on one device.

    Args:
        first, second: the answers of two fresh containers, or the reasons against one; the second one's is short.
        expected: the required answers of the first; fewer do not pass.
        controls, thorough: whether the controls, and the slow probes, were requested.
        profile: the profile that must be in force in the image.
        pinned: the distributions that must be in the image.
        only: the requested probes, if not all were; collectives were not requested, either.
        compiled: whether the probes of compiled code were requested, with their controls.
    """
    for answer in (first, second):
        if isinstance(answer, str) or not answer.ran:
            return _unanswered_smoke(device, first, answer)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    again = {answer.name: answer for answer in second.probes}
    rules = ImageRules(device=device, expected=expected, told=first.expectations, pinned=frozenset(pinned))
    full = (*expected.probes, *(expected.thorough if thorough or compiled else ()))
    names = tuple(only) if only else full
    left_out = () if thorough or compiled else tuple(name for name in expected.thorough if name not in only)
    probes = tuple(
        judge_probe(answer, again.get(answer.name), rules)
        for answer in first.probes
        if answer.name not in left_out or _has_run(answer)
    )
    control_verdicts = tuple(_judge_control(answer) for answer in first.controls)
    arrays = bool(expected.libraries)
    hook = judge_start(first, second, DRAWS_WITHOUT_TORCH if arrays else DRAWS)
    reasons = [
        *_explain_missing("probe", names, [probe.name for probe in probes]),
        *_explain_probes(probes),
        *(["nothing is known of the seeding before the first program"] if hook == "inconclusive" else []),
        *doubt_platform(first.fingerprint, second.fingerprint),
        *(() if arrays else doubt_profile(profile, first.fingerprint)),  # profiles set torch
        *(_explain_controls(control_verdicts, expected) if controls else ["the controls were left out"]),
        *(_explain_compiled_controls(control_verdicts, expected) if controls and compiled else ()),
        *_explain_comparator(first.comparator, expected.comparator),
        *([f"only {len(names)} of {len(full)} probes were asked for"] if only else []),
    ]
    verdicts = [*(probe.verdict for probe in probes), *(control.verdict for control in control_verdicts)]
    drift = hook == "drift" or "drift" in verdicts
    probe_names = {probe.name for probe in probes}
    return Smoke(
        device=device, verdict="drift" if drift else "inconclusive" if reasons else "identical", hook=hook,
        probes=probes, controls=control_verdicts, comparator=first.comparator,
        collectives=Collectives(verdict="not-covered", why=LEFT_OUT) if only
        else _judge_collectives(first.collectives, expected),
        expectations=first.expectations.source, fingerprint=first.fingerprint, start=first.start,
        open=tuple(reasons), seconds=min(first.seconds + second.seconds, MOST_SECONDS), thorough=thorough,
        left_out=tuple(name for name in left_out if name not in probe_names),
        stress=_explain_stress(first.stress), threads=first.threads, libraries=_count_by_library(probes, expected),
    )  # fmt: skip


def _unanswered_smoke(device: Device, first: Document | str, answer: Document | str) -> Smoke:
    """Return the result if a container did not answer.

    It may also be unable to run the probes.
    """
    document = first if isinstance(first, Document) else None
    absent = device == "cuda" and isinstance(answer, Document) and answer is first
    return Smoke(
        device=device, verdict="not-covered" if absent else "inconclusive", hook="inconclusive",
        open=(shorten_reason(answer if isinstance(answer, str) else answer.why) or "it gave no reason",),
        fingerprint=document.fingerprint if document else {},
    )  # fmt: skip


def _count_by_library(probes: Iterable[ProbeVerdict], expected: Expected) -> dict[str, int]:
    """Count the identical probes by distribution.

    Probes of torch are not counted.
    """
    names = [expected.libraries.get(probe.name, "") for probe in probes if probe.verdict == "identical"]
    return dict(Counter(name for name in names if name))


def _has_run(answer: ProbeAnswer) -> bool:
    return any(result.verdict != "SKIPPED" for result in answer.modes.values())


def _explain_stress(answer: StressAnswer | None) -> str:
    """Return the reason if the load did not disturb all probes."""
    if answer is None or answer.ran:
        return ""
    return f"nothing disturbed some of the probes: {shorten_reason(answer.why) or 'no reason given'}"


def _judge_control(answer: ControlAnswer) -> ControlVerdict:
    """Judge a control by its drift and its cure.

    The cure is torch's strict mode, or, if that cannot help, the mode `cured`.
    """
    default, ones = answer.modes.get("default"), answer.modes.get("ones")
    name = "cured" if "cured" in answer.modes else "strict"
    cure = answer.modes.get(name)
    verdict: Literal["effective", "ineffective", "drift"] = "ineffective"
    if default is None or default.verdict != "DRIFT" or default.distinct < 2:
        why = shorten_reason(answer.why) or "it was not seen drifting: a drift would not have been seen here"
    elif cure is not None and cure.verdict == "DRIFT":
        verdict, why = "drift", f"{cure.distinct} different results, {name}, where there must be one"
    elif cure is None or not cure.is_whole or cure.repeats < 2:
        why = shorten_reason(answer.why) or f"nothing shows that it stops ({name})"
    elif ones is not None and not ones.is_whole:
        why = "adding ones drifts as well, and cannot: the test itself is at fault"
    else:
        verdict = "effective"
        why = f"{default.distinct} different results in {default.repeats} runs by default, one {name}"
    return ControlVerdict(
        name=answer.name, device=answer.device, verdict=verdict, modes=merge_modes(answer.modes, {}), why=why
    )


def _explain_missing(kind: str, names: Iterable[str], answer_names: Iterable[str]) -> list[str]:
    lacking = sorted(set(names) - set(answer_names))
    return [f"no answer of {kind} {', '.join(lacking)}"] if lacking else []


def _explain_probes(probes: Sequence[ProbeVerdict]) -> list[str]:
    reasons = [f"{p.name}: {p.why}" for p in probes if p.verdict == "inconclusive"]
    if not any(probe.verdict == "identical" for probe in probes):
        reasons.append("no probe was identical")
    return reasons


def _explain_controls(controls: Sequence[ControlVerdict], expected: Expected) -> list[str]:
    named = {f"{control.device} {control.name}": control for control in controls}
    reasons = _explain_missing("control", expected.controls, named)
    races = [named[name] for name in expected.races if name in named]
    if not any(race.verdict == "effective" for race in races):
        reasons += [f"control {race.name}: {race.why}" for race in races] or ["no control answered"]
    return reasons


def _explain_compiled_controls(controls: Sequence[ControlVerdict], expected: Expected) -> list[str]:
    """Return the reasons against the controls of a compiler; one that is not applicable here is no reason."""
    named = {f"{control.device} {control.name}": control for control in controls}
    return [
        *_explain_missing("control", expected.compiled_controls, named),
        *(
            f"control {name}: {named[name].why}"
            for name in expected.compiled_controls
            if name in named
            and named[name].verdict == "ineffective"
            and not named[name].why.startswith(NOT_APPLICABLE)
        ),
    ]


def _explain_comparator(answers: Mapping[str, bool], names: Iterable[str]) -> list[str]:
    blind = sorted(name for name in {*answers, *names} if not answers.get(name))
    return [f"the comparison of bytes was not seen telling apart: {', '.join(blind)}"] if blind else []


def _judge_collectives(answer: CollectivesAnswer | None, expected: Expected) -> Collectives | None:
    """Judge the collectives, or return None if the image's program does not run them.

    The second container runs no collectives, so each probe is judged alone.
    """
    if answer is None:
        return Collectives(verdict="inconclusive", why="no answer") if expected.collectives else None
    rows = []
    for probe in answer.probes:
        result = probe.modes.get("strict")
        verdict, why = judge_mode(
            result, result, refusable=False, optional=probe.name not in expected.collectives
        )
        rows.append(make_probe_verdict(probe, verdict, why, merge_modes(probe.modes, {})))
    controls = tuple(_judge_control(control) for control in answer.controls)
    return _reduce_collectives(answer, tuple(rows), controls, expected)


def _reduce_collectives(
    answer: CollectivesAnswer,
    probes: tuple[ProbeVerdict, ...],
    controls: tuple[ControlVerdict, ...],
    expected: Expected,
) -> Collectives:
    """Return one answer for all collectives.

    A common answer counts only if each collective agrees with it.

    The order of a sum of two is not visible, so the controls need three ranks.
    """
    why = shorten_reason(answer.why)
    verdict: V = "inconclusive"
    open_ones = [f"{probe.name}: {probe.why}" for probe in probes if probe.verdict == "inconclusive"]
    if "drift" in (
        answer.verdict.lower(),
        *(probe.verdict for probe in probes),
        *(c.verdict for c in controls),
    ):
        verdict = "drift"
    elif answer.verdict == "SKIPPED" and not open_ones:
        verdict = "not-covered"
    elif answer.verdict in ("IDENTICAL", "SKIPPED"):
        reasons = [
            *_explain_missing("probe", expected.collectives, [probe.name for probe in probes]),
            *_explain_probes(probes),
            *_explain_missing(
                "control", expected.collective_controls, [control.name for control in controls]
            ),
            *(
                f"control {control.name}: {control.why}"
                for control in controls
                if control.verdict == "ineffective"
            ),
        ]
        why = shorten_reason("; ".join(reasons)) or why
        passed = answer.verdict == "IDENTICAL" and answer.world > 2 and not reasons
        verdict = "identical" if passed else "inconclusive"
    return Collectives(
        verdict=verdict, backend=answer.backend, world=answer.world, probes=probes, why=why,
        algorithms=answer.algorithms, controls=controls,
    )  # fmt: skip
