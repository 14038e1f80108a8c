"""The sha256 of a file that another process may replace."""

from __future__ import annotations

import os
from pathlib import Path

from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream, is_huge_hole
from reprobuild_portable.host import host

HOLE = "of a hole"


def hash_open(path: Path) -> tuple[str, os.stat_result]:
    """Return the sha256 (hex) of a file, and its stat.

    The stat identifies the file, which may be replaced in the meantime. A huge hole is not read: its hash is `HOLE`.
    """
    with path.open("rb") as stream:
        facts = host.fstat(stream.fileno())
        return HOLE if is_huge_hole(facts, LARGEST_OWN_HOLE) else hash_stream(stream), facts


def is_still(path: Path, facts: os.stat_result) -> bool:
    """Return whether a path still has the file that was found."""
    try:
        now = path.lstat()
    except FileNotFoundError:
        return False
    # The inode of a removed file is given to the next one: the times distinguish them.
    same = os.path.samestat(now, facts) and now.st_size == facts.st_size
    return same and (now.st_mtime_ns, now.st_ctime_ns) == (facts.st_mtime_ns, facts.st_ctime_ns)
