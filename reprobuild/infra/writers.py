"""The users who may write to a directory."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from reprobuild_portable.host import host


def find_writers(path: Path | int) -> str:
    """Return the users apart from its owner who may write to a directory, or "".

    The directory has a path or is open.

    Raises:
        OSError: the directory cannot be read.
    """
    facts = host.stat(path)
    if facts.st_mode & stat.S_IWOTH:
        return "all users"
    if not facts.st_mode & stat.S_IWGRP or _is_private(facts):
        return ""
    try:
        os.getxattr(path, "system.posix_acl_default")
    except (AttributeError, OSError):  # macOS has no such function
        return f"the group number {facts.st_gid}"
    return ""


def _is_private(facts: os.stat_result) -> bool:
    """Return whether a group belongs to its user alone.

    With such groups, umask 002 is common.
    """
    import grp  # not on Windows
    import pwd

    try:
        group, user = grp.getgrgid(facts.st_gid), pwd.getpwuid(facts.st_uid)
    except KeyError:
        return facts.st_gid == facts.st_uid
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
