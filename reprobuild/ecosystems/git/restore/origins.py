"""Sources of the commits missing in a repository's bundle.

They are the user's address, or a captured remote.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.command import is_local, is_safe
from reprobuild.snapshot.capture_model import CapturedRepository, Remote
from reprobuild.snapshot.parsers.capture_json import unquote_path
from reprobuild_portable import secrets

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")  # of a remote, as part of a ref


class Address(Struct, frozen=True):
    """An address, its remote, and whether the user named it.

    The address may be a path; it has the branches of the remote.
    """

    place: str
    remote: str
    named: bool


def list_addresses(
    repository: CapturedRepository, named: str | None, *, remotes: bool
) -> tuple[Address, ...]:
    """Return the addresses for commits that a remote had.

    Args:
        repository: the captured repository.
        named: the user's address; if given, the only one.
        remotes: without that address, use the remotes. A path may be anyone's repository: the user must name
            it.
    """
    if named is not None:
        return (Address(named, "origin", True),)
    if not remotes or not repository.prerequisites:
        return ()
    return tuple(
        Address(remote.url, remote.name, False)
        for remote in repository.remotes
        if is_remote_name(remote.name) and is_safe(remote.url) and not is_local(remote.url)
    )


def is_remote_name(name: str) -> bool:
    """Return whether a name can be that of a remote.

    It must also be valid as a directory of refs.
    """
    return bool(_NAME.fullmatch(name)) and ".." not in name and not name.endswith((".", ".lock"))


def format_remotes(remotes: Iterable[Remote]) -> str:
    """Return the remotes as sections of a configuration; `git config` would write the whole file for each value."""
    addresses = {
        remote.name: remote.url for remote in remotes if is_remote_name(remote.name) and is_safe(remote.url)
    }
    sections = []
    for name, url in addresses.items():
        quoted = url.replace("\\", "\\\\").replace('"', '\\"')
        sections.append(
            f'[remote "{name}"]\n\turl = "{quoted}"\n\tfetch = +refs/heads/*:refs/remotes/{name}/*\n'
        )
    return "".join(sections)


def display_address(place: str) -> str:
    """Return an address for display, without user and password."""
    return secrets.without_logins(place)


def missing_commit_error(
    repository: CapturedRepository, oid: str, candidates: Sequence[Address], refused: Sequence[str]
) -> SnapshotError:
    """Return the error for a commit that no address has."""
    if any(address.named for address in candidates):
        where = f"not in {escape_text(display_address(candidates[0].place))}"
    else:
        notes = "".join(f"\n  {secrets.redact(escape_text(line))}" for line in refused)
        where = f"not in the snapshot: a remote had it{notes}"
    known = ", ".join(display_address(remote.url) for remote in repository.remotes)
    return SnapshotError(
        f"commit {oid[:12]} of {repository.name} is {where}",
        hint=f"name a clone or an address that has it: --source {_source_option(repository)}; the remotes were: "
        f"{escape_text(known) or 'none'}",
    )


def _source_option(repository: CapturedRepository) -> str:
    """Return the argument of `--source` for this machine's clone.

    It is a template if the clone is not at its captured path any more.
    """
    folder = unquote_path(repository.folder).decode("utf-8", "surrogateescape")
    try:
        is_clone = folder.startswith("/") and (Path(folder) / ".git").exists()
    except (OSError, ValueError):  # another user's, or not a valid name of a directory here
        is_clone = False
    return (
        shlex.quote(f"{repository.name}={escape_text(folder)}")
        if is_clone
        else f"{shlex.quote(repository.name)}=PATH|URL"
    )
