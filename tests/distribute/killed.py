"""A process that does one thing again and again, each time in a child of its own: whoever started it kills these.

    python -m tests.distribute.killed bundle OUT FILE STORE
    python -m tests.distribute.killed unbundle FILE OUT STORE

For each line on standard input a child begins, whose number is printed; when it has ended, its exit code is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from reprobuild.distribute.bundle import BundleOptions, bundle
from reprobuild.distribute.unbundle import unbundle
from reprobuild.store.store import Store
from tests.distribute.conftest import EVERY


def work(verb: str, one: Path, two: Path, store: Store) -> None:
    """Do it."""
    if verb == "bundle":
        bundle(one, two, store, BundleOptions(parts=EVERY, split=1 << 20), os.environ, say=lambda text: None)
    else:
        unbundle(one, two, store, os.environ, signers=None, say=lambda text: None)


def main(verb: str, one: str, two: str, store: str) -> None:
    """Serve."""
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            work(verb, Path(one), Path(two), Store(Path(store)))
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
