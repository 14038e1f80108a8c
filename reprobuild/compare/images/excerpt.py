"""The first difference of two contents, as text without secrets.

It shows only files that everyone may read.
"""

from __future__ import annotations

from reprobuild.infra.tar.entries import TarEntry
from reprobuild_portable import secrets

LONGEST_LINE = 4096
LARGEST = 2**20  # the search for secrets takes some seconds for a file of this size
SHOWN = 100
PRIVATE = frozenset(
    {".netrc", ".pgpass", ".git-credentials", ".npmrc", ".pypirc", "credentials", "machine-id", "config.json"}
)


def quoting_obstacle(path: str, first: TarEntry, second: TarEntry, contents: tuple[bytes, bytes]) -> str:
    """Return "" if two contents may be quoted, else the reason."""
    if not first.mode & second.mode & 0o004:
        return "not everybody may read it"
    if path.rpartition("/")[2] in PRIVATE:
        return "files of this name hold secrets"
    if max(len(content) for content in contents) > LARGEST:
        return f"it has more than {LARGEST // 2**20} MiB"
    rules = sorted({rule for content in contents for _, rule in secrets.find(content)})
    return f"it holds what looks like a secret ({', '.join(rules)})" if rules else ""


def quote_difference(first: bytes, second: bytes, *, quote: bool) -> str:
    """Return the first difference of two contents.

    It is the line with both texts, or the byte; without texts if not `quote`.
    """
    at = first_difference(first, second)
    lines = [_line_around(side, at) for side in (first, second)]
    number = first.count(b"\n", 0, at) + 1
    if lines[0] is None or lines[1] is None or not _is_text(first) or not _is_text(second):
        return f"from byte {at} of {len(first)} and {len(second)}"
    if not quote:
        return f"from line {number}"
    texts = [secrets.redact(line) for line in lines if line is not None]
    if texts[0] == texts[1]:
        return f"line {number} differs in what looks like a secret or in its end"
    parts = _shorten_lines(texts[0], texts[1])
    return f"line {number}: {parts[0]!r} and {parts[1]!r}"


def first_difference(first: bytes, second: bytes) -> int:
    """Return the offset of the first byte that differs."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # equal up to `low`, and not equal up to `high` or at its end
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _is_text(content: bytes) -> bool:
    return b"\0" not in content[: 1 << 16]


def _line_around(content: bytes, at: int) -> str | None:
    """Return the line around a byte, or None.

    None means that it is too long or not UTF-8.
    """
    start, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
    line = content[start : end if end >= 0 else len(content)]
    try:
        return line.decode() if len(line) <= LONGEST_LINE else None
    except UnicodeDecodeError:
        return None


def _shorten_lines(first: str, second: str) -> tuple[str, str]:
    """Return the parts of two lines around their first difference."""
    same = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    start = max(0, same - SHOWN // 3)

    def cut(line: str) -> str:
        part = line[start : start + SHOWN]
        return f"{'…' if start else ''}{part}{'…' if len(line) > start + SHOWN else ''}"

    return cut(first), cut(second)
