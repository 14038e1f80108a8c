"""Kills, full disks, read-only directories and two runs at once.

    python -m proof.fault_injection --lock LOCK --store STORE --work FOLDER [--kills 50] [--full-disks 10] [--pairs 2]
                        [--seed 1] [--shard 1/4] [--evidence FILE]

They are seeded and resumable. LOCK is sealed, STORE has all that it names. Each case works on a copy of the store by
hard links (on a full disk: by bytes) below FOLDER, which should be on STORE's file system. A case that was done before,
with the same seed, is not done again. Mounts are made in a mount namespace of one's own, as root or as any user.

After every disturbed run: each file of the store under its final name has its hash; the output directory is one that
reprobuild refuses, or one whose every file is that of the undisturbed run; an error message of a full or read-only disk
has a hint and exit code 2, 5 or 7, and no private file is left. The next run then ends well, with the same digests, and
leaves no private file of the killed one. The exit code is 0 if that holds for all cases.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from proof.fault_injection.faults import STAGES, FaultInjection


def main() -> int:
    arguments = parse()
    if not os.environ.get("REPROBUILD_DRILL"):
        again = [
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--",
            sys.executable,
            "-m",
            "proof.fault_injection",
        ]
        os.environ["REPROBUILD_DRILL"] = "inside"
        os.execvp(again[0], [*again, *sys.argv[1:]])  # mounts go away with the process
    experiment = FaultInjection(arguments)
    experiment.prepare()
    for case in experiment.cases():
        experiment.do(case)
    return experiment.finish()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("lock", "store", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, number in (("kills", 50), ("full-disks", 10), ("pairs", 2), ("read-only", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--stages", default=",".join(STAGES), help="of: " + ", ".join(STAGES))
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave a wheel out, for speed"
    )
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--evidence", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
