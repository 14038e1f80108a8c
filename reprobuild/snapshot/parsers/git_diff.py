"""Parser of `*.diff`, the output of `git diff`.

It reads only headers; git applies the content.

The content is checked for problems that would fail or harm later: a diff that is cut short, a path that leaves the
repository, a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, Patch, PatchedFile, SourceLocation
from reprobuild.snapshot.parsers.diff_names import (
    has_prefixes,
    is_safe_path,
    parse_file_name,
    parse_header_names,
    strip_prefix,
)
from reprobuild_portable import secrets

_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})(?: (\d{6}))?")
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*", re.DOTALL)
_MODE = re.compile(rb"(old mode|new mode|deleted file mode|new file mode) (\d{6})")
_NAME = re.compile(rb"(rename from|rename to|copy from|copy to|---|\+\+\+) (.*)", re.DOTALL)
_SIMILAR = re.compile(rb"(similarity|dissimilarity) index \d+%")
_BASE85 = re.compile(rb"[A-Za-z][0-9A-Za-z!#$%&()*+;<=>?@^_`{|}~-]+")
# keyword of a header line: the side it is about, and the side that is absent
_SIDES: dict[bytes, tuple[str, str]] = {
    b"old mode": ("old", ""),
    b"new mode": ("new", ""),
    b"deleted file mode": ("old", "new"),
    b"new file mode": ("new", "old"),
    b"rename from": ("old", ""),
    b"rename to": ("new", ""),
    b"copy from": ("old", ""),
    b"copy to": ("new", ""),
    b"---": ("old", ""),
    b"+++": ("new", ""),
}
# https://git-scm.com/docs/hash-function-transition: the ids of an empty file, by sha1 and by sha256.
_EMPTY_BLOBS = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)
_MOST_LINES = 2_000_000  # each needs up to 150 bytes in memory; a binary patch of 64 MiB has a million
_AT_ONCE = 5000  # lines searched for secrets at once: the first one found is enough
_CUT = "the diff is cut short: capture it again, and check that the disk was not full"

Read = tuple[tuple[Patch, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str) -> Read:
    """Return the patch of one `.diff` file, if any, and remarks.

    Raises:
        SnapshotError: it is not a git diff, is too large or cut short, names a path outside the repository, or holds a
            secret.
    """
    text.check_size(len(data), file)
    _check_lines(data, file)
    name = file.removesuffix(".diff")
    if not data.strip():
        return (), (text.remark(file, 1, "", "an empty diff: nothing had been changed"),)
    walk = _Walk(data, file)
    walk.read_all()
    _refuse_secrets(walk)
    patch = Patch(file=file, name=name, content=data, files=tuple(walk.files), strip=walk.strip)
    return (patch,), (*_misplaced_diff_remarks(file, name), *walk.remarks)


def _check_lines(data: bytes, file: str) -> None:
    """Refuse a diff of more lines than memory is meant for."""
    count = data.count(b"\n")
    if count > _MOST_LINES:
        raise text.parse_error(
            file,
            f"{count} lines are more than the {_MOST_LINES} that a diff may have",
            "look at what wrote it; commit large generated files, and capture it again with `git diff --binary`",
        )


class _Walk:
    """A reader of the lines of a diff; `at` is the next one."""

    def __init__(self, data: bytes, file: str) -> None:
        self.file = file
        self.rows = data.split(b"\n")
        self.has_end = not self.rows[-1]
        if self.has_end:
            self.rows.pop()
        self.at = 0
        self.strip = 1
        self.files: list[PatchedFile] = []
        self.remarks: list[ParseNote] = []
        self.binary: set[int] = set()
        self.hunks: set[int] = set()

    def read_all(self) -> None:
        """Read the text before the first file, then each file."""
        self._refuse_foreign()
        outside = "text before the first file of the diff"
        while self.at < len(self.rows):
            row = self.rows[self.at]
            if row.startswith(b"diff --git "):
                self._file()
                outside = "text after a file of the diff"
            else:
                if row.startswith(b"@@ -"):
                    raise self.broken(
                        self.at,
                        "a hunk that belongs to no file",
                        "the beginning of the diff is missing: capture it again",
                    )
                self._read_outside_row(row, outside)
                self.at += 1

    def _refuse_foreign(self) -> None:
        for number, row in enumerate(self.rows):
            self._refuse_merge(number)
            if row.startswith(b"\x1b["):
                raise self.broken(
                    number,
                    "the diff was written with colours",
                    "capture again with `git -c color.ui=false diff`",
                )
            if row.startswith(b"diff --git "):
                return
        raise self.broken(0, "this is not the output of `git diff`", "capture it with `git diff --binary`")

    def _refuse_merge(self, at: int) -> None:
        if self.rows[at].startswith((b"diff --cc ", b"diff --combined ", b"* Unmerged path ")):
            raise self.broken(
                at, "a merge was not finished in this repository", "resolve the merge there and capture again"
            )

    def _read_outside_row(self, row: bytes, reason: str) -> None:
        if not row.strip():
            return
        self._refuse_merge(self.at)
        shown = row.decode("utf-8", "backslashreplace")
        understood = True
        if re.match(r"(-- ?|\d+\.\d+[\w.-]*)$", shown):
            reason = "the signature of a mail"
        elif re.match(r"Submodule .* [0-9a-f]+\.\.\.?[0-9a-f]+|Submodule .* contains", shown):
            reason, understood = "git only logged this submodule: its change is not in the diff", False
        elif re.match(r"index |Binary files ", shown):
            reason, understood = "it belongs to a file whose beginning is missing", False
        self.remarks.append(text.remark(self.file, self.at + 1, shown, reason, understood=understood))

    def _file(self) -> None:
        start = self.at
        if self.rows[start].endswith(b"\r"):
            self._warn(start, "its header lines end in CRLF: something converted the diff")
        header = parse_header_names(self._row().removeprefix(b"diff --git "))
        has_prefix = has_prefixes(header)
        if not has_prefix:
            self.strip = 0
        names: dict[str, str | None] = {}
        if header:
            old, new = map(strip_prefix, header) if has_prefix else header
            names = {"old": old, "new": new}
        facts: dict[str, str] = {}
        missing = False
        self.at += 1
        while self.at < len(self.rows):
            row = self._row()
            if match := _INDEX.fullmatch(row):
                facts |= {"old_blob": match[1].decode(), "new_blob": match[2].decode()}
                if match[3]:
                    facts |= {"old_mode": match[3].decode(), "new_mode": match[3].decode()}
            elif match := _MODE.fullmatch(row):
                side, absent_side = _SIDES[match[1]]
                facts[f"{side}_mode"] = match[2].decode()
                names |= {absent_side: None} if absent_side else {}
            elif match := _NAME.fullmatch(row):
                written = parse_file_name(match[2])
                with_prefix = has_prefix and match[1] in (b"---", b"+++")
                names[_SIDES[match[1]][0]] = strip_prefix(written) if with_prefix else written
            elif row.startswith(b"Binary files ") and row.endswith(b" differ"):
                missing = not _deletes_whole(names, facts)
                if missing:
                    self._warn(
                        self.at, "git only said that a binary file differs: its content was not captured"
                    )
            elif row == b"GIT binary patch":
                self._read_binary_patch()
                continue
            elif row.startswith(b"@@ -"):
                self._read_hunk()
                continue
            elif not _SIMILAR.fullmatch(row):
                if self.at == len(self.rows) - 1 and not self.has_end:
                    raise self.broken(self.at, "the header of a file has no end", _CUT)
                break
            self.at += 1
            if self.at == len(self.rows) and not missing and _needs_content(names, facts):
                raise self.broken(start, "the changes of the last file are missing", _CUT)
        self._keep(start, names.get("old"), names.get("new"), facts, missing)

    def _keep(
        self, start: int, old: str | None, new: str | None, facts: dict[str, str], missing: bool
    ) -> None:
        if old is None and new is None:
            raise self.broken(
                start, "the names in this header cannot be told apart", "capture it again with `git diff`"
            )
        for name in (old, new):
            if name is not None and not is_safe_path(name):
                raise self.broken(
                    start,
                    f"the path `{display_text(name)}` leaves the repository or enters its `.git`",
                    "a diff of git holds no such path: look at where this file came from",
                )
        self.files.append(PatchedFile(line=start + 1, old_path=old, new_path=new, missing=missing, **facts))

    def _read_hunk(self) -> None:
        start = self.at
        match = _HUNK.fullmatch(self.rows[start])
        if not match:
            raise self.broken(start, "a damaged hunk header", _CUT)
        old_lines, new_lines = (int(group) if group is not None else 1 for group in match.groups())
        self.at += 1
        while old_lines > 0 or new_lines > 0:
            row = self.rows[self.at] if self.at < len(self.rows) else None
            kind = b"" if row is None else row[:1]
            # Editors that trim lines leave an empty one for git's blank: git takes both.
            if row is not None and kind in (b" ", b"", b"\r"):
                old_lines, new_lines = old_lines - 1, new_lines - 1
            elif kind == b"-":
                old_lines -= 1
            elif kind == b"+":
                new_lines -= 1
            elif kind != b"\\":
                old_lines = -1
            if old_lines < 0 or new_lines < 0 or row is None:
                raise self.broken(start, "the hunk has other lines than its header says", _CUT)
            if re.match(rb"[+]Subproject commit [0-9a-f]+-dirty", row):
                self._warn(
                    self.at, "a submodule had uncommitted changes of its own, which are not in this diff"
                )
            self.hunks.add(self.at)
            self.at += 1
        if self.at < len(self.rows) and self.rows[self.at].startswith(b"\\"):
            self.at += 1

    def _read_binary_patch(self) -> None:
        start = self.at
        self.at += 1
        sections = 0
        while self.at < len(self.rows) and re.fullmatch(rb"(literal|delta) \d+\r?", self.rows[self.at]):
            sections += 1
            self.at += 1
            while self.at < len(self.rows) and self._row():
                row = self._row()
                size = row[0] - (64 if row[0] < 97 else 70)  # A-Z are 1 to 26 bytes, a-z 27 to 52
                if not _BASE85.fullmatch(row) or len(row) - 1 != (size + 3) // 4 * 5:
                    raise self.broken(self.at, "a damaged line of a binary patch", _CUT)
                self.binary.add(self.at)
                self.at += 1
            if self.at >= len(self.rows):
                raise self.broken(start, "the binary patch has no end", _CUT)
            self.at += 1
        if not sections:
            raise self.broken(start, "the binary patch has no content", _CUT)

    def _row(self) -> bytes:
        return self.rows[self.at].removesuffix(b"\r")

    def _warn(self, at: int, reason: str) -> None:
        shown = self.rows[at].decode("utf-8", "backslashreplace")
        self.remarks.append(text.remark(self.file, at + 1, shown, reason, understood=False))

    def broken(self, at: int, message: str, hint: str) -> Exception:
        """Return the error for the line at this index."""
        return text.parse_error(SourceLocation(self.file, at + 1), message, hint)


def _deletes_whole(names: Mapping[str, str | None], facts: Mapping[str, str]) -> bool:
    """Tell whether a file is deleted, so that git needs no content: only the whole id of the old one."""
    return names.get("new", "") is None and len(facts.get("old_blob", "")) >= 40


def _needs_content(names: Mapping[str, str | None], facts: Mapping[str, str]) -> bool:
    """Tell whether the ids of a header differ, so that lines or a binary patch must follow; a deletion needs none."""
    old, new = facts.get("old_blob", ""), facts.get("new_blob", "")
    is_empty = any(blob.startswith(new) for blob in _EMPTY_BLOBS)
    return old != new and not is_empty and names.get("new", "") is not None


def _refuse_secrets(walk: _Walk) -> None:
    """Refuse a secret on any line.

    A context or removed line is stored like an added one. The files before and after are searched apart, without the
    sign of each line: a rule may look at the start of a line, or at the line after it.
    """
    findings = sorted(finding for sign in (b"-", b"+") for finding in _find_in_side(walk, sign))
    for at, rule in findings[:1]:
        sign = walk.rows[at][:1] if at in walk.hunks else b""
        side = {b"+": "an added line", b"-": "a removed line"}.get(sign, "a line")
        raise walk.broken(
            at,
            f"{side} holds a secret ({rule})",
            "take it out of the source, read it from the environment, revoke it, and capture again; "
            "`reprobuild capture` leaves the old content of such a file out",
        )


def _find_in_side(walk: _Walk, sign: bytes) -> Iterator[tuple[int, str]]:
    """Yield index and rule of secrets in the headers, and in the lines of one side."""
    other = b"+" if sign == b"-" else b"-"
    places = [
        at
        for at, row in enumerate(walk.rows)
        if at not in walk.binary and not (at in walk.hunks and row[:1] == other)
    ]
    for start in range(0, len(places), _AT_ONCE):
        block = places[start : start + _AT_ONCE]
        rows = (walk.rows[at][1:] if at in walk.hunks else walk.rows[at] for at in block)
        for line, rule in secrets.find(b"\n".join(rows), most=1):
            yield block[line - 1], rule
            return


def _misplaced_diff_remarks(file: str, name: str) -> tuple[ParseNote, ...]:
    """Return the remark on a diff that the recipe took in a wrong directory.

    If its `cd` fails, `git diff` runs in the job's directory, and the file has the name of conda's `work` or of a
    wheel.
    """
    if name == "work" or re.fullmatch(r".*\.(whl|tar\.gz|zip|tar\.bz2)", name):
        reason = "named after a build directory or archive: it holds the changes of the directory in which the job ran"
        return (text.remark(file, 1, "", reason, understood=False),)
    return ()
