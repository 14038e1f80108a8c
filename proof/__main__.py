"""The long experiments: `python -m proof [EXPERIMENT]...`.

Usage: `python -m proof [EXPERIMENT]... --results OUT --store STORE --work FOLDER`.

Without a name all are done, one after the other. Each keeps its finished work in FOLDER, so that a run that was cut off
goes on there; `--shard I/N` does one of N parts of those that have many cases. Each writes its evidence to
`docs/evidence/EXPERIMENT-DATE.json`. The exit code is 0 if every claim held, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct

from proof import (
    ablation,
    as_of,
    as_of_untimed,
    choices,
    cluster,
    factors,
    gpu_train,
    leftovers,
    long_tests,
    planted,
    shares,
    suites,
    torch_tests,
    tracing,
)
from proof.bisection import experiment as bisections
from proof.bisection import kills, published
from proof.bisection.differences import World
from proof.environments import cases, experiment
from proof.evidence import FOLDER, document, machine
from proof.kinds import DOCUMENTS, FUZZED, READ
from proof.sdists import tables
from proof.sdists.cases import NAMES
from proof.sdists.experiment import MOST, Sdists
from proof.subjects import SERVICES, UNTIDY, forty_lock, small_lock
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK
from reprobuild.realise.realise import realise
from reprobuild.store.store import Store
from tests.snapshot import fuzz as reading
from tests.squashfs import squashfs_tools
from tests.untrusted import fuzz_documents as documents
from tests.untrusted.fuzz import fuzz

FUZZ_SECONDS = 600


class Place(Struct, frozen=True, kw_only=True):
    """The directories, engines and part of an experiment.

    They are the example's output directory and store, a directory of its own, the engines, and the evidence.
    """

    results: Path
    store: Path
    work: Path
    engines: Path
    evidence: Path
    shard: str
    only: str

    def services(self) -> Path:
        """Return the lock with other system packages.

        It is made at the first call.
        """
        path = self.work / "services.lock"
        if not path.exists():
            write_lock(small_lock(self.lock(), Store(self.store), SERVICES), path)
        return path

    def forty(self) -> Path:
        """Return the lock of forty captured packages.

        It is made at the first call.
        """
        path = self.work / "forty.lock"
        if not path.exists():
            shutil.rmtree(self.work / "forty", ignore_errors=True)  # of a run that was interrupted
            write_lock(forty_lock(self.lock(), Store(self.store), self.work / "forty"), path)
        return path

    def sealed_services(self) -> Path:
        """Return the services' lock, sealed.

        It is sealed at the first call.
        """
        path = self.work / "services-sealed.lock"
        if not path.exists():
            write_lock(realise(read_lock(self.services()), Store(self.store)), path)
        return path

    def lock(self) -> Lock:
        """Return the example's sealed lock."""
        return read_lock(self.results / LOCK)

    def file(self, name: str) -> Path:
        """Return the path for the evidence of an experiment."""
        part = "" if self.shard == "1/1" else "-" + self.shard.replace("/", "-of-")
        return self.evidence / f"{name}{part}-{datetime.now(timezone.utc):%Y-%m-%d}.json"

    def write(
        self, name: str, modules: Sequence[str], found: Mapping[str, object], about: Mapping[str, object]
    ) -> None:
        """Write the evidence of an experiment.

        Its kind is the name, or the first word of a part's name.
        """
        kind = name if name in EXPERIMENTS else name.partition("-")[0]
        self.file(name).write_text(document(kind, modules, found, about), encoding="utf-8")


def run_factors(place: Place) -> bool:
    """Build one lock under circumstances that must not matter.

    The lock with services is built 20 times, the others 4 times each.
    """
    subjects = (
        ("factors-services", place.services(), 20),
        ("factors-example", place.results / LOCK, 4),
        ("factors-forty", place.forty(), 4),
    )
    held = [_factors(place, *subject) for subject in subjects]
    return all(held)


def _factors(place: Place, name: str, lock: Path, count: int) -> bool:
    about, work = machine(), place.work / name
    experiment = factors.Factors(lock, place.store, work, tools(place.work), place.engines)
    known = {each["number"] for each in experiment.done()}
    todo = factors.builds(count, place.shard)
    for build in todo:
        if build.number not in known:
            experiment.do(build)
    numbers = {build.number for build in todo}
    found = [each for each in experiment.done() if each["number"] in numbers]
    counts = factors.judged(found)
    print(factors.table(found))
    print("\n".join(f"{key}: {value} value{'s' * (value != 1)}" for key, value in counts.items()))
    findings = {"shard": place.shard, "subject": experiment.subject(), "values": counts, "builds": found}
    place.write(name, factors.MODULES, findings, about)
    return set(counts.values()) == {1}


