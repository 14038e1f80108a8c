"""Decoding of captured files to lines, and remarks on them."""

from __future__ import annotations

import codecs
import hashlib
import re
from functools import lru_cache

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_message, display_text
from reprobuild.snapshot.model import ParseNote, SourceLocation
from reprobuild_portable import secrets

LIMIT = 64 * 2**20
LINES = 50_000  # of a list or dump; a full system has some thousands of packages
_LONGEST_NOISE = 500
VALUES = 1_000_000  # of a document; a large lock has some 100,000, and each needs up to a hundred bytes
# Linux passes a quarter of the stack's limit to a program, 2 MiB of 8 (linux, fs/exec.c). The rules for secrets need
# ten seconds for each MiB that is made for them.
ENVIRONMENT = 2 << 20
LONGEST_ROW = 4000  # of a list of packages or modules; patterns may be slow on longer ones

_PROMPT = re.compile(
    r"(\(\S+\)\s*)?"  # a virtual environment
    r"(\[[^\]]*\]\s?[$#%>]|[\w.-]+@[\w.-]\S*(\s\S{1,40})?\s?[$#%>]|(PS )?[A-Za-z]:\\[^>]*>|[$❯➜%])(\s.*)?"
)
_COMMAND = re.compile(
    r"\W{0,3}(sudo\s+)?("
    r"apt\s+list|apt-cache|dpkg(-query)?\s+-|(python\S*\s+-m\s+)?(uv\s+)?pip[\d.]*\s+(freeze|list)|conda\s+(list|env)"
    r"|module\s+(-t\s+)?(list|load|purge)|ml\s+list|/?(\S*/)?printenv(\s*\||\s*$)|env\s*(\||$)|git\s+diff"
    r")(\s.*)?"
)
_ABSENT = re.compile(r"(\S+: )*(line \d+: )?\S+: (command )?not found|.*: No such file or directory")


def parse_error(place: SourceLocation | str, message: str, hint: str) -> SnapshotError:
    """Return an error that names file and line, for raising."""
    return SnapshotError(f"{place}: {message}", hint=hint)


def remark(
    file: str, line: int, text: str, reason: str, *, understood: bool = True, lines: int = 1
) -> ParseNote:
    """Return a remark; its text may be printed."""
    return ParseNote(
        place=SourceLocation(file, line),
        text=display_text(text.strip()),
        reason=_display_reason(reason),
        understood=understood,
        lines=lines,
    )


def hash_item(item: str) -> str:
    """Return the sha256 of a whole item, or "" if a secret is in it.

    A text for display is shortened and escaped, so two items can have one.
    """
    if secrets.redact(item) != item:
        return ""
    return hashlib.sha256(item.encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=256)  # most are constants
def _display_reason(reason: str) -> str:
    return display_message(reason)


def check_size(size: int, file: str) -> None:
    """Refuse a file too large for the output of a capture command."""
    if size > LIMIT:
        raise parse_error(
            file,
            f"{size} bytes are more than the {LIMIT // 2**20} MiB that a captured file may have",
            "look at what wrote it; a list of packages or variables is a few hundred kilobytes",
        )


def check_lines(count: int, file: str) -> None:
    """Refuse more lines than a capture command prints.

    Each line costs some microseconds.
    """
    if count > LINES:
        raise parse_error(
            file,
            f"{count} lines are more than the {LINES} that a captured list may have",
            "look at what wrote it; a full system has some thousands of packages",
        )


def check_environment(size: int, file: str) -> None:
    """Refuse more variables than Linux passes to a program."""
    if size > ENVIRONMENT:
        raise parse_error(
            file,
            f"the variables have more than the {ENVIRONMENT >> 20} MiB that Linux passes to a program",
            "write them again where the job runs: `env -0 > env.nul`",
        )


def check_values(document: str, file: str) -> None:
    """Refuse JSON or TOML with more values than a document of a job has.

    They are counted before the document is read: two bytes can need a hundred in memory.
    """
    if sum(map(document.count, "[{,")) > VALUES:
        raise parse_error(
            file,
            f"there are more than {VALUES} values in it",
            "look at what wrote it; a lock or the metadata of a run has some thousands",
        )


def decode(data: bytes, file: str, *, nul: bool = False) -> str:
    """Return the text of a captured file.

    It is UTF-8, or UTF-8 or UTF-16 with a byte order mark.

    Args:
        data: the bytes of the file.
        file: its name, for errors.
        nul: whether NUL may be in it, as in the output of `env -0`.

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
        raise parse_error(
            SourceLocation(file, line),
            f"byte {err.start} is not {encoding.upper()} text",
            "save the file as UTF-8 (`iconv -f LATIN1 -t UTF-8`), or capture again with LC_ALL=C.UTF-8",
        ) from None
    check_nul(text, file, nul=nul)
    return text


def check_nul(text: str, file: str, *, nul: bool) -> None:
    """Refuse a misplaced NUL, or UTF-16 without its mark.

    The second is recognised by many NULs.
    """
    wide = text[:2000].count("\0") * 3 > len(text[:2000])
    if "\0" in text and (not nul or wide):
        raise parse_error(
            SourceLocation(file, text.count("\n", 0, text.index("\0")) + 1),
            "there is a NUL byte in what must be text",
            "the file looks like UTF-16 without its mark: save it as UTF-8"
            if wide
            else "the file is damaged or binary: capture it again",
        )


def split_lines(text: str) -> list[str]:
    """Return the lines of a text, LF or CRLF.

    Other characters do not end a line, so that numbers agree with editors.
    """
    return [line.removesuffix("\r") for line in text.split("\n")]


def decode_lines(data: bytes, file: str) -> list[str]:
    """Return the lines of a captured file; for errors see `decode`."""
    return split_lines(decode(data, file))


def empty_file_remarks(file: str, rows: list[str]) -> tuple[ParseNote, ...]:
    """Return the remark on a file without any text; else an empty tuple."""
    if any(row.strip() for row in rows):
        return ()
    return (
        remark(
            file, 1, "", "the file is empty: the command that should fill it gave nothing", understood=False
        ),
    )


def noise_remark(file: str, number: int, line: str) -> ParseNote | None:
    """Return the remark on shell output in a captured file, or None.

    Such lines are prompts, commands and errors.
    """
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


def secret_remark(file: str, number: int, line: str) -> ParseNote | None:
    """Return the remark on a misplaced secret, or None.

    Its line gives no value then.
    """
    if secrets.secret_value(line) is None:
        return None
    return remark(file, number, line, "a secret in a list that should hold none: not read", understood=False)
