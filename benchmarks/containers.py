"""The time to the first process of an image, and of a later one, in the built-in engine.

The first process of the example needs its layers: the built-in engine unpacks them, Docker loads them. Each side begins
without the image, and ends when `true` has run in a container. A later start stands against `runc run` on the unpacked
lowest layer, which is all that runc needs: both sides are one process of an engine's own, without `reprobuild run`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import PROGRAM, Figure, NotRunError, Sample, alternate, compare, time_process
from reprobuild.engines import builtin, docker
from reprobuild.engines.builtin_images import UnpackedImages
from reprobuild.engines.model import Task
from reprobuild.image.model import Image
from reprobuild.infra.directory_fd import remove
from reprobuild.output.directory import read_image

FIRST_LIMIT, LATER_LIMIT = 0.1, 3.0
ROUNDS, STARTS = 2, 15
MODULES = ("reprobuild/engines", "reprobuild/infra/sandbox")
NAME = "reprobuild-benchmark/example:1"
# Starts `true` in a container as `engine.run` does; the image is in the cache.
OURS = """
import os, sys
from reprobuild.engines import builtin
from reprobuild.engines.model import Task
sys.exit(builtin.run(sys.argv[1], Task(arguments=("/bin/true",), bypass=True), dict(os.environ)).code)
"""


def measure(results: Path, folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures of the first process and of later ones.

    Raises:
        NotRunError: there is no image, or no Docker answers.
    """
    if not (results / "image").is_dir():
        raise NotRunError(f"there are no results in {results}; `make demo` makes them")
    _, image = read_image(results)
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    try:
        return [_first(results, image, env, rounds), _later(results, image, env, folder)]
    finally:
        remove(folder / "cache")


def _first(results: Path, image: Image, env: Mapping[str, str], rounds: int) -> Figure:
    if docker.version(env) is None:
        raise NotRunError("no Docker answers")

    def first(engine: str) -> Sample:
        words = ("run", str(results), "--engine", engine, "--", "true")
        return time_process([*PROGRAM, *words], env)

    def ours() -> Sample:
        remove(Path(env["XDG_CACHE_HOME"]))
        return first("builtin")

    def theirs() -> Sample:
        subprocess.run(
            ["docker", "rmi", "--force", image.reference], env=env, capture_output=True, check=False
        )
        return first("docker")

    return compare(
        "the first process of the example, built-in engine", *alternate(ours, theirs, rounds),
        "`docker load` and `docker run`, by `reprobuild run --engine docker`", limit=FIRST_LIMIT, modules=MODULES,
    )  # fmt: skip


def _later(results: Path, image: Image, env: Mapping[str, str], folder: Path) -> Figure:
    runc = shutil.which("runc")
    if runc is None:
        raise NotRunError("there is no runc on PATH")
    builtin.load(results / "image", NAME, image.digests, env)
    images = UnpackedImages.open_user_cache(env)
    lowest = images.directories(images.find(NAME))[0]
    bundle = folder / "bundle"
    remove(bundle)
    bundle.mkdir(parents=True)
    subprocess.run([runc, "spec"], cwd=bundle, check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"].update(terminal=False, args=["/bin/true"])
    spec["root"] = {"path": str(lowest), "readonly": True}
    (bundle / "config.json").write_text(json.dumps(spec))

    def ours() -> Sample:
        return time_process([sys.executable, "-c", OURS, NAME], env)

    def theirs() -> Sample:
        return time_process(
            [runc, "--root", str(folder / "runc"), "run", "--bundle", str(bundle), "benchmark"], env
        )

    assert builtin.run(NAME, Task(arguments=("/bin/true",), bypass=True), env).code == 0
    return compare(
        "a later start, built-in engine", *alternate(ours, theirs, STARTS), "`runc run` on the lowest layer",
        limit=LATER_LIMIT, modules=MODULES,
    )  # fmt: skip
