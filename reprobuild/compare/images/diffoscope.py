"""The output of diffoscope, if installed, on files with another content."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from reprobuild.compare.images.excerpt import quoting_obstacle
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


def run_diffoscope(
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
    inputs = list(islice(_select_files(pair, files, contents), FILES))
    if not inputs:
        return [], []
    if proc.which("diffoscope", env) is None:
        return [], [ABSENT]
    results, notes = [], []
    for path, first, second in inputs:
        say(f"diffoscope on {'/' + path!r}, at most {SECONDS} s")
        target = contents / "diffoscope.txt"
        target.unlink(missing_ok=True)
        argv = ["diffoscope", "--text", str(target), "--text-color", "never", str(first), str(second)]
        clean = {"PATH": env.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": str(contents)}
        try:
            with contextlib.suppress(proc.ProcessFailedError):  # it exits 1 if files differ
                proc.run(argv, env=clean, purpose="look into a file", timeout=SECONDS)
            lines = target.read_text("utf-8", "replace").splitlines() if target.is_file() else []
        except EngineError as err:
            notes.append(f"diffoscope on {path!r}: {err}")
            continue
        text = "\n".join(lines[:LINES]).replace(str(first), "one").replace(str(second), "other")
        excerpt = [secrets.redact(line) for line in text.splitlines()]
        if len(lines) > len(excerpt):
            excerpt.append(f"... and {len(lines) - len(excerpt)} lines more")
        if not excerpt:
            notes.append(f"diffoscope said nothing of {path!r}")
        results += [DiffoscopeResult(path=path, text="\n".join(excerpt))] if excerpt else []
    return results, notes


def _select_files(
    pair: tuple[Scanned, Scanned], files: Sequence[FileChange], contents: Path
) -> Iterator[tuple[str, Path, Path]]:  # fmt: skip
    """Yield path and contents of files that may be shown."""
    for file in files:
        first, second = contents / file.one, contents / file.other
        if file.kind != "content" or not first.is_file() or not second.is_file():
            continue
        entries = [scanned.tree[file.path] for scanned in pair]
        both = (first.read_bytes(), second.read_bytes())
        if not quoting_obstacle(file.path, entries[0], entries[1], both):
            yield file.path, first, second
