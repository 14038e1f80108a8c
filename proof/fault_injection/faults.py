"""The faults: disturbances of a run, and their records."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from proof.evidence import document, machine
from proof.fault_injection.checks import BrokenError, Checks
from proof.fault_injection.disk import Bound, mount, used
from proof.fault_injection.subject import local_lock, without
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.sealed import require_sealed
from reprobuild.lock.system import EnvVar
from reprobuild.store.fetch import list_artefacts

ROOT = Path(__file__).resolve().parents[2]
STAGES = ("fetch", "layers", "realise")
MODULES = (
    "reprobuild/builders",
    "reprobuild/recipe/build_context",
    "reprobuild/store/fetch",
    "reprobuild/image",
    "reprobuild/infra/http",
    "reprobuild/pipeline/build",
    "reprobuild/pipeline/from_snapshot",
    "reprobuild/infra/proc",
    "reprobuild/realise",
    "reprobuild/infra/sandbox",
    "reprobuild/store/directory",
    "reprobuild/store/store",
    "reprobuild/infra/atomic",
)
Case = tuple[str, str, int]  # its disturbance, stage, number
# The reports of a full disk: by the kernel, by tar for its last block, and by `fetch` before a download.
FULL = r"No space left on device|Wrote only \d+ of \d+ bytes|missing files have \d+ bytes, and \d+ are free"


class FaultInjection(Checks):
    """The cases, the undisturbed run's results, and the finished cases."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(arguments.work.absolute())
        self.given = arguments
        self.work.mkdir(parents=True, exist_ok=True)
        self.store: Path = arguments.store.absolute()
        self.stages: list[str] = arguments.stages.split(",")
        self.lock = self.work / "faults.lock"
        self.log = self.work / f"done-{arguments.seed}.jsonl"
        self.seconds: dict[str, float] = {}  # of each stage, undisturbed
        self.given_bytes: dict[str, int] = {}  # the store of each stage at its start
        self.made: dict[str, int] = {}  # an undisturbed run's addition to it

    def prepare(self) -> None:
        """Write the lock with local addresses, and measure undisturbed runs.

        Time and digests come from them.
        """
        mirror = self.work / "mirror"
        mirror.mkdir(exist_ok=True)
        self.sealed = local_lock(
            without(require_sealed(read_lock(self.given.lock)), self.given.without), self.store, mirror
        )
        write_lock(self.sealed, self.lock)
        self.inputs = {item.sha256 for item in list_artefacts(self.sealed)}
        made = self.sealed.realised
        realised = {
            made.base,
            made.runtime,
            *(w.file.sha256 for w in made.wheels),
            *(b.tar for b in made.bytecode),
        }
        self.kept = {
            "fetch": {a.sha256 for a in list_artefacts(self.sealed) if not a.url},
            "realise": self.inputs,
        }
        self.kept["layers"] = self.inputs | realised
        self.reference, former = self.work / "reference", self.work / "former"
        for stage in dict.fromkeys(self.stages):
            store = self.fresh(stage, "undisturbed")
            began = time.monotonic()
            done = self.run(stage, store, self.reference)
            self.seconds[stage] = time.monotonic() - began
            if done.returncode:
                raise SystemExit(f"the undisturbed run of `{stage}` failed:\n{done.stderr}")
            self.given_bytes[stage] = sum(self.blob(sha256).stat().st_size for sha256 in self.kept[stage])
            self.made[stage] = used(store) - self.given_bytes[stage]
            shutil.rmtree(store)
            print(f"undisturbed {stage}: {self.seconds[stage]:.1f} s", file=sys.stderr, flush=True)
        self.expected = self.results(self.reference)
        if self.expected:
            other = msgspec.structs.replace(
                self.sealed, environment=(*self.sealed.environment, EnvVar(name="DRILL", value="former"))
            )
            write_lock(other, self.work / "former.lock")
            store = self.fresh("layers", "undisturbed")
            argv = self.argv("layers", store, former)
            argv[argv.index(str(self.lock))] = str(self.work / "former.lock")
            subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
            shutil.rmtree(store)
            self.former = self.results(former)

    def cases(self) -> list[Case]:
        """Return the cases of this shard that are not done."""
        kinds = {"kill": self.given.kills, "full": self.given.full_disks, "pair": self.given.pairs}
        kinds["read-only"] = self.given.read_only
        found: list[Case] = [
            (kind, self.stages[number % len(self.stages)], number)
            for kind, count in kinds.items()
            for number in range(count)
        ]
        index, shards = map(int, self.given.shard.split("/"))
        done = {(c["kind"], c["stage"], c["number"]) for c in self.done()}
        return [case for place, case in enumerate(found) if place % shards == index - 1 and case not in done]

    def done(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def do(self, case: Case) -> None:
        """Do a case, and keep its result."""
        kind, stage, number = case
        self.random = random.Random(f"{self.given.seed}/{kind}/{stage}/{number}")
        what: Callable[[str, str], dict[str, Any]] = {
            "kill": self.kill, "full": self.full, "pair": self.pair, "read-only": self.read_only,
        }[kind]  # fmt: skip
        said: dict[str, Any] = {"kind": kind, "stage": stage, "number": number}
        began = time.monotonic()
        try:
            said |= {"kept": True, **what(stage, f"{kind}-{number}")}
        except BrokenError as err:
            said |= {"kept": False, "why": str(err)}
        said["seconds"] = round(time.monotonic() - began, 1)
        with self.log.open("a") as stream:
            stream.write(json.dumps(said) + "\n")
        print(json.dumps(said), file=sys.stderr, flush=True)

    def kill(self, stage: str, name: str) -> dict[str, Any]:
        """Kill the whole process group at a random moment."""
        store, out = self.fresh(stage, name), self.work / name / "out"
        over_former = stage != "fetch" and self.random.random() < 0.5
        if over_former:
            shutil.copytree(self.work / "former", out, copy_function=os.link)
        after, made = self.random.uniform(0.1, 1.1) * self.seconds[stage], -1
        if self.random.random() < 0.5:
            after, made = 10 * self.seconds[stage], int(self.random.random() * self.made[stage])
        began = time.monotonic()
        with subprocess.Popen(
            self.argv(stage, store, out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            while process.poll() is None:
                if time.monotonic() - began > after or -1 < made <= used(store) - self.given_bytes[stage]:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
                time.sleep(0.005)
        after = time.monotonic() - began
        self.check_processes(store)
        left = len([path for place in (store / "tmp", out) if place.exists() for path in place.iterdir()])
        self.check_store(store)
        usable = self.check_results(out)
        self.again(stage, store, out)
        shutil.rmtree(self.work / name)
        killed = process.returncode == -signal.SIGKILL
        said = {"after": round(after, 2), "killed": killed, "left": left, "results usable": usable}
        return said | {"over former results": over_former, "by": "bytes" if made >= 0 else "time"}

    def full(self, stage: str, name: str) -> dict[str, Any]:
        """Fill the disk at a random point, then make room.

        The disk holds the store and the output directory.
        """
        disk = self.work / name
        disk.mkdir(parents=True, exist_ok=True)
        kept = self.given_bytes[stage]
        room = int(self.random.uniform(0.02, 0.9) * max(1 << 20, self.made[stage]))
        mount("-t", "tmpfs", "-o", f"size={kept + room + (1 << 20)}", "tmpfs", disk)
        try:
            store, out = self.fresh(stage, name, copy=True), disk / "out"
            done = self.run(stage, store, out)
            told = self.check_error(done, FULL, stage) if done.returncode else "there was room"
            self.check_store(store)
            self.check_results(out)
            self.no_leftovers(store, out)
            mount("-o", f"remount,size={4 * (self.made[stage] + 2 * kept) + (64 << 20)}", disk)
            self.again(stage, store, out)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        return {"room": room, "code": done.returncode, "told": told}

    def pair(self, stage: str, name: str) -> dict[str, Any]:
        """Let two runs of one command share a store.

        The store has none of their results at the start.
        """
        store = self.fresh(stage, name)
        outs = [self.work / name / f"out{number}" for number in (1, 2)]
        both = [
            subprocess.Popen(
                self.argv(stage, store, out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for out in outs
        ]
        for process in both:
            _, said = process.communicate()
            if process.returncode:
                raise BrokenError(f"one of two failed with {process.returncode}: {said.decode()[-500:]}")
        self.check_store(store)
        for out in outs:
            self.check_whole(stage, store, out)
        shutil.rmtree(self.work / name)
        return {}

    def read_only(self, stage: str, name: str) -> dict[str, Any]:
        """Make the store, or the output directory, read-only.

        A store that has everything needs no writing.
        """
        place = self.work / name
        store, out = self.fresh(stage, name), place / "out"
        out.mkdir()
        told = {}
        for what, folder in (("store", store), ("out", out)):
            if stage == "fetch" and what == "out":
                continue
            with Bound(folder):
                done = self.run(stage, store, out)
                told[what] = self.check_error(done, "Read-only file system", stage)
                self.check_results(out)
        self.again(stage, store, out)
        shutil.rmtree(out)
        with Bound(store):
            self.again(stage, store, out)
        shutil.rmtree(place)
        return {"told": told}

    def fresh(self, stage: str, name: str, *, copy: bool = False) -> Path:
        """Return a store with the stage's inputs alone."""
        store = self.work / name / "store"
        shutil.rmtree(store, ignore_errors=True)
        for sha256 in self.kept[stage]:
            target = store / "blobs" / sha256[:2] / sha256
            target.parent.mkdir(parents=True, exist_ok=True)
            if copy:
                shutil.copy(self.blob(sha256), target)
            else:
                os.link(self.blob(sha256), target)
        store.mkdir(parents=True, exist_ok=True)
        return store

    def blob(self, sha256: str) -> Path:
        return self.store / "blobs" / sha256[:2] / sha256

    def argv(self, stage: str, store: Path, out: Path) -> list[str]:
        verb = (
            ["fetch", str(self.lock)]
            if stage == "fetch"
            else ["build", str(self.lock), "-o", str(out), "--offline"]
        )
        return [sys.executable, "-m", "reprobuild.cli", *verb, "--store", str(store), "--json"]

    def run(self, stage: str, store: Path, out: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(stage, store, out), cwd=ROOT, capture_output=True, text=True, check=False
        )

    def again(self, stage: str, store: Path, out: Path) -> None:
        """Run undisturbed, and require the same digests."""
        done = self.run(stage, store, out)
        if done.returncode:
            raise BrokenError(f"the next run failed with {done.returncode}: {done.stderr[-500:]}")
        self.check_store(store)
        self.check_whole(stage, store, out)
        self.no_leftovers(store, out)

    def finish(self) -> int:
        """Print the sum, write the evidence, and return the exit code."""
        cases = self.done()
        broken = [case for case in cases if not case["kept"]]
        counts: dict[str, int] = {}
        for case in cases:
            key = f"{case['kind']} {case['stage']}"
            counts[key] = counts.get(key, 0) + 1
        found = {
            "seed": self.given.seed,
            "shard": self.given.shard,
            "lock": self.sealed.digest,
            "without": self.given.without,
            "undisturbed seconds": {stage: round(value, 1) for stage, value in self.seconds.items()},
            "killed in time": sum(1 for case in cases if case.get("killed")),
            "disks that were full": sum(1 for case in cases if case["kind"] == "full" and case.get("code")),
            "cases": counts,
            "broken": len(broken),
            "each": cases,
        }
        if self.given.evidence:
            self.given.evidence.write_text(
                document("fault-injection", MODULES, found, machine()), encoding="utf-8"
            )
        print(json.dumps({key: value for key, value in found.items() if key != "each"}))
        return 1 if broken else 0
