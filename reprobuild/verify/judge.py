"""From answers to verdicts, without running anything: the smoke test on one device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

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

# Of a reason, as it is kept; the end of a Python error says more than its beginning.
LONGEST = 600
FINE: tuple[ProbeV, ...] = ("identical", "refused", "not-applicable")


def judge_smoke(
    device: Device, first: Document | str, second: Document | str, expected: Expected, *, controls: bool
) -> Smoke:
    """Judge the smoke test on one device.

    Args:
        first, second: what two fresh containers answered, or why they did not; the second one's is short.
        expected: what the first must answer; less is no pass.
        controls: the controls were asked for.
    """
    for answer in (first, second):
        if isinstance(answer, str) or not answer.ran:
            return _nothing(device, first, answer)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    again = {answer.name: answer for answer in second.probes}
    refusable = bool(first.expectations.refused)
    probes = tuple(
        _probe(answer, again.get(answer.name), refusable, answer.name in expected.optional)
        for answer in first.probes
    )
    found = tuple(_control(answer) for answer in first.controls)
    hook: V = "inconclusive"
    if first.start and second.start:
        hook = "identical" if first.start == second.start else "drift"
    reasons = [
        *_missing("probe", expected.probes, [probe.name for probe in probes]),
        *_open_probes(probes),
        *(["nothing is known of the seeding before the first program"] if hook == "inconclusive" else []),
        *(_open_controls(found, expected.controls) if controls else ["the controls were left out"]),
        *_open_comparator(first.comparator, expected.comparator),
    ]
    drift = hook == "drift" or any(item.verdict == "drift" for item in (*probes, *found))
    return Smoke(
        device=device, verdict="drift" if drift else "inconclusive" if reasons else "identical", hook=hook,
        probes=probes, controls=found, comparator=first.comparator,
        collectives=_collectives(first.collectives, refusable, expected.collectives),
        expectations=first.expectations.source, fingerprint=first.fingerprint, settings=first.settings,
        start=first.start, open=tuple(reasons), seconds=first.seconds + second.seconds,
    )  # fmt: skip


def _nothing(device: Device, first: Document | str, answer: Document | str) -> Smoke:
    """Return what is known where a container did not answer, or could not run the probes."""
    told = first if isinstance(first, Document) else None
    absent = device == "cuda" and isinstance(answer, Document) and answer is first
    return Smoke(
        device=device, verdict="not-covered" if absent else "inconclusive", hook="inconclusive",
        open=(short(answer if isinstance(answer, str) else answer.why) or "it gave no reason",),
        fingerprint=told.fingerprint if told else {}, settings=told.settings if told else {},
    )  # fmt: skip


def short(why: str) -> str:
    """Return a reason of one line, shortened at its beginning."""
    line = " / ".join(part.strip() for part in why.splitlines() if part.strip())
    return line if len(line) <= LONGEST else f"...{line[-LONGEST:]}"


def _probe(answer: Answer, again: Answer | None, refusable: bool, optional: bool) -> Probe:
    later = again.modes if again else {}
    verdict, why = _strict(answer, later.get("strict"), refusable, optional)
    return Probe(
        name=answer.name, kind=answer.kind, dtype=answer.dtype, shape=answer.shape,
        documented=answer.documented, verdict=verdict, why=why, modes=_modes(answer.modes, later),
    )  # fmt: skip


def _modes(modes: Mapping[ModeName, Observed], later: Mapping[ModeName, Observed]) -> dict[ModeName, Mode]:
    return {name: _mode(seen, later.get(name)) for name, seen in modes.items()}


def _mode(seen: Observed, later: Observed | None) -> Mode:
    runs = seen.runs
    return Mode(
        verdict=seen.verdict, digest=seen.digest, again=later.digest if later else None, distinct=seen.distinct,
        runs=runs, processes=seen.processes, upper=round(min(1.0, 3 / runs), 6) if runs else 1.0,
        why=short(seen.why),
    )  # fmt: skip


def _strict(answer: Answer, later: Observed | None, refusable: bool, optional: bool) -> tuple[ProbeV, str]:
    """Return what strict mode showed of one probe, and why."""
    seen = answer.modes.get("strict")
    if seen is None:
        return "inconclusive", "no answer in strict mode"
    if seen.verdict == "DRIFT":
        return "drift", short(seen.why) or f"{seen.distinct} different results in {seen.runs} runs"
    if seen.verdict == "SKIPPED" and optional:
        return "not-applicable", short(seen.why)
    if seen.verdict in ("ERROR", "SKIPPED"):
        return "inconclusive", short(seen.why) or seen.verdict
    if later is None or later.verdict in ("ERROR", "SKIPPED", "DRIFT"):
        return "inconclusive", f"no answer of the second container: {short(later.why) if later else 'none'}"
    if seen.verdict != later.verdict:
        return "inconclusive", f"{seen.verdict} in one container, {later.verdict} in another"
    if seen.verdict == "REFUSED":
        if answer.documented == "refused" and refusable:
            return "refused", short(seen.why)
        return "inconclusive", f"torch refused, and its own text does not say so: {short(seen.why)}"
    if not seen.whole or not later.whole or seen.runs < 2:
        return "inconclusive", f"an answer that says less than IDENTICAL: {seen.runs} runs"
    if seen.digest != later.digest:
        return "drift", f"{seen.digest} in one container and {later.digest} in another"
    return "identical", ""


def _control(answer: ControlAnswer) -> Control:
    default, strict = answer.modes.get("default"), answer.modes.get("strict")
    why, kept = short(answer.why), _modes(answer.modes, {})
    if strict is not None and strict.verdict == "DRIFT":
        return Control(
            name=answer.name, verdict="drift", modes=kept,
            why=f"{strict.distinct} different results in strict mode, which is there to stop it",
        )  # fmt: skip
    if default is None or default.verdict != "DRIFT" or default.distinct < 2:
        why = why or "no drift in default mode: one would not have been seen here"
        return Control(name=answer.name, verdict="ineffective", modes=kept, why=why)
    if strict is None or not strict.whole or strict.runs < 2:
        why = why or "nothing shows that strict mode stops it"
        return Control(name=answer.name, verdict="ineffective", modes=kept, why=why)
    seen = f"{default.distinct} different results in {default.runs} runs by default, one in strict mode"
    return Control(name=answer.name, verdict="effective", modes=kept, why=seen)


def _missing(what: str, names: Iterable[str], there: Iterable[str]) -> list[str]:
    lacking = sorted(set(names) - set(there))
    return [f"no answer of {what} {', '.join(lacking)}"] if lacking else []


def _open_probes(probes: Sequence[Probe]) -> list[str]:
    reasons = [f"{p.name}: {p.why}" for p in probes if p.verdict == "inconclusive"]
    if not any(probe.verdict == "identical" for probe in probes):
        reasons.append("no probe was identical")
    return reasons


def _open_controls(found: Sequence[Control], names: Iterable[str]) -> list[str]:
    reasons = _missing("control", names, [control.name for control in found])
    if not any(control.verdict == "effective" for control in found):
        reasons += [f"control {c.name}: {c.why}" for c in found] or ["no control answered"]
    return reasons


def _open_comparator(told: Mapping[str, bool], names: Iterable[str]) -> list[str]:
    blind = sorted(name for name in {*told, *names} if not told.get(name))
    return [f"the comparison of bytes was not seen telling apart: {', '.join(blind)}"] if blind else []


def _collectives(
    answer: CollectivesAnswer | None, refusable: bool, names: Sequence[str]
) -> Collectives | None:
    """Judge the collectives; the second container does none, so each probe stands for itself."""
    if answer is None:
        return None
    probes = tuple(
        msgspec.structs.replace(_probe(probe, probe, refusable, False), modes=_modes(probe.modes, {}))
        for probe in answer.probes
    )
    why = short(answer.why)
    verdict: V = "inconclusive"
    if answer.verdict == "DRIFT" or any(probe.verdict == "drift" for probe in probes):
        verdict = "drift"
    elif answer.verdict == "SKIPPED":
        verdict = "not-covered"
    elif answer.verdict == "IDENTICAL":
        reasons = [*_missing("probe", names, [probe.name for probe in probes]), *_open_probes(probes)]
        why = "; ".join(reasons) or why
        verdict = "inconclusive" if reasons or answer.world < 2 else "identical"
    return Collectives(
        verdict=verdict, backend=answer.backend, world=answer.world, probes=probes, why=why,
    )  # fmt: skip
