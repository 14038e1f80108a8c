"""Run one experiment: `python -m proof EXPERIMENT --lock LOCK --store STORE --work FOLDER ...`.

The exit code is 0 if every claim held, and 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from proof import factors
from proof.evidence import document, machine
from proof.subjects import SERVICES, small_lock
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


EXPERIMENTS: dict[str, Callable[[argparse.Namespace], int]] = {"factors": run_factors}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
