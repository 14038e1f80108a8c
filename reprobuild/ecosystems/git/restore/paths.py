"""Checks of the paths where captured files are written.

A path must be inside its repository, outside every git directory, and not reached through a link.
"""

from __future__ import annotations

import re
from pathlib import Path

from reprobuild.errors import BuildError, SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.names import check_name
from reprobuild.snapshot.parsers.capture_json import DAMAGED

# Characters that HFS+ leaves out of names: https://nvd.nist.gov/vuln/detail/CVE-2014-9390
_UNSEEN = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")


def check_path(path: bytes, name: str) -> None:
    """Refuse a path outside the repository or in .git.

    Git directories are recognised by the rules of any file system.

    Raises:
        SnapshotError: it is such a path; the path is named.
    """
    text = path.decode("utf-8", "surrogateescape")
    try:
        check_name(text, f"the captured repository {name}")
    except BuildError as err:
        raise SnapshotError(escape_text(str(err)), hint=DAMAGED) from None
    for part in text.split("/"):
        plain = _UNSEEN.sub("", part).partition(":")[0].rstrip(". ").lower()
        if plain in (".git", "git~1"):
            raise SnapshotError(
                f"the captured repository {name} holds {path!r}, which is inside a git directory",
                hint=DAMAGED,
            )


def check_paths(paths: list[bytes], inner: set[bytes], name: str) -> None:
    """Refuse a tree with repeated, unsafe or conflicting paths.

    A path conflicts if it is below a file or link.

    Args:
        paths: of files, links and submodules.
        inner: of other repositories inside.
        name: of the repository.

    Raises:
        SnapshotError: see above.
    """
    known = set(paths) | inner
    if len(known) != len(paths) + len(inner):
        raise SnapshotError(f"the captured repository {name}: a tree holds one path twice", hint=DAMAGED)
    for path in known:
        check_path(path, name)
        above = path.rpartition(b"/")[0]
        while above:
            if above in known:
                raise SnapshotError(
                    f"the captured repository {name}: {above!r} is a file or link, and {path!r} lies below it",
                    hint=DAMAGED,
                )
            above = above.rpartition(b"/")[0]


def inner_path(target: Path, path: bytes, name: str) -> Path:
    """Return the path of an inner repository, without links.

    Raises:
        SnapshotError: a file or link is on the way.
    """
    place = target
    for part in path.decode("utf-8", "surrogateescape").split("/"):
        place = place / part
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise SnapshotError(
                f"the captured repository {name} lies below {escape_text(str(place))}, a file or link",
                hint=DAMAGED,
            )
    return place
