"""The time to lock 300 captured distributions.

It is measured alone, and against `uv pip compile` on the same list.

Both sides are whole processes, and ask the same index on this machine, which answers as slowly as one far away. Ours
asks pip for its configuration, reads the freeze, finds the file of each line, and reads the needs of each wheel; the
wheels are in the store. uv's side also fetches the metadata of each wheel, which ours has. Two states:

- warm: both believe pages that the index calls fresh (ten minutes, as PyPI does), and ask for none,
- asked: both ask for every page.

The floor is the time without any locking: Python with the libraries that our side reads with. It is more than the limit
to uv allows for everything.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.made_index import LINES
from benchmarks.measure import ROOT, Figure, NotRunError, Sample, alternate, compare, spread, time_process

PAIRS = 5
LATENCY = 0.02  # seconds
LIMIT, LIMIT_TO_UV = 2.0, 1.5
MODULES = (
    "reprobuild/infra/http",
    "reprobuild/resolve",
    "reprobuild/snapshot",
    "reprobuild/store/directory",
    "reprobuild/store/store",
)
FREEZE = ROOT / "benchmarks" / "freeze300.txt"
STATES = {"warm": [], "asked": ["--refresh"]}
_FLOOR = "import msgspec, packaging.requirements, packaging.tags, requests"
_OURS = """
import os, sys, time
from pathlib import Path
from reprobuild.ecosystems.pypi.pip_config import Asking
pip = Asking(os.environ)  # as `reprobuild lock` does it
from reprobuild.store.fetch import fetch
from reprobuild.infra.http.client import Net
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import read_indexes
from reprobuild.ecosystems.pypi.page_cache import PageMemory
from reprobuild.ecosystems.pypi.simple_api import Pages
from reprobuild.resolve.python.resolve import LineContext, resolve_requirements
from reprobuild.ecosystems.pypi.requires import with_requires
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.resolve.system.wheel_libraries import open_wheels
from reprobuild.config.services import read_services
from reprobuild.snapshot.parsers.pip_freeze import parse
from reprobuild.store.store import Store
freeze, folder, count = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
lines, _ = parse(freeze.read_bytes())
net, store, target = Net(), Store(folder), WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")
memory = PageMemory(store, int(time.time())) if sys.argv[4] == "warm" else None
files = FileLists(read_indexes(os.environ, pip), net, pages=Pages(net, memory))
around = LineContext(services=read_services({}), bring=lambda *_: None)
found = resolve_requirements(lines[:count], files, target, around)
files.save()
assert len(found.wheels) == count, [one for one in found.rulings if one.outcome != "pinned"]
fetch([one.file for one in found.wheels if not store.has(one.file.sha256)], store, net)
open_wheels(found.wheels, target.machine, store)
with_requires(found.wheels, target, store)
"""


@contextlib.contextmanager
def made_index(latency: float) -> Iterator[str]:
    """Serve the made index from a process, and give its address."""
    argv = [sys.executable, "-m", "benchmarks.made_index", "--latency", str(latency)]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def commands(address: str, folder: Path, count: int) -> tuple[list[str], list[str], dict[str, str]]:
    """Return our command, uv's, and the environment of both.

    Raises:
        NotRunError: uv is missing.
    """
    uv = Path(sys.executable).parent / "uv"
    if not uv.exists():
        raise NotRunError("uv is not installed beside this Python")
    freeze = folder / "requirements.txt"
    freeze.write_text("".join(f"{line}\n" for line in LINES[:count]))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    env = {
        **own, "PYTHONPATH": str(ROOT), "PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": address,
        "UV_CACHE_DIR": str(folder / "uv"), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    ours = [sys.executable, "-c", _OURS, str(freeze), str(folder / "store"), str(count)]
    theirs = [
        str(uv), "--no-config", "pip", "compile", "--quiet", "--generate-hashes", "--no-deps", "--python-version",
        "3.11", "--python-platform", "x86_64-manylinux_2_36", "--default-index", address, str(freeze),
    ]  # fmt: skip
    return ours, theirs, env


def measure(count: int = len(LINES), pairs: int = PAIRS, latency: float = LATENCY) -> list[Figure]:
    """Return our seconds, and the ratio to uv, by state.

    The limits are those of the warm state.
    """
    figures = []
    with tempfile.TemporaryDirectory() as scratch, made_index(latency) as address:
        ours, theirs, env = commands(address, Path(scratch), count)
        for state, options in STATES.items():
            name = f"locking {count} captured distributions, {state}"
            both = alternate(
                lambda argv=[*ours, state]: time_process(argv, env),  # type: ignore[misc]  # mypy: a default is Any
                lambda argv=[*theirs, *options]: time_process(argv, env),  # type: ignore[misc]  # mypy: a default is Any
                pairs,
            )
            warm = state == "warm"
            against = f"uv pip compile --generate-hashes --no-deps {' '.join(options)}".rstrip()
            figures.append(_seconds(name, both[0], LIMIT if warm else None))
            figures.append(
                compare(name, *both, against, limit=LIMIT_TO_UV if warm else None, modules=MODULES)
            )
        floor = alternate(
            lambda: time_process([sys.executable, "-c", _FLOOR]), lambda: time_process(theirs, env), pairs
        )
        against = "uv pip compile --generate-hashes --no-deps"
        figures.append(compare("importing what locking reads with, and no more", *floor, against))
    return figures


def _seconds(name: str, samples: Sequence[Sample], limit: float | None) -> Figure:
    walls = [sample.wall for sample in samples]
    return Figure(
        name, statistics.median(walls), "s", "a whole process, wheels in the store", limit=limit, modules=MODULES,
        details={"runs": len(walls), "ours": spread(walls), "latency of the index": LATENCY},
    )  # fmt: skip
