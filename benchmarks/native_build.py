"""The time of the native builder for the example.

The other side is `docker build` of the same wheels.

Both sides start from the same finished base tree and the same wheel files on the same disk, and both end with an image
file or directory there that can be copied to another machine.

Counted on our side: the whole process `reprobuild build LOCK -o OUT --offline` with a sealed lock and a filled store,
once with no layer in the store, so that each is read, hashed, made and compressed (base included, zstd), and once with
the layers there. It also writes recipe and context, checks the sha256 of every input and computes the tree digest. Not
counted: fetching, and the work of sealing, done once for this lock (the base's packages, the wheels of sources, the
bytecode).

Counted on the naive side: `docker buildx build --no-cache` of

    FROM base / RUN apt-get update && apt-get install -y python3-pip / COPY wheels / RUN pip install *.whl

with its upload of the context and its export as an OCI tar (gzip, the builder's default). Not counted: `docker import`
of the base, its layer being compressed or not as the engine keeps it, and the start of the engine. apt downloads from
the addresses of this machine's own configuration, so a part of this side depends on the network; the details give each
step's own time as BuildKit reports it. pip compiles the bytecode in this build, ours was compiled when the lock was
sealed.

The second Dockerfile is a careful one: no recommended packages, wheels mounted instead of copied, no bytecode, zstd. It
has no limit; it shows how much of the first ratio is the naive one's waste. A third ratio leaves all work of apt out of
the naive side.

It needs a Docker engine that knows BuildKit and has the host's network (`dev/private_engine.py run -- ...`).
The images are removed afterwards; cache records of the builds stay in the engine until it prunes them.
"""

from __future__ import annotations

import os
import shutil
import statistics
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.dockerfiles import CAREFUL, NAIVE, Build, Docker, imported, output_of
from benchmarks.measure import Figure, NotRunError, Sample, spread
from benchmarks.native import LOCK, Native
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import SealedLock

LIMIT = 0.12
ROUNDS = 3
MODULES = (
    "reprobuild/image",
    "reprobuild/realise",
    "reprobuild/store/directory",
    "reprobuild/store/store",
    "reprobuild/recipe/build_context",
    "reprobuild/recipe/payload",
    "reprobuild/recipe/render",
    "reprobuild/infra/tar",
    "reprobuild/store/tar_listing",
    "reprobuild/lock",
    "reprobuild/pipeline/build",
    "reprobuild/pipeline/from_lock",
)


def measure(store: Path, results: Path, folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures of both builders.

    `folder` is worked in, and left clean.

    Args:
        store: filled, with all files of the lock of `results`; only read.
        results: an output directory of `from-snapshot` or `build`; only read.
        folder: on the file system of the store, so that copies are hard links.
        rounds: how often each of the four builds is measured, in turn; ours with no layers before and after the naive
            one, because it is the shorter and a burst of load weighs more in it.

    Raises:
        NotRunError: an engine or a filled store is missing.
    """
    if not (results / LOCK).is_file() or not isinstance(read_lock(results / LOCK), SealedLock):
        raise NotRunError(f"{results} holds no sealed lock; `make demo` makes one")
    if not (store / "made").is_dir():
        raise NotRunError(f"{store} is no filled store; `make demo` fills one")
    scratch = folder / f"native-build-{uuid.uuid4().hex[:8]}"
    scratch.mkdir(parents=True)
    try:
        native = Native(store, results, scratch)
        with imported(scratch / "docker", results) as docker:
            return _figures(native, docker, rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _figures(native: Native, docker: Docker, rounds: int) -> list[Figure]:
    native.build(cached=False)  # not counted: fills the disk cache and the caches of bytecode
    made: list[Sample] = []
    cached: list[Sample] = []
    naive: list[Build] = []
    careful: list[Build] = []
    load = []
    for _ in range(rounds):
        made.append(native.build(cached=False))
        naive.append(docker.build(NAIVE))
        made.append(native.build(cached=False))
        cached.append(native.build(cached=True))
        careful.append(docker.build(CAREFUL, "compression=zstd"))
        load.append(round(os.getloadavg()[0], 2))
    took = statistics.median(sample.wall for sample in made)
    took_cached = statistics.median(sample.wall for sample in cached)
    took_naive = statistics.median(build.wall for build in naive)
    without_apt = statistics.median(build.wall - build.apt for build in naive)
    took_careful = statistics.median(build.wall for build in careful)
    details: dict[str, Any] = {
        "rounds": rounds,
        "ratio of minima": round(min(s.wall for s in made) / min(b.wall for b in naive), 3),
        "layers made": _series(made),
        "layers cached": _series(cached),
        "naive": _builds(naive),
        "careful": _builds(careful),
        "bytes of our image": native.size(),
        "load average after each round": load,
        "engine": output_of(["docker", "version", "--format", "{{.Server.Version}}"]).strip(),
        "buildx": output_of(["docker", "buildx", "version"]).strip(),
    }
    name, name_cached = "native build, layers made", "native build, layers cached"
    return [
        Figure(name, took / took_naive, "x", "naive docker build", LIMIT, MODULES, details),
        Figure(name_cached, took_cached / took_naive, "x", "naive docker build", LIMIT, MODULES),
        Figure(name, took / without_apt, "x", "naive docker build less its apt step", modules=MODULES),
        Figure(name, took / took_careful, "x", "careful docker build (zstd)", modules=MODULES),
    ]


def _series(samples: Sequence[Sample]) -> dict[str, Any]:
    return {
        **spread([sample.wall for sample in samples]),
        "processor": spread([sample.cpu for sample in samples]),
    }


def _builds(builds: Sequence[Build]) -> dict[str, Any]:
    middle = sorted(builds, key=lambda build: build.wall)[len(builds) // 2]
    shown = {title: seconds for title, seconds in middle.steps.items() if seconds >= 0.5}
    return {
        **spread([build.wall for build in builds]),
        "steps of the median": shown,
        "bytes of the image": middle.size,
    }
