"""The section on the determinism tests of each device.

It has a picture, the differences, and tables of all results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprobuild.report.html.components import (
    BRIEF,
    Section,
    bullet_list,
    chip,
    code_element,
    fact_list,
    fold,
    format_count,
    table,
)
from reprobuild.report.html.markup import Html, join, tag
from reprobuild.report.html.plot import MODES, SEEN, plot_probes
from reprobuild.report.html.summary import describe_coverage
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.verdict import ControlVerdict, Mode, ProbeVerdict, Smoke, Verdict

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


def render_probes(verdict: Verdict) -> Section:
    """Return the section on the determinism tests and their controls."""
    parts = [
        part
        for number, smoke in enumerate(verdict.smoke)
        for part in _render_device(smoke, f"smoke-{number}")
    ]
    lead = (
        "Small computations that are known to differ from run to run where something is wrong, each done again and "
        "again in two fresh containers, and compared byte by byte."
    )
    note = "No smoke test was run, or the image has neither torch nor NumPy."
    return Section(id="probes", title="Probes", lead=lead if parts else "", parts=tuple(parts), note=note)


def _render_device(smoke: Smoke, id_: str) -> Iterator[Html]:
    name = _DEVICES[smoke.device]
    yield tag("h3", f"On the {name}: ", chip(smoke.verdict))
    yield tag("p", describe_coverage(smoke))
    if smoke.probes:
        yield plot_probes(smoke.probes, id_)
        odd = [probe for probe in smoke.probes if not _is_uniform(probe)]
        if odd:
            caption = f"What was not identical in every mode, {name}"
            yield _render_table(caption, odd, shown=True)
        legend = ARRAYS_LEGEND if smoke.libraries else LEGEND
        every = _render_table(f"All probes, {name}", smoke.probes)
        yield fold("All probes as a table", tag("p", legend, class_="muted"), every, count=len(smoke.probes))
    if smoke.controls:
        good = sum(control.verdict == "effective" for control in smoke.controls)
        lead = (
            f"Work that is known to drift: {good} of {len(smoke.controls)} drifted, and stopped when cured."
        )
        yield fold(
            "Controls", tag("p", lead), _render_controls(smoke.controls, name), count=len(smoke.controls)
        )
    yield from _render_comparator(smoke, name)
    yield from _render_collectives(smoke, name, f"{id_}-several")
    yield fold(
        "Platform and settings", fact_list([*_setting_pairs(smoke), *flatten_fingerprint(smoke.fingerprint)])
    )


def _is_uniform(probe: ProbeVerdict) -> bool:
    skipped = all(mode.verdict == "SKIPPED" for mode in probe.modes.values())
    calm = probe.verdict in ("identical", "informational") or (probe.verdict == "not-applicable" and skipped)
    return calm and all(mode.verdict in ("IDENTICAL", "SKIPPED") for mode in probe.modes.values())


def _render_comparator(smoke: Smoke, name: str) -> Iterator[Html]:
    if smoke.comparator:
        words = {True: "told apart", False: "NOT told apart"}
        rows = [(change, chip(words[answer])) for change, answer in sorted(smoke.comparator.items())]
        content = table(f"Changes that the comparison must tell apart, {name}", ("change", "answer"), rows)
        yield fold("Changes that the comparison must tell apart", content, count=len(rows))


def _render_collectives(smoke: Smoke, name: str, id_: str) -> Iterator[Html]:
    several = smoke.collectives
    if several is None:
        return
    yield tag("h3", f"Between processes, {name}: ", chip(several.verdict))
    ranks = f"{several.backend}, {format_count(several.world, 'rank')}" if several.backend else several.why
    by = f"; algorithms: {', '.join(several.algorithms)}" if several.algorithms else ""
    yield tag("p", f"{ranks}{by}")
    if several.probes:
        content = _render_table(f"Collectives, {name}", several.probes)
        yield fold("All sums between processes as a table", content, count=len(several.probes), id_=id_)
    if several.controls:
        content = _render_controls(several.controls, f"{name}, between processes")
        yield fold("Controls of these", content, count=len(several.controls))


def _setting_pairs(smoke: Smoke) -> Iterator[tuple[str, str]]:
    yield "seeding before the first program", smoke.hook
    yield "documented by", smoke.expectations or "not told"
    yield "hundreds of repeats", "yes" if smoke.thorough else "no"
    yield "threads in each mode", ", ".join(f"{name} {n}" for name, n in smoke.threads.items()) or "not told"
    yield "seconds", f"{smoke.seconds:.0f}"


def _render_controls(controls: Sequence[ControlVerdict], name: str) -> Html:
    rows = [
        (
            c.name,
            c.device,
            chip(c.verdict),
            c.why,
            bullet_list(_mode_line(name, m) for name, m in c.modes.items()),
        )
        for c in controls
    ]
    return table(f"Controls, {name}", ("control", "device", "answer", "why", "seen"), rows)


def _mode_line(name: str, mode: Mode) -> str:
    return f"{name}: " + ", ".join(word for word in _describe_mode(mode) if word)


def _render_table(caption: str, verdicts: Sequence[ProbeVerdict], *, shown: bool = False) -> Html:
    rows = [
        (
            join((p.name, _small_text(" ".join((p.kind, p.dtype, p.shape)).strip()), _render_documentation(p))),
            join((chip(p.verdict), _small_text(p.why))), *(_render_cell(p.modes.get(name)) for name in MODES),
        )
        for p in verdicts
    ]  # fmt: skip
    return table(caption, ("probe", "answer", *MODES), rows, shown=shown, kind="probes")


def _render_documentation(probe: ProbeVerdict) -> Html:
    return _small_text("" if probe.documented == "none" else f"torch's text: {probe.documented}")


def _small_text(text: str) -> Html:
    return tag("small", text) if text else Html("")


def _render_cell(mode: Mode | None) -> Html:
    if mode is None:
        return Html("")
    answer, more = _describe_mode(mode)
    word = tag("span", answer, class_="bad") if mode.verdict in ("DRIFT", "ERROR") else answer
    start = tag("small", code_element(mode.digest[:BRIEF])) if mode.digest else Html("")
    return join((word, _small_text(more), start))


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