def run_ablation(place: Place) -> bool:
    """Remove each line of clean-up and normalisation in turn."""
    about, given, store = machine(), place.lock(), Store(place.store)
    services = read_lock(place.services())
    locks = {"base": small_lock(given, store, UNTIDY), **dict.fromkeys(("seal", "image", "sif"), services)}
    experiment = ablation.Ablation(locks, place.store, place.work / "ablation", tools(place.work))
    known = {each["cut"] for each in experiment.done()}
    index, shards = map(int, place.shard.split("/"))
    wanted = [cut for cut in ablation.CUTS[index - 1 :: shards] if place.only in cut.name]
    for cut in wanted:
        if cut.name not in known:
            experiment.do(cut)
    names = {cut.name for cut in wanted}
    found = [each for each in experiment.done() if each["cut"] in names]
    wrong = ablation.idle(found)
    print(ablation.table(found))
    print(f"break nothing, or differ by themselves: {', '.join(wrong) or 'none'}")
    place.write("ablation", factors.MODULES, {"cuts": found, "break nothing": wrong}, about)
    return not wrong


def run_leftovers(place: Place) -> bool:
    """Count the real leftovers of each builder."""
    about = machine()
    found = leftovers.count(place.services(), place.store, place.work, tools(place.work), place.engines)
    unused = leftovers.dead(found)
    print("\n".join(leftovers.table(found)))
    print(f"described nothing: {', '.join(unused) or 'none'}")
    place.write("leftovers", leftovers.MODULES, {"needed": found, "described nothing": unused}, about)
    return not unused


def run_fault_injection(place: Place) -> bool:
    """Disturb runs on the sealed lock with services.

    They are killed, their disks filled, their rights taken away, and two of them share a store.
    """
    argv = [
        *(sys.executable, "-m", "proof.fault_injection", "--lock", str(place.sealed_services())),
        *("--store", str(place.store), "--work", str(place.work / "fault-injection"), "--shard", place.shard),
        *("--evidence", str(place.file("fault-injection"))),
    ]
    return subprocess.run(argv, check=False).returncode == 0


def run_fuzz(place: Place) -> bool:
    """Feed made-up archives to all their readers, for ten minutes."""
    about = machine()
    found = fuzz(seed=int(place.shard.partition("/")[0]), seconds=FUZZ_SECONDS)
    print(found)
    place.write("fuzz", FUZZED, found, about)
    return not found["found"]


def run_fuzz_reading(place: Place) -> bool:
    """Feed changed captures to all their readers, for ten minutes."""
    about = machine()
    found = reading.fuzz(seed=int(place.shard.partition("/")[0]), seconds=FUZZ_SECONDS)
    print(found)
    place.write("reading", READ, found, about)
    return not found["found"]


def run_fuzz_documents(place: Place) -> bool:
    """Feed changed documents to all their readers, for ten minutes.

    They are the readers of documents that others hand over.
    """
    about = machine()
    found = documents.fuzz(seed=int(place.shard.partition("/")[0]), seconds=FUZZ_SECONDS)
    print(found)
    place.write("documents", DOCUMENTS, found, about)
    return not found["found"]


def run_trace(place: Place) -> bool:
    """Trace each planted fault once, and each clean script five times."""
    about = machine()
    found = tracing.Tracing(place.results, place.store, place.work / "trace.json").do(place.shard, place.only)
    print(tracing.table(found))
    place.write("trace", tracing.MODULES, {"shard": place.shard, "scripts": found}, about)
    return all(each["right"] for each in found)


def run_planted(place: Place) -> bool:
    """Run each planted fault and each clean script fifty times.

    Each run is as in `verify --workload`.
    """
    about = machine()
    experiment = planted.Planted(place.results, place.work / "planted.json")
    found = experiment.do(place.shard, place.only)
    print(planted.table(found))
    place.write("planted", planted.MODULES, {"shard": place.shard, "scripts": found}, about)
    return all(each["wrong"] == 0 for each in found)


def run_cluster(place: Place) -> bool:
    """Check a three-node Slurm with planted nodes twenty times."""
    about = machine()
    found = cluster.ClusterExperiment(place.results, place.store, place.work).do()
    print(cluster.table(found))
    place.write("cluster", cluster.MODULES, {"checks": cluster.CHECKS, "runs": found}, about)
    return all(all(each["right"]) for each in found)


