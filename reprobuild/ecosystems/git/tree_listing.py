"""The files of a git tree, and the bounds of their lists."""

from __future__ import annotations

from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.names import HOSTILE, MOST_MEMBERS

LISTING = 128 << 20  # bytes of git's output, except the files of a tree


class Blob(Struct, frozen=True, kw_only=True):
    """A path of a git tree.

    It has a mode (`100644`, `100755`, `120000`, `160000`), object id, path, and size in bytes (from `sized`).
    """

    mode: str
    id: str
    path: str
    size: int = 0


class Room:
    """The remaining bounds of the lists that form one tree.

    They bound rows, including directories, and bytes.
    """

    def __init__(self) -> None:
        self._rows, self.size = MOST_MEMBERS, LISTING

    def take(self, listing: bytes, above: str) -> None:
        """Count a list whose paths go below the directory `above`.

        Raises:
            LockError: a bound is exceeded.
        """
        rows = listing.count(b"\0")
        self._rows -= rows
        self.size -= len(listing) + rows * len(above.encode("utf-8", "surrogateescape"))
        if self._rows < 0 or self.size < 0:
            raise LockError(
                f"a source and the repositories inside of it hold more than {MOST_MEMBERS} files and directories, "
                f"or {LISTING} bytes of names",
                hint=HOSTILE,
            )
