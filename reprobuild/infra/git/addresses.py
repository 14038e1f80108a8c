"""Where a repository is: a path or an address."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.display import escaped
from reprobuild.infra.git.command import is_local
from reprobuild_portable.secrets import GONE, strip_credentials

# `user:password@host:path`, which git does not know: it is a path, where people may have meant an address.
_LOGIN = re.compile(r"(?<![^/])[^/:@\s]+:[^@\s]+@(?=[^/:@\s]+:)")


class Origin(Struct, frozen=True, kw_only=True):
    """Where a repository is: a path or an address, and a revision where one is given.

    `confirmed` says that the user named it, by an option or in a file named by one: any login of the user may go to it.
    """

    place: str
    local: Path | None
    revision: str | None
    confirmed: bool = True

    @property
    def is_remote(self) -> bool:
        """Whether the place is an address of a server, so that nothing of this machine is read for it."""
        return self.local is None and not is_local(self.place.removeprefix("git+"))  # as a freeze has it

    @property
    def address(self) -> str:
        """Return what a lock may keep of the place: an address of a server, without credentials."""
        return strip_credentials(self.place)[0] if self.is_remote else ""


def of_this_machine(origins: Mapping[str, Origin]) -> tuple[str, ...]:
    """Return a line for each repository that is read from the disk, by its name: `NAME from this machine: PATH`."""
    return tuple(
        f"{name} from this machine: {escaped(without_login(str(origin.local or origin.place)))}"
        for name, origin in sorted(origins.items())
        if not origin.is_remote
    )


def read_origin(text: str, folder: Path, *, confirmed: bool = True) -> Origin:
    """Read `PATH`, `URL` or either with `@REV`. Relative paths start at `folder`.

    Raises:
        UsageError: a path starts at the home directory of a user that this machine does not know.
    """
    place, at, revision = text.rpartition("@")
    if not at or "/" in revision or ":" in revision:
        place, revision = text, ""
    remote = "://" in place or place.startswith("git@")
    local = None if remote else folder / _expanded(place)
    return Origin(place=place, local=local, revision=revision or None, confirmed=confirmed)


def _expanded(path: str) -> Path:
    """Return a path with the `~` at its begin put in full; pathlib would do so with `./~`, too."""
    if not path.startswith("~"):
        return Path(path)
    try:
        return Path(path).expanduser()
    except RuntimeError:
        user = escaped(path.partition("/")[0])
        raise UsageError(
            f"the home directory of {user} is not known here",
            hint=f"write the whole path, or {shlex.quote(f'./{user}')} for a folder of that name",
        ) from None


def without_login(place: str) -> str:
    """Return an address or a path of a repository without user and password."""
    return strip_credentials(place if "://" in place else _LOGIN.sub(f"{GONE}@", place))[0]
