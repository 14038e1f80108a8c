"""The section on the determinism tests of each device.

It has a picture, the differences, and tables of all results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.report.html.components import BRIEF, Section, format_count
from reprobuild.report.html.plot import MODES, SEEN, Picture, plot_probes
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.determinism.summary import applicable_controls, describe_probes
from reprobuild.verify.verdict import Collectives, ControlVerdict, Mode, ProbeVerdict, Smoke, Verdict

_DEVICES = {"cpu": "CPU", "cuda": "GPU"}
LEGEND = (
    "Each mode: what was seen, N runs in how many processes, the share of drifting runs that N excludes at 95 %, and "
    "the start of the digest. The answer is that of strict mode; refused is what torch's own text says it refuses."
)
ARRAYS_LEGEND = (
    "Each mode: what was seen, N runs in how many processes, the share of drifting runs that N excludes at 95 %, and "
    "the start of the digest. Profile is with the image's own threads, strict with one thread in each library; the "
    "answer is that of both."
)


class ProbeCell(Struct, frozen=True, kw_only=True):
    """The result of a probe in one mode; `bad` is true for drift and errors."""

    answer: str
    detail: str
    digest: str
    bad: bool


class ProbeRow(Struct, frozen=True, kw_only=True):
    """One probe, with a cell for each mode that has a result; `id` is that of a row to link to."""

    name: str
    id: str
    form: str
    documentation: str
    verdict: str
    why: str
    cells: Sequence[ProbeCell | None]


class ControlRow(Struct, frozen=True, kw_only=True):
    """One control, with a line for each mode."""

    name: str
    device: str
    verdict: str
    why: str
    lines: Sequence[str]


class CollectivesView(Struct, frozen=True, kw_only=True):
    """The sums between processes."""

    verdict: str
    description: str
    probes: Sequence[ProbeRow]
    controls: Sequence[ControlRow]


class DeviceView(Struct, frozen=True, kw_only=True):
    """The determinism tests of one device; `odd` are probes that were not identical in every mode."""

    name: str
    verdict: str
    coverage: str
    pictures: Sequence[Picture]
    probes: Sequence[ProbeRow]
    odd: Sequence[ProbeRow]
    legend: str
    controls: Sequence[ControlRow]
    applicable: int
    effective: int
    comparator: Sequence[tuple[str, str]]
    collectives: CollectivesView | None
    facts: Sequence[tuple[str, str]]


class ProbesView(Struct, frozen=True, kw_only=True):
    """The determinism tests by device."""

    devices: Sequence[DeviceView]


def view_probes(verdict: Verdict) -> Section:
    """Return the section on the determinism tests and their controls."""
    devices = [_view_device(smoke) for smoke in verdict.smoke]
    lead = (
        "Small computations that are known to differ from run to run where something is wrong, each done again and "
        "again in two fresh containers, and compared byte by byte."
    )
    note = "No determinism test was run, or the image has neither torch nor NumPy."
    view = ProbesView(devices=devices)
    return Section(id="probes", title="Probes", lead=lead if devices else "", note=note, view=view)


def _view_device(smoke: Smoke) -> DeviceView:
    words = {True: "told apart", False: "NOT told apart"}
    odd = [probe for probe in smoke.probes if not _is_uniform(probe)]
    ids = [f"probe-{smoke.device}-{number}" for number in range(len(odd))]
    return DeviceView(
        name=_DEVICES[smoke.device],
        verdict=smoke.verdict,
        coverage=describe_coverage(smoke),
        pictures=plot_probes(smoke.probes, {probe.name: id_ for probe, id_ in zip(odd, ids, strict=True)}),
        probes=[_view_probe(probe) for probe in smoke.probes],
        odd=[_view_probe(probe, id_) for probe, id_ in zip(odd, ids, strict=True)],
        legend=ARRAYS_LEGEND if smoke.libraries else LEGEND,
        controls=_view_controls(smoke.controls),
        applicable=len(applicable_controls(smoke)),
        effective=sum(control.verdict == "effective" for control in smoke.controls),
        comparator=[(change, words[answer]) for change, answer in sorted((smoke.comparator or {}).items())],
        collectives=_view_collectives(smoke.collectives) if smoke.collectives else None,
        facts=[*_setting_pairs(smoke), *flatten_fingerprint(smoke.fingerprint)],
    )


def _is_uniform(probe: ProbeVerdict) -> bool:
    skipped = all(mode.verdict == "SKIPPED" for mode in probe.modes.values())
    calm = probe.verdict in ("identical", "informational") or (probe.verdict == "not-applicable" and skipped)
    return calm and all(mode.verdict in ("IDENTICAL", "SKIPPED") for mode in probe.modes.values())


def _view_collectives(several: Collectives) -> CollectivesView:
    ranks = f"{several.backend}, {format_count(several.world, 'rank')}" if several.backend else several.why
    by = f"; algorithms: {', '.join(several.algorithms)}" if several.algorithms else ""
    return CollectivesView(
        verdict=several.verdict,
        description=f"{ranks}{by}",
        probes=[_view_probe(probe) for probe in several.probes],
        controls=_view_controls(several.controls),
    )


def _setting_pairs(smoke: Smoke) -> Iterator[tuple[str, str]]:
    yield "seeding before the first program", smoke.hook
    yield "documented by", smoke.expectations or "not told"
    yield "hundreds of repeats", "yes" if smoke.thorough else "no"
    yield "threads in each mode", ", ".join(f"{name} {n}" for name, n in smoke.threads.items()) or "not told"
    yield "seconds", f"{smoke.seconds:.0f}"


def _view_controls(controls: Sequence[ControlVerdict]) -> list[ControlRow]:
    return [
        ControlRow(
            name=control.name,
            device=control.device,
            verdict=control.verdict,
            why=control.why,
            lines=[_mode_line(name, mode) for name, mode in control.modes.items()],
        )
        for control in controls
    ]


def _mode_line(name: str, mode: Mode) -> str:
    return f"{name}: " + ", ".join(word for word in _describe_mode(mode) if word)


def _view_probe(probe: ProbeVerdict, id_: str = "") -> ProbeRow:
    return ProbeRow(
        name=probe.name,
        id=id_,
        form=" ".join((probe.kind, probe.dtype, probe.shape)).strip(),
        documentation="" if probe.documented == "none" else f"torch's text: {probe.documented}",
        verdict=probe.verdict,
        why=probe.why,
        cells=[_view_mode(probe.modes[name]) if name in probe.modes else None for name in MODES],
    )


def _view_mode(mode: Mode) -> ProbeCell:
    answer, detail = _describe_mode(mode)
    bad = mode.verdict in ("DRIFT", "ERROR")
    return ProbeCell(answer=answer, detail=detail, digest=(mode.digest or "")[:BRIEF], bad=bad)


def _describe_mode(mode: Mode) -> tuple[str, str]:
    """Return the answer and its details.

    They are the number of runs in how many processes with their bound, or the reason.
    """
    runs = f"N = {mode.runs} in {mode.processes}"
    if mode.verdict == "IDENTICAL":
        return SEEN[mode.verdict], f"{runs}, < {mode.upper:.1%}"
    if mode.verdict == "DRIFT":
        return SEEN[mode.verdict], f"{runs}: {mode.distinct} different results"
    return SEEN[mode.verdict], mode.why


def describe_coverage(smoke: Smoke) -> str:
    """Describe the determinism tests of one device in a sentence."""
    if not smoke.probes:
        return "No probe answered."
    least = min(
        (mode.runs for probe in smoke.probes if (mode := probe.modes.get("strict")) and mode.runs), default=0
    )
    same = sum(probe.verdict == "identical" for probe in smoke.probes)
    again = f", each in {least} runs or more and again in a second container" if least else ""
    how = f" ({describe_probes(smoke)})" if smoke.libraries else " in strict mode"
    return f"{same} of {format_count(len(smoke.probes), 'probe')} gave the same bytes{how}{again}."
