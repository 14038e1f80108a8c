"""Verdicts on a command's files in two runs.

No program is run here.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from msgspec import Meta, Struct, structs

from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.strings import OptionalSha256
from reprobuild.verify.verdict import V, WorkComparison
from reprobuild.verify.workload.output_index import OUTPUTS, OutputEntry, OutputIndex, Text
from reprobuild_portable import secrets

LONGEST = 400  # characters of a line of details
_READ = 16 * LONGEST  # characters that are searched for secrets, of which the first ones are shown
MOST = 60  # lines of details of one artefact
# The kinds of `reprobuild_runtime/artefacts/ignore_rules.py`; `spaces` is the padding of a number that may differ.
KINDS_EXCUSED = (
    "time", "rate", "memory", "host", "process", "run", "folder", "address", "spaces", "ignored",
)  # fmt: skip
MOST_EXCUSED = 1_000_000_000  # values of one file; a verdict file holds no larger number
# Names that no shell reads as more than a word, in whatever part of a line they stand.
_PLAIN = re.compile(r"[\w+.,:@%=/-]{1,100}", re.ASCII)
SAID = 3  # lines on NaN of one file
WITHHELD = "(what differs here looks like a secret, and is not quoted)"

_EMPTY = hashlib.sha256().hexdigest()

# An empty file of such a name is not a log or marker: its data is missing.
_DATA = re.compile(
    r"(?i)\.(?:pt|pth|ckpt|bin|safetensors|np[yz]|pkl|pickle|joblib|h5|hdf5|keras|onnx|json|jsonl|ndjson|csv|tsv|parquet|arrow|"
    r"feather|model|pb|tflite|gguf|msgpack|zarr|tar|zip|gz)$"
)
_KINDS = {
    "fifo": "a named pipe", "socket": "a socket", "device": "a device", "folder": "an empty directory",
    "system": "a file of the kernel, which nobody wrote", "dangling": "a link to nothing",
    "unreadable": "not to be read",
}  # fmt: skip


class FileAnswer(Struct, frozen=True, kw_only=True):
    """The comparison's answer on one file.

    `digest` is that of its bytes in the first run.
    """

    name: Text
    verdict: Literal["identical", "drift", "inconclusive"]
    format: Text = ""
    count: int = 0
    details: tuple[Text, ...] = ()
    excused: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    digest: OptionalSha256 = ""
    counts: dict[Text, Annotated[int, Meta(ge=0, le=MOST_EXCUSED)]] = {}
    warnings: tuple[Text, ...] = ()

    @property
    def reason(self) -> str:
        """The first line of details, which an image may leave out."""
        return self.details[0] if self.details else "the comparison gave no reason"


class Pair(Struct, frozen=True):
    """One file of both runs."""

    one: OutputEntry
    two: OutputEntry


def pair_paths(
    pattern: str, first_index: OutputIndex, second_index: OutputIndex
) -> tuple[list[Pair], list[OutputEntry], list[OutputEntry]]:
    """Pair the paths of a pattern in both runs.

    Return those that only one of them has, too.

    Files are one if their names differ only by a time within their run, or by the name of its host.
    """
    first, second = (
        {entry.path: entry for entry in index.files if entry.pattern == pattern}
        for index in (first_index, second_index)
    )
    pairs = [Pair(first.pop(path), second.pop(path)) for path in sorted(first.keys() & second.keys())]
    timeless = [_mask_names(first, first_index), _mask_names(second, second_index)]
    for name in sorted(timeless[0].keys() & timeless[1].keys()):
        pairs.append(Pair(first.pop(timeless[0][name]), second.pop(timeless[1][name])))
    return pairs, list(first.values()), list(second.values())


def _mask_names(entries: Mapping[str, OutputEntry], index: OutputIndex) -> dict[str, str]:
    """Return {name without times: path} of unambiguous names."""
    paths_by_name: dict[str, list[str]] = {}
    for path in entries:
        reduced = index.mask_run_parts(path)
        if reduced != path:
            paths_by_name.setdefault(reduced, []).append(path)
    return {name: paths[0] for name, paths in paths_by_name.items() if len(paths) == 1}


def judge_artefact(
    label: str,
    pattern: str,
    first_index: OutputIndex,
    second_index: OutputIndex,
    answers: Mapping[tuple[str, str], FileAnswer],
) -> WorkComparison:
    """Judge one artefact that the user named.

    Args:
        label: its name in the report.
        answers: of each pair of stored files, by their numbers.
    """
    pairs, first, second = pair_paths(pattern, first_index, second_index)
    if not pairs and not first and not second:
        names = ", ".join(first_index.there.get(pattern, ())) or "nothing"
        return WorkComparison(
            name=label,
            verdict="inconclusive",
            detail=display_line(
                f"the command wrote no such file{_suggest_option(pattern, first_index)}; there is {names}"
            ),
        )
    judged: list[FileAnswer] = [
        FileAnswer(name=entry.path, verdict="drift", details=(f"only in the {which} run",))
        for which, entries in (("first", first), ("second", second))
        for entry in entries
    ]
    judged += [_judge_pair(both, (first_index, second_index), answers) for both in pairs]
    return _summarise_files(label, judged)


def _suggest_option(pattern: str, index: OutputIndex) -> str:
    """Return the options for files below `{out}` with the name of a pattern that matched no file.

    People copy them, and each display shortens and escapes the line: names have no character that a shell reads.
    """
    last, below = pattern.rpartition("/")[2], f"{OUTPUTS}/"
    written = [file.path.removeprefix(below) for file in index.written if file.path.startswith(below)]
    plain = filter(_PLAIN.fullmatch, (*index.others, *written))
    names = [name for name in plain if fnmatchcase(name.rpartition("/")[2], last)][:SAID]
    options = " ".join(f"--output-file {shlex.quote(f'{{out}}/{name}')}" for name in names)
    return f", but below {{out}}: name it with {options}" if options else ""


def _judge_pair(
    both: Pair, runs: tuple[OutputIndex, OutputIndex], answers: Mapping[tuple[str, str], FileAnswer]
) -> FileAnswer:
    first, second = both.one, both.two
    name = first.path
    if first.kind != second.kind:
        return FileAnswer(
            name=name,
            verdict="drift",
            details=(f"{_describe_kind(first)} in the first run, {_describe_kind(second)} in the second",),
        )
    links = [run.mask_run_parts(entry.link) for entry, run in zip((first, second), runs, strict=True)]
    if links[0] != links[1]:
        # `latest` leads to the last step: another step is another result, even with equal content.
        return FileAnswer(
            name=name, verdict="drift", details=(f"{_describe_link(first)} and {_describe_link(second)}",)
        )
    if first.kind == "folder" and first.link:
        return FileAnswer(
            name=name, verdict="inconclusive", details=(f"it is a link to the directory {first.link}",)
        )
    if first.kind != "file":
        return FileAnswer(name=name, verdict="inconclusive", details=(f"it is {_describe_kind(first)}",))
    if not first.written and not second.written:
        why = "it was there before the command, which did not write it"
        return FileAnswer(name=name, verdict="inconclusive", details=(why,))
    if first.size == second.size == 0:
        why = "it is empty in both runs, so nothing was compared"
        digest = _EMPTY if _DATA.search(name) else ""
        return FileAnswer(name=name, verdict="inconclusive", details=(why,), digest=digest)
    answer = answers[first.stored, second.stored]
    notes = answer.notes
    if first.link:
        notes = (*notes, f"a link to {first.link}")
    if first.path != second.path:
        notes = (*notes, f"named {second.path} in the second run")
    return FileAnswer(
        name=name, verdict=answer.verdict, format=answer.format, count=answer.count, details=answer.details,
        excused=answer.excused, notes=notes, digest=answer.digest, counts=answer.counts, warnings=answer.warnings,
    )  # fmt: skip


def _describe_kind(entry: OutputEntry) -> str:
    return _KINDS.get(entry.kind, "a file")


def _describe_link(entry: OutputEntry) -> str:
    return f"a link to {entry.link}" if entry.link else "no link"


def _summarise_files(label: str, judged: Sequence[FileAnswer]) -> WorkComparison:
    """Return one comparison for all files of an artefact.

    A file without information counts only if no other file has any, unless it has a digest: that of a checkpoint that
    is empty, or full of NaN.
    """
    drifted = [answer for answer in judged if answer.verdict == "drift"]
    same = [answer for answer in judged if answer.verdict == "identical"]
    silent = [answer for answer in judged if answer.verdict == "inconclusive"]
    broken = [answer for answer in silent if answer.digest]
    verdict: V = "drift" if drifted else "inconclusive" if broken or not same else "identical"
    if drifted:
        worst = drifted[0]
        more = f" (and {len(drifted) - 1} more of {len(judged)} files)" if len(drifted) > 1 else ""
        detail = f"{worst.name}{_format_suffix(worst)}: {worst.details[0] if worst.details else 'it differs'}{more}"
    elif verdict == "identical":
        digests = sorted((answer.name, answer.digest) for answer in same)
        detail = hashlib.sha256(repr(digests).encode()).hexdigest() if len(digests) > 1 else digests[0][1]
        if not all(digest for _, digest in digests):
            detail = ""  # files that are equal in content only have no digest to compare later
    else:
        worst = (broken or silent)[0]
        detail = f"{worst.name}: {worst.reason}"
    lines = [line for answer in judged for line in _detail_lines(answer)]
    if len(lines) > MOST:
        lines = [*lines[:MOST], f"and {len(lines) - MOST} lines more"]
    counts: Counter[str] = Counter()
    for answer in judged:
        counts.update(answer.counts)
    return WorkComparison(
        name=display_line(label), verdict=verdict, detail=display_line(detail), details=tuple(map(display_line, lines)),
        excused={kind: min(counts[kind], MOST_EXCUSED) for kind in KINDS_EXCUSED if counts[kind] > 0},
        warnings=tuple(map(display_line, list(_warning_lines(judged))[:MOST])),
    )  # fmt: skip


def _warning_lines(judged: Sequence[FileAnswer]) -> Iterator[str]:
    """Yield warnings on files, for any verdict.

    They are about NaN, and about empty files.
    """
    for answer in judged:
        for place in answer.warnings[:SAID]:
            yield f"{answer.name}: {place}"
        if len(answer.warnings) > SAID:
            yield f"{answer.name}: and {len(answer.warnings) - SAID} more lines on NaN and infinities"
        if answer.verdict == "inconclusive":
            yield f"{answer.name}: {answer.reason}"


def judge_distinct(judged: WorkComparison, files: Sequence[tuple[str, str]]) -> WorkComparison:
    """Check that files of one run differ from one another.

    Ranks with streams of their own must write different files.

    Two runs of ranks that all draw the same numbers are identical, and wrong: this is not a drift, and not a pass
    either.

    Args:
        judged: the comparison of both runs.
        files: the path and the digest of each file of the first run.
    """
    by_digest: dict[str, list[str]] = {}
    for path, digest in files:
        by_digest.setdefault(digest, []).append(path)
    equal = [paths for paths in by_digest.values() if len(paths) > 1]
    if not equal and len(files) > 1:
        note = f"note: each of the {len(files)} files has other bytes, as it must"
        return structs.replace(judged, details=(*judged.details, note))
    why = (
        f"{' and '.join(equal[0][:2])} hold the same bytes: do both draw from one stream?"
        if equal
        else (f"{len(files)} files, and two are needed to tell whether they differ")
    )
    lines = tuple(display_line(f"not distinct: {' '.join(paths)}") for paths in equal[:MOST])
    if judged.verdict == "drift":
        return structs.replace(judged, details=(*judged.details, *lines))
    return structs.replace(
        judged, verdict="inconclusive", detail=display_line(why), details=(*judged.details, *lines)
    )


def _format_suffix(answer: FileAnswer) -> str:
    return f" ({answer.format})" if answer.format else ""


def _detail_lines(answer: FileAnswer) -> Iterator[str]:
    """Yield the lines of details of one file.

    An equal file without remarks has no lines.
    """
    for line in answer.details:
        yield f"{answer.name}: {line}"
    if answer.count > len(answer.details):
        yield f"{answer.name}: and {answer.count - len(answer.details)} differences more"
    for line in answer.excused:
        yield f"{answer.name}: excused: {line}"
    for line in answer.notes:
        yield f"{answer.name}: note: {line}"


def display_line(line: str) -> str:
    """Return a line from a container in printable form.

    It has no secret and no control character, and is shortened.
    """
    line = secrets.redact(line[:_READ])
    if secrets.find(line.encode(errors="replace")):
        return f"{line.partition(':')[0][:100]}: {WITHHELD}"
    line = escape_text(line)
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
