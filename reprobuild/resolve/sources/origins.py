"""Where a repository is: a path or an address."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class Origin(Struct, frozen=True, kw_only=True):
    """Where a repository is: a path or an address, and a revision where one is given."""

    place: str
    local: Path | None
    revision: str | None


def read_origin(text: str, folder: Path) -> Origin:
    """Read `PATH`, `URL` or either with `@REV`. Relative paths start at `folder`."""
    place, at, revision = text.rpartition("@")
    if not at or "/" in revision or ":" in revision:
        place, revision = text, ""
    remote = "://" in place or place.startswith("git@")
    local = None if remote else (folder / Path(place).expanduser())
    return Origin(place=place, local=local, revision=revision or None)
