"""Where a repository is: a path or an address."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.decisions import without_login
from reprobuild.restore.git import is_local
from reprobuild.secrets import strip_credentials
from reprobuild.snapshot.text import escaped


class Origin(Struct, frozen=True, kw_only=True):
    """Where a repository is: a path or an address, and a revision where one is given.

    `confirmed` says that the user named it, by an option or in a file named by one: any login of the user may go to it.
    """

    place: str
    local: Path | None
    revision: str | None
    confirmed: bool = True

    @property
    def address(self) -> str:
        """Return what a lock may keep of the place: an address of a server, without credentials."""
        if self.local is not None or is_local(self.place):
            return ""
        return strip_credentials(self.place)[0]


def of_this_machine(origins: Mapping[str, Origin]) -> tuple[str, ...]:
    """Return a line for each repository that is read from the disk, by its name: `NAME from this machine: PATH`."""
    return tuple(
        f"{name} from this machine: {escaped(without_login(str(origin.local or origin.place)))}"
        for name, origin in sorted(origins.items())
        if origin.local is not None or is_local(origin.place)
    )


def read_origin(text: str, folder: Path, *, confirmed: bool = True) -> Origin:
    """Read `PATH`, `URL` or either with `@REV`. Relative paths start at `folder`."""
    place, at, revision = text.rpartition("@")
    if not at or "/" in revision or ":" in revision:
        place, revision = text, ""
    remote = "://" in place or place.startswith("git@")
    local = None if remote else (folder / Path(place).expanduser())
    return Origin(place=place, local=local, revision=revision or None, confirmed=confirmed)
