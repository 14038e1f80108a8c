"""The lines of `image.leftovers` against real builds.

A line that describes no real leftover of a builder is dead.

python -m proof leftovers --lock LOCK --store STORE --work FOLDER [--evidence FILE]
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proof.circumstances import ROOT
from proof.factors import BUILDERS, engine_of
from proof.recorded import lines
from reprobuild.builders.leftovers import OF_THE_BUILD

MODULES = (
    "reprobuild/builders",
    "reprobuild/recipe/image_config",
    "reprobuild/recipe/build_context",
    "reprobuild/image",
    "reprobuild/recipe/render",
)


def count(
    lock: Path, store: Path, work: Path, env: Mapping[str, str], engines: Path
) -> dict[str, dict[str, int]]:
    """Build with each other builder, and count the lines needed.

    Returns {builder: {line: how often it was needed}}.

    Raises:
        RuntimeError: a build failed; the text ends with its output.
    """
    found = {}
    for builder in BUILDERS[1:]:
        out, file = work / "left", work / f"{builder}.json"
        run = subprocess.run(
            [*engine_of(builder, engines), sys.executable, "-m", "proof.recorded", str(file), "build", str(lock),
             "-o", str(out), "--store", str(store), "--offline", "--builder", builder.split()[0]],
            cwd=ROOT, env=dict(env), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            raise RuntimeError(f"{builder} failed with {run.returncode}:\n{run.stderr[-4000:]}")
        shutil.rmtree(out)
        found[builder] = json.loads(file.read_text())
        print(builder, found[builder], file=sys.stderr, flush=True)
    return found


def dead(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the lines that no build needed."""
    used: dict[str, set[str]] = {}
    for builder, counts in found.items():
        used.setdefault(builder.split()[0], set()).update(counts)
    unused = [
        f"{builder}: {line}" for builder in used for line in lines(builder) if line not in used[builder]
    ]
    fields = [f"field {name}" for name in OF_THE_BUILD]
    return [
        *unused,
        *(f"all: {field}" for field in fields if not any(field in counts for counts in used.values())),
    ]


def table(found: Mapping[str, Mapping[str, int]]) -> Sequence[str]:
    """Return the counts as lines for a terminal."""
    return [
        f"{builder:13} {line:40} {number}"
        for builder, counts in found.items()
        for line, number in counts.items()
    ]
