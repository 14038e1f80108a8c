"""Decode captured files to lines, and make remarks on them."""

from __future__ import annotations

import codecs
import re

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import shown
from reprobuild.snapshot.model import Place, Remark
from reprobuild_portable import secrets

LIMIT = 64 * 2**20
LINES = 50_000  # of a list or dump; a full system has some thousands of packages
_LONGEST_NOISE = 500
LONGEST_ROW = 4000  # of a list of packages or modules; patterns may be slow on longer ones

_PROMPT = re.compile(
    r"(\(\S+\)\s*)?"  # a virtual environment
    r"(\[[^\]]*\]\s?[$#%>]|[\w.-]+@[\w.-]+\S*\s?(\S{1,40}\s?)?[$#%>]|(PS )?[A-Za-z]:\\[^>]*>|[$❯➜%])(\s.*)?"
)
_COMMAND = re.compile(
    r"\W{0,3}(sudo\s+)?("
    r"apt\s+list|apt-cache|dpkg(-query)?\s+-|(python\S*\s+-m\s+)?(uv\s+)?pip[\d.]*\s+(freeze|list)|conda\s+(list|env)"
    r"|module\s+(-t\s+)?(list|load|purge)|ml\s+list|/?(\S*/)?printenv(\s*\||\s*$)|env\s*(\||$)|git\s+diff"
    r")(\s.*)?"
)
_ABSENT = re.compile(r"(\S+: )*(line \d+: )?\S+: (command )?not found|.*: No such file or directory")


def broken(place: Place | str, what: str, hint: str) -> SnapshotError:
    """Return the error that names file and line; the caller raises it."""
    return SnapshotError(f"{place}: {what}", hint=hint)


def remark(
    file: str, line: int, text: str, reason: str, *, understood: bool = True, lines: int = 1
) -> Remark:
    """Return a remark whose text may be printed."""
    return Remark(
        place=Place(file, line), text=shown(text.strip()), reason=reason, understood=understood, lines=lines
    )


def check_size(size: int, file: str) -> None:
    """Raise SnapshotError for a file that cannot be the output of a capture command."""
    if size > LIMIT:
        raise broken(
            file,
            f"{size} bytes are more than the {LIMIT // 2**20} MiB that a captured file may have",
            "look at what wrote it; a list of packages or variables is a few hundred kilobytes",
        )


def check_lines(count: int, file: str) -> None:
    """Raise SnapshotError for more lines than a capture command prints: each costs some microseconds."""
    if count > LINES:
        raise broken(
            file,
            f"{count} lines are more than the {LINES} that a captured list may have",
            "look at what wrote it; a full system has some thousands of packages",
        )


def decode(data: bytes, file: str, *, nul: bool = False) -> str:
    """Return the text of a captured file: UTF-8, or UTF-8 or UTF-16 with a byte order mark.

    Args:
        data: the bytes of the file.
        file: its name, for errors.
        nul: whether NUL may stand in it, as in the output of `env -0`.

    Raises:
        SnapshotError: it is too large, has too many lines, is not text, or holds a NUL that it must not hold.
    """
    check_size(len(data), file)
    check_lines(data.count(b"\n"), file)
    encoding = "utf-8"
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as err:
        line = data[: err.start].decode(encoding, "replace").count("\n") + 1
        raise broken(
            Place(file, line),
            f"byte {err.start} is not {encoding.upper()} text",
            "save the file as UTF-8 (`iconv -f LATIN1 -t UTF-8`), or capture again with LC_ALL=C.UTF-8",
        ) from None
    check_nul(text, file, nul=nul)
    return text


def check_nul(text: str, file: str, *, nul: bool) -> None:
    """Raise SnapshotError for a NUL that must not be there, or so many that it is UTF-16 without its mark."""
    wide = text[:2000].count("\0") * 3 > len(text[:2000])
    if "\0" in text and (not nul or wide):
        raise broken(
            Place(file, text.count("\n", 0, text.index("\0")) + 1),
            "there is a NUL byte in what must be text",
            "the file looks like UTF-16 without its mark: save it as UTF-8"
            if wide
            else "the file is damaged or binary: capture it again",
        )


def split(text: str) -> list[str]:
    """Return the lines of `text`, LF or CRLF; nothing else ends a line, so that numbers agree with editors."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def lines(data: bytes, file: str) -> list[str]:
    """Return the lines of a captured file; see `decode` for what is raised."""
    return split(decode(data, file))


def nothing(file: str, rows: list[str]) -> tuple[Remark, ...]:
    """Return the remark on a file without a single written line; none for others."""
    if any(row.strip() for row in rows):
        return ()
    return (
        remark(
            file, 1, "", "the file is empty: the command that should fill it gave nothing", understood=False
        ),
    )


def noise(file: str, number: int, line: str) -> Remark | None:
    """Return the remark on what shells leave in any captured file (prompts, commands, errors), or None."""
    text = line.strip()
    if len(text) > _LONGEST_NOISE:
        return None
    if _PROMPT.fullmatch(text):
        return remark(file, number, text, "a shell prompt")
    if _COMMAND.fullmatch(text):
        return remark(file, number, text, "the command that was typed")
    if _ABSENT.fullmatch(text):
        return remark(file, number, text, "the capture command failed", understood=False)
    return None


def leak(file: str, number: int, line: str) -> Remark | None:
    """Return the remark on a secret where none belongs, or None; its line gives no value then."""
    if secrets.secret_value(line) is None:
        return None
    return remark(file, number, line, "a secret in a list that should hold none: not read", understood=False)
