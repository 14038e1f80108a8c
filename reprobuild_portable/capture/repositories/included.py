"""Files that the user names."""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from typing import Any, Callable, Dict, List, Sequence, Set

from reprobuild_portable.capture.files import _path, _relative
from reprobuild_portable.capture.limits import BUDGETS, LISTED, UNTRACKED_FILE
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.processes import _program, _run
from reprobuild_portable.capture.repositories.folders import find_top
from reprobuild_portable.capture.repositories.objects import _leave_file_out, _list_files
from reprobuild_portable.capture.repositories.record import take_repository
from reprobuild_portable.capture.repositories.repository import Files, _make_unique_name
from reprobuild_portable.capture.repositories.scratch import NO_SETTINGS
from reprobuild_portable.capture.repositories.untracked import _find_file_obstacle
from reprobuild_portable.host import host


def _resolve_directories(include: Sequence[str]) -> List[str]:
    """Return named files by paths with resolved directories.

    The file itself may be a link, and stays one.
    """
    paths = []
    for name in include:
        above, last = os.path.split(os.path.abspath(os.fspath(name)))
        paths.append(os.path.join(os.path.realpath(above), last))
    return sorted(set(paths))


def take_included(context: Context, folder: str, places: Sequence[str], name: str) -> Taken:
    """Capture files outside of repositories as a new repository.

    They are its only files. The same rules apply.

    Args:
        context: of this part.
        folder: the directory on the captured machine; each file lies below it.
        places: of the files.
        name: of the record.
    """
    program = _program("git", context)
    if program is None:
        raise GaveUpError("failed", "git is not on PATH")
    top = os.path.join(
        os.path.realpath(tempfile.mkdtemp(dir=context.scratch)), os.path.basename(folder) or name
    )
    host.mkdir(top)
    env = {key: value for key, value in context.environ.items() if not key.startswith("GIT_")}
    _run([program, "init", "-q", "--template=", top], context, env={**env, **NO_SETTINGS}, cwd=top)
    files = Files({}, {}, [], [], {}, [], set(), set(), set())
    copies = []
    for place in places:
        path = _relative(place, folder)
        reason = _find_file_obstacle(place)
        if not reason and ".git" in path.lower().split("/"):  # no tree of git can hold it
            reason = "special-file"
        copy = os.path.join(top, path)
        reason = reason or _copy(place, copy)
        if reason:
            _leave_file_out(files, os.fsencode(path), reason)
        else:
            copies.append(copy)
    taken = take_repository(context._replace(include=copies), top, name, False)
    left_out = _list_files(files.left_out, context) + taken.facts["left_out"]
    taken.facts.update(
        folder=_path(folder), left_out=left_out[:LISTED],
        left_out_count=len(files.left_out) + taken.facts["left_out_count"],
    )  # fmt: skip
    return taken


def _copy(place: str, copy: str) -> str:
    """Copy a file or link.

    The copy of a file over its budget has the full size, but not the full content.

    Returns:
        The reason if the copy is impossible, else an empty text.
    """
    try:
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if os.path.islink(place):
            host.symlink(host.readlink(place), copy)
            return ""
        number = host.open(place, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC)
        with open(number, "rb") as stream, open(copy, "xb") as target:
            state = host.fstat(number)
            if not stat.S_ISREG(state.st_mode):
                return "special-file"
            content = stream.read(UNTRACKED_FILE + 1)
            target.write(content)
            if len(content) > UNTRACKED_FILE:
                target.truncate(max(state.st_size, len(content)))
            if state.st_mode & stat.S_IXUSR:
                host.fchmod(target.fileno(), 0o700)
    except OSError:
        return "unreadable"
    return ""


def _take_loose(
    include: Sequence[str], captured: Set[str], used: Dict[str, int],
    take: Callable[[str, Callable[[Context], Taken], float], Any],
) -> List[Dict[str, Any]]:  # fmt: skip
    """Capture the named files outside of captured repositories.

    Their directory is the working directory if all lie below it, else the common one.
    """
    places = [place for place in include if find_top(os.path.dirname(place)) not in captured]
    if not places:
        return []
    folder = os.path.realpath(os.getcwd())
    if any(not place.startswith(folder.rstrip(os.sep) + os.sep) for place in places):
        folder = os.path.commonpath([os.path.dirname(place) for place in places])
    name = _make_unique_name(os.path.basename(folder) or "files", used)
    part = functools.partial(take_included, folder=folder, places=places, name=name)
    record = take(f"included {name}", part, BUDGETS["repository"])
    if record is None:
        return []
    record.pop("inner")
    record.update(distributions=[], parent=None, path="")
    return [record]
