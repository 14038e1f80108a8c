"""From answers to verdicts, without running anything: the smoke test on one device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

from reprobuild.verify.document import (
    Answer,
    CollectivesAnswer,
    ControlAnswer,
    Device,
    Document,
    ModeName,
    Observed,
)
from reprobuild.verify.expected import Expected
from reprobuild.verify.verdict import Collectives, Control, Mode, Probe, ProbeV, Smoke, V

N = TypeVar("N", bound=str)
# Of a reason, as it is kept; the end of a Python error says more than its beginning.
LONGEST = 600


def judge_smoke(
    device: Device, first: Document | str, second: Document | str, expected: Expected, *, controls: bool,
    thorough: bool = False,
) -> Smoke:  # fmt: skip
    """Judge the smoke test on one device.

    Args:
        first, second: what two fresh containers answered, or why they did not; the second one's is short.
        expected: what the first must answer; less is no pass.
        controls, thorough: the controls, and what takes long, were asked for.
    """
    for answer in (first, second):
        if isinstance(answer, str) or not answer.ran:
            return _nothing(device, first, answer)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    again = {answer.name: answer for answer in second.probes}
    told = bool(first.expectations.refused)
    names = (*expected.probes, *(expected.thorough if thorough else ()))
    probes = tuple(_probe(answer, again.get(answer.name), expected, told=told) for answer in first.probes)
    found = tuple(_control(answer) for answer in first.controls)
    hook: V = "inconclusive"
    if first.start and second.start:
        hook = "identical" if first.start == second.start else "drift"
    reasons = [
        *_missing("probe", names, [probe.name for probe in probes]),
        *_open_probes(probes),
        *(["nothing is known of the seeding before the first program"] if hook == "inconclusive" else []),
        *(_open_controls(found, expected) if controls else ["the controls were left out"]),
        *_open_comparator(first.comparator, expected.comparator),
    ]
    verdicts = [*(probe.verdict for probe in probes), *(control.verdict for control in found)]
    drift = hook == "drift" or "drift" in verdicts
    return Smoke(
        device=device, verdict="drift" if drift else "inconclusive" if reasons else "identical", hook=hook,
        probes=probes, controls=found, comparator=first.comparator,
        collectives=_collectives(first.collectives, expected),
        expectations=first.expectations.source, fingerprint=first.fingerprint,
        start=first.start, open=tuple(reasons), seconds=first.seconds + second.seconds,
    )  # fmt: skip


def _nothing(device: Device, first: Document | str, answer: Document | str) -> Smoke:
    """Return what is known where a container did not answer, or could not run the probes."""
    told = first if isinstance(first, Document) else None
    absent = device == "cuda" and isinstance(answer, Document) and answer is first
    return Smoke(
        device=device, verdict="not-covered" if absent else "inconclusive", hook="inconclusive",
        open=(short(answer if isinstance(answer, str) else answer.why) or "it gave no reason",),
        fingerprint=told.fingerprint if told else {},
    )  # fmt: skip


def short(why: str) -> str:
    """Return a reason of one line, shortened at its beginning."""
    line = " / ".join(part.strip() for part in why.splitlines() if part.strip())
    return line if len(line) <= LONGEST else f"...{line[-LONGEST:]}"


def _probe(answer: Answer, again: Answer | None, expected: Expected, *, told: bool) -> Probe:
    """Judge one probe; `told` says that torch's own text names operations that it refuses."""
    later = again.modes if again else {}
    refusable = (answer.documented == "refused" and told) or answer.name in expected.alerting
    verdict, why = _judged(
        answer.modes.get("strict"), later.get("strict"), refusable=refusable,
        optional=answer.name in expected.optional,
    )  # fmt: skip
    if answer.name in expected.informational:
        verdict, why = "informational", "torch promises nothing here"
    return _row(answer, verdict, why, _modes(answer.modes, later))


def _row(answer: Answer, verdict: ProbeV, why: str, modes: dict[ModeName, Mode]) -> Probe:
    return Probe(
        name=answer.name, kind=answer.kind, dtype=answer.dtype, shape=answer.shape,
        documented=answer.documented, verdict=verdict, why=why, modes=modes,
    )  # fmt: skip


def _modes(modes: Mapping[N, Observed], later: Mapping[N, Observed]) -> dict[N, Mode]:
    return {name: _mode(seen, later.get(name)) for name, seen in modes.items()}


def _mode(seen: Observed, later: Observed | None) -> Mode:
    runs = seen.repeats
    return Mode(
        verdict=seen.verdict, digest=seen.digest, again=later.digest if later else None, distinct=seen.distinct,
        runs=runs, processes=seen.processes, upper=round(min(1.0, 3 / runs), 6) if runs else 1.0,
        why=short(seen.why),
    )  # fmt: skip


