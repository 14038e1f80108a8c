"""One lock built again and again, each time under other circumstances that must not matter.

    python -m proof factors --lock LOCK --store STORE --work FOLDER [--builds 20] [--shard I/N] [--evidence FILE]

LOCK is unsealed or sealed, STORE has its files. Each build begins from a store that has only what was fetched (or
the same store as a build before, which is a circumstance of its own), realises, builds, and writes the SIF. All
native builds must come to one sealed lock, one tree, one manifest and one SIF, byte for byte; those by other builders
to the same tree and the same SIF. A build that was done is not done again.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from proof import clock
from reprobuild.fetch import artefacts
from reprobuild.lock import read_lock, write_lock
from reprobuild.pipeline import LOCK, read_image

ROOT = Path(__file__).parent.parent
USER = 12345
MEMORY = Path("/dev/shm")
# As an ordinary user, who may read what only root can reach: the interpreter of this very program may lie there.
AS_USER = (
    "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
LEVELS: dict[str, tuple[Any, ...]] = {
    "days later": (0, 40, 400),
    "time zone": ("UTC", "Asia/Kathmandu", "America/St_Johns"),
    "locale": ("C.UTF-8", "C", "de_DE.UTF-8"),
    "umask": (0o022, 0o077, 0o000),
    "user": ("root", "ordinary"),
    "path": ("short", "with spaces, ümlauts and " + "a-long-name-" * 8),
    "processors": (1, 2),
    "disk": ("disk", "memory"),
    "store": ("fresh", "fresh", "used"),
    "host name": ("one", "another.example"),
    "hash seed": ("random", "0", "1"),
}
BUILDERS = ("native", "docker", "docker 20.10", "podman", "apptainer")
ROOMS = (
    "archive", "builders", "config", "context", "guard", "image", "listing", "lock", "payload", "pipeline", "realise",
    "render", "sandbox", "store", "whole", "wheelorder",
)  # fmt: skip


class Build(Struct, frozen=True, kw_only=True):
    """One build: its number, its builder, and the level of each factor."""

    number: int
    builder: str
    levels: dict[str, Any]


def builds(count: int, shard: str = "1/1", seed: int = 1) -> list[Build]:
    """Return the builds of a shard: each level of each factor comes about equally often, drawn by the seed.

    The first is the plain one, and is in every shard, so that shards can be compared. One build of each other
    builder is among them where there are ten or more.
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
            # Their engines run as root and have a clock of their own.
            builder = others[number - (count - len(others))]
            levels |= {"user": "root", "days later": 0, "disk": "disk", "host name": "one"}
        if levels["user"] == "ordinary":
            levels["store"] = "fresh"  # the used one belongs to root
        found.append(Build(number=number, builder=builder, levels=levels))
    index, shards = map(int, shard.split("/"))
    return [build for build in found if build.number in (0, *range(index - 1, count, shards))]


