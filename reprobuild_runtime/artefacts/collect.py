"""A runner that collects a command's output files.

It runs a command as process 1 of a container would, then puts the files into one directory, under numbers.

    python -I -S collect.py FOLDER PATTERN... -- CMD [ARG...]

The exit code is the command's. A pattern is a path or a glob (`**` goes any depth), relative to the working directory;
a directory means all files in it. Afterwards FOLDER holds `index.json` and the matched files as `0`, `1`, ..., and no
other files, so that only compared files leave the container, and no names that the command chose. Files are linked if
possible, and copied otherwise. `index.json` is

    {"code", "began", "ended", "host", "pid", "last", "zone",
     "files": [{"pattern", "path", "kind", "size", "stored", "written", "link"}],
     "there": {PATTERN that matched nothing: [names beside it]}, "written": [{"path", "size", "digest"}],
     "written_count": number, "written_whole": bool, "failed": ""}

with `kind` one of file, directory (without files), fifo, socket, device, system (below /proc, /sys or /dev), dangling,
unreadable; `written` is false for a file that existed before the command and did not change. `pid` is the number of the
command's own process, `last` the last number that a process of the run can have, `zone` the seconds by which the
container's clock is ahead of UTC, and `written` are files without a pattern that the command wrote (`written.py`).
"""

import glob
import json
import os
import shutil
import stat
import sys
import time

sys.dont_write_bytecode = True  # leave no trace in the container
_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

from reprobuild_runtime import entrypoint, supervise  # noqa: E402  after the path
from reprobuild_runtime.artefacts import written  # noqa: E402  after the path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

PART = ".part"  # the directory for files put aside, until all others are removed
MOST = 10000  # files
BESIDE = 20  # names of a directory in a report
_SPECIAL = {stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}


def find(pattern: str) -> "List[str]":
    """Return the paths that a pattern matches.

    A directory is replaced by the files below it, if it has any.
    """
    plain = os.path.lexists(pattern) or not glob.has_magic(pattern)
    matches = [pattern] if plain else sorted(glob.glob(pattern, recursive=True))
    paths = []
    for path in matches:
        inside = sorted(
            os.path.join(above, name)
            for above, folders, names in os.walk(path.rstrip("/") or "/")
            for name in [*names, *(name for name in folders if os.path.islink(os.path.join(above, name)))]
        )
        if inside and os.path.islink(path):
            paths.append(path)  # the target of a link is a result, too
        # A glob yields directories beside the files in them, which count once.
        paths += inside or ([path] if os.path.lexists(path) and (plain or not os.path.isdir(path)) else [])
    return sorted(set(map(os.path.normpath, paths)))


def state(path: str) -> "Tuple[int, ...]":
    """Return the facts that change if a file is written."""
    status = os.stat(path)
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def states(patterns: "List[str]") -> "Dict[str, Tuple[int, ...]]":
    """Return the current state of each file of the patterns."""
    before = {}
    for pattern in patterns:
        for path in find(pattern):
            if os.path.isfile(path):
                before[path] = state(path)
    return before


