"""Where two runs of a workload part: the findings in a verdict, or the command that finds it."""

from __future__ import annotations

import shlex
from pathlib import Path

from reprobuild.infra.display import escape_text
from reprobuild.infra.shell_words import as_path
from reprobuild.verify.verdict import DriftTrace, Verdict

_LONGEST = 2000  # characters of a command


def trace_rows(trace: DriftTrace) -> list[tuple[str, str]]:
    """Return the names and values of the findings on a drift; an unknown value has no row."""
    cause = f"{trace.subject} ({trace.kind})" if trace.kind else f"not found: {trace.why}"
    rows = [
        ("first record", trace.first), ("cause", cause), ("place", trace.place), ("reason", trace.reason),
        ("remedy", trace.remedy), ("tested", trace.tested),
    ]  # fmt: skip
    return [(name, value) for name, value in rows if value]


def trace_lines(verdict: Verdict, out: Path) -> list[str]:
    """Return the command that finds where two runs of a drifting workload part, if the verdict has no cause."""
    if verdict.trace and verdict.trace.kind:
        return []
    work = verdict.work
    drifting = [
        comparison.name
        for comparison in verdict.comparisons
        if comparison.verdict == "drift" and comparison.condition == "same"
    ]
    if work is None or not drifting:
        return []
    files = [name.removeprefix("artefact ") for name in drifting if name.startswith("artefact ")]
    files += [
        f"{{out}}/{name.removeprefix('workload output ')}"
        for name in drifting
        if name.startswith("workload output ")
    ]
    words = ["reprobuild", "trace", as_path(out), "--seed", str(work.seed)]
    words += [word for place in work.volumes for word in ("-v", f"DIR:{place}")]
    words += [word for name in work.secrets for word in ("--secret", name)]
    words += [word for name, value in work.variables.items() for word in ("-e", f"{name}={value}")]
    words += ["-w", work.workdir] if work.workdir else []
    words += [word for name in files for word in ("--output-file", name)]
    lines = (shlex.join([*words, "--", "sh", "-c", work.command]), shlex.join([*words, "--", "COMMAND"]))
    # A shortened command could end in the middle of a quoted word, whose rest a shell would run.
    return [f"find where it drifts: {escape_text(line)}" for line in lines if len(line) <= _LONGEST][:1]
