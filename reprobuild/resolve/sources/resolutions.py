"""Resolutions of source lines, diffs and files."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping

from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_path, escape_text
from reprobuild.infra.git.addresses import RepositoryAddress, without_login
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.lock.model import Resolution
from reprobuild.resolve.sources.patching import fitting_commits
from reprobuild.snapshot.model import Patch, Requirement

NO_SOURCE = "no-source"  # the class of a line without a known commit
_SECRET = "secret-file"  # the class by which all such files are accepted
_NAMED = 10


def rule_diff_without_commit(
    patch: Patch, origin: RepositoryAddress, repository: GitRepository
) -> Resolution:
    """Return the resolution of a diff without a commit.

    It suggests a commit that the diff fits.
    """
    name, commits = canonicalize_name(patch.name), fitting_commits(patch, origin, repository)
    place = shlex.quote(f"{name}={without_login(origin.place)}@{commits[0][:12] if commits else 'COMMIT'}")
    fits = (
        f"; it fits {len(commits)} commits of {without_login(origin.place)}, of which this is the newest"
        if commits
        else ""
    )
    reason = f"nothing tells the commit that {patch.file} was made on; name it with --source {place}{fits}"
    return Resolution(
        file=patch.file, line=0, subject=patch.name, outcome="unresolved", reason=escape_text(reason), kind="stray-diff"
    )  # fmt: skip


def pin_line(line: Requirement, reason: str) -> Resolution:
    """Return the resolution of a locked line."""
    return pin_subject(line.place.file, line.place.line, line.name, reason, line.text)


def pin_subject(file: str, line: int, subject: str, reason: str, captured: str = "") -> Resolution:
    """Return the resolution of a locked line, diff or directory."""
    return Resolution(
        file=file, line=line, subject=subject, outcome="pinned", reason=reason, captured=captured
    )


def rule_line_without_commit(line: Requirement, origin: RepositoryAddress | None) -> Resolution:
    """Return the resolution of a line without a known commit."""
    name, where = shlex.quote(line.name), "PATH@COMMIT"
    if origin:
        reason = f"no commit of {line.name} is known"
        where = f"{shlex.quote(without_login(origin.place))}@COMMIT"
    elif line.url is not None:
        place, named = split_branch(line.url)
        branch = f", but the branch or tag {named}" if named else ""
        reason = f"the line tells no commit of {line.name}{branch}; its repository is {place}"
        where = f"{shlex.quote(place)}@COMMIT"
        if line.commit:
            reason = f"the repository of {line.name} is {place}, and a snapshot opens no repository of this machine"
            where = shlex.quote(place)
    else:
        reason = f"the repository of {line.name} is in no file of the snapshot"
    return Resolution(
        file=line.place.file, line=line.place.line, subject=line.name, outcome="unresolved",
        reason=f"{reason}; name it with --source {name}={where}", kind=NO_SOURCE, captured=line.text,
    )  # fmt: skip


def split_branch(url: str) -> tuple[str, str]:
    """Return the repository and the branch or tag of a line's address; the second is empty if it names none."""
    scheme, mark, rest = url.removeprefix("git+").partition("://")
    host, slash, path = rest.partition("/")  # the host may have a user's name, and a branch slashes
    path, _, named = path.partition("@")
    return f"{scheme}{mark}{host}{slash}{path}", named


def rule_stray_diff(patch: Patch) -> Resolution:
    """Return the resolution of a diff that fits no source."""
    name = canonicalize_name(patch.name)
    option = f"--source {name}=PATH@COMMIT" if is_valid(name, ProjectName) else "the option --source"
    return Resolution(
        file=patch.file, line=0, subject=patch.name, outcome="unresolved", kind="stray-diff",
        reason="it fits no source of this snapshot; the chapter's recipe writes the job directory's diff under "
        "the name of a package whose directory it cannot enter; if it is of a repository that nothing is installed "
        f"from, name that one with {option}",
    )  # fmt: skip


def rule_secret_files(
    name: str, doubtful: Mapping[str, str], accept: Collection[str]
) -> tuple[Resolution, ...]:
    """Return a resolution for each accepted secret file.

    A file that looks like a secret and was not accepted is an error.

    Raises:
        SnapshotError: such a file was found. The message has file, line and rule, but no secret.
    """
    refused = [path for path in doubtful if not {_SECRET, f"{name}/{path}"} & set(accept)]
    if refused:
        named = [f"{name}: {display_path(path)}{doubtful[path]}" for path in refused[:_NAMED]]
        more = f"\nand {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
        accepts = [
            f"{name}/{path}" if display_path(path) == escape_text(path) else _SECRET
            for path in refused[:_NAMED]
        ]
        words = " ".join(f"--accept {shlex.quote(word)}" for word in dict.fromkeys(accepts))
        raise SnapshotError(
            "\n".join(named) + f"{more}; it would stay in the image for ever",
            hint=f"remove it from the source and revoke it; a file that may be public stays with {words}",
        )
    return tuple(
        Resolution(
            file="",
            line=0,
            subject=f"{name}/{display_path(path)}",
            outcome="pinned",
            kind=_SECRET,
            accepted=True,
            reason=f"{display_path(path)}{why}, and was accepted",
        )
        for path, why in sorted(doubtful.items())
    )