def run_torch(place: Place) -> bool:
    """Run torch's own determinism tests.

    They run without and with the entrypoint, the hook and two profiles.
    """
    about, work = machine(), place.work / "torch"
    work.mkdir(exist_ok=True)
    found = torch_tests.findings(work)
    print("\n".join(f"{way}: {counts}" for way, counts in found["answers"].items()))
    print("\n".join(found["otherwise"]) or "each test is answered alike")
    place.write("torch", torch_tests.MODULES, found, about)
    return not found["otherwise"] and bool(found["answers"]["bare"].get("passed"))


def run_shares(place: Place) -> bool:
    """Check scripts that drift in one of 5, 20 and 100 runs, 200 times each."""
    about, kept = machine(), place.work / "shares.json"
    done: dict[str, dict[str, int]] = json.loads(kept.read_text()) if kept.exists() else {}
    with ProcessPoolExecutor() as pool:
        for rate, runs in shares.CASES:
            counts = Counter(done.setdefault(f"{rate}/{runs}", {}))
            left = shares.TRIALS - sum(counts.values())
            for verdict in pool.map(shares.check, [rate] * left, [runs] * left):
                counts[verdict] += 1
                done[f"{rate}/{runs}"] = dict(counts)
                kept.write_text(json.dumps(done))
    found = [shares.judge(rate, runs, done[f"{rate}/{runs}"]) for rate, runs in shares.CASES]
    print(shares.table(found))
    place.write("shares", shares.MODULES, {"cases": found}, about)
    return all(each["right"] for each in found)


def run_suites(place: Place) -> bool:
    """Run tests of PyTorch, Accelerate and Lightning with the recorder of a trace on and off."""
    about, kept = machine(), place.work / "suites.json"
    done: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    index, shards = map(int, place.shard.split("/"))
    tests = [(suite, file) for suite, file in suites.list_tests() if place.only in f"{suite.name}/{file}"]
    for suite, file in tests[index - 1 :: shards]:
        key = f"{suite.name}/{file}"
        if key not in done:
            done[key] = suites.compare_file(suite, file, place.work / "suites")
            print(
                f"{key}: {done[key]['answers']}, {len(done[key]['different'])} answered otherwise", flush=True
            )
            kept.write_text(json.dumps(done))
    found = suites.findings([done[f"{suite.name}/{file}"] for suite, file in tests[index - 1 :: shards]])
    print("\n".join(found["different"]) or "each test is answered alike")
    place.write("suites", suites.MODULES, {"shard": place.shard, **found}, about)
    return not found["different"] and found["steps"] > 0


def run_gpu_train(place: Place) -> bool:
    """Lock, fetch, build, check and compare the CUDA example.

    It has the CUDA build of torch, and needs 20 GB of disk.
    """
    about = machine()
    found = gpu_train.GpuTrain(place.store, place.work / "gpu-train").do()
    wrong = gpu_train.broken(found)
    print("\n".join(f"{what:48} {value}" for what, value in gpu_train.table(found)))
    print(f"claims that do not hold: {', '.join(wrong) or 'none'}")
    place.write("gpu-train", gpu_train.MODULES, {**found, "broken": wrong}, about)
    return not wrong


def run_environments(place: Place) -> bool:
    """Capture ordinary environments, and make an image of each.

    It is made without a decision, and 60 GB of disk are needed.
    """
    about = machine()
    index, shards = map(int, place.shard.split("/"))
    wanted = [case for case in cases.CASES[index - 1 :: shards] if place.only in case.name]
    # A store of its own: the content of the example's would shorten the times.
    found = experiment.Environments(place.work / "environments" / "store", place.work / "environments").do(
        wanted
    )
    print(experiment.table(found))
    place.write("environments", experiment.MODULES, {"shard": place.shard, "environments": found}, about)
    return experiment.held(found)


def run_as_of(place: Place) -> bool:
    """Recover the versions of environments from their top-level names and a date."""
    about = machine()
    index, shards = map(int, place.shard.split("/"))
    found = as_of.measure(place.work, as_of.CASES[index - 1 :: shards])
    print(f"{as_of.share(found):.1%} of the versions")
    place.write("as-of", as_of.MODULES, {"environments": found}, about)
    return as_of.held(found)


def run_as_of_untimed(place: Place) -> bool:
    """Recover the same versions with an index that publishes no upload times."""
    about = machine()
    index, shards = map(int, place.shard.split("/"))
    found = as_of_untimed.measure(place.work, as_of_untimed.CASES[index - 1 :: shards])
    print(f"{as_of.share(found):.1%} of the versions; {as_of_untimed.count_rules(found)}")
    place.write("as-of-untimed", as_of.MODULES, {"environments": found}, about)
    return as_of_untimed.held(found)