def _judged(
    seen: Observed | None, later: Observed | None, *, refusable: bool, optional: bool
) -> tuple[ProbeV, str]:
    """Return what one mode showed of one probe, and why; `later` is the second container's answer."""
    if seen is None:
        return "inconclusive", "no answer in the mode that counts"
    if seen.verdict == "DRIFT":
        return "drift", short(seen.why) or f"{seen.distinct} different results in {seen.repeats} runs"
    if seen.verdict == "SKIPPED" and optional:
        return "not-applicable", short(seen.why)
    if seen.verdict in ("ERROR", "SKIPPED"):
        return "inconclusive", short(seen.why) or seen.verdict
    if later is None or later.verdict in ("ERROR", "SKIPPED", "DRIFT"):
        return "inconclusive", f"no answer of the second container: {short(later.why) if later else 'none'}"
    if seen.verdict != later.verdict:
        return "inconclusive", f"{seen.verdict} in one container, {later.verdict} in another"
    if seen.verdict == "REFUSED":
        if refusable:
            return "refused", short(seen.why)
        return "inconclusive", f"torch refused, and its own text does not say so: {short(seen.why)}"
    if not seen.whole or not later.whole or seen.repeats < 2:
        return "inconclusive", f"an answer that says less than IDENTICAL: {seen.repeats} runs"
    if seen.digest != later.digest:
        return "drift", f"{seen.digest} in one container and {later.digest} in another"
    return "identical", ""


def _control(answer: ControlAnswer) -> Control:
    """Judge a control: torch's strict mode cures it, or, where that cannot help, what it calls `cured`."""
    default, ones = answer.modes.get("default"), answer.modes.get("ones")
    name = "cured" if "cured" in answer.modes else "strict"
    cure = answer.modes.get(name)
    verdict: Literal["effective", "ineffective", "drift"] = "ineffective"
    if default is None or default.verdict != "DRIFT" or default.distinct < 2:
        why = short(answer.why) or "it was not seen drifting: a drift would not have been seen here"
    elif cure is not None and cure.verdict == "DRIFT":
        verdict, why = "drift", f"{cure.distinct} different results, {name}, where there must be one"
    elif cure is None or not cure.whole or cure.repeats < 2:
        why = short(answer.why) or f"nothing shows that it stops ({name})"
    elif ones is not None and not ones.whole:
        why = "adding ones drifts as well, and cannot: the test itself is at fault"
    else:
        verdict = "effective"
        why = f"{default.distinct} different results in {default.repeats} runs by default, one {name}"
    return Control(
        name=answer.name, device=answer.device, verdict=verdict, modes=_modes(answer.modes, {}), why=why
    )


def _missing(what: str, names: Iterable[str], there: Iterable[str]) -> list[str]:
    lacking = sorted(set(names) - set(there))
    return [f"no answer of {what} {', '.join(lacking)}"] if lacking else []


def _open_probes(probes: Sequence[Probe]) -> list[str]:
    reasons = [f"{p.name}: {p.why}" for p in probes if p.verdict == "inconclusive"]
    if not any(probe.verdict == "identical" for probe in probes):
        reasons.append("no probe was identical")
    return reasons


def _open_controls(found: Sequence[Control], expected: Expected) -> list[str]:
    named = {f"{control.device} {control.name}": control for control in found}
    reasons = _missing("control", expected.controls, named)
    races = [named[name] for name in expected.races if name in named]
    if not any(race.verdict == "effective" for race in races):
        reasons += [f"control {race.name}: {race.why}" for race in races] or ["no control answered"]
    return reasons


def _open_comparator(told: Mapping[str, bool], names: Iterable[str]) -> list[str]:
    blind = sorted(name for name in {*told, *names} if not told.get(name))
    return [f"the comparison of bytes was not seen telling apart: {', '.join(blind)}"] if blind else []


def _collectives(answer: CollectivesAnswer | None, expected: Expected) -> Collectives | None:
    """Judge the collectives; None where the program in the image has none.

    The second container does none, so each probe stands for itself.
    """
    if answer is None:
        return Collectives(verdict="inconclusive", why="no answer") if expected.collectives else None
    rows = []
    for probe in answer.probes:
        seen = probe.modes.get("strict")
        verdict, why = _judged(seen, seen, refusable=False, optional=probe.name not in expected.collectives)
        rows.append(_row(probe, verdict, why, _modes(probe.modes, {})))
    return _reduced(answer, tuple(rows), expected)


def _reduced(answer: CollectivesAnswer, probes: tuple[Probe, ...], expected: Expected) -> Collectives:
    """Return one answer for all collectives."""
    why = short(answer.why)
    verdict: V = "inconclusive"
    if answer.verdict == "DRIFT" or any(probe.verdict == "drift" for probe in probes):
        verdict = "drift"
    elif answer.verdict == "SKIPPED":
        verdict = "not-covered"
    elif answer.verdict == "IDENTICAL":
        reasons = [
            *_missing("probe", expected.collectives, [probe.name for probe in probes]),
            *_open_probes(probes),
        ]
        why = "; ".join(reasons) or why
        verdict = "inconclusive" if reasons or answer.world < 2 else "identical"
    return Collectives(
        verdict=verdict, backend=answer.backend, world=answer.world, probes=probes, why=why,
    )  # fmt: skip
