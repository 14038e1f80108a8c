"""Fetching of a line's commit into a scratch repository.

The address is the user's override, or else the line's own.
"""

from __future__ import annotations

import shlex

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import LockError, ReproError
from reprobuild.infra.git.addresses import HEAD, RepositoryAddress, without_login
from reprobuild.snapshot.model import Requirement
from reprobuild_portable import secrets


class NotFetchedError(LockError):
    """The repository or the commit of a source is unavailable."""


def fetch_commit(
    repository: GitRepository, line: Requirement, origin: RepositoryAddress | None, commit: str
) -> str:
    """Fetch the commit into the scratch repository.

    Return its full id.

    Raises:
        NotFetchedError: it is unavailable.
        LockError: the user names another commit than the freeze.
    """
    place = origin.place if origin else line.url
    hint = f"name a bundle, a clone or another remote with --source {shlex.quote(line.name)}=PATH|URL"
    try:
        if origin and origin.local is not None:
            if not origin.local.exists():
                shown = without_login(str(origin.local))
                raise NotFetchedError(f"the source of {line.name}, {shown}, does not exist", hint=hint)
            repository.fetch_local(origin.local, head=HEAD in (commit, origin.revision))
        else:
            assert place is not None
            repository.fetch_remote(
                _git_address(line, place), commit, configured=origin is not None and origin.confirmed
            )
    except LockError:
        raise
    except ReproError as err:
        raise NotFetchedError(
            f"the repository of {line.name} cannot be had: {secrets.redact(str(err))}", hint=hint
        ) from None
    full = repository.commit(commit, refs=line.commit is None)
    if full is None:
        raise NotFetchedError(
            f"commit {commit[:12]} of {line.name} is not in {secrets.redact(without_login(place or ''))}",
            hint=hint if origin and origin.local and not line.commit else f"was it ever pushed? {hint}",
        )
    if origin and origin.revision and repository.commit(origin.revision) not in (full, None):
        raise LockError(
            f"the freeze names commit {full[:12]} of {line.name}, and --source names {origin.revision}",
            hint="leave the revision out: the captured commit is taken",
        )
    return full


def _git_address(line: Requirement, place: str) -> str:
    """Return the address for git, without the `git+` of a freeze."""
    scheme, plus, _ = place.partition("://")[0].partition("+")
    if plus and scheme != "git":
        raise NotFetchedError(
            f"{line.place}: {line.name} comes from a {scheme} repository, and only git's can be read",
            hint=f"convert it to git, and name the copy with --source {shlex.quote(line.name)}=PATH@REV",
        )
    return place.removeprefix("git+")
