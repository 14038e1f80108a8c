"""Leftovers of package installation that are removed from the base.

Each line has its reason.

Each line is needed: without it two installations of the same packages differ (`python -m proof ablation` shows it,
docs/proof.md has the table). Files that come out the same each time stay, even if they are of no use: backups of
`/etc/passwd` and of dpkg's files, lock files, the catalogue of journald.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.infra.tar.entries import TarEntry


class CleanupRule(Struct, frozen=True, kw_only=True):
    """A pattern of regular files to remove or to empty.

    In a pattern, `*` is any text without `/`, and `**` any text.
    """

    pattern: str
    why: str
    action: Literal["remove", "empty"] = "remove"

    def matches(self, path: str) -> bool:
        """Return whether the pattern matches a path without leading slash."""
        parts = re.split(r"(\*\*|\*)", self.pattern)
        ways = {"**": ".*", "*": "[^/]*"}
        return re.fullmatch("".join(ways.get(part) or re.escape(part) for part in parts), path) is not None


LEFTOVERS: tuple[CleanupRule, ...] = (
    CleanupRule(pattern="var/log/**", why="when each package was installed, when each alternative was set"),
    CleanupRule(
        pattern="var/cache/man/**index.db", why="gdbm lays it out by the file system's blocks; `mandb` makes it"
    ),
    CleanupRule(pattern="var/cache/ldconfig/aux-cache", why="inode numbers and times of libraries, for ldconfig alone"),
    CleanupRule(pattern="etc/ssh/ssh_host_*", why="secret keys of one machine; sshd's unit makes them where it starts"),
    CleanupRule(pattern="var/lib/dbus/machine-id", why="the identity of one machine"),
    CleanupRule(
        pattern="etc/machine-id", why="the identity of one machine; empty, systemd makes one", action="empty"
    ),
)  # fmt: skip


def leftover_of(entry: TarEntry, known: Sequence[CleanupRule] = LEFTOVERS) -> CleanupRule | None:
    """Return the leftover that matches an entry, or None."""
    if entry.type not in ("file", "hardlink"):
        return None
    return next((line for line in known if line.matches(entry.path)), None)
