"""The files that a workload writes and that no output names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.judge import LONGEST, display_line
from reprobuild.verify.workload.output_index import OutputIndex, WrittenFile

SHOWN = 20  # files
_NOT_WHOLE = (
    "the search for files that the work wrote and no --output-file names took too long, and was ended"
)
_DIFFERS, _MISSING, _UNREAD, _SAME = "differs", "not in every run", "not read", "the same in each run"
_ORDER = (_DIFFERS, _MISSING, _UNREAD, _SAME)


class _Uncompared(Struct, frozen=True):
    """A file of the first run that has it, and the comparison of all runs."""

    file: WrittenFile
    answer: str


def add_uncompared(
    comparisons: Sequence[WorkComparison], indexes: Sequence[OutputIndex]
) -> list[WorkComparison]:
    """Return the comparisons; the first one lists the files that the runs wrote and no output names.

    Each file has its size, and whether all runs wrote the same bytes. Those that differ come first.

    Args:
        indexes: of all runs that have one.
    """
    first, *rest = comparisons
    if any(index.others for index in indexes):  # of an older image, which gives names alone
        files, count = list(indexes[0].others[:SHOWN]), indexes[0].other
    else:
        answers = sorted(_compare(indexes), key=lambda name: (_ORDER.index(name.answer), name.file.path))
        files = [f"{name.file.path} ({name.file.size:,} bytes): {name.answer}" for name in answers[:SHOWN]]
        count = max([len(answers), *(index.written_count for index in indexes)])
    notes = [] if all(index.written_whole for index in indexes) else [_NOT_WHOLE]
    if files:
        several = count != 1
        names = f"file{'s' * several} not compared, as no --output-file names {'them' if several else 'it'}"
        notes.insert(0, f"{count:,} {names}")
    lines = [display_line(hide_secrets(f"not compared: {line}")) for line in files]
    changed = msgspec.structs.replace(
        first, warnings=(*first.warnings, *notes), details=(*first.details, *lines)
    )
    return [changed, *rest]


def keep_written(index: OutputIndex) -> OutputIndex:
    """Return the fields that `add_uncompared` reads, in a form that is small for any path.

    A long path has a digest in place of its end, after the marks for the run's own parts.
    """
    files = [
        msgspec.structs.replace(file, path=_shorten(index.mask_run_parts(file.path)))
        if len(file.path) > LONGEST
        else file
        for file in index.written
    ]
    others = tuple(name[:LONGEST] for name in index.others)
    return msgspec.structs.replace(index, files=(), there={}, failed="", others=others, written=tuple(files))


def _shorten(path: str) -> str:
    if len(path) <= LONGEST:
        return path
    digest = hashlib.sha256(path.encode(errors="surrogatepass")).hexdigest()
    return f"{path[:LONGEST]}...{digest}"


def _compare(indexes: Sequence[OutputIndex]) -> Iterator[_Uncompared]:
    """Yield each name of all runs; files with drawn names share one."""
    runs = [_files_by_name(index) for index in indexes]
    for name in dict.fromkeys(name for run in runs for name in run):
        files = [run.get(name, []) for run in runs]
        digests = [sorted(file.digest for file in group) for group in files]
        if not all(digests):
            answer = _MISSING
        elif any("" in group for group in digests):
            answer = _UNREAD
        else:
            answer = _SAME if all(group == digests[0] for group in digests) else _DIFFERS
        yield _Uncompared(next(group[0] for group in files if group), answer)


def _files_by_name(index: OutputIndex) -> dict[str, list[WrittenFile]]:
    by_name: dict[str, list[WrittenFile]] = {}
    for file in index.written:
        by_name.setdefault(index.mask_run_parts(file.path), []).append(file)
    return by_name
