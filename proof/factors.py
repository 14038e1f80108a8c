"""One lock built again and again under other circumstances.

They must not matter.

    python -m proof factors --results OUT --store STORE --work FOLDER [--shard I/N]

Each build begins from a store with only the fetched files (or with all results of an earlier build, which is a
circumstance of its own), realises, builds, and writes the SIF. All native builds must come to one sealed lock, one
recipe, one manifest and one SIF, byte for byte; those by other builders to the same tree and the same SIF. A build that
was done is not done again.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from proof import clock
from proof.circumstances import LEVELS, ROOT, USER, environment, module, prefix, scratch
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.output.directory import LOCK, read_image
from reprobuild.store.fetch import list_artefacts

BUILDERS = ("native", "docker", "docker 20.10", "podman", "apptainer")
MODULES = (
    "reprobuild/builders",
    "reprobuild/image",
    "reprobuild/infra/atomic",
    "reprobuild/infra/sandbox",
    "reprobuild/infra/tar",
    "reprobuild/infra/untrusted",
    "reprobuild/lock",
    "reprobuild/pipeline/build",
    "reprobuild/pipeline/from_snapshot",
    "reprobuild/realise",
    "reprobuild/recipe/build_context",
    "reprobuild/recipe/image_config",
    "reprobuild/recipe/layer_order",
    "reprobuild/recipe/payload",
    "reprobuild/recipe/render",
    "reprobuild/store/directory",
    "reprobuild/store/store",
    "reprobuild/store/tar_listing",
)


class Build(Struct, frozen=True, kw_only=True):
    """One build: its number, builder, and level of each factor."""

    number: int
    builder: str
    levels: dict[str, Any]


def builds(count: int, shard: str = "1/1", seed: int = 1) -> list[Build]:
    """Return the builds of a shard, drawn by the seed.

    Each level of each factor comes about equally often.

    The first is the plain one, and is in every shard, so that shards can be compared. One build of each other builder
    is among them if there are ten or more.
    """
    drawn = random.Random(seed)
    columns = {}
    for name, known in LEVELS.items():
        column = [known[number % len(known)] for number in range(count)]
        rest = column[1:]
        drawn.shuffle(rest)
        columns[name] = [known[0], *rest]
    others = BUILDERS[1:] if count >= 10 else ()
    found = []
    for number in range(count):
        levels = {name: column[number] for name, column in columns.items()}
        builder = "native"
        if number >= count - len(others):
            # Their engines run as root and have a clock and a host name of their own.
            builder = others[number - (count - len(others))]
            levels |= {"user": "root", "days later": 0, "disk": "disk", "host name": "one"}
            if builder == "apptainer":  # which refuses the comma in the long one
                levels["path"] = LEVELS["path"][0]
        if levels["user"] == "ordinary":
            levels["store"] = "fresh"  # the used one belongs to root
        if levels["store"] == "used":
            levels["disk"] = "disk"  # beside it: a copy in the context has other times and modes than a link
        found.append(Build(number=number, builder=builder, levels=levels))
    index, shards = map(int, shard.split("/"))
    return [build for build in found if build.number in (0, *range(index - 1, count, shards))]


def fill(store: Path, lock: Lock, source: Path) -> None:
    """Make a store with only the fetched files of a lock."""
    for artefact in list_artefacts(lock):
        name = Path("blobs") / artefact.sha256[:2] / artefact.sha256
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, store / name)


class Factors:
    """The builds of one lock, and the results so far."""

    def __init__(self, lock: Path, store: Path, work: Path, tools: Mapping[str, str], engines: Path) -> None:
        self.store, self.work, self.engines, self.tools = store.absolute(), work.absolute(), engines, tools
        self.work.mkdir(parents=True, exist_ok=True)
        self.work.chmod(0o755)
        self.unsealed = unseal(read_lock(lock))
        self.log = self.work / f"done-{self.unsealed.digest[:12]}.jsonl"
        self.clock = clock.find_library(self.work / "clock")

    def subject(self) -> dict[str, Any]:
        """Return the size of the subject in numbers."""
        return {
            "lock": self.unsealed.digest,
            "system packages": len(self.unsealed.base.packages),
            "distributions": len([wheel for wheel in self.unsealed.wheels if wheel.role == "environment"]),
            "sources": len(self.unsealed.sources),
        }

    def done(self) -> list[dict[str, Any]]:
        """Return the findings so far, one for each build."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def do(self, build: Build) -> None:
        """Do one build, and keep its result.

        Raises:
            RuntimeError: it failed; the text ends with its output.
        """
        top = scratch(build.levels, self.work, f"build-{build.number}")
        shutil.rmtree(top, ignore_errors=True)  # of a run that was interrupted
        place = top / ("p" if build.levels["path"] == "short" else build.levels["path"])
        store = self.work / "used" if build.levels["store"] == "used" else place / "store"
        place.mkdir(parents=True)
        if not store.exists():
            fill(store, self.unsealed, self.store)
        write_lock(self.unsealed, place / "given.lock")
        if build.levels["user"] == "ordinary":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(top)], check=True)
        env = environment(build.levels, self.tools, place)
        if build.levels["store"] == "used":
            env["XDG_DATA_HOME"] = str(self.work / "data")  # the memory of earlier builds is to count
        began = time.monotonic()
        run = subprocess.run(
            [*engine_of(build.builder, self.engines), *self._own_tools(), *prefix(build.levels, self.clock),
             sys.executable, "-m", module(build.levels), "build", str(place / "given.lock"), "-o", str(place / "out"),
             "--store", str(store), "--offline", "--format", "sif", "--builder", build.builder.split()[0]],
            cwd=ROOT, env=env, umask=int(build.levels["umask"], 8),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        found: dict[str, Any] = {"number": build.number, "builder": build.builder, **build.levels}
        found["seconds"] = round(time.monotonic() - began, 1)
        if run.returncode:
            raise RuntimeError(f"build {found} failed with {run.returncode}:\n{run.stderr[-4000:]}")
        found |= digests(place / "out")
        shutil.rmtree(top)
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found, ensure_ascii=False) + "\n")
        print(json.dumps(found, ensure_ascii=False), file=sys.stderr, flush=True)

    def _own_tools(self) -> list[str]:
        """Return the prefix that puts one mksquashfs first on PATH.

        An Apptainer may have another version, with other bytes.
        """
        found = shutil.which("mksquashfs", path=self.tools["PATH"])
        return ["sh", "-c", 'PATH="$0:$PATH" exec "$@"', str(Path(found).parent)] if found else []


