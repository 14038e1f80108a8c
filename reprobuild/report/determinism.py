"""Report of a verdict file: a few lines for each device.

report.html and verdict.json have the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from reprobuild.infra.columns import align
from reprobuild.report.difference import safe_text
from reprobuild.report.drift_trace import trace_rows
from reprobuild.report.units import format_bytes
from reprobuild.verify.certificate.compare import WORK
from reprobuild.verify.determinism.summary import applicable_controls, describe_excused, describe_work_bound
from reprobuild.verify.verdict import Against, Deviation, ProbeVerdict, Smoke, Verdict

# Most lines of one list.
SHOWN = 8
_WORDS = {"refused": "refused as torch's own text says", "not-applicable": "not applicable"}
BRIEF = 12  # characters of a digest, which identify it


def verdict_lines(verdict: Verdict) -> list[str]:
    """Return the escaped lines on a verdict.

    They list the compared and uncompared parts, and the differences from an earlier verdict.
    """
    lines = [line for smoke in verdict.smoke for line in _test_lines(smoke, verdict.seed)]
    if verdict.comparisons:
        same = sum(comparison.verdict == "identical" for comparison in verdict.comparisons)
        possible = sum(comparison.counts for comparison in verdict.comparisons)
        excused = safe_text(describe_excused(verdict.comparisons))
        lines.append(f"your work: {same} of {possible} comparisons identical{excused}")
        if verdict.work and same == possible:
            lines.append(f"  {describe_work_bound(verdict.work.runs)}")
            hashes = "" if "PYTHONHASHSEED" in verdict.work.variables else ", also for the order of hashes"
            lines.append(f"  each run had the seed {verdict.work.seed}{hashes}")
        lines += _limit_lines(f"  {line}" for line in _mount_lines(verdict))
        lines += [f"  warning: {safe_text(line, 600)}" for c in verdict.comparisons for line in c.warnings]
        lines += [
            f"  {safe_text(c.name)}: {c.verdict}: {safe_text(c.detail, 600)}"
            for c in verdict.comparisons
            if c.verdict != "identical"
        ]
        for comparison in verdict.comparisons:
            lines += _limit_lines(f"    {safe_text(line, 600)}" for line in comparison.details)
        if verdict.trace:
            rows = align([(name, safe_text(value, 600)) for name, value in trace_rows(verdict.trace)])
            lines += ["  where the runs part:", *(f"    {row}" for row in rows)]
    if verdict.against:
        lines += earlier_verdict_lines(verdict.against)
    return lines


def _mount_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the workload's mounts, by digest.

    Mounts without a digest are marked, because later checks cannot compare them.
    """
    for mount in verdict.work.mounts if verdict.work else ():
        if mount.digest:
            amount = f"{mount.paths:,} paths, {format_bytes(mount.size)}"
            yield f"mount {safe_text(mount.place)}: {mount.digest.removeprefix('sha256:')[:BRIEF]} ({amount})"
        else:
            yield (
                f"mount {safe_text(mount.place)}: no digest, so --against cannot compare your work: "
                f"{safe_text(mount.why)}"
            )


def _test_lines(smoke: Smoke, seed: int) -> Iterator[str]:
    where = f"determinism test, {smoke.device}, seed {seed}"
    if not smoke.probes:
        yield f"{where}: {smoke.verdict}"
    else:
        counts = Counter(probe.verdict for probe in smoke.probes)
        how = "with the image's own threads, and with one" if smoke.libraries else "in strict mode"
        summary = ", ".join(f"{number} {_WORDS.get(name, name)}" for name, number in counts.most_common())
        yield f"{where}: {len(smoke.probes)} probes {how}: {summary}"
    yield from _bound_lines(smoke)
    away = [safe_text(probe.name) for probe in smoke.probes if probe.verdict == "not-applicable"]
    foreign = [probe for probe in smoke.probes if smoke.libraries and _lacks_library(probe)]
    if foreign:
        away = [name for name in away if name not in {safe_text(probe.name) for probe in foreign}]
        yield f"  not applicable here: {len(foreign)} probes of libraries that the image does not have"
    if away:
        yield f"  not applicable here: {', '.join(away)}"
    if smoke.left_out:
        yield f"  not run without --thorough: {', '.join(map(safe_text, smoke.left_out))}"
    yield from _limit_lines(
        f"  {safe_text(probe.name)}: drift: {safe_text(probe.why, 600)}"
        for probe in smoke.probes
        if probe.verdict == "drift"
    )
    if smoke.hook == "drift":
        yield "  seeding hook: drift: what is drawn before anything is seeded differs between two containers"
    yield from _limit_lines(f"  open: {safe_text(reason, 600)}" for reason in smoke.open)
    if controls := applicable_controls(smoke):
        good = sum(control.verdict == "effective" for control in controls)
        yield f"controls, {smoke.device}: {good} of {len(controls)} drifted by default, and stopped when cured"
        yield from _limit_lines(
            f"  {safe_text(control.name)}: {control.verdict}: {safe_text(control.why, 600)}"
            for control in controls
            if control.verdict != "effective"
        )
    several = smoke.collectives
    if several and several.verdict not in ("not-covered", "inconclusive"):  # those are notes
        same = sum(probe.verdict == "identical" for probe in several.probes)
        by = f", by {', '.join(map(safe_text, several.algorithms))}" if several.algorithms else ""
        yield f"collectives, {smoke.device}: {safe_text(several.backend)}, {several.world} ranks: " + (
            f"{same} of {len(several.probes)} identical{by}"
        )
        yield from _limit_lines(
            f"  {safe_text(p.name)}: {p.verdict}: {safe_text(p.why, 600)}"
            for p in several.probes
            if p.verdict == "drift"
        )


