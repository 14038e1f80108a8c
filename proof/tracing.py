"""The planted faults and the clean scripts under `trace`.

Is the operation or the line named, and the class? Is a clean script accused?

Each fault is traced once, and each clean script `CLEAN_RUNS` times.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.context import RunContext
from reprobuild.infra.http.client import Net
from reprobuild.infra.progress import ignore_progress
from reprobuild.run.options import RunOptions
from reprobuild.store.store import Store
from reprobuild.trace.command import TraceOptions, trace_command
from reprobuild.trace.rounds import Findings
from tests.determinism import planted
from tests.tracing.planted import FOLDER, IN_CONTAINERS, OPERATIONS, SCRIPTS, Planted

MODULES = ("reprobuild/engines", "reprobuild/trace", "reprobuild_runtime/trace", "reprobuild_runtime/seeding")
CLEAN_RUNS = 5
COMPARED = 6  # runs of a fault: some have two results, which are equal half of the time
# The repetitions of one operation, and the runs with the remedy.
_CONFIRMS = re.compile(r" times on its inputs$|: steps, with ")
_ARTEFACTS = {script.name: script for script in (*planted.FAULTS, *planted.CLEAN)}


class Tracing:
    """The experiment, with its results in a file; a run that was cut off goes on there."""

    def __init__(self, results: Path, store: Path, kept: Path) -> None:
        self._results, self._kept = results, kept
        self._answers: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
        self._said: list[str] = []
        self._context = RunContext(
            store=Store(store), net=Net(offline=True), env=dict(os.environ), folder=results, say=self._said.append,
            progress=ignore_progress, now=0,
        )  # fmt: skip

    def do(self, shard: str, only: str) -> list[dict[str, Any]]:
        """Trace the scripts of a part, and return the results.

        Only scripts whose name holds `only` are traced.
        """
        faults = [(fault, FOLDER) for fault in OPERATIONS]
        faults += [(fault, planted.FAULTS_FOLDER) for fault in (*SCRIPTS, *IN_CONTAINERS)]
        cases: list[tuple[str, Path, Planted | None]] = [
            (fault.name, folder, fault) for fault, folder in faults
        ]
        cases += [
            (script.name, planted.CLEAN_FOLDER, None) for script in planted.CLEAN for _ in range(CLEAN_RUNS)
        ]
        index, shards = map(int, shard.split("/"))
        names: dict[str, int] = {}
        results = []
        for name, folder, fault in cases[index - 1 :: shards]:
            if only not in name:
                continue
            names[name] = names.get(name, 0) + 1
            key = f"{folder.name}/{name}/{names[name]}"
            if key not in self._answers:
                self._said.clear()
                answer = judge(name, folder, fault, self._trace(name, folder))
                self._answers[key] = answer | {"runs to name": count_searches(self._said)}
                self._kept.write_text(json.dumps(self._answers))
            results.append(self._answers[key])
        return results

    def _trace(self, name: str, folder: Path) -> Findings:
        script = _ARTEFACTS.get(name) if folder != FOLDER else None
        # Files of a fault that do not drift, and those of a clean script, may not be accused.
        options = TraceOptions(
            artefacts=script.artefacts if script else (), ignored=script.ignored if script else (),
            runs=2 if script in planted.CLEAN else COMPARED,
        )  # fmt: skip
        command = ("python", f"/scripts/{name}.py")
        result = trace_command(
            self._results, command, self._context, RunOptions(volumes=(f"{folder}:/scripts:ro",), engine="builtin"),
            options,
        )  # fmt: skip
        return result.findings


def count_searches(said: Sequence[str]) -> int:
    """Return the number of runs of a trace without those that only confirm its answer."""
    runs = [line for line in said if re.match(r"run \d+: ", line)]
    return sum(not _CONFIRMS.search(line) for line in runs)


def judge(name: str, folder: Path, fault: Planted | None, findings: Findings) -> dict[str, Any]:
    """Return what was said about a script, and whether it is right."""
    cause = findings.cause
    facts = {
        "script": name, "kind": fault.kind if fault else "clean", "runs": findings.runs,
        "said": cause.kind if cause else "", "subject": cause.subject if cause else "",
        "place": cause.place if cause else "", "differs": findings.differs, "cured": findings.cured,
    }  # fmt: skip
    if fault is None:
        return {**facts, "right": not findings.differs}
    line = ""
    if cause and cause.place.startswith(f"/scripts/{name}.py:"):
        number = int(cause.place.rpartition(":")[2])
        line = (folder / f"{name}.py").read_text().splitlines()[number - 1]
    right = (
        cause is not None
        and cause.kind == fault.kind
        and fault.place in line
        and fault.subject in cause.subject
    )
    return {**facts, "right": right}


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the findings, a line for each wrong answer, and the totals."""
    faults = [each for each in found if each["kind"] != "clean"]
    clean = [each for each in found if each["kind"] == "clean"]
    lines = [f"wrong: {msgspec.json.encode(each).decode()}" for each in found if not each["right"]]
    return "\n".join(
        [
            *lines, f"{sum(each['right'] for each in faults)} of {len(faults)} faults named",
            f"{sum(not each['right'] for each in clean)} of {len(clean)} clean runs accused",
        ]
    )  # fmt: skip
