"""Compiled code in fresh containers, without and with saved choices.

Random numbers replace the measurements by which Inductor chooses kernels, so that each fresh process chooses others.
JAX measures nothing on a CPU: there the cache saves time alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

PROGRAMS = Path(__file__).parent
MODULES = ("reprobuild/image/choices", "reprobuild/run/choices", "reprobuild/run/choice_session")
CLI = (sys.executable, "-m", "reprobuild.cli")
MOUNT = "/programs"
MOST_SECONDS = 1 / 3  # of compilation, with saved choices


class Consumer(Struct, frozen=True, kw_only=True):
    """A consumer of choices: its environment, the program, and the variables of its runs."""

    name: str
    requirements: tuple[str, ...]
    packages: tuple[str, ...]
    program: str
    variables: tuple[str, ...] = ()
    control: bool = False  # whether results differ without saved choices


CONSUMERS = (
    Consumer(
        name="inductor",
        requirements=(
            "filelock==4.2.11", "fsspec==2026.9.0", "Jinja2==3.1.6", "MarkupSafe==3.0.4", "mpmath==1.3.0",
            "networkx==3.6.1", "numpy==2.4.6", "setuptools==80.9.0", "sympy==1.14.0", "torch==2.13.0+cpu",
            "typing_extensions==4.16.0",
        ),
        packages=("g++", "openssl", "libpython3.11-dev"),  # Inductor compiles C++ that includes Python.h
        program="compiled_torch.py",
        variables=("TORCHINDUCTOR_FREEZING=1",),
        control=True,
    ),
    Consumer(name="jax", requirements=("jax==0.10.2",), packages=("openssl",), program="compiled_jax.py"),
)  # fmt: skip
# The verdicts of `verify` on compiled code, on a machine without a GPU.
COMPILED = {
    "compiled_gpt_block": "not-applicable", "compiled_reduction": "identical",
    "compiled_flex_attention": "not-applicable", "measured_kernels": "effective",
}  # fmt: skip
# Each changes the platform of a run; the names are those in the refusal.
OTHER_PLATFORMS = (
    "ATEN_CPU_CAPABILITY=default", "ATEN_CPU_CAPABILITY=avx2", "OMP_NUM_THREADS=1", "OMP_NUM_THREADS=64",
    "MKL_NUM_THREADS=1", "MKL_CBWR=COMPATIBLE", "MKL_ENABLE_INSTRUCTIONS=SSE4_2", "ONEDNN_MAX_CPU_ISA=SSE41",
    "OPENBLAS_CORETYPE=Haswell",
)  # fmt: skip


class Choices:
    """The experiment; finished runs are kept in `work`."""

    def __init__(self, store: Path, work: Path, count: int = 20) -> None:
        self._store, self._work, self._count = store, work, count
        self._work.mkdir(parents=True, exist_ok=True)

    def measure(self) -> list[dict[str, Any]]:
        """Return the findings on each consumer."""
        return [self._measure(consumer) for consumer in CONSUMERS]

    def _measure(self, consumer: Consumer) -> dict[str, Any]:
        done = self._work / f"{consumer.name}.json"
        if done.exists():
            found: dict[str, Any] = json.loads(done.read_text())
            return found
        out = self._build(consumer)
        shutil.rmtree(out / "choices", ignore_errors=True)
        without = [self._run(consumer, out, "--choices", "off") for _ in range(self._count)]
        saved = self._run(consumer, out, "--save-choices")
        with_choices = [self._run(consumer, out, "--choices", "strict") for _ in range(self._count)]
        refused = [self._refuse(out, "-e", variable) for variable in OTHER_PLATFORMS]
        refused.append(self._refuse(out, prefix=("taskset", "-c", str(min(os.sched_getaffinity(0))))))
        archive = next((out / "choices").glob("*.tar.zst"))
        verified = self._verify(out) if consumer.control else {}
        found = {
            "consumer": consumer.name,
            "without": without,
            "saved": saved,
            "with": with_choices,
            "refused": refused,
            "bytes": archive.stat().st_size,
            "control": consumer.control,
            "verified": verified,
        }
        done.write_text(json.dumps(found))
        return found

    def _build(self, consumer: Consumer) -> Path:
        folder, out = self._work / consumer.name, self._work / f"{consumer.name}-out"
        folder.mkdir(exist_ok=True)
        (folder / "requirements.txt").write_text("".join(f"{line}\n" for line in consumer.requirements))
        decisions = self._work / f"{consumer.name}.yaml"
        decisions.write_text(json.dumps({"packages": consumer.packages}))
        subprocess.run(
            [
                *CLI, "from-snapshot", folder, "--decisions", decisions, "--accept", "no-apt-list", "--as-of",
                "2026-11-20", "--base", "debian/bookworm", "--python", "3.11.2", "--no-verify", "-o", out,
                "--store", self._store,
            ],
            check=True,
        )  # fmt: skip
        return out

    def _run(self, consumer: Consumer, out: Path, *options: str) -> dict[str, Any]:
        variables = [word for variable in consumer.variables for word in ("-e", variable)]
        argv = [*CLI, "run", str(out), "--seed", "1", "-v", f"{PROGRAMS}:{MOUNT}:ro", *variables, *options]
        done = subprocess.run(
            [*argv, "--", "python", f"{MOUNT}/{consumer.program}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        print(consumer.name, options, found, file=sys.stderr, flush=True)
        return found

    def _verify(self, out: Path) -> dict[str, str]:
        """Return the verdicts of `verify` on compiled code, with saved choices."""
        argv = [*CLI, "verify", str(out), "--only", "probes", "--store", str(self._store)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        (smoke,) = json.loads((out / "verdict.json").read_bytes())["smoke"]
        answers = [*smoke["probes"], *smoke["controls"]]
        found = {answer["name"]: answer["verdict"] for answer in answers if answer["name"] in COMPILED}
        print("verify", found, file=sys.stderr, flush=True)
        return found

    def _refuse(self, out: Path, *options: str, prefix: Sequence[str] = ()) -> str:
        """Return the reason for which a run on another platform is refused, or an empty text."""
        argv = [*prefix, *CLI, "run", str(out), "--choices", "strict", *options, "--", "true"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        match = re.search(r"are of another platform: (.*)", done.stderr)
        return match[1] if match and done.returncode else ""


def summarise(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of one consumer."""
    fresh, kept = found["without"], found["with"]
    return {
        "consumer": found["consumer"],
        "results without": len({run["result"] for run in fresh}),
        "results with": len({run["result"] for run in (found["saved"], *kept)}),
        "runs": len(fresh),
        "measured without": sorted({run["measured"] for run in fresh}),
        "measured with": sorted({run["measured"] for run in kept}),
        "seconds without": _median([run["seconds"] for run in fresh]),
        "seconds with": _median([run["seconds"] for run in kept]),
        "refused": sum(bool(reason) for reason in found["refused"]),
        "platforms": len(found["refused"]),
        "bytes": found["bytes"],
    }


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def held(findings: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether each claim held."""
    return all(
        _held(summarise(found), control=found["control"])
        and found["verified"] == (COMPILED if found["control"] else {})
        for found in findings
    )


def _held(row: Mapping[str, Any], *, control: bool) -> bool:
    return (
        (row["results without"] > 1 or not control)
        and row["results with"] == 1
        and row["measured with"] == [0]
        and row["seconds with"] <= MOST_SECONDS * row["seconds without"]
        and row["refused"] == row["platforms"]
    )


def table(findings: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each consumer."""
    return [
        [
            row["consumer"], str(row["runs"]), str(row["results without"]), str(row["results with"]),
            f"{_span(row['measured without'])} / {_span(row['measured with'])}",
            f"{row['seconds without']:.1f} / {row['seconds with']:.1f} s", f"{row['bytes'] / 1000:.0f} kB",
            f"{row['refused']} of {row['platforms']}",
        ]
        for row in map(summarise, findings)
    ]  # fmt: skip


HEAD = (
    "consumer", "containers", "results without", "results with", "measurements of each", "compilation", "archive",
    "other platforms refused",
)  # fmt: skip


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"
