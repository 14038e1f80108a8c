"""The files that a container wrote outside of mounted directories, which end with it.

They are in the upper directory of its overlay. Only that tells a user where a result has gone.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path, PurePosixPath

from reprobuild.infra.display import escape_text
from reprobuild.infra.walk import walk

# Where files are not results: places for temporary files, caches, logs, and what engines mount.
_IGNORED = ("/tmp/", "/var/", "/run/", "/root/.", "/home/", "/etc/", "/dev/", "/proc/", "/sys/")
_IGNORED_PARTS = frozenset(("__pycache__", ".git", "reprobuild-record", ".ipynb_checkpoints"))
_MOST = 20_000  # entries that are read
_SHOWN = 3


def describe_discarded_files(upper: Path) -> str:
    """Return a message on the files of a container's upper directory, or "".

    Directories that cannot be read are left out, as are entries beyond a bound.
    """
    files: list[str] = []
    total = 0
    for folder, folders, names in walk(upper, _MOST, lambda _: None):
        place = f"/{Path(folder).relative_to(upper)}/".replace("/./", "/")
        folders[:] = [name for name in folders if not f"{place}{name}/".startswith(_IGNORED)]
        if _IGNORED_PARTS & set(PurePosixPath(place).parts):
            folders.clear()
            continue
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(f"{folder}/{name}")
                if stat.S_ISREG(status.st_mode) and status.st_size:
                    files.append(f"{place}{name}")
                    total += status.st_size
    if not files:
        return ""
    shown = ", ".join(escape_text(path[:200]) for path in sorted(files)[:_SHOWN])
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return (
        f"reprobuild: {shown}{more} ({total} bytes) ended with the container; a file below a directory that -v mounts "
        "is kept\n"
    )
