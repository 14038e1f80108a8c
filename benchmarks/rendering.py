"""The time of the recipe of a lock of 300 wheels.

In process: `render(lock)`, after the imports, in a new process each time, so that the templates are compiled as they
are in every real run. This is the one figure with an absolute limit; its ratio to `json.dumps` of the same lock, which
touches every value once, stands beside it, and so does the ratio of a second call, whose templates are compiled.

As a whole process: `reprobuild render LOCK -o DIR` against the import of three packages that it needs.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import PROGRAM, ROOT, Figure, alternate, compare, spread, time_process
from reprobuild.lock.file import VERSION, write_lock
from reprobuild.lock.model import Bytecode, Lock, RealisedOutputs, Resolution, SealedLock, canonical
from reprobuild.lock.python import Interpreter, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Artefact, Base, Deb, EnvVar

WHEELS = 300
DEBS = 200
LIMIT_SECONDS = 0.3
PROCESSES = 9
PAIRS = 15
MODULES = ("reprobuild/recipe/render", "reprobuild/lock", "reprobuild/recipe/image_config")

_CHILD = r"""
import json, sys, time
from pathlib import Path
import msgspec
from reprobuild.lock.file import read_lock
from reprobuild.recipe.render import render_recipe
lock = read_lock(Path(sys.argv[1]))
plain = msgspec.to_builtins(lock)
clock = time.perf_counter
t0 = clock(); texts = render_recipe(lock); t1 = clock()
render_recipe(lock); t2 = clock(); json.dumps(plain); t3 = clock()
print(json.dumps({"first": t1 - t0, "second": t2 - t1, "dumps": t3 - t2, "size": sum(map(len, texts.values()))}))
"""


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _artefact(filename: str) -> Artefact:
    url = f"https://files.example/{_hash(filename)[:8]}/{filename}"
    return Artefact(filename=filename, sha256=_hash(filename), size=1_000_000, url=url)


def make_lock(wheels: int = WHEELS, debs: int = DEBS) -> Lock:
    """Return a sealed lock of made-up packages.

    It has so many wheels and system packages, one source, and one replaced line.
    """
    python = [
        Wheel(
            name=f"package-{n:03}", version=f"1.{n}.0", role="environment",
            file=_artefact(f"package_{n:03}-1.{n}.0-cp311-cp311-manylinux_2_28_x86_64.whl"),
        )
        for n in range(wheels)
    ]  # fmt: skip
    system = [
        Deb(
            name=f"lib{n:03}", version=f"2.{n}-1", architecture="amd64", essential=n < 20,
            file=_artefact(f"lib{n:03}_2.{n}-1_amd64.deb"),
        )
        for n in range(debs)
    ]  # fmt: skip
    source = Source(
        name="project", url="https://git.example/project", commit="1" * 40, tree="2" * 40, patch=_hash("patch"),
        path="/src/project", editable=True, epoch=1_700_000_000, file=_artefact("project.tar"),
    )  # fmt: skip
    built = Wheel(
        name="project", version="1.0", role="environment", file=_artefact("project-1.0-py3-none-any.whl")
    )
    rulings = [
        Resolution(
            file="requirements.txt", line=n, subject=wheel.name, outcome="pinned", reason="an exact version"
        )
        for n, wheel in enumerate(python, start=1)
    ]
    rulings.append(
        Resolution(
            file="modules.txt",
            line=1,
            subject="gcc",
            outcome="replaced",
            reason="the base's own",
            accepted=True,
        )
    )
    bytecode = [Bytecode(artefact=w.file.sha256, tar=_hash(w.name)) for w in (*python, built)]
    return canonical(
        SealedLock(
            version=VERSION, snapshot=_hash("snapshot"), platform="linux/amd64", epoch=1_700_000_000, seed=None,
            profile="torch",
            interpreter=Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="made up"),
            base=Base(distribution="debian", release="bookworm", packages=tuple(system)),
            wheels=tuple(python), sources=(source,),
            environment=tuple(EnvVar(name=f"VARIABLE_{n}", value=str(n)) for n in range(20)),
            workdir="/src/project", workload=None, decisions=RecordedDecisions(), rulings=tuple(rulings),
            realised=RealisedOutputs(
                base=_hash("base"), runtime=_hash("runtime"), wheels=(built,), bytecode=tuple(bytecode)
            ),
        )
    )  # fmt: skip


def measure(wheels: int = WHEELS, processes: int = PROCESSES, pairs: int = PAIRS) -> list[Figure]:
    """Return the figures in process and as a whole process."""
    with tempfile.TemporaryDirectory(prefix="reprobuild-bench-") as scratch:
        lock = Path(scratch) / "reprobuild.lock"
        write_lock(make_lock(wheels), lock)
        figures = _in_process(lock, wheels, processes)
        ours, theirs = alternate(
            lambda: time_process([*PROGRAM, "render", str(lock), "-o", str(Path(scratch) / "out")]),
            lambda: time_process([sys.executable, "-c", "import click, jinja2, msgspec"]),
            pairs,
        )
        # The command line's modules import all packages, so all of them decide this one.
        name, against = f"`reprobuild render`, {wheels} wheels", "python -c 'import click, jinja2, msgspec'"
        figures.append(
            compare(
                name,
                ours,
                theirs,
                against,
                modules=(*MODULES, "reprobuild/cli", "reprobuild/pipeline"),
            )
        )
    return figures


def _in_process(lock: Path, wheels: int, processes: int) -> list[Figure]:
    rounds = [_child(lock) for _ in range(processes + 1)][
        1:
    ]  # the first fills the caches of bytecode and disk
    first, second, dumps = ([one[key] for one in rounds] for key in ("first", "second", "dumps"))
    details = {
        "processes": processes,
        "first call": spread(first),
        "second call": spread(second),
        "json.dumps": spread(dumps),
        "characters rendered": int(rounds[0]["size"]),
    }
    value, base = statistics.median(first), statistics.median(dumps)
    name = f"render(lock), {wheels} wheels"
    return [
        Figure(
            name,
            value,
            "s",
            "after import, first call",
            limit=LIMIT_SECONDS,
            modules=MODULES,
            details=details,
        ),
        Figure(name, value / base, "x", "json.dumps of the lock", modules=MODULES),
        Figure(
            f"{name}, second call",
            statistics.median(second) / base,
            "x",
            "json.dumps of the lock",
            modules=MODULES,
        ),
    ]


def _child(lock: Path) -> dict[str, float]:
    argv = [sys.executable, "-c", _CHILD, str(lock)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