def engine_of(builder: str, engines: Path) -> list[str]:
    """Return the command that starts a builder's engine.

    It is empty for the engine in use, Docker's newer one.
    """
    script, *options = {
        "docker 20.10": ("private_engine.py", "--classic", "--suite", "own", "--folder", "own"),
        "podman": ("private_podman.py", "--folder", "podman"),
        "apptainer": ("private_apptainer.py", "--folder", "apptainer"),
    }.get(builder, ("",))
    if not script:
        return []
    options[-1] = str(engines / options[-1])
    return [sys.executable, str(ROOT / "dev" / script), "run", *options, "--"]


def digests(out: Path) -> dict[str, str]:
    """Return the digests of an output directory.

    Those of the context include modes and times, but for links into the store.
    """
    sealed, image = read_image(out)
    recipe = hashlib.sha256()
    for path in sorted((out / "context").rglob("*")):
        seen = path.stat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        own = f"{seen.st_mode:o} {seen.st_mtime_ns}" if path.is_dir() or seen.st_nlink == 1 else ""
        recipe.update(f"{path.relative_to(out)} {own} {content}\n".encode())
    for name in (LOCK, "Dockerfile", "Apptainer.def", "pylock.toml"):
        recipe.update((out / name).read_bytes())
    sif = hashlib.sha256((out / "image.sif").read_bytes()).hexdigest()
    return {
        "lock": sealed.digest, "recipe and context": recipe.hexdigest(), "tree": image.tree,
        "manifest": image.manifest, "sif": sif,
    }  # fmt: skip


def judged(found: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return the number of values of each digest.

    Each must be 1.
    """
    native = [each for each in found if each["builder"] == "native"]
    counts = {f"{name}, native": len({each[name] for each in native}) for name in ("manifest",)}
    every = ("lock", "recipe and context", "tree", "sif")
    return {**counts, **{f"{name}, all builders": len({each[name] for each in found}) for name in every}}


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the builds as lines for a terminal.

    Digests are shown by their beginning.
    """
    names = ("number", "builder", *LEVELS, "seconds", "tree", "manifest", "sif")
    rows = [names, *(tuple(_short(each[name]) for name in names) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _short(value: object) -> str:
    text = str(value).removeprefix("sha256:")
    return f"{text[:9]}..." if len(text) > 16 else text
