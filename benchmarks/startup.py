"""How long `reprobuild --help` takes as a whole process, against `python -c 'import click'`.

Both sides use one interpreter and count everything: start of Python, site packages of the environment,
imports, exit. Our side is what the console script does; the script's own file is left out because pip
and uv write different ones.
"""

from __future__ import annotations

import sys

from benchmarks.measure import PROGRAM, Figure, alternate, compare, time_process

LIMIT = 2.0
PAIRS = 25
ROOMS = ("cli", "errors")


def measure(pairs: int = PAIRS) -> list[Figure]:
    """Return the one figure."""
    ours, theirs = alternate(
        lambda: time_process([*PROGRAM, "--help"]),
        lambda: time_process([sys.executable, "-c", "import click"]),
        pairs,
    )
    return [
        compare(
            "`reprobuild --help`", ours, theirs, "python -c 'import click'", limit=LIMIT, rooms=ROOMS,
        )
    ]  # fmt: skip
