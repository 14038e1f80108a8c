"""Run one experiment: `python -m proof EXPERIMENT --lock LOCK --store STORE --work FOLDER ...`.

The exit code is 0 if every claim held, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proof import ablation, factors
from proof.evidence import document, machine
from proof.subjects import SERVICES, UNTIDY, small_lock
from reprobuild.lock import read_lock, write_lock
from reprobuild.store import Store
from tests.squashfs import squashfs_tools


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="The long experiments.")
    verbs = parser.add_subparsers(dest="experiment", required=True)
    for name, text in EXPERIMENTS.items():
        one = verbs.add_parser(name, help=(text.__doc__ or "").partition("\n")[0])
        one.add_argument("--lock", type=Path, required=True, help="of `make demo`")
        one.add_argument(
            "--store", type=Path, required=True, help="with its files; only read, but for packages"
        )
        one.add_argument("--work", type=Path, required=True, help="a folder; what was done is kept there")
        one.add_argument("--evidence", type=Path, metavar="FILE", help="write a dated JSON document")
        if name == "factors":
            one.add_argument("--services", action="store_true", help="other system packages, and no torch")
            one.add_argument("--builds", type=int, default=20)
            one.add_argument("--shard", default="1/1", metavar="I/N")
            one.add_argument("--engines", type=Path, default=Path(".engine"), help="where private ones are")
        if name == "ablation":
            one.add_argument("--only", default="", metavar="WORDS", help="cuts whose name holds these words")
    options = parser.parse_args(argv)
    return EXPERIMENTS[options.experiment](options)


def run_factors(options: argparse.Namespace) -> int:
    """Build one lock under circumstances that must not matter."""
    about = machine()
    work: Path = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    lock = options.lock
    if options.services:
        lock = work / "services.lock"
        if not lock.exists():
            write_lock(small_lock(read_lock(options.lock), Store(options.store), SERVICES), lock)
    experiment = factors.Factors(lock, options.store, work, tools(work), options.engines.absolute())
    known = {each["number"] for each in experiment.done()}
    todo = factors.builds(options.builds, options.shard)
    for build in todo:
        if build.number not in known:
            experiment.do(build)
    numbers = {build.number for build in todo}
    found = [each for each in experiment.done() if each["number"] in numbers]
    counts = factors.judged(found)
    print(factors.table(found))
    print("\n".join(f"{name}: {count} value{'s' * (count != 1)}" for name, count in counts.items()))
    findings = {"shard": options.shard, "subject": experiment.subject(), "values": counts, "builds": found}
    write(options.evidence, "factors", factors.ROOMS, findings, about)
    return 0 if set(counts.values()) == {1} else 1


def run_ablation(options: argparse.Namespace) -> int:
    """Take away each line of clean-up and normalisation in turn."""
    about = machine()
    work: Path = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    given, store = read_lock(options.lock), Store(options.store)
    services = small_lock(given, store, SERVICES)
    locks = {"base": small_lock(given, store, UNTIDY), **dict.fromkeys(("seal", "image", "sif"), services)}
    experiment = ablation.Ablation(locks, options.store.absolute(), work, tools(work))
    known = {each["cut"] for each in experiment.done()}
    wanted = [cut for cut in ablation.CUTS if options.only in cut.name]
    for cut in wanted:
        if cut.name not in known:
            experiment.do(cut)
    names = {cut.name for cut in wanted}
    found = [each for each in experiment.done() if each["cut"] in names]
    print(ablation.table(found))
    wrong = ablation.idle(found)
    write(options.evidence, "ablation", factors.ROOMS, {"cuts": found, "break nothing": wrong}, about)
    print(f"break nothing, or differ by themselves: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


def tools(work: Path) -> dict[str, str]:
    """Return the environment of the builds, in which `mksquashfs` is on PATH."""
    folder = work / "squashfs-tools"
    env = dict(os.environ)
    if (folder / "bin").is_dir():
        return {**env, "PATH": f"{folder / 'bin'}:{env['PATH']}"}
    folder.mkdir(exist_ok=True)
    return squashfs_tools(folder)


def write(
    path: Path | None,
    kind: str,
    rooms: Sequence[str],
    found: Mapping[str, object],
    about: Mapping[str, object],
) -> None:
    """Write the evidence where it was asked for."""
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document(kind, rooms, found, about), encoding="utf-8")


EXPERIMENTS: dict[str, Callable[[argparse.Namespace], int]] = {
    "factors": run_factors,
    "ablation": run_ablation,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
