"""The changes between two trees of a source: whole files, and hunks of text files.

Hunks are those of Python's difflib, as two commits rarely have a diff of their own.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import IO, Literal

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import TarEntry, list_parents
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.tars import UNREADABLE
from reprobuild.lock.python import Source
from reprobuild.lock.system import EPOCH, Artefact
from reprobuild_portable import secrets
from reprobuild_portable.secrets import redact

LARGEST_TREE, LARGEST_TEXT = 256 << 20, 1 << 20  # bytes, beyond which a source or a file is one difference
MOST_LINES, MOST_CHANGES = 5000, 200
LONGEST_HUNK = 4000  # characters that are displayed
_WITHHELD = "(the file has what looks like a secret, and is not quoted)"
MOST_STEPS = 100_000_000  # of the comparison of lines, in all files of a source: some seconds
# Fields of a source that may differ beside its tree.
# Two clones of one repository can have its address in two forms.
_OF_TREE = ("url", "commit", "tree", "patch", "epoch", "file")


class SourceFile(Struct, frozen=True, kw_only=True):
    """A file or link of a tree, with its content."""

    entry: TarEntry
    content: bytes


class SourceChange(Struct, frozen=True, kw_only=True):
    """A change of one file between two trees.

    Attributes:
        path: of the file.
        kind: a whole file, or a hunk of it.
        first, second: the bounds of a hunk's lines in both files, from 0.
    """

    path: str
    kind: Literal["file", "hunk"]
    first: tuple[int, int] = (0, 0)
    second: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        """The path, with the first line of a hunk in A."""
        return self.path if self.kind == "file" else f"{self.path}:{self.first[0] + 1}"


class SourceChanges(Struct, frozen=True, kw_only=True):
    """Two trees of one source, and the changes between them."""

    first: Mapping[str, SourceFile]
    second: Mapping[str, SourceFile]
    changes: tuple[SourceChange, ...]

    def describe(self, number: int) -> tuple[str | None, str | None]:
        """Return a change in A and in B: lines of text without secrets, or a file's size; None if it is absent."""
        change = self.changes[number]
        files = self.first.get(change.path), self.second.get(change.path)
        if change.kind == "file":
            return _describe_file(files[0]), _describe_file(files[1])
        return _read_hunk(files[0], change.first), _read_hunk(files[1], change.second)

    def mix(self, source: Source, chosen: Collection[int]) -> tuple[Source, bytes]:
        """Return a source with these changes, and the tar of its tree.

        Its tree id is of this mixture alone: no repository has the tree.
        """
        files = dict(self.first)
        by_path: dict[str, list[SourceChange]] = {}
        for number in sorted(chosen):
            by_path.setdefault(self.changes[number].path, []).append(self.changes[number])
        for path, changes in by_path.items():
            if changes[0].kind == "file":
                files.pop(path, None)
                if path in self.second:
                    files[path] = self.second[path]
            else:
                files[path] = _apply_hunks(self.first[path], self.second[path], changes)
        content = _write_tree(files)
        mark = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        file = Artefact(
            filename=f"{source.name}-{mark[:12]}.tar", sha256=hashlib.sha256(content).hexdigest(), size=len(content)
        )  # fmt: skip
        return msgspec.structs.replace(source, tree=mark, file=file), content


def find_changes(first: Source, second: Source, tars: tuple[IO[bytes], IO[bytes]]) -> SourceChanges | None:
    """Return the changes of a source's trees, or None if it is one difference.

    That is the case if more than its tree differs, or the trees are large or the same.

    Args:
        first, second: the source in A and in B.
        tars: their trees, as the store has them.
    """
    if any(
        getattr(first, name) != getattr(second, name)
        for name in Source.__struct_fields__
        if name not in _OF_TREE
    ):
        return None
    if first.file.size + second.file.size > LARGEST_TREE:
        return None
    trees = _read_tree(tars[0]), _read_tree(tars[1])
    if trees[0] is None or trees[1] is None:
        return None
    changes = tuple(_list_changes(trees[0], trees[1]))
    if len(changes) > MOST_CHANGES:
        changes = tuple(SourceChange(path=path, kind="file") for path in _changed_paths(trees[0], trees[1]))
    if not 0 < len(changes) <= MOST_CHANGES:
        return None
    return SourceChanges(first=trees[0], second=trees[1], changes=changes)


def _describe_file(file: SourceFile | None) -> str | None:
    if file is None:
        return None
    if file.entry.type != "file":
        return file.entry.type
    return f"{len(file.content)} bytes, sha256 {hashlib.sha256(file.content).hexdigest()[:12]}"


