"""Mounts of the workload: digests, and changes between the runs.

The digest of a file is its sha256. That of a directory is the sha256 of a list with an entry for each path in it, in
the order of a walk that sorts the names of each directory as bytes: `KIND VALUE PATH` and a NUL. KIND is `file`, or
`exec` if the owner may execute it, with the sha256 of its content; `link` with the sha256 of its target; `folder`, or
`special` (a pipe, a socket, a device), with `-`. Times, owners and other permissions do not count, so a copy of a data
set has the digest of the data set. No link is followed, and no special file is opened. The output directory of the
check is left out of a mount that holds it: each check writes there.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.verify.workload.conditions import Mount
from reprobuild.verify.workload.judge import display_line

LARGEST, MOST = 64 << 30, 1_000_000  # bytes and paths of a mount that gets a digest
NAMED = "mount the part that the command reads"
_PIECE = 1 << 20
_MOVED = "it changed while it was read"


class NoDigestError(Exception):
    """A mount has no digest; the message states the reason."""


class Mounts:
    """The mounts of one check.

    Their contents are read on creation, which must be before the first run.
    """

    def __init__(
        self, volumes: tuple[tuple[str, str], ...] = (), read_only: frozenset[str] = frozenset(),
        say: Callable[[str], None] = lambda _: None, out: Path | None = None,
    ) -> None:  # fmt: skip
        self._out = out.resolve() if out else None
        self._hosts = {place: os.path.realpath(host) for host, place in volumes}
        self._states: dict[str, str] = {}
        self.records = tuple(self._taken(place, place not in read_only, say) for place in sorted(self._hosts))

    def _taken(self, place: str, writable: bool, say: Callable[[str], None]) -> Mount:
        """Return the record of a mount."""
        try:
            paths, size, state = measure_mount(self._hosts[place], self._out)
            say(f"the digest of the mount {place}: {size / 1e9:.2f} GB in {paths} paths")
            self._states[place] = state
            digest = _stable_digest(self._hosts[place], state, self._out)
        except (NoDigestError, OSError) as err:
            return Mount(place=place, writable=writable, why=_describe_failure(err))
        return Mount(place=place, digest=digest, paths=paths, size=size, writable=writable)

    def changed(self, *, writable: bool = True) -> list[str]:
        """Return a line for each mount that changed since the first run.

        A file is read again only if its state (size, times, place on the disk) changed.

        Args:
            writable: also check mounts that the runs can write to.
        """
        records = [record for record in self.records if writable or not record.writable]
        return [line for record in records if (line := self._change(record))]

    def _change(self, mount: Mount) -> str:
        if not mount.digest:
            return ""  # the record has the reason
        host = self._hosts[mount.place]
        try:
            state = measure_mount(host, self._out)[2]
            if state == self._states[mount.place]:
                return ""
            digest = _stable_digest(host, state, self._out)
        except (NoDigestError, OSError) as err:
            return f"the mount {mount.place} changed: {_describe_failure(err)}"
        if digest != mount.digest:
            return f"the mount {mount.place} changed"
        self._states[mount.place] = state
        return ""


def _describe_failure(err: Exception) -> str:
    if isinstance(err, OSError):
        # The path on this machine stays out of verdicts.
        return display_line(f"it cannot be read: {os.strerror(err.errno) if err.errno else err.strerror}")
    return display_line(str(err))


def measure_mount(top: str, out: Path | None = None) -> tuple[int, int, str]:
    """Return a mount's number of paths, bytes, and state digest, without the directory `out`.

    Raises:
        NoDigestError: it is larger than the limits for a digest.
        OSError: it cannot be read.
    """
    paths = size = 0
    state = hashlib.sha256()
    for _, path, status in _walk(Path(top), out):
        paths += 1
        size += status.st_size if stat.S_ISREG(status.st_mode) else 0
        if paths > MOST:
            raise NoDigestError(f"it has more than {MOST:,} paths: {NAMED}")
        if size > LARGEST:
            raise NoDigestError(f"it has more than {LARGEST >> 30} GiB: {NAMED}")
        facts = (
            status.st_mode,
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        state.update(b"%s\0%s\0" % (repr(facts).encode(), path))
    return paths, size, state.hexdigest()


def _stable_digest(top: str, state: str, out: Path | None) -> str:
    """Return the digest of a path if its state has not changed.

    Raises:
        NoDigestError: it changed in the meantime.
        OSError: it cannot be read.
    """
    digest = content_digest(top, out)
    if measure_mount(top, out)[2] != state:
        raise NoDigestError(_MOVED)
    return f"sha256:{digest}"


def content_digest(top: str, out: Path | None = None) -> str:
    """Return the digest of a file or directory, without the directory `out`.

    The definition is at the head of this module.

    Raises:
        NoDigestError: a file changed while it was read.
        OSError: it cannot be read.
    """
    whole = hashlib.sha256()
    for place, path, status in _walk(Path(top), out):
        if not path and stat.S_ISREG(status.st_mode):
            return _file_digest(place, status.st_size)
        whole.update(b"%s %s\0" % (_describe_path(place, status), path))
    return whole.hexdigest()


def _describe_path(place: Path, status: os.stat_result) -> bytes:
    """Return the kind and the value of a path."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        kind = b"exec" if mode & stat.S_IXUSR else b"file"
        return b"%s %s" % (kind, _file_digest(place, status.st_size).encode())
    if stat.S_ISLNK(mode):
        target = os.fsencode(os.readlink(place))  # noqa: PTH115  a `Path` leaves out `./` and `//`
        return b"link %s" % hashlib.sha256(target).hexdigest().encode()
    return b"folder -" if stat.S_ISDIR(mode) else b"special -"


def _file_digest(place: Path, size: int) -> str:
    """Return the sha256 of a file of a known size.

    An endless file is not read to its end.
    """
    stream, _ = open_plain(place, links=False)
    digest, rest = hashlib.sha256(), size
    with stream:
        while rest >= 0 and (piece := stream.read(min(_PIECE, rest + 1))):
            digest.update(piece)
            rest -= len(piece)
    if rest:
        raise NoDigestError(_MOVED)
    return digest.hexdigest()


def _walk(top: Path, out: Path | None) -> Iterator[tuple[Path, bytes, os.stat_result]]:
    """Yield each path of a directory, its relative form, and its state; leave `out` out if it is below.

    A file is its own directory.
    """
    waiting = [(top, b"")]
    while waiting:
        place, path = waiting.pop()
        status = place.lstat()
        yield place, path, status
        if stat.S_ISDIR(status.st_mode):
            children = (child for child in place.iterdir() if child != out)
            inside = sorted(((os.fsencode(child.name), child) for child in children), reverse=True)
            waiting += [(child, b"%s/%s" % (path, name) if path else name) for name, child in inside]
