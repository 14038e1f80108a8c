"""All figures in one table.

    python -m benchmarks.run [--only NAME]... [--evidence FILE]
    python dev/private_engine.py run -- python -m benchmarks.run --store build/store --results build/cpu-train

Exit code 0: every limit was met; 1: one was missed; 9: none was missed, but a figure could not be measured here, as the
table shows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    bisecting,
    capturing,
    change,
    containers,
    difference,
    locking,
    memory,
    merging,
    native_build,
    peers,
    rendering,
    resolving,
    sif,
    smoke,
    startup,
    tracing,
)  # fmt: skip
from benchmarks.measure import ROOT, Figure, NotRunError
from proof.evidence import document, machine

NAMES = (
    "startup",
    "capturing",
    "resolving",
    "locking",
    "rendering",
    "peers",
    "difference",
    "memory",
    "merging",
    "native_build",
    "change",
    "bisecting",
    "sif",
    "smoke",
    "tracing",
    "containers",
)


def table(figures: Sequence[Figure]) -> str:
    """Return the figures as lines for a terminal."""
    rows = [("figure", "value", "limit", "", "against")]
    for figure in figures:
        value = "-" if figure.value is None else f"{figure.value:.3f} {figure.unit}"
        limit = "-" if figure.limit is None else f"{figure.limit} {figure.unit}"
        rows.append((figure.name, value, limit, figure.verdict, figure.against))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ("  ".join([*map(str.ljust, row[:4], widths), row[4]]).rstrip() for row in rows)
    return "\n".join(lines)


def exit_code(figures: Sequence[Figure]) -> int:
    """Return the exit code for the figures.

    It is 1 if a limit was missed, else 9 if a figure was not run, else 0.
    """
    verdicts = {figure.verdict for figure in figures}
    return 1 if "missed" in verdicts else 9 if "not run" in verdicts else 0


def evidence(figures: Sequence[Figure], before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the dated document.

    It has figures, machine, and a hash of the code of each module that decides one.
    """
    loads = {"before": before["load average"], "after": after["load average"]}
    found = [
        {
            "name": figure.name, "value": None if figure.value is None else round(figure.value, 4),
            "unit": figure.unit, "against": figure.against, "limit": figure.limit, "verdict": figure.verdict,
            "details": dict(figure.details),
        }
        for figure in figures
    ]  # fmt: skip
    modules = {module for figure in figures for module in figure.modules}
    return document("benchmarks", modules, {"figures": found}, {**before, "load average": loads})


def attempt(name: str, measure: Callable[[], list[Figure]]) -> list[Figure]:
    """Return a script's figures, or one with the error."""
    print(f"measuring {name} ...", file=sys.stderr, flush=True)
    try:
        return measure()
    except NotRunError as err:
        return [Figure(name, None, "x", str(err))]


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", choices=NAMES, action="append", help="measure this one; may be given several times"
    )
    parser.add_argument(
        "--store", type=Path, default=ROOT / "build" / "store", help="a filled store; only read"
    )
    parser.add_argument(
        "--results", type=Path, default=ROOT / "build" / "cpu-train", help="its output directory; only read"
    )
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "bench", help="where builds are made")
    parser.add_argument("--apptainer", metavar="PROGRAM", help="an Apptainer, for the SIF")
    parser.add_argument("--rounds", type=int, default=native_build.ROUNDS, help="of builds of images")
    parser.add_argument("--evidence", type=Path, metavar="FILE", help="write a dated JSON document")
    options = parser.parse_args(argv)
    measures: dict[str, Callable[[], list[Figure]]] = {
        "startup": startup.measure,
        "capturing": capturing.measure,
        "resolving": resolving.measure,
        "locking": locking.measure,
        "rendering": rendering.measure,
        "peers": lambda: peers.measure(options.folder.absolute()),
        "difference": difference.measure,
        "memory": lambda: memory.measure(
            options.store.absolute(), options.results.absolute(), options.folder.absolute()
        ),
        "merging": merging.measure,
        "native_build": lambda: native_build.measure(
            options.store.absolute(), options.results.absolute(), options.folder.absolute(), options.rounds
        ),
        "change": lambda: change.measure(
            options.store.absolute(), options.results.absolute(), options.folder.absolute(), options.rounds
        ),
        "bisecting": lambda: bisecting.measure(
            options.store.absolute(), options.results.absolute(), options.folder.absolute(), options.rounds
        ),
        "sif": lambda: sif.measure(
            options.results.absolute(), options.folder.absolute(), options.apptainer, options.rounds
        ),
        "containers": lambda: containers.measure(options.results.absolute(), options.folder.absolute()),
        "tracing": lambda: tracing.measure(options.results.absolute(), options.folder.absolute()),
        "smoke": lambda: smoke.measure(options.results.absolute(), options.folder.absolute()),
    }
    before = machine()
    figures = [figure for name in options.only or NAMES for figure in attempt(name, measures[name])]
    after = machine()
    print(table(figures))
    loads = [" ".join(map(str, state["load average"])) for state in (before, after)]
    print(f"\n{before['cpu']}, {before['cores']} cores; load average {loads[0]} before, {loads[1]} after")
    if options.evidence:
        options.evidence.parent.mkdir(parents=True, exist_ok=True)
        options.evidence.write_text(evidence(figures, before, after))
    return exit_code(figures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
