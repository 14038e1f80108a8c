"""Unpacked sizes of a captured diff, before git holds it.

A few bytes can state gigabytes.

Git keeps the result of each file of a diff in memory. The size of a result is in the diff: of a literal in its header,
of a delta at the beginning of its packed bytes (https://git-scm.com/docs/pack-format, "Deltified representation"). A
text, a copy and a renamed file are as large as the file before.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator, Sequence

from reprobuild.ecosystems.git.tree_listing import Blob
from reprobuild.errors import LockError
from reprobuild.infra.untrusted.git_packs import read_number
from reprobuild.infra.untrusted.names import HOSTILE, most_bytes
from reprobuild.snapshot.model import Patch

# As git reads it: by the beginning of the line, and with strtoul(3).
_SECTION = re.compile(rb"(literal|delta)\s+([+-]?)(\d+)")
_DIGITS = 19  # of a size; more overflow
_HUGE = 1 << 64
_HEADER = 20  # bytes of a delta's two sizes, seven bits in each


def check_patch(patch: Patch, blobs: Sequence[Blob], packed: int, name: str) -> None:
    """Refuse a diff that unpacks to more than `most_bytes`.

    The limit is computed from the diff and its repository.

    Args:
        patch: the diff.
        blobs: of the commit that it is applied to, with sizes.
        packed: bytes of the repository's objects, without those of the diff.
        name: of the source.

    Raises:
        LockError: it is a decompression bomb, or a delta in it is damaged.
    """
    total = measure_unpacked_size(patch, {blob.path: blob.size for blob in blobs})
    if total > most_bytes(packed + len(patch.content)):
        raise LockError(
            f"{patch.file} has {len(patch.content)} bytes, the repository of {name} has {packed}, and the files of "
            f"the diff unpack to {total} bytes",
            hint=HOSTILE,
        )


def measure_unpacked_size(patch: Patch, sizes: dict[str, int]) -> int:
    """Return the total bytes of a diff's results and packed parts."""
    rows = patch.content.split(b"\n")
    forward: set[int] = set()
    owners: set[int] = set()  # the first lines of files with packed parts
    start = 0
    for number, row in enumerate(rows, 1):
        if row.startswith(b"diff --git "):
            start = number
        elif row.rstrip(b"\r") == b"GIT binary patch":
            forward.add(number)  # the index of the next row
            owners.add(start)
    text = [file for file in patch.files if file.new_path and file.line not in owners]
    old_size = sum(sizes.get(file.old_path or "", 0) for file in text)
    return old_size + sum(_packed_part_sizes(rows, forward, patch.file))


def _packed_part_sizes(rows: Sequence[bytes], forward: set[int], file: str) -> Iterator[int]:
    """Yield the sizes that each packed part states.

    git unpacks the reverse of a delta, but does not apply it.
    """
    for number, row in enumerate(rows):
        if match := _SECTION.match(row):
            negative, digits = match[2] == b"-", match[3].lstrip(b"0")
            yield _HUGE if negative or len(digits) > _DIGITS else int(digits or b"0")
            if match[1] == b"delta" and number in forward:
                yield _delta_result_size(rows, number + 1, file)


def _delta_result_size(rows: Sequence[bytes], at: int, file: str) -> int:
    """Return the size of a delta's result.

    Only the two sizes at its start are unpacked.
    """
    line, header, inflate = at, b"", zlib.decompressobj()
    try:
        while len(header) < _HEADER and not inflate.eof and (row := rows[at].rstrip(b"\r")):
            at += 1
            size = row[0] - (64 if row[0] < 97 else 70)  # as the reader of the snapshot has checked
            header += inflate.decompress(base64.b85decode(row[1:])[:size], _HEADER - len(header))
        _, rest = read_number(header)
        return read_number(rest)[0]
    except (ValueError, IndexError, zlib.error):
        raise LockError(f"{file}:{line}: a damaged delta of a binary file", hint=HOSTILE) from None