def _lacks_library(probe: ProbeVerdict) -> bool:
    return probe.verdict == "not-applicable" and "does not import" in probe.why


def _bound_lines(smoke: Smoke) -> Iterator[str]:
    """Yield the number of runs, and the bound for drifting runs.

    The runs are those of the identical probes.
    """
    modes = [probe.modes["strict"] for probe in smoke.probes if probe.verdict == "identical"]
    if not modes:
        return
    ((runs, upper), number), *others = Counter((mode.runs, mode.upper) for mode in modes).most_common()
    all_of_them = "" if not others else f" for {number} of {len(modes)}"
    least = min(mode.runs for mode in modes)
    smallest = "" if least == runs else f"; the smallest N is {least}"
    yield f"  N = {runs}{all_of_them}: fewer than {upper:.0%} of runs drift, at 95 %{smallest}"


def earlier_verdict_lines(comparison: Against) -> list[str]:
    """Return the differences between this check and an earlier verdict."""
    start = f"against the verdict of {safe_text(comparison.made)}"
    differ = len(comparison.failed) + len(comparison.other)
    if comparison.verdict == "differ":
        head = f"{start}: FAILED: {len(comparison.failed)} of {comparison.compared} digests differ on the same platform"
    elif comparison.verdict == "inconclusive":
        alone = f"{len(comparison.unmatched)} digests cannot be compared, {comparison.compared} can"
        head = (
            f"{start}: inconclusive: {alone if comparison.compared else 'the two have no digest in common'}"
        )
    elif comparison.verdict == "same":
        head = f"{start}: the same platform, and all {comparison.compared} digests are the same"
    else:
        required = "and --same-platform is given" if comparison.same_platform else "which is no failure"
        head = f"{start}: another platform: {differ} of {comparison.compared} digests differ, {required}"
    return [
        head,
        *_limit_lines(f"  {describe_deviation(item)}" for item in comparison.failed),
        *_limit_lines(f"  platform: {describe_deviation(item)}" for item in comparison.platform),
        *_limit_lines(f"  {describe_deviation(item)}" for item in comparison.other),
        *_limit_lines(
            f"  other mounts, so your work is not compared: {describe_deviation(item)}"
            for item in comparison.mounts
        ),
        *_limit_lines(
            f"  {_describe_unmatched(item, comparison)}: {describe_deviation(item)}"
            for item in comparison.unmatched
        ),
        *_limit_lines(f"  changes no result: {describe_deviation(item)}" for item in comparison.beside),
    ]


def describe_deviation(item: Deviation) -> str:
    """Return one escaped line on a difference from a verdict file."""
    values = " -> ".join(
        "nothing" if value is None else _format_value(value) for value in (item.then, item.now)
    )
    return f"{safe_text(item.scope)}: {safe_text(item.name)}: {values}"


def _describe_unmatched(item: Deviation, comparison: Against) -> str:
    if item.then is None or item.now is None:
        return "only in one of them"
    if item.scope == WORK and comparison.mounts:
        return "computed with other mounts"
    return "computed on another kind of device"


def _format_value(text: str) -> str:
    if len(text) == 64 and set(text) <= set("0123456789abcdef"):
        return text[:BRIEF]
    return safe_text(text, 80)


def _limit_lines(lines: Iterable[str]) -> Sequence[str]:
    known = list(lines)
    rest = len(known) - SHOWN
    return known if rest <= 0 else [*known[:SHOWN], f"  ... and {rest} more in report.html"]
