"""The measurements of the probes, for docs/probes.md.

    python dev/probe_table.py measure INTERPRETER docs/evidence/probes-cpu-DATE.json     one with torch
    python dev/probe_table.py gather RESULTS docs/evidence/probes-cuda-DATE.json         of gpu-evidence.pyz
    python dev/probe_table.py write docs/evidence/probes-cpu-DATE.json                   or of cuda

The first two commands write evidence, the third the tables between the two marks of the page. The test
tests/runtime/test_probe_table.py compares them with the evidence and with the probes in the code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from proof.evidence import document, machine  # noqa: E402  after the path

PAGE = ROOT / "docs" / "probes.md"
BEGIN, END = "<!-- measured: dev/probe_table.py -->", "<!-- end -->"
BEGIN_CUDA = "<!-- measured on a GPU: dev/probe_table.py -->"
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
        sys.exit(f"the determinism test did not run: {found['why']}")
    target.write_text(document("probes-cpu", MODULES, {"smoke": found}, about))


def gather(results: Path, target: Path) -> None:
    """Write the results of gpu-evidence.pyz as evidence.

    The parts `machine`, `cuda`, `cuda-calm`, `cuda-compiled` and `profiles` are below `results`.
    """
    parts = {path.stem: json.loads(path.read_bytes()) for path in results.rglob("*.json")}
    smoke, calm, compiled = parts["cuda"], parts["cuda-calm"], parts["cuda-compiled"]
    found = {
        "about": parts["machine"]["about"],
        "smoke": smoke,
        "milliseconds": {
            probe["name"]: {mode: answer["median_ms"] for mode, answer in probe["modes"].items()}
            for probe in calm["probes"]
        },
        "slowdown": calm["slowdown"],
        "compiled": compiled["probes"],
        "containers": parts["machine"]["containers"],
        "profiles": {name: parts["profiles"][name] for name in ("log-only", "torch", "strict")},
        "seconds": {name: part["seconds"] for name, part in parts.items() if "seconds" in part},
    }
    target.write_text(document("probes-cuda", MODULES, found, _describe(smoke["fingerprint"])))


def _describe(platform: Mapping[str, Any]) -> dict[str, Any]:
    """Describe the measured machine, which is not this one."""
    return {
        "gpu": [gpu["name"] for gpu in platform["cuda"]["gpus"]],
        "driver": platform["cuda"]["driver"],
        "cpu": platform["cpu_model"],
        "cores": platform["cpus"],
        "python": platform["python"],
        "commit": machine()["commit"],
    }


def tables(evidence: Mapping[str, Any]) -> str:
    """Return the measured part of the page."""
    lines = _cuda_lines if evidence["kind"] == "probes-cuda" else _lines
    return "\n".join(lines(evidence)) + "\n"


def _lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    smoke = evidence["smoke"]
    platform = smoke["fingerprint"]
    yield f"Measured on {evidence['date'][:10]} with torch {platform['torch']} on {platform['cpu_model']}"
    yield (
        f"({platform['cpu_capability']}, {platform['cpus']} processors, {platform['threads']} threads), "
        f"Python {platform['python']}, {platform['libc']}."
    )
    yield _bound(smoke["bound"])
    yield ""
    yield from _probe_table(smoke["probes"], {})
    yield ""
    yield from _control_table((*smoke["controls"], *smoke["collectives"]["controls"]))
    yield ""
    collectives = smoke["collectives"]
    yield f"Collectives: {collectives['backend']}, {collectives['world']} processes: {collectives['verdict']}."


def _cuda_lines(evidence: Mapping[str, Any]) -> Iterator[str]:
    smoke, slowdown = evidence["smoke"], evidence["slowdown"]
    platform = smoke["fingerprint"]
    cuda = platform["cuda"]
    yield f"Measured on {evidence['date'][:10]} with torch {platform['torch']} on one {cuda['gpus'][0]['name']}"
    yield (
        f"(driver {cuda['driver']}, cuDNN {cuda['packages']['cudnn']}, cuBLAS {cuda['cublas']}), "
        f"Python {platform['python']}, {platform['libc']}."
    )
    yield _bound(smoke["bound"])
    yield "The last column has the time in strict mode divided by the time by default, from a run without stress;"
    yield f"the median of {len(slowdown)} probes is {median(slowdown.values()):.2f}."
    yield ""
    yield from _probe_table(smoke["probes"], slowdown)
    yield ""
    yield from _control_table([control for control in smoke["controls"] if control["device"] == "cuda"])
    yield ""
    yield f"Collectives: {smoke['collectives']['why']}. torch.compile, two processes with a cold cache each:"
    yield ""
    yield "| probe | default | strict |"
    yield "|---|---|---|"
    for probe in evidence["compiled"]:
        yield f"| `{probe['name']}` | {_cell(probe['modes']['default'])} | {_cell(probe['modes']['strict'])} |"


def _bound(bound: Mapping[str, Any]) -> str:
    return (
        f"The least repeated probe ran {bound['runs']} times ({bound['probe']}: fewer than "
        f"{bound['upper']:.0%} of runs differ, at 95 %), a typical one {bound['typical']['runs']} times "
        f"({bound['typical']['upper']:.0%})."
    )


def _probe_table(probes: Iterable[Mapping[str, Any]], slowdown: Mapping[str, float]) -> Iterator[str]:
    """Yield a row for each probe; the column of slowdowns only if there are any."""
    ratios = " slower in strict |" if slowdown else ""
    yield f"| probe | kind | torch documents | {' | '.join(MODES)} | N in strict |{ratios}"
    yield "|---" * (len(MODES) + 4 + bool(slowdown)) + "|"
    for probe in probes:
        cells = " | ".join(_cell(probe["modes"][mode]) for mode in MODES)
        runs = probe["modes"]["strict"]["repeats"] or ""
        ratio = slowdown.get(probe["name"])
        last = (f" {ratio:.1f} |" if ratio else "  |") if slowdown else ""
        yield f"| `{probe['name']}` | {probe['kind']} | {probe['documented']} | {cells} | {runs} |{last}"


def _control_table(controls: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| control | by default | cured | verdict |"
    yield "|---|---|---|---|"
    for control in controls:
        cure = "cured" if "cured" in control["modes"] else "strict"
        default = _cell(control["modes"]["default"])
        yield f"| `{control['name']}` | {default} | {cure}: {_cell(control['modes'][cure])} | {control['verdict']} |"


def _cell(mode: Mapping[str, Any]) -> str:
    if mode["verdict"] == "DRIFT":
        return f"DRIFT: {mode['distinct']} results in {mode['repeats']} runs"
    return str(mode["verdict"])


def write(evidence: Path) -> None:
    """Put the tables of a file of evidence into the page."""
    content = json.loads(evidence.read_text())
    begin = BEGIN_CUDA if content["kind"] == "probes-cuda" else BEGIN
    before, _, rest = PAGE.read_text().partition(begin)
    after = rest.partition(END)[2]
    name = evidence.resolve().relative_to(PAGE.parent)
    source = f"From [{name.name}]({name.as_posix()}).\n\n"
    PAGE.write_text(f"{before}{begin}\n\n{source}{tables(content)}\n{END}{after}")


if __name__ == "__main__":
    if sys.argv[1] in ("measure", "gather"):
        {"measure": measure, "gather": gather}[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        write(Path(sys.argv[2]))
