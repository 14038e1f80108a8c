"""Files of a directory from outside its bundle."""

from __future__ import annotations

import hashlib
from typing import List

from reprobuild_portable.host import host
from reprobuild_portable.unbundle.bundle import Bundle
from reprobuild_portable.unbundle.directories import _DIRECTORY, _folder_of, _is_whole
from reprobuild_portable.unbundle.format import CHANGED, MANIFEST, MOST_NAMED, SIGNATURE, Member


def list_foreign_paths(bundle: Bundle, out: str) -> List[str]:
    """Return the paths of a directory from outside the bundle.

    A path of the bundle counts if its file is not as the bundle had it. At most `MOST_NAMED` are returned.
    The user may have made them: a check writes a certificate. The sender of the directory may have made
    them, too.

    Args:
        bundle: the bundle of the directory.
        out: the directory. A directory inside of it that the bundle does not have is named, and not entered.
    """
    members = {member.path: member for member in bundle.members}
    for name, content in ((MANIFEST, bundle.manifest), (SIGNATURE, bundle.signature)):
        if content:
            members[name] = Member(name, hashlib.sha256(content).hexdigest(), len(content))
    folders = {
        "/".join(path.split("/")[:count]) for path in members for count in range(1, path.count("/") + 1)
    }
    changeable = (*CHANGED, SIGNATURE)  # all others were compared
    paths: List[str] = []
    waiting = [""]
    top = host.open(out, _DIRECTORY)
    try:
        while waiting and len(paths) < MOST_NAMED:
            above = waiting.pop()
            with _folder_of(top, above + ".") as (folder, _), host.scandir(folder) as entries:
                for entry in entries:
                    path = above + entry.name
                    if path in folders and entry.is_dir(follow_symlinks=False):
                        waiting.append(path + "/")
                    elif path not in members or (path in changeable and not _is_whole(top, members[path])):
                        paths.append(path)
    finally:
        host.close(top)
    return sorted(paths)[:MOST_NAMED]