def _read_hunk(file: SourceFile | None, bounds: tuple[int, int]) -> str | None:
    lines = (_text_lines(file) or [])[slice(*bounds)]
    if file is None or not lines:
        return None
    if _has_secret(file.content):  # a hunk alone may hold a part of it that no rule matches
        return _WITHHELD
    return redact(b"".join(lines).decode(errors="replace"))[:LONGEST_HUNK]


@lru_cache(maxsize=2)
def _has_secret(content: bytes) -> bool:
    return bool(secrets.find(content, most=1))


def _read_tree(stream: IO[bytes]) -> dict[str, SourceFile] | None:
    try:
        return {
            entry.path: SourceFile(entry=msgspec.structs.replace(entry, sha256=""), content=content())
            for entry, content in read_tar(stream)
            if entry.type != "directory"
        }
    except (BuildError, *UNREADABLE):
        return None  # the trial of the whole source reports it


def _changed_paths(first: Mapping[str, SourceFile], second: Mapping[str, SourceFile]) -> list[str]:
    return [path for path in sorted({*first, *second}) if first.get(path) != second.get(path)]


def _list_changes(
    first: Mapping[str, SourceFile], second: Mapping[str, SourceFile]
) -> Iterator[SourceChange]:
    steps = MOST_STEPS
    for path in _changed_paths(first, second):
        lines = _text_lines(first.get(path)), _text_lines(second.get(path))
        if lines[0] is None or lines[1] is None or first[path].entry.mode != second[path].entry.mode:
            yield SourceChange(path=path, kind="file")
            continue
        start, middles = _differing_lines(lines[0], lines[1])
        if (needed := _count_steps(*middles)) > steps:
            yield SourceChange(path=path, kind="file")
            continue
        steps -= needed
        for kind, *bounds in SequenceMatcher(None, *middles, autojunk=True).get_opcodes():
            if kind != "equal":
                ends = [start + bound for bound in bounds]
                yield SourceChange(
                    path=path, kind="hunk", first=(ends[0], ends[1]), second=(ends[2], ends[3])
                )


def _differing_lines(first: list[bytes], second: list[bytes]) -> tuple[int, tuple[list[bytes], list[bytes]]]:
    """Return the number of common lines at the start, and the lines before those at the end."""
    most = min(len(first), len(second))
    start = next((number for number in range(most) if first[number] != second[number]), most)
    end = next(
        (number for number in range(most - start) if first[-1 - number] != second[-1 - number]), most - start
    )
    return start, (first[start : len(first) - end], second[start : len(second) - end])


def _count_steps(first: list[bytes], second: list[bytes]) -> int:
    """Return the most steps of difflib: for each block, each line is held against its equals.

    Lines that are more than 1 % of at least 200 do not count: https://docs.python.org/3/library/difflib.html
    """
    counts = Counter(second)
    most = 1 + len(second) // 100 if len(second) >= 200 else len(second)
    pairs = sum(1 + (counts[line] if counts[line] <= most else 0) for line in first)
    return pairs * (1 + min(len(first), len(second)))


def _text_lines(file: SourceFile | None) -> list[bytes] | None:
    """Return the lines of a text file that is not too long."""
    if file is None or file.entry.type != "file" or len(file.content) > LARGEST_TEXT or b"\0" in file.content:
        return None
    lines = file.content.splitlines(keepends=True)
    return lines if len(lines) <= MOST_LINES else None


def _apply_hunks(first: SourceFile, second: SourceFile, hunks: Sequence[SourceChange]) -> SourceFile:
    lines, others = first.content.splitlines(keepends=True), second.content.splitlines(keepends=True)
    for hunk in sorted(hunks, key=lambda hunk: hunk.first, reverse=True):
        lines[hunk.first[0] : hunk.first[1]] = others[hunk.second[0] : hunk.second[1]]
    content = b"".join(lines)
    return SourceFile(entry=msgspec.structs.replace(first.entry, size=len(content)), content=content)


def _write_tree(files: Mapping[str, SourceFile]) -> bytes:
    """Return the tar of a tree, in the form that `resolve` gives it."""
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    for directory in list_parents(files):
        writer.directory(directory)
    for path in sorted(files, key=lambda path: path.encode("utf-8", "surrogateescape")):
        file = files[path]
        writer.add(file.entry, file.content if file.entry.type == "file" else None)
    writer.close()
    return stream.getvalue()
