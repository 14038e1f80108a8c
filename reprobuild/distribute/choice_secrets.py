"""The search for secrets in saved choices of compilers, before they are handed to others."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from typing import IO

from reprobuild.errors import DistributionError
from reprobuild.image.choices.archive import read_files
from reprobuild.image.choices.record import ChoiceFile
from reprobuild.infra.display import display_path
from reprobuild_portable import secrets

_MOST_TEXT = 64 << 20  # bytes that are searched, at some 2 s each MiB
_HEAD = 8192
_CHUNK, _OVERLAP = 1 << 20, 1 << 12  # of compiled code; no token is longer than the second
_MOST_PATHS = 1000  # that are searched at once
# Every byte of a text in ASCII, Latin-1 or UTF-8.
_TEXT = bytes(code for code in range(256) if code >= 32 or code in b"\t\n\f\r\x1b")
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_MOST_CONTROL = 0.02  # of the bytes of a text
# Words in compiled code, in UTF-8 and both forms of UTF-16; tokens are not shorter. They are searched in a copy of the
# code with `a` for each letter, `0` for each NUL and `x` for the rest: `bytes.find` takes a second for hundreds of MB.
_SHORTEST = 20
_CLASSES = bytes(
    ord("a") if code == 9 or 32 <= code <= 126 else ord("x") if code else ord("0") for code in range(256)
)
_RUNS = (
    (b"a" * _SHORTEST, re.compile(rb"a+")),
    (b"a" + b"0a" * (_SHORTEST - 1), re.compile(rb"a(?:0a)+")),
)


def refuse_secrets(files: Sequence[ChoiceFile]) -> None:
    """Refuse secrets in choices: in records, in names of files, in texts and in compiled code.

    Each archive is searched once.

    Raises:
        BuildError: an archive is damaged.
        DistributionError: there is a secret, or too much text.
    """
    for file in files:
        _refuse_in_record(file)
    searched = 0
    for file in {file.saved.archive.sha256: file for file in files}.values():
        searched = _refuse_in_archive(file, searched)


def _refuse_in_record(file: ChoiceFile) -> None:
    rules = [rule for _, rule in secrets.find(file.document, most=1)]
    for name, value in file.saved.platform.variables.items():
        if rule := secrets.secret_variable(name, value):
            rules.append(rule)
    if rules:
        raise _secret_error(file, f"{file.record} has what looks like a secret ({rules[0]})")


def _refuse_in_archive(file: ChoiceFile, searched: int) -> int:
    """Search an archive; return the number of searched bytes, with those of former archives."""
    paths: list[bytes] = []
    for path, stream in read_files(file.open_archive, file.saved.archive, f"the choices {file.name}"):
        paths.append(path.encode("utf-8", "surrogateescape"))
        searched += len(paths[-1])
        if len(paths) == _MOST_PATHS:
            _refuse_in_paths(file, paths)
            paths.clear()
        for text, is_whole in _list_texts(stream, _MOST_TEXT + 1 - searched):
            searched += len(text)
            if searched > _MOST_TEXT:
                raise DistributionError(
                    f"the texts in the choices of {file.record.parent} have more than {_MOST_TEXT >> 20} MiB, too "
                    "many to look for secrets",
                    hint=f"remove {file.record}, or hand the image over without its choices",
                )
            for line, rule in secrets.find(text, most=1):
                place = f":{line}" if is_whole else ""
                raise _secret_error(
                    file, f"{file.archive}: {display_path(path)}{place} looks like a secret ({rule})"
                )
    _refuse_in_paths(file, paths)
    return searched


def _refuse_in_paths(file: ChoiceFile, paths: Sequence[bytes]) -> None:
    for _, rule in secrets.find(b"\n".join(paths), most=1):
        raise _secret_error(file, f"{file.archive}: the name of a file looks like a secret ({rule})")


def _secret_error(file: ChoiceFile, reason: str) -> DistributionError:
    return DistributionError(
        f"{reason}, and is not handed to others",
        hint=f"remove {file.record}, or hand the image over without its choices",
    )


def _list_texts(stream: IO[bytes], most: int) -> Iterator[tuple[bytes, bool]]:
    """Yield parts of a file to search, each with whether it is the whole file.

    A text is one part, and the words of code are others. A text with NULs has both.

    Args:
        stream: the file.
        most: so many bytes of a text are enough.
    """
    head = stream.read(_HEAD)
    if not _is_text(head):
        yield from _list_words(head, stream)
        return
    text = head + stream.read(max(0, most - len(head)))
    yield text, True
    # It can begin in UTF-16 and go on in ASCII, or the other way.
    if b"\0" in text or text.startswith(_UTF16):
        yield from _list_words(b"", io.BytesIO(text))


def _list_words(head: bytes, stream: IO[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield the words of code in any encoding, of one piece after another."""
    before = b""
    while chunk := head + stream.read(_CHUNK):
        head = b""
        yield b"\n".join(_find_words(before + chunk)), False
        before = chunk[-_OVERLAP:]


def _find_words(code: bytes) -> Iterator[bytes]:
    """Yield each run of letters, also with a NUL between each two, without NULs."""
    classes = code.translate(_CLASSES)
    for start, run in _RUNS:
        at = classes.find(start)
        while at >= 0 and (match := run.match(classes, at)):
            yield code[at : match.end()].replace(b"\0", b"")
            at = classes.find(start, match.end())


def _is_text(head: bytes) -> bool:
    """Return whether a file is a text, by its first bytes; a text may have a few control characters."""
    if b"\0" not in head or head.startswith(_UTF16):
        return True
    fewer, more = sorted((head[::2].count(0), head[1::2].count(0)))
    is_wide = fewer == 0 and more > 0.9 * (len(head) // 2)  # UTF-16 without a mark
    return is_wide or len(head.translate(None, _TEXT)) <= _MOST_CONTROL * len(head)
