"""How long the native builder takes for the example, against `docker build` of the same wheels.

Both sides start from the same finished base tree and the same wheel files on the same disk, and both end
with an image file or folder there that can be copied to another machine.

Counted on our side: the whole process `reprobuild build LOCK -o OUT --offline` with a sealed lock and a
filled store, once with no layer in the store, so that each is read, hashed, made and compressed (base
included, zstd), and once with the layers there. It also writes recipe and context, checks the sha256 of
every input and computes the tree digest. Not counted: fetching, and what sealing did once for this lock
(the base's packages, the wheels of sources, the bytecode).

Counted on the naive side: `docker buildx build --no-cache` of

    FROM base / RUN apt-get update && apt-get install -y python3-pip / COPY wheels / RUN pip install *.whl

with its upload of the context and its export as an OCI tar (gzip, the builder's default). Not counted:
`docker import` of the base, its layer being compressed or not as the engine keeps it, and the start of the
engine. apt downloads from where this machine's own configuration says, so a part of this side depends on
the network; the details give each step's own time as BuildKit reports it. pip compiles the bytecode in this
build, ours was compiled when the lock was sealed.

The second Dockerfile is one that somebody wrote with care: no recommended packages, wheels mounted instead
of copied, no bytecode, zstd. It has no limit; it says how much of the first ratio is the naive one's waste.
A third ratio leaves all that apt does out of the naive side.

It needs a Docker engine that knows BuildKit and has the host's network (`dev/private_engine.py run -- ...`).
The images are removed afterwards; cache records of the builds stay in the engine until it prunes them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import PROGRAM, Figure, NotRunError, Sample, spread, time_process
from reprobuild.lock import read_lock

LIMIT = 0.2
ROUNDS = 3
ROOMS = ("image", "realise", "store", "context", "payload", "render", "archive", "lock")
LOCK, IMAGE = "reprobuild.lock", "image.json"

# The machine's configuration of apt is only mounted.
_APT = (
    "RUN --mount=type=bind,source=apt,target=/mnt/apt"
    " export APT_CONFIG=/mnt/apt/apt.conf DEBIAN_FRONTEND=noninteractive; "
)
_PIP = "pip install --no-index --no-deps --break-system-packages --ignore-installed"
NAIVE = f"""\
FROM {{base}}
{_APT}apt-get update && apt-get install -y python3-pip
COPY wheels /wheels
RUN {_PIP} /wheels/*.whl
"""
CAREFUL = f"""\
FROM {{base}}
{_APT}apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,source=wheels,target=/wheels {_PIP} --no-compile --no-cache-dir /wheels/*.whl
"""


@dataclass(frozen=True)
class Build:
    """One `docker build`: what it took, its steps as BuildKit reports them, the size of the file."""

    wall: float
    steps: Mapping[str, float]
    size: int

    @property
    def apt(self) -> float:
        """The seconds of the step that runs apt."""
        return sum(seconds for title, seconds in self.steps.items() if "apt-get" in title)


# --- our side ----------------------------------------------------------------------------------


def copy_store(store: Path, target: Path) -> None:
    """Copy a store by hard links where that works; the copy can lose and gain files of its own."""
    for name in ("blobs", "made"):
        (target / name).mkdir(parents=True)
        if (store / name).is_dir():
            shutil.copytree(store / name, target / name, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def forget_layers(store: Path) -> int:
    """Remove every layer and all memory of it from a store, and return how many were remembered.

    What sealing made stays, the listing of the base among it.
    """
    memories = {path: json.loads(path.read_bytes()) for path in sorted((store / "made").iterdir())}
    layers = {
        path: value for path, value in memories.items() if isinstance(value, dict) and "diff_id" in value
    }
    others = [value for path, value in memories.items() if path not in layers and isinstance(value, dict)]
    kept = {value["listing"] for value in others if "listing" in value}
    for path, value in layers.items():
        for digest in {value["blob"], value["listing"]} - kept:
            (store / "blobs" / digest[:2] / digest).unlink(missing_ok=True)
        path.unlink()
    return len(layers)


def layer_count(store: Path) -> int:
    """Return how many layers a store remembers."""
    values = (json.loads(path.read_bytes()) for path in (store / "made").iterdir())
    return sum(isinstance(value, dict) and "diff_id" in value for value in values)


class Native:
    """Our side: a copy of the store, and the manifest digest that every build must give."""

    def __init__(self, store: Path, results: Path, folder: Path) -> None:
        self.store, self.out, self.lock = folder / "store", folder / "out", results / LOCK
        self.manifest = ""
        copy_store(store, self.store)

    def build(self, *, cached: bool) -> Sample:
        """Build once.

        Raises:
            RuntimeError: layers were made or reused otherwise than asked, or the image is another one.
        """
        if not cached:
            forget_layers(self.store)
        shutil.rmtree(self.out, ignore_errors=True)
        before = layer_count(self.store)
        command = ("build", str(self.lock), "-o", str(self.out), "--store", str(self.store), "--offline")
        sample = time_process([*PROGRAM, *command])
        image = json.loads((self.out / IMAGE).read_bytes())
        made = layer_count(self.store) - before
        if bool(made) == cached or (not cached and made < image["layers"]):
            raise RuntimeError(f"{made} of {image['layers']} layers were made, with cached={cached}")
        if self.manifest not in ("", image["manifest"]):
            raise RuntimeError(f"another image: {image['manifest']}, before {self.manifest}")
        self.manifest = image["manifest"]
        return sample

    def size(self) -> int:
        """Return the bytes of the image's layout."""
        return sum(path.stat().st_size for path in (self.out / "image").rglob("*") if path.is_file())


# --- the other side ----------------------------------------------------------------------------


def write_apt(folder: Path) -> None:
    """Write this machine's configuration of apt, as it is now, for a container that mounts it at /mnt/apt.

    The files that it names (keys, certificates) come along. The folder is the caller's to remove.
    """
    folder.mkdir()
    shell = _output(
        ["apt-config", "shell", "list", "Dir::Etc::SourceList/f", "parts", "Dir::Etc::SourceParts/d",
         "trusted", "Dir::Etc::TrustedParts/d"]
    )  # fmt: skip
    where = dict(re.findall(r"(?m)^(\w+)='(.*)'$", shell))
    lists = Path(where["list"])
    (folder / "sources.list").write_text(_bring(lists.read_text(), folder) if lists.is_file() else "")
    (folder / "parts").mkdir()
    for path in sorted(Path(where["parts"]).glob("*")):
        if path.suffix in (".list", ".sources"):
            (folder / "parts" / path.name).write_text(_bring(path.read_text(), folder))
    (folder / "trusted").mkdir()
    for path in sorted(Path(where["trusted"]).glob("*")):
        shutil.copyfile(path, folder / "trusted" / path.name)
    acquire = [
        line
        for line in _output(["apt-config", "dump"]).splitlines()
        if line.startswith("Acquire") and not line.startswith("Acquire::IndexTargets")
    ]
    places = [
        'Dir::Etc::SourceList "/mnt/apt/sources.list";',
        'Dir::Etc::SourceParts "/mnt/apt/parts";',
        'Dir::Etc::TrustedParts "/mnt/apt/trusted";',
        'APT::Sandbox::User "root";',  # the unprivileged user may be unable to enter the mounted folder
    ]
    (folder / "apt.conf").write_text("\n".join([_bring("\n".join(acquire), folder), *places]) + "\n")


def _bring(text: str, folder: Path) -> str:
    """Copy the files that a configuration names by absolute path, and name them as the container sees them."""

    def replace(match: re.Match[str]) -> str:
        path = Path(match[0])
        if not path.is_file():
            return match[0]
        (folder / "files").mkdir(exist_ok=True)
        shutil.copyfile(path, folder / "files" / path.name)
        return f"/mnt/apt/files/{path.name}"

    return re.sub(r"(?<![\w:/.])/[\w./+-]+", replace, text)


def read_steps(log: str) -> dict[str, float]:
    """Return {title: seconds} of the steps in BuildKit's plain progress."""
    titles: dict[str, str] = {}
    steps: dict[str, float] = {}
    for line in log.splitlines():
        found = re.match(r"#(\d+) (.*)", line)
        if not found:
            continue
        number, text = found.groups()
        title = titles.setdefault(number, text)
        if done := re.fullmatch(r"DONE ([\d.]+)s", text):
            steps[title] = steps.get(title, 0.0) + float(done[1])
    return steps


class Docker:
    """The other side: an imported base, a context, and builds of it that end as an OCI tar."""

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder = folder
        self.base = f"reprobuild-bench-{uuid.uuid4().hex[:12]}:base"
        folder.mkdir()
        context = folder / "context"
        context.mkdir()
        shutil.copytree(results / "context" / "wheels", context / "wheels", copy_function=_link_or_copy)
        write_apt(context / "apt")

    def build(self, dockerfile: str, *options: str) -> Build:
        """Build once, without cache; the image file is removed again.

        Raises:
            NotRunError: the build failed, as it does without a network.
        """
        recipe, target = self.folder / "Dockerfile", self.folder / "image.tar"
        recipe.write_text(dockerfile.format(base=self.base))
        output = ",".join(["type=oci", f"dest={target}", *options])
        argv = [
            *("docker", "buildx", "build", "--no-cache", "--progress=plain", "--network=host"),
            *_proxies(), *("--file", str(recipe), "--output", output, str(self.folder / "context")),
        ]  # fmt: skip
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - began
        if done.returncode:
            print(done.stderr[-3000:], file=sys.stderr)  # it may name addresses, which evidence shall not
            raise NotRunError(f"`docker buildx build` exited {done.returncode}, see above")
        size = target.stat().st_size
        target.unlink()
        return Build(wall, read_steps(done.stderr), size)


@contextmanager
def imported(folder: Path, results: Path) -> Iterator[Docker]:
    """Give the other side with its base imported, and remove the base afterwards.

    Raises:
        NotRunError: there is no engine, or it has no BuildKit.
    """
    for probe in (["docker", "version"], ["docker", "buildx", "version"], ["apt-config", "dump"]):
        try:
            _output(probe)
        except (OSError, subprocess.CalledProcessError):
            raise NotRunError(f"`{' '.join(probe)}` does not answer") from None
    docker = Docker(folder, results)
    base = next((results / "context").glob("base-*.tar"))
    _output(["docker", "import", str(base), docker.base])
    try:
        yield docker
    finally:
        subprocess.run(["docker", "image", "rm", docker.base], capture_output=True, check=False)


def _proxies() -> list[str]:
    """Return this machine's proxies as arguments that BuildKit knows and keeps out of the image.

    They are named only; their values, which may hold a password, are taken from the environment.
    """
    names = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "no_proxy")]
    return [part for name in names for part in ("--build-arg", name)]


def _output(argv: Sequence[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


# --- the figures -------------------------------------------------------------------------------


def measure(store: Path, results: Path, folder: Path, rounds: int = ROUNDS) -> list[Figure]:
    """Return the figures; `folder` is worked in, and what is left there is removed.

    Args:
        store: filled, with all that the lock of `results` names; only read.
        results: a folder of results of `from-snapshot` or `build`; only read.
        folder: on the file system of the store, so that copies are hard links.
        rounds: how often each of the four builds is measured, in turn; ours with no layers before and after
            the naive one, because it is the shorter and a burst of load weighs more in it.

    Raises:
        NotRunError: there is no engine, or no filled store.
    """
    if not (results / LOCK).is_file() or read_lock(results / LOCK).realised is None:
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
        "engine": _output(["docker", "version", "--format", "{{.Server.Version}}"]).strip(),
        "buildx": _output(["docker", "buildx", "version"]).strip(),
    }
    name, name_cached = "native build, layers made", "native build, layers cached"
    return [
        Figure(name, took / took_naive, "x", "naive docker build", LIMIT, ROOMS, details),
        Figure(name_cached, took_cached / took_naive, "x", "naive docker build", LIMIT, ROOMS),
        Figure(name, took / without_apt, "x", "naive docker build less its apt step", rooms=ROOMS),
        Figure(name, took / took_careful, "x", "careful docker build (zstd)", rooms=ROOMS),
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
