"""The files that a command writes and that no pattern names.

A file counts if its state changed since a mark, by its ctime, which a program cannot set. Searched are the file systems
of the root, of the temporary directories, of the home and of the working directory. Other mounts and bytecode are left
out.
"""

import hashlib
import os
import stat
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Collection, Dict, Iterator, List, Tuple

IN_IMAGE = "/opt/reprobuild/"  # elsewhere there is no search: other programs of a machine write files, too
MOST_FILES = 200  # in a list
MOST_HASHED = 256 << 20  # bytes of all files
SECONDS = 10  # of a search


def mark(folder: str) -> int:
    """Return a time in ns; no file changed at it before, and each later change has this time or a later one."""
    path = os.path.join(folder, ".mark")
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    first = now = os.stat(path).st_ctime_ns
    while now <= first:  # the clock of files has steps of some milliseconds
        time.sleep(0.001)
        os.utime(path)
        now = os.stat(path).st_ctime_ns
    os.unlink(path)
    return now


def list_written(
    folder: str, since: int, named: "Collection[Tuple[int, int]]", skipped: str
) -> "Dict[str, Any]":
    """Return the files with a state that changed since a mark, as a part of the index.

    `written` has the first of them, sorted by path: `path`, `size`, and `digest`, which is the sha256 or empty.
    `written_count` is the number of all, and `written_whole` is false if the search took too long and ended.

    Args:
        folder: is searched anywhere, and the other places in an image alone.
        since: the mark.
        named: files to leave out, by device and inode.
        skipped: a directory to leave out.
    """
    in_image = os.path.abspath(__file__).startswith(IN_IMAGE)
    roots = [folder, *(_places() if in_image else ())]
    ends = time.monotonic() + SECONDS
    paths = sorted(_find_changed(since, named, roots, skipped, ends))
    whole = time.monotonic() < ends
    left, files = MOST_HASHED, []
    for path in paths[:MOST_FILES]:
        size, digest = _hash(path, left)
        left -= size if digest else 0
        files.append({"path": path, "size": size, "digest": digest})
    return {"written": files, "written_count": len(paths), "written_whole": whole}


def _places() -> "List[str]":
    return ["/", "/tmp", "/var/tmp", "/dev/shm", os.path.expanduser("~"), os.getcwd()]


def _find_changed(
    since: int, named: "Collection[Tuple[int, int]]", roots: "List[str]", skipped: str, ends: float
) -> "Iterator[str]":
    """Yield the regular files that changed; the search ends at a time of `time.monotonic`."""
    visited = set()
    for root in roots:
        folders = [os.path.realpath(root)]
        try:
            device = os.stat(folders[0]).st_dev
        except OSError:
            continue
        while folders and time.monotonic() < ends:
            folder = folders.pop()
            try:
                status = os.lstat(folder)
                if status.st_dev != device or (status.st_dev, status.st_ino) in visited:
                    continue
                visited.add((status.st_dev, status.st_ino))
                entries = list(os.scandir(folder))
            except OSError:  # gone, of another user, or deeper than a path can be
                continue
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders += [] if entry.name == "__pycache__" or entry.path == skipped else [entry.path]
                elif entry.is_file(follow_symlinks=False) and _changed(entry, since, named):
                    yield entry.path


def _changed(entry: "os.DirEntry[str]", since: int, named: "Collection[Tuple[int, int]]") -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return status.st_ctime_ns >= since and (status.st_dev, status.st_ino) not in named


def _hash(path: str, most: int) -> "Tuple[int, str]":
    """Return the size of a file, and its sha256 if the file has at most so many bytes and can be read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return os.lstat(path).st_size, ""
    with os.fdopen(number, "rb") as file:
        status, digest = os.fstat(number), hashlib.sha256()
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            return status.st_size, ""
        left = status.st_size
        while left:
            piece = file.read(min(left, 1 << 20))
            if not piece:
                return status.st_size, ""
            digest.update(piece)
            left -= len(piece)
        return status.st_size, digest.hexdigest()