class Factors:
    """The builds of one lock, and what came of those that were done."""

    def __init__(self, lock: Path, store: Path, work: Path, tools: dict[str, str], engines: Path) -> None:
        self.given, self.store, self.work, self.engines = (
            read_lock(lock),
            store.absolute(),
            work.absolute(),
            engines,
        )
        self.tools = tools
        self.work.mkdir(parents=True, exist_ok=True)
        self.work.chmod(0o755)
        self.unsealed = structs.replace(self.given, realised=None)
        self.log = self.work / f"done-{self.unsealed.digest[:12]}.jsonl"
        self.clock = clock.find_library(self.work / "clock")

    def subject(self) -> dict[str, Any]:
        """Return what is built, in numbers."""
        base = self.unsealed.base
        return {
            "lock": self.unsealed.digest, "system packages": len(base.packages),
            "distributions": len([wheel for wheel in self.unsealed.wheels if wheel.role == "environment"]),
            "sources": len(self.unsealed.sources),
        }  # fmt: skip

    def done(self) -> list[dict[str, Any]]:
        """Return what was found so far, a build each."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def do(self, build: Build) -> None:
        """Do one build and keep what came of it."""
        shutil.rmtree(self._place(build, top=True), ignore_errors=True)  # of a run that was interrupted
        place = self._place(build)
        place.mkdir(parents=True)
        store, out = place / "store", place / "out"
        if build.levels["store"] == "used":
            store = self.work / "used"
        if not store.exists():
            self._fill(store)
        if build.levels["user"] == "ordinary":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(place)], check=True)
        write_lock(self.unsealed, place / "given.lock")
        (place / "given.lock").chmod(0o644)
        began = time.monotonic()
        run = subprocess.run(
            self._argv(build, place / "given.lock", out, store), cwd=ROOT, env=self._env(build, place),
            umask=build.levels["umask"], capture_output=True, text=True, check=False,
        )  # fmt: skip
        found: dict[str, Any] = {"number": build.number, "builder": build.builder, **build.levels}
        found["seconds"] = round(time.monotonic() - began, 1)
        if run.returncode:
            raise RuntimeError(f"build {found} failed with {run.returncode}:\n{run.stderr[-4000:]}")
        found |= self._digests(out)
        shutil.rmtree(self._place(build, top=True))
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found, ensure_ascii=False) + "\n")
        print(json.dumps(found, ensure_ascii=False), file=sys.stderr, flush=True)

    def _digests(self, out: Path) -> dict[str, str]:
        sealed, image = read_image(out)
        texts = hashlib.sha256()
        for path in sorted(path for path in (out / "context").rglob("*") if path.is_file()):
            texts.update(
                f"{path.relative_to(out)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
            )
        for name in (LOCK, "Dockerfile", "Apptainer.def", "pylock.toml"):
            texts.update((out / name).read_bytes())
        sif = hashlib.sha256((out / "image.sif").read_bytes()).hexdigest()
        return {
            "lock": sealed.digest, "recipe and context": texts.hexdigest(), "tree": image.tree,
            "manifest": image.manifest, "sif": sif,
        }  # fmt: skip

    def _place(self, build: Build, *, top: bool = False) -> Path:
        """Return the folder of a build; `top` is the one to remove after it."""
        folder = MEMORY if build.levels["disk"] == "memory" else self.work
        place = folder / f"proof-{build.number}"
        return place if top else place / ("p" if build.levels["path"] == "short" else build.levels["path"])

    def _fill(self, store: Path) -> None:
        """Make a store that has what `fetch` brings, and remembers nothing."""
        for artefact in artefacts(self.unsealed):
            source = self.store / "blobs" / artefact.sha256[:2] / artefact.sha256
            target = store / "blobs" / artefact.sha256[:2] / artefact.sha256
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)

    def _argv(self, build: Build, lock: Path, out: Path, store: Path) -> Sequence[str]:
        levels = build.levels
        program = [sys.executable, "-m", "proof.disturbed" if levels["days later"] else "reprobuild.cli"]
        verb = [*program, "build", str(lock), "-o", str(out), "--store", str(store), "--offline", "--sif"]
        verb += ["--builder", build.builder.split()[0]]
        private, python = str(ROOT / "dev" / "private_"), sys.executable
        engine: Sequence[str] = {
            "docker 20.10": (
                f"{private}engine.py", "run", "--classic", "--suite", "own", "--folder", str(self.engines / "own"),
            ),
            "podman": (f"{private}podman.py", "run", "--folder", str(self.engines / "podman")),
            "apptainer": (f"{private}apptainer.py", "run", "--folder", str(self.engines / "apptainer")),
        }.get(build.builder, ())  # fmt: skip
        around = [python, *engine, "--"] if engine else []
        around += ["taskset", "--cpu-list", "0"] if levels["processors"] == 1 else []
        if build.builder == "native":
            around += [
                "unshare",
                "--uts",
                "--",
                "sh",
                "-c",
                'hostname "$0" && exec "$@"',
                levels["host name"],
            ]
        if levels["user"] == "ordinary":
            around += AS_USER
        if levels["days later"]:  # from here on: the programs before have another user
            around += [
                "env",
                *(
                    f"{name}={value}"
                    for name, value in clock.variables(self.clock, levels["days later"]).items()
                ),
            ]
        return [*around, *verb]

    def _env(self, build: Build, place: Path) -> dict[str, str]:
        levels = build.levels
        env = {
            **self.tools,
            "TZ": levels["time zone"],
            "LC_ALL": levels["locale"],
            "HOME": str(place),
            "PYTHONPATH": str(ROOT),
        }
        env.pop("PYTHONHASHSEED", None)
        if levels["hash seed"] != "random":
            env["PYTHONHASHSEED"] = levels["hash seed"]
        return env


def judged(found: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Return how many values each digest has; each must be 1."""
    native = [each for each in found if each["builder"] == "native"]
    counts = {
        f"native: {name}": len({each[name] for each in native})
        for name in ("lock", "recipe and context", "manifest")
    }
    return {
        **counts,
        **{f"all builders: {name}": len({each[name] for each in found}) for name in ("tree", "sif")},
    }


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the builds as lines that a person reads; digests by their beginning."""
    names = ("number", "builder", *LEVELS, "seconds", "tree", "manifest", "sif")
    rows = [names, *(tuple(_short(each[name]) for name in names) for each in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(names))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _short(value: object) -> str:
    text = str(value).removeprefix("sha256:")
    return f"{text[:9]}..." if len(text) > 16 else text
