"""Untrusted files in an output directory.

Files that were not made there must not look like documents of the image made now.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.model import Lock
from reprobuild.output.directory import BADGE, CLUSTER_RESULT, REPORT, VERDICT
from reprobuild.verify.certificate.read import LARGEST, is_certificate

# The parts of a bundle beside the files that `build` writes. A file of such a name may be the user's own.
_UNTOUCHED = (
    "README.md", "unbundle.py", "sbom.cdx.json", "provenance.intoto.json", "sources", "store", "reprobuild",
)  # fmt: skip


def refuse_directories(out: Path) -> None:
    """Refuse a directory with the name of a file that `set_aside` moves or removes.

    Raises:
        UsageError: there is one.
    """
    for path in (out / VERDICT, out / REPORT, out / BADGE, out / CLUSTER_RESULT):
        if path.is_dir() and not path.is_symlink():
            raise UsageError(
                f"{path} is a directory",
                hint=f"a report is written there: name another with -o, or remove {path}",
            )


def set_aside(out: Path, say: Callable[[str], None]) -> None:
    """Set aside another image's verdict, report, badge and cluster files.

    A verdict file gets another name, and the rest is removed. No link is followed.

    Args:
        out: the directory.
        say: logs a note for each file.

    Raises:
        UsageError: a directory has the name of such a file.
    """
    refuse_directories(out)
    if os.path.lexists(out / VERDICT):
        _set_verdict_aside(out / VERDICT, say)
    for path in (out / REPORT, out / BADGE, out / CLUSTER_RESULT):
        if os.path.lexists(path):
            path.unlink()
            say(f"removed {path}: it is not known to be of this image")
    if names := [name for name in _UNTOUCHED if os.path.lexists(out / name)]:
        say(f"not made by this command, and left in {out} as they are: {', '.join(names)}")


def lock_backup_path(path: Path, lock: Lock) -> Path:
    """Return the new path for a lock not made here."""
    return path.with_name(f"{path.stem}-{lock.digest[:12]}{path.suffix}")


def _set_verdict_aside(place: Path, say: Callable[[str], None]) -> None:
    try:
        with open_plain(place, links=False)[0] as stream:
            content = stream.read(LARGEST + 1)
    except OSError:
        content = b""
    if not is_certificate(content):
        place.unlink()
        say(f"removed {place}: it is no verdict file")
        return
    aside = place.with_name(f"verdict-{hashlib.sha256(content).hexdigest()[:12]}.json")
    place.replace(aside)
    say(
        f"{place} is not known to be of this image: it is kept as {aside}, and `reprobuild verify` makes another"
    )
