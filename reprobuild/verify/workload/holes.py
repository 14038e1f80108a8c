"""The holes in the files of a run, which take no space and a long time to read."""

from __future__ import annotations

from pathlib import Path

from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.output_index import OutputIndex
from reprobuild_portable.hashing import LARGEST_HOLE, is_huge_hole


def find_holes(folder: Path, index: OutputIndex) -> tuple[int, str] | None:
    """Return the size of a run's files that are nearly all holes, and the path of the first, if they are too large.

    A stored file counts for each of its names, as it may be read for each. A file that a file system compressed is not
    nearly all holes.

    Args:
        folder: has the stored files.
        index: names them.
    """
    size = holes = 0
    first = ""
    for entry in index.files:
        if entry.kind != "file":
            continue
        facts = (folder / entry.stored).stat()
        if is_huge_hole(facts, 0):
            first = first or entry.path
            size += facts.st_size
            holes += facts.st_size - facts.st_blocks * 512
    return (size, display_line(first)) if holes >= LARGEST_HOLE else None


def describe_holes(holes: tuple[int, str]) -> str:
    """Return words for the answer of `find_holes`."""
    return f"files with {holes[0]:,} bytes, of which nearly all are holes: {holes[1]}"
