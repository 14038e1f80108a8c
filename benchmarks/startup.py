"""The times of two whole processes.

They are `reprobuild --help`, and an interpreter of an image.

The first stands against `python -c 'import click'`, the second, which has the seeding hook, against the bare one.

Both sides use one interpreter and count everything: start of Python, site packages of the environment, imports, exit.
Our side does the work of the console script; the script's own file is left out because pip and uv write different ones.
"""

from __future__ import annotations

import compileall
import os
import py_compile
import shutil
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.measure import PROGRAM, ROOT, Figure, alternate, compare, time_process

LIMIT = 2.0
PAIRS = 25
MODULES = ("reprobuild/cli", "reprobuild/errors")
HOOK_LIMIT = 1.3
HOOK_MODULES = ("reprobuild_runtime", "reprobuild/recipe/payload", "reprobuild/realise")
# The entrypoint leaves these to all processes below it.
SETTLED = {
    "REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7",
    "REPROBUILD_ENVIRON": "/opt/reprobuild", "REPROBUILD_SETTLED": "REPROBUILD_SEED=7 PYTHONHASHSEED=7",
}  # fmt: skip


def measure(pairs: int = PAIRS) -> list[Figure]:
    """Return the figures of the command line and of the hook."""
    with tempfile.TemporaryDirectory() as folder:
        return [_help(pairs), _hook(pairs, Path(folder))]


def _help(pairs: int) -> Figure:
    ours, theirs = alternate(
        lambda: time_process([*PROGRAM, "--help"]),
        lambda: time_process([sys.executable, "-c", "import click"]),
        pairs,
    )
    return compare(
        "`reprobuild --help`", ours, theirs, "python -c 'import click'", limit=LIMIT, modules=MODULES,
    )  # fmt: skip


def _hook(pairs: int, folder: Path) -> Figure:
    """Measure two equal environments.

    One has the hook and its bytecode, as in an image.
    """
    package = folder / "lib" / "reprobuild_runtime"
    shutil.copytree(ROOT / "reprobuild_runtime", package, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(package, quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    pythons = []
    for name in ("hooked", "bare"):
        venv.create(folder / name, with_pip=False, symlinks=True)
        pythons.append(str(folder / name / "bin" / "python"))
    (site,) = (folder / "hooked" / "lib").glob("python3.*/site-packages")
    (site / "reprobuild.pth").write_text(f"{package.parent}\nimport reprobuild_runtime.startup\n")
    env = {"PATH": os.environ["PATH"], **SETTLED}
    ours, theirs = alternate(
        lambda: time_process([pythons[0], "-c", "pass"], env),
        lambda: time_process([pythons[1], "-c", "pass"], env),
        pairs,
    )
    return compare(
        "an interpreter with the seeding hook", ours, theirs, "the bare interpreter", limit=HOOK_LIMIT,
        modules=HOOK_MODULES,
    )  # fmt: skip