def kind(path: str) -> str:
    """Return the kind of a path; links are followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return "dangling" if os.path.islink(path) else "unreadable"
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_IFMT(mode) in _SPECIAL:
        return _SPECIAL[stat.S_IFMT(mode)]
    return "system" if os.path.realpath(path).startswith(("/proc/", "/sys/", "/dev/")) else "file"


def put_aside(path: str, target: str) -> None:
    """Give a file a second name, or copy it if that fails."""
    real = os.path.realpath(path)
    try:
        os.link(real, target)
    except OSError:
        # A file that is mostly holes takes all of its length in a copy.
        if os.path.getsize(real) > shutil.disk_usage(os.path.dirname(target)).free:
            raise ValueError("%s is larger than what is free" % readable(path)) from None
        with open(real, "rb") as source, open(target, "xb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)


def readable(path: str) -> str:
    """Return a path as text for display and JSON.

    Different paths have different texts.
    """
    return path if path.isprintable() and "\\" not in path else ascii(path)[1:-1]


def collect(folder: str, patterns: "List[str]", before: "Dict[str, Tuple[int, ...]]") -> "Dict[str, Any]":
    """Put the matched files aside; return `files` and `there`, which are parts of the index, and `numbers`.

    `numbers` has the number of each file by device and inode.
    """
    part = os.path.join(folder, PART)
    os.mkdir(part)
    files: "List[Dict[str, Any]]" = []
    neighbours: "Dict[str, List[str]]" = {}
    changed: "Dict[str, bool]" = {}
    stored: "Dict[str, Tuple[str, bool]]" = {}
    numbers: "Dict[Tuple[int, int], str]" = {}  # a file of two names is put aside once
    for pattern in patterns:
        paths = find(pattern)
        if not paths:
            neighbours[pattern] = list_similar_names(pattern)
        if len(files) + len(paths) > MOST:
            raise ValueError("more than %d files match" % MOST)
        for path in paths:
            path_kind = kind(path)
            entry: "Dict[str, Any]" = {
                "pattern": pattern,
                "path": readable(path),
                "kind": path_kind,
                "stored": "",
            }
            entry.update(link="", size=os.path.getsize(path) if path_kind == "file" else 0, written=True)
            if os.path.islink(path):
                entry["link"] = readable(os.readlink(path))
            if path_kind == "file":
                if path not in stored:  # its second name changes its state
                    status = os.stat(path)
                    number = numbers.setdefault((status.st_dev, status.st_ino), str(len(numbers)))
                    target = os.path.join(part, number)
                    if not os.path.exists(target):
                        changed[number] = state(path) not in before.values()  # also by the name of a new link
                        put_aside(path, target)
                    stored[path] = (number, changed[number])
                entry["stored"], entry["written"] = stored[path]
            files.append(entry)
    return {"files": files, "there": neighbours, "numbers": numbers}


def list_similar_names(pattern: str) -> "List[str]":
    """Return names near a pattern, the newest first.

    They are in the first existing directory above it.
    """
    folder = os.path.dirname(os.path.abspath(pattern))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    paths = [os.path.join(folder, name) for name in os.listdir(folder)]
    newest = sorted(paths, key=lambda path: (-os.lstat(path).st_mtime_ns, path))
    return [readable(path) for path in newest[:BESIDE]]


def clear(folder: str) -> None:
    """Remove all files of a directory except those put aside."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name == PART:
            continue
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    part = os.path.join(folder, PART)
    if os.path.isdir(part):
        for name in os.listdir(part):
            os.rename(os.path.join(part, name), os.path.join(folder, name))
        os.rmdir(part)


def last_process(first: int) -> int:
    """Return the last process number since the run's first process."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return max(first, child - 1)  # numbers may have wrapped around


def main(argv: "List[str]") -> int:
    """Run the command, collect its files, and return its exit code."""
    end = argv.index("--")
    folder, patterns, command = argv[0], argv[1:end], argv[end + 1 :]
    entrypoint.uncoerce_locale()
    before = states(patterns)
    since = written.mark(folder)
    began = time.time()
    children: "List[int]" = []
    code = supervise.look_after(command, children.append)
    index: "Dict[str, Any]" = {
        "code": code,
        "began": began,
        "ended": time.time(),
        "host": os.uname().nodename,
        "pid": children[0],
        "last": last_process(children[0]),
        "zone": time.localtime(began).tm_gmtoff,
    }
    index.update(files=[], there={}, written=[], written_count=0, written_whole=True, failed="")
    try:
        index.update(collect(folder, patterns, before))
        numbers = set(index.pop("numbers"))
        index.update(written.list_written(folder, since, numbers, os.path.join(folder, PART)))
        for file in index["written"]:
            file["path"] = readable(file["path"])
    except (OSError, ValueError) as err:
        index["failed"] = readable("%s: %s" % (type(err).__name__, err))
    clear(folder)
    with open(os.path.join(folder, "index.json"), "x", encoding="ascii") as file:
        json.dump(index, file)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
