"""The command that finds where two runs of a workload part."""

from __future__ import annotations

import shlex
from pathlib import Path

from reprobuild.report.difference import safe_text
from reprobuild.verify.verdict import RESUME, Verdict


def trace_lines(verdict: Verdict, out: Path) -> list[str]:
    """Return the command that finds where two runs of a drifting workload part."""
    work = verdict.work
    drifting = [
        comparison.name
        for comparison in verdict.comparisons
        if comparison.verdict == "drift" and not comparison.name.startswith(RESUME)
    ]
    if work is None or not drifting:
        return []
    files = [name.removeprefix("artefact ") for name in drifting if name.startswith("artefact ")]
    files += [
        f"{{out}}/{name.removeprefix('workload output ')}"
        for name in drifting
        if name.startswith("workload output ")
    ]
    words = ["reprobuild", "trace", str(out), "--seed", str(work.seed)]
    words += [word for place in work.volumes for word in ("-v", f"DIR:{place}")]
    words += [word for name in work.secrets for word in ("--secret", name)]
    words += [word for name, value in work.variables.items() for word in ("-e", f"{name}={value}")]
    words += ["-w", work.workdir] if work.workdir else []
    words += [word for name in files for word in ("--output-file", name)]
    return [f"find where it drifts: {safe_text(shlex.join([*words, '--', 'sh', '-c', work.command]), 2000)}"]
