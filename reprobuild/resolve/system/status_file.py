"""The stanzas of dpkg's status file in an image, within bounds.

python-debian takes 165 times the bytes of a field as memory, and an image of some kilobytes can have such a field of
gigabytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import chain

from debian.deb822 import Deb822

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.names import HOSTILE

# A desktop with 3,000 packages has 5 MB, and the longest stanza of Debian 12 some 50 kB, for its list of conffiles.
LARGEST_STATUS = 16 << 20
_LARGEST_STANZA = 1 << 20
_MOST_STANZAS = 100_000  # Debian 12 has 63,666 packages
# All packages of Debian 12 together have 287,900 requirements.
_MOST_RELATIONS = 300_000
_RELATIONS = ("Pre-Depends", "Depends", "Provides", "Conflicts", "Breaks")


def read_stanzas(status: bytes, origin: str) -> Iterator[Deb822]:
    """Yield the stanzas of a status file, in order.

    Args:
        status: its content, of at most `LARGEST_STATUS` bytes.
        origin: the name of the image for the user.

    Raises:
        BuildError: it has too many or too large stanzas, or too many relations.
    """
    left = _MOST_RELATIONS
    for lines in _split_stanzas(status, origin):
        fields = Deb822(lines)
        for name in _RELATIONS:
            text = fields.get(name, "")
            left -= text.count(",") + text.count("|") + bool(text)
        if left < 0:
            raise _bound_error(origin, f"more than {_MOST_RELATIONS} relations")
        yield fields


def _split_stanzas(status: bytes, origin: str) -> Iterator[list[str]]:
    """Yield the lines of each stanza."""
    lines: list[str] = []
    size = count = 0
    for line in chain(io.BytesIO(status), (b"\n",)):
        size += len(line)
        if not line.isspace():
            if size > _LARGEST_STANZA:
                raise _bound_error(origin, f"a stanza of more than {_LARGEST_STANZA} bytes")
            lines.append(line.decode(errors="replace").rstrip("\r\n"))
            continue
        if lines:
            count += 1
            if count > _MOST_STANZAS:
                raise _bound_error(origin, f"more than {_MOST_STANZAS} stanzas")
            yield lines
        lines, size = [], 0


def _bound_error(origin: str, excess: str) -> BuildError:
    return BuildError(f"the list of packages of {origin} has {excess}", hint=HOSTILE)
