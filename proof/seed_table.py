"""The coverage table of docs/seeds.md.

Which generator follows the seed, in which child, under which launcher?

    python -m proof.seed_table PYTHON [--write]

PYTHON is an interpreter with torch, NumPy and the start-up hook. Every cell comes from draws: the values of two
launches with one seed are compared, of a third with another, and of all processes with each other. `--write` puts the
tables into the document; without it they are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from proof.seed_draws import STARTS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "seeds.md"
BEGIN, END = "<!-- tables -->\n", "<!-- end of tables -->\n"

# Generators that keep the system's entropy on purpose.
LEFT_ALONE = ("`os.urandom`", "`uuid.uuid4`", "names of `tempfile`")
GENERATORS = (
    "`random`", "`random.Random()`", "NumPy's global", "`default_rng()`", "`RandomState()`", "torch, CPU",
    "`torch.Generator()`", "hash order", *LEFT_ALONE,
)  # fmt: skip

Draws = dict[str, list[dict[str, Any]]]
ENTRYPOINT = ("-I", "-S", str(ROOT / "reprobuild_runtime" / "entrypoint.py"))
RUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
# The options between the interpreter and the program, and whether the entrypoint comes before.
LAUNCHERS: Mapping[str, tuple[tuple[str, ...], bool]] = {
    "the entrypoint": ((), True),
    "around the entrypoint, with REPROBUILD_SEED": ((), False),
    "torchrun, two ranks": (RUN, True),
    "`python -E`": (("-E",), True),
    "`python -I`": (("-I",), True),
    "`python -S`": (("-S",), True),
}


def make_environment(python: Path, folder: Path) -> Path:
    """Make an environment with another one's packages.

    It has joblib and the hook of this tree, too; returns its interpreter.

    Args:
        python: an interpreter with torch and NumPy.
        folder: the environment's place; not there yet.
    """
    (site,) = (python.parent.parent / "lib").glob("python3.*/site-packages")
    own = folder / "lib" / site.parent.name / "site-packages"
    own.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(python.readlink())
    (folder / "pyvenv.cfg").write_text((python.parent.parent / "pyvenv.cfg").read_text())
    (own / "reprobuild.pth").write_text(f"{ROOT}\nimport reprobuild_runtime.startup\n")
    (own / "others.pth").write_text(f"{site}\n")
    for name in ("joblib", "cloudpickle"):
        found = find_spec(name)
        assert found is not None
        assert found.origin is not None
        (own / name).symlink_to(Path(found.origin).parent)
    return folder / "bin" / "python"


def launch(python: Path, launcher: str, seed: int, out: Path, starts: Sequence[str] = ()) -> list[Draws]:
    """Run the program of draws under a launcher.

    Returns the draws of each rank.
    """
    options, entered = LAUNCHERS[launcher]
    argv = [str(python), *options, str(ROOT / "proof" / "seed_draws.py"), str(out), *starts]
    env = {
        "PATH": os.environ["PATH"], "REPROBUILD_SEED": str(seed), "REPROBUILD_RECORD": "",
        "REPROBUILD_FILES": str(out.parent), "OMP_NUM_THREADS": "1", "HOME": str(out.parent),
    }  # fmt: skip
    if "-S" in options:  # then only this leads to NumPy and torch
        (own,) = (python.parent.parent / "lib").glob("python3.*/site-packages")
        env["PYTHONPATH"] = f"{own}:{(own / 'others.pth').read_text().strip()}"
    if entered:
        argv = [sys.executable, *ENTRYPOINT, *argv]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=500, check=False)
    if done.returncode:
        raise RuntimeError(f"{launcher}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    files = sorted(out.parent.glob(out.name + ".*")) or [out]
    return [json.loads(file.read_text()) for file in files]


def draw_all(python: Path, folder: Path) -> dict[str, list[Draws]]:
    """Return the draws under each launcher.

    Added are `again` (the same launch) and `another seed`.
    """
    jobs: dict[str, tuple[str, int, Sequence[str]]] = {name: (name, 7, ()) for name in LAUNCHERS}
    first = next(iter(LAUNCHERS))
    jobs |= {"again": (first, 7, ()), "another seed": (first, 8, ("main",))}
    with ThreadPoolExecutor(2) as pool:
        started = {}
        for number, (name, (launcher, seed, starts)) in enumerate(jobs.items()):
            (folder / str(number)).mkdir()
            out = folder / str(number) / "drawn"
            started[name] = pool.submit(launch, python, launcher, seed, out, starts)
        return {name: future.result() for name, future in started.items()}


def cell(drawn: Mapping[str, list[Draws]], launcher: str, start: str, generator: str) -> str:
    """Return the word for one cell."""
    first = next(iter(LAUNCHERS))
    ranks = drawn["again" if launcher == first else launcher]
    mine = [one.get(generator) for one in ranks[0][start]]
    if mine != [one.get(generator) for one in drawn[first][0][start]]:
        return "left alone" if generator in LEFT_ALONE else "uncovered"
    mains = [one for rank in ranks for one in rank["main"]]
    if mains[0].get(generator) != drawn[first][0]["main"][0].get(generator):
        mains = drawn[first][0]["main"]  # the children follow it, even if the process above them does not
    children = [one for rank in ranks for one in rank[start]] if start != "main" else []
    seen = [one[generator] for one in (*mains, *children) if generator in one]
    if len({*seen, drawn["another seed"][0]["main"][0][generator]}) == 1:
        return "ignores the seed"
    return "distinct" if len(set(seen)) == len(seen) > 1 else "reproducible"


def tables(drawn: Mapping[str, list[Draws]]) -> str:
    """Return the tables, one for each launcher."""
    texts: list[str] = []
    for launcher in LAUNCHERS:
        head = f"### {launcher[0].upper()}{launcher[1:]}\n\n| | {' | '.join(STARTS)} |\n|---|{'---|' * len(STARTS)}\n"
        rows = [
            f"| {name} | {' | '.join(cell(drawn, launcher, start, name) for start in STARTS)} |\n"
            for name in GENERATORS
        ]
        texts.append(head + "".join(rows))
    return "\n".join(texts)


def measure(python: Path) -> str:
    """Return the tables of a new measurement here."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return tables(draw_all(make_environment(python, folder / "environment"), folder))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("python", type=Path, help="an interpreter with torch, NumPy and the hook")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/seeds.md")
    options = parser.parse_args()
    found = measure(options.python)
    if options.write:
        before, _, rest = DOCUMENT.read_text().partition(BEGIN)
        DOCUMENT.write_text(before + BEGIN + "\n" + found + "\n" + END + rest.partition(END)[2])
    else:
        print(found)


if __name__ == "__main__":
    main()