def run_choices(place: Place) -> bool:
    """Run compiled code in fresh containers, without and with saved choices."""
    about = machine()
    found = choices.Choices(place.store, place.work / "choices").measure()
    print("\n".join(" | ".join(row) for row in (choices.HEAD, *choices.table(found))))
    place.write("choices", choices.MODULES, {"consumers": found}, about)
    return choices.held(found)


def run_sdists(place: Place) -> bool:
    """Run the tests of old releases with the newest requirements, and with those of the release day."""
    about = machine()
    index, shards = map(int, place.shard.split("/"))
    found = Sdists(place.work / "sdists").measure(NAMES[index - 1 :: shards], MOST // shards)
    print(tables.describe(found))
    place.write("sdists", as_of.MODULES, {"shard": place.shard, "candidates": found}, about)
    return tables.held(found)


def run_bisect(place: Place) -> bool:
    """Bisect pairs with planted causes, without a cause, and with noise; kill searches; find published regressions."""
    about, work = machine(), place.work / "bisect"
    world = World(Store(place.store), work / "world")
    found = bisections.Bisections(world, work).measure(place.shard, place.only)
    killed = kills.measure(world, work / "kills")
    others = published.measure(work / "published", place.store)
    print(bisections.describe(found), killed, others, sep="\n")
    findings = {"shard": place.shard, "bisections": found, "kills": killed, "published": others}
    place.write("bisect", bisections.MODULES, findings, about)
    return bisections.held(found) and kills.held(killed) and all(each["right"] for each in others)


def run_long_tests(place: Place) -> bool:
    """Run the tests that `make test` leaves out because of their length."""
    about = machine()
    index, shards = map(int, place.shard.split("/"))
    found = long_tests.measure(place.work, long_tests.find_files()[index - 1 :: shards])
    place.write("long-tests", long_tests.MODULES, {"shard": place.shard, **found}, about)
    return long_tests.held(found)


EXPERIMENTS: dict[str, Callable[[Place], bool]] = {
    "factors": run_factors, "ablation": run_ablation, "leftovers": run_leftovers,
    "fault-injection": run_fault_injection,
    "fuzz": run_fuzz, "fuzz-reading": run_fuzz_reading,
    "fuzz-documents": run_fuzz_documents, "planted": run_planted, "trace": run_trace,
    "cluster": run_cluster, "torch": run_torch, "suites": run_suites, "shares": run_shares,
    "gpu-train": run_gpu_train, "environments": run_environments, "as-of": run_as_of,
    "choices": run_choices,
    "as-of-untimed": run_as_of_untimed, "bisect": run_bisect, "sdists": run_sdists, "long-tests": run_long_tests,
}  # fmt: skip


def tools(work: Path) -> dict[str, str]:
    """Return the environment of the builds, with `mksquashfs` on PATH."""
    folder = work / "squashfs-tools"
    env = dict(os.environ)
    if (folder / "bin").is_dir():
        return {**env, "PATH": f"{folder / 'bin'}:{env['PATH']}"}
    folder.mkdir(exist_ok=True)
    return squashfs_tools(folder)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(EXPERIMENTS)
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help=f"of: {names}; else all")
    parser.add_argument("--results", type=Path, required=True, help="of `make demo`")
    parser.add_argument("--store", type=Path, required=True, help="with their files; only packages are added")
    parser.add_argument("--work", type=Path, required=True, help="a directory; what was done is kept there")
    parser.add_argument("--engines", type=Path, default=Path(".engine"), help="where private engines are")
    parser.add_argument("--evidence", type=Path, default=FOLDER, help="the directory of the evidence")
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument(
        "--only",
        default="",
        metavar="WORDS",
        help="cuts, scripts or environments whose name holds these words",
    )
    options = parser.parse_args(argv)
    if unknown := set(options.experiments) - set(EXPERIMENTS):
        parser.error(f"no experiment {', '.join(sorted(unknown))}; there are: {names}")
    place = Place(
        results=options.results.absolute(), store=options.store.absolute(), work=options.work.absolute(),
        engines=options.engines.absolute(), evidence=options.evidence.absolute(), shard=options.shard,
        only=options.only,
    )  # fmt: skip
    place.work.mkdir(parents=True, exist_ok=True)
    held = {name: EXPERIMENTS[name](place) for name in options.experiments or EXPERIMENTS}
    print("\n".join(f"{name}: {'held' if well else 'BROKEN'}" for name, well in held.items()))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
