"""The measurements of the probes on the CPU, for docs/probes.md.

    python dev/probe_table.py measure INTERPRETER docs/evidence/probes-cpu-DATE.json     one with torch
    python dev/probe_table.py write docs/evidence/probes-cpu-DATE.json

The first command writes evidence, the second the tables between the two marks of the page. The test
tests/runtime/test_probe_table.py compares them with the evidence and with the probes in the code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from proof.evidence import document, machine  # noqa: E402  after the path

PAGE = ROOT / "docs" / "probes.md"
BEGIN, END = "<!-- measured: dev/probe_table.py -->", "<!-- end -->"
MODULES = ("reprobuild_runtime/probes", "reprobuild_runtime/digest")
MODES = ("default", "profile", "strict")


def measure(interpreter: Path, target: Path) -> None:
    """Run the full determinism test, and write it as evidence.

    The interpreter has torch.
    """
    about = machine()
    program = ROOT / "reprobuild_runtime" / "probes" / "run.py"
    done = subprocess.run([interpreter, program, '{"seed": 7}'], stdout=subprocess.PIPE, check=True)
    found = json.loads(done.stdout)
    if not found["ran"]:
        sys.exit(f"the smoke test did not run: {found['why']}")
    target.write_text(document("probes-cpu", MODULES, {"smoke": found}, about))


def tables(evidence: Mapping[str, Any]) -> str:
    """Return the measured part of the page."""
    return "\n".join(_lines(evidence)) + "\n"


def _lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    smoke = evidence["smoke"]
    platform = smoke["fingerprint"]
    yield f"Measured on {evidence['date'][:10]} with torch {platform['torch']} on {platform['cpu_model']}"
    yield (
        f"({platform['cpu_capability']}, {platform['cpus']} processors, {platform['threads']} threads), "
        f"Python {platform['python']}, {platform['libc']}."
    )
    bound = smoke["bound"]
    yield (
        f"The least repeated probe ran {bound['runs']} times ({bound['probe']}: fewer than "
        f"{bound['upper']:.0%} of runs differ, at 95 %), a typical one {bound['typical']['runs']} times "
        f"({bound['typical']['upper']:.0%})."
    )
    yield ""
    yield f"| probe | kind | torch documents | {' | '.join(MODES)} | N in strict |"
    yield "|---" * (len(MODES) + 4) + "|"
    for probe in smoke["probes"]:
        cells = " | ".join(_cell(probe["modes"][mode]) for mode in MODES)
        runs = probe["modes"]["strict"]["repeats"] or ""
        yield f"| `{probe['name']}` | {probe['kind']} | {probe['documented']} | {cells} | {runs} |"
    yield ""
    yield "| control | by default | cured | verdict |"
    yield "|---|---|---|---|"
    for control in (*smoke["controls"], *smoke["collectives"]["controls"]):
        cure = "cured" if "cured" in control["modes"] else "strict"
        default = _cell(control["modes"]["default"])
        yield f"| `{control['name']}` | {default} | {cure}: {_cell(control['modes'][cure])} | {control['verdict']} |"
    yield ""
    collectives = smoke["collectives"]
    yield f"Collectives: {collectives['backend']}, {collectives['world']} processes: {collectives['verdict']}."


def _cell(mode: Mapping[str, Any]) -> str:
    if mode["verdict"] == "DRIFT":
        return f"DRIFT: {mode['distinct']} results in {mode['repeats']} runs"
    return str(mode["verdict"])


def write(evidence: Path) -> None:
    """Put the tables of a file of evidence into the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    name = evidence.resolve().relative_to(PAGE.parent)
    source = f"From [{name.name}]({name.as_posix()}).\n\n"
    PAGE.write_text(f"{before}{BEGIN}\n\n{source}{tables(json.loads(evidence.read_text()))}\n{END}{after}")


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        measure(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        write(Path(sys.argv[2]))
