"""Locations of repositories: paths and addresses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.command import is_local
from reprobuild_portable.secrets.redact import strip_credentials
from reprobuild_portable.secrets.words import GONE

HEAD = "HEAD"  # the commit that a repository has checked out
# `user:password@host:path` is not an address of git: it is a path, but people may have meant an address.
_LOGIN = re.compile(r"(?<![^/])[^/:@\s]+:[^@\s]+@(?=[^/:@\s]+:)")


class RepositoryAddress(Struct, frozen=True, kw_only=True):
    """The location of a repository, maybe with a revision.

    The place is a path or an address. `confirmed` is true if the user named it, by an option or in a file
    named by one: any login of the user may be sent to it.
    """

    place: str
    local: Path | None
    revision: str | None
    confirmed: bool = True

    @property
    def is_remote(self) -> bool:
        """Whether the place is a server's address.

        Then no file of this machine is read for it.
        """
        return self.local is None and not is_local(self.place.removeprefix("git+"))  # as in a freeze

    @property
    def chosen_revision(self) -> str | None:
        """Return the revision to take if a freeze names none: of a path of this machine it is HEAD, if not named."""
        return self.revision or (HEAD if self.local is not None else None)

    @property
    def address(self) -> str:
        """Return the server's address for the lock, without credentials.

        It is empty for a local place.
        """
        return strip_credentials(self.place)[0] if self.is_remote else ""


def local_origin_lines(origins: Mapping[str, RepositoryAddress]) -> tuple[str, ...]:
    """Return a line for each repository read from the disk.

    They are sorted by name: `NAME from this machine: PATH`.
    """
    return tuple(
        f"{name} from this machine: {escape_text(without_login(str(origin.local or origin.place)))}"
        for name, origin in sorted(origins.items())
        if not origin.is_remote
    )


def read_origin(text: str, folder: Path, *, confirmed: bool = True) -> RepositoryAddress:
    """Return the location in `PATH`, `URL` or either with `@REV`.

    Relative paths start at `folder`. A branch may have slashes, unless a path has the whole text as its name.

    Raises:
        UsageError: a path starts at the home directory of a user that this machine does not know.
    """
    place, at, revision = text.rpartition("@")
    if not at or ":" in revision or ("/" in revision and not _is_repository(place, text, folder)):
        place, revision = text, ""
    remote = _is_remote(place)
    local = None if remote else folder / _expand_home(place)
    return RepositoryAddress(place=place, local=local, revision=revision or None, confirmed=confirmed)


def _is_remote(place: str) -> bool:
    return "://" in place or place.startswith("git@")


def _is_repository(place: str, text: str, folder: Path) -> bool:
    """Tell whether the part before the last `@` of a text is a repository, so that a branch with slashes follows."""
    if _is_remote(place):
        path = place.partition("://")[2].partition("/")[2] if "://" in place else place.partition(":")[2]
        return bool(path.strip("/")) and not place.endswith("/")
    return (folder / _expand_home(place)).is_dir() and not (folder / _expand_home(text)).exists()


def _expand_home(path: str) -> Path:
    """Return a path with its leading `~` expanded.

    pathlib would expand `./~`, too.
    """
    if not path.startswith("~"):
        return Path(path)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = escape_text(path.partition("/")[0])
        raise UsageError(
            f"the home directory of {user} is not known here",
            hint=f"write the whole path, or {shlex.quote(f'./{user}')} for a directory of that name",
        ) from None


def without_login(place: str) -> str:
    """Return a repository's address or path without user and password."""
    return strip_credentials(place if "://" in place else _LOGIN.sub(f"{GONE}@", place))[0]
