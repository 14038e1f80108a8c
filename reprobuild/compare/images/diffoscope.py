"""The output of diffoscope, if installed, on unexplained files.

These files have a difference of no known kind.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from reprobuild.compare.images.excerpt import quotable
from reprobuild.compare.images.scan import Scanned
from reprobuild.compare.images.tree import FileChange
from reprobuild.errors import EngineError
from reprobuild.infra import proc
from reprobuild_portable import secrets

# The number of files to examine, the seconds for each, and the number of lines kept of each answer.
FILES = 5
SECONDS = 60
LINES = 60
ABSENT = "diffoscope is not on PATH, so it was not asked"


class DiffoscopeResult(Struct, frozen=True, kw_only=True):
    """The output of diffoscope on one file."""

    path: str
    text: str


def look_deeper(
    pair: tuple[Scanned, Scanned], files: Sequence[FileChange], contents: Path, env: Mapping[str, str],
    say: Callable[[str], None],
) -> tuple[list[DiffoscopeResult], list[str]]:  # fmt: skip
    """Return diffoscope's output on the first "content" files, and notes.

    Args:
        pair: both images.
        files: the differences, with kinds.
        contents: the directory of contents by their sha256; files that must not be shown are left out.
        env: PATH is taken from it.
        say: called with each step.
    """
    asked = list(islice(_shown(pair, files, contents), FILES))
    if not asked:
        return [], []
    if proc.which("diffoscope", env) is None:
        return [], [ABSENT]
    found, notes = [], []
    for path, one, other in asked:
        say(f"diffoscope on {'/' + path!r}, at most {SECONDS} s")
        target = contents / "diffoscope.txt"
        target.unlink(missing_ok=True)
        argv = ["diffoscope", "--text", str(target), "--text-color", "never", str(one), str(other)]
        clean = {"PATH": env.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": str(contents)}
        try:
            with contextlib.suppress(proc.ProcessFailedError):  # it exits 1 if files differ
                proc.run(argv, env=clean, purpose="look into a file", timeout=SECONDS)
            lines = target.read_text("utf-8", "replace").splitlines() if target.is_file() else []
        except EngineError as err:
            notes.append(f"diffoscope on {path!r}: {err}")
            continue
        said = "\n".join(lines[:LINES]).replace(str(one), "one").replace(str(other), "other")
        kept = [secrets.redact(line) for line in said.splitlines()]
        if len(lines) > len(kept):
            kept.append(f"... and {len(lines) - len(kept)} lines more")
        if not kept:
            notes.append(f"diffoscope said nothing of {path!r}")
        found += [DiffoscopeResult(path=path, text="\n".join(kept))] if kept else []
    return found, notes


def _shown(
    pair: tuple[Scanned, Scanned], files: Sequence[FileChange], contents: Path
) -> Iterator[tuple[str, Path, Path]]:  # fmt: skip
    """Yield path and contents of files that may be shown."""
    for file in files:
        one, other = contents / file.one, contents / file.other
        if file.kind != "content" or not one.is_file() or not other.is_file():
            continue
        entries = [scanned.tree[file.path] for scanned in pair]
        both = (one.read_bytes(), other.read_bytes())
        if not quotable(file.path, entries[0], entries[1], both):
            yield file.path, one, other
