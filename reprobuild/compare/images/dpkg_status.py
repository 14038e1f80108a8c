"""The packages in dpkg's status file of an image, within bounds.

An image of some kilobytes can have such a file of millions of lines, so one stanza at a time is in memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from msgspec import Struct

# A desktop with 3,000 packages has 5 MB. All of Debian 12 has 63,666 packages.
LARGEST_STATUS = 16 << 20
MOST_PACKAGES = 100_000
_FIELD = re.compile(rb"(Package|Status|Version|Architecture): ([^\r\n]*)")


class DpkgPackage(Struct, frozen=True):
    """A stanza of the file; a field that it lacks is ""."""

    name: str
    version: str
    architecture: str
    is_installed: bool


class DpkgStatus(Struct, frozen=True):
    """The packages of a status file.

    `is_complete` is False if it has more than `MOST_PACKAGES`.
    """

    packages: tuple[DpkgPackage, ...]
    is_complete: bool


def read_status(lines: Iterable[bytes]) -> DpkgStatus:
    """Return the packages in the lines of a status file.

    It is deb822, and the needed fields have one line each.
    """
    stanzas = _read_stanzas(lines)
    packages = tuple(islice(stanzas, MOST_PACKAGES))
    return DpkgStatus(packages, is_complete=next(stanzas, None) is None)


def _read_stanzas(lines: Iterable[bytes]) -> Iterator[DpkgPackage]:
    """Yield the stanzas that name a package."""
    fields: dict[bytes, str] = {}
    for line in chain(lines, (b"\n",)):
        if match := _FIELD.match(line):
            fields[match[1]] = match[2].decode("utf-8", "replace")
        elif line in (b"\n", b"\r\n"):
            if name := fields.get(b"Package"):
                version, architecture = fields.get(b"Version", ""), fields.get(b"Architecture", "")
                yield DpkgPackage(
                    name, version, architecture, fields.get(b"Status", "").endswith(" installed")
                )
            fields = {}
