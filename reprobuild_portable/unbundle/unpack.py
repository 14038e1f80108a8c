"""Unpacking of a bundle into a new directory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from typing import Callable, Optional

from reprobuild_portable.host import host
from reprobuild_portable.unbundle.bundle import Bundle
from reprobuild_portable.unbundle.damage import MemberSink, find_damage, refuse_damaged
from reprobuild_portable.unbundle.directories import (
    _PLAIN,
    _folder_of,
    _is_whole,
    _lock_work,
    _path_of,
    _remove,
    _remove_unfinished,
    _tree,
)
from reprobuild_portable.unbundle.format import CHANGED, CHUNK, MANIFEST, SIGNATURE, Member, RefusedError
from reprobuild_portable.unbundle.manifest import escape_text
from reprobuild_portable.unbundle.names import check_presence


def unpack(
    bundle: Bundle, out: str, *, progress: Callable[[int, int], None] = lambda done, total: None,
    settle: Callable[[str], None] = lambda tree: None,
) -> bool:  # fmt: skip
    """Unpack a bundle into a new directory that appears whole.

    An interrupted run is continued: its whole files are kept.

    Args:
        bundle: the bundle.
        out: the directory; an empty one is replaced.
        progress: called with (bytes so far, bytes in all).
        settle: called with the directory before it gets its name; if it refuses the files, they are removed.

    Returns:
        False if the bundle is unpacked there already.

    Raises:
        RefusedError: a byte differs from the manifest, `out` has other content, or there is no room.
    """
    # The user may have made the empty directory, and a link to it.
    out = os.path.realpath(out) if os.path.isdir(out) else os.path.abspath(out)
    work = os.path.join(os.path.dirname(out), ".%s.unbundling" % os.path.basename(out))
    if os.path.isfile(os.path.join(out, MANIFEST)):
        _check_there(bundle, out)
        with contextlib.suppress(
            OSError
        ):  # left by one that was killed at its very end; else it is not empty
            host.rmdir(work)
        return False
    if os.path.lexists(out) and not (os.path.isdir(out) and not host.listdir(out)):
        raise RefusedError(
            "%s is there, and holds something else%s" % (out, _name_some(out)),
            "name another directory, or remove it",
        )
    check_presence(member.path for member in bundle.members)
    try:
        with _lock_work(work) as descriptor, _tree(bundle, descriptor) as (name, tree):
            _fill_work(bundle, work, descriptor, tree, progress)
            place = _path_of(work, name, tree)
            try:
                settle(place)
            except RefusedError:  # each byte is as the manifest says, so another copy is refused, too
                with contextlib.suppress(OSError):
                    _remove(descriptor, name)
                    host.rmdir(work)
                raise
            _path_of(work, name, tree)
            if os.path.isdir(out):
                host.rmdir(out)
            host.rename(name, out, src_dir_fd=descriptor)
            host.rmdir(work)
    except OSError as err:
        place = "%s: " % err.filename if err.filename else ""
        raise RefusedError(
            "%s%s" % (place, err.strerror),
            "mend that, and run it again: it goes on with what stands in %s" % work,
        ) from None
    return True


def _name_some(out: str) -> str:
    """Return the names of up to three entries of a directory, for a message."""
    names = sorted(host.listdir(out)) if os.path.isdir(out) else []
    more = ", ... (%d in all)" % len(names) if len(names) > 3 else ""
    return (": " + ", ".join(map(escape_text, names[:3])) + more) if names else ""


def _check_there(bundle: Bundle, out: str) -> None:
    top = host.open(out, host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC)
    try:
        whole = Member(MANIFEST, hashlib.sha256(bundle.manifest).hexdigest(), len(bundle.manifest))
        if not _is_whole(top, whole):
            raise RefusedError("%s holds another bundle" % out, "name another directory, or remove it")
        for member in bundle.members:
            path = os.path.join(out, member.path)
            if member.path in CHANGED or (member.path.startswith("store/") and not os.path.lexists(path)):
                continue  # a check writes the first two, and `reprobuild unbundle` moves the others into its store
            if not _is_whole(top, member):
                raise RefusedError("%s is missing or changed" % path, "remove %s, and run it again" % out)
    finally:
        host.close(top)


def _fill_work(
    bundle: Bundle, work: str, descriptor: int, tree: int, progress: Callable[[int, int], None]
) -> None:
    whole_paths = {member.path for member in bundle.members if _is_whole(tree, member, strict=True)}
    parts = {tuple(member.path.split("/")[:-1]) for member in bundle.members}
    folders = {"/".join(names[:count]) for names in parts for count in range(1, len(names) + 1)}
    _remove_unfinished(tree, "", whole_paths, folders)
    total = sum(member.size for member in bundle.members if not member.link)
    need = total - sum(
        member.size for member in bundle.members if not member.link and member.path in whole_paths
    )
    free = shutil.disk_usage(work).free
    if need > free:
        raise RefusedError(
            "%d bytes are to be unpacked, and %d are free in %s" % (need, free, os.path.dirname(work)),
            "make room, or name another directory with -o; what is unpacked already is kept",
        )
    done = 0

    def take(member: Member) -> Optional[MemberSink]:
        if member.path in whole_paths:
            nonlocal done
            done += member.size
            return None
        if member.link:
            _link(descriptor, tree, member)
            return None
        return _Part(descriptor, tree, member.path, step)

    def step(size: int) -> None:
        nonlocal done
        done += size
        progress(done, total)

    refuse_damaged(list(find_damage(bundle, take)))
    names = {MANIFEST: bundle.manifest, **({SIGNATURE: bundle.signature} if bundle.signature else {})}
    for name, content in names.items():
        part = _Part(descriptor, tree, name, lambda size: None)
        part.write(content)
        part.close(right=True)
    for _, _, files, folder in host.fwalk(".", dir_fd=tree):
        for name in files:
            host.utime(name, (bundle.epoch, bundle.epoch), dir_fd=folder, follow_symlinks=False)


def _link(work: int, tree: int, member: Member) -> None:
    """Give a file its other name.

    It is a copy if the file system has no hard links.
    """
    with contextlib.ExitStack() as stack:
        try:
            first_folder, first = stack.enter_context(_folder_of(tree, member.link))
            source = stack.enter_context(os.fdopen(host.open(first, _PLAIN, dir_fd=first_folder), "rb"))
        except FileNotFoundError:  # it is damaged, and reported as damaged
            return
        second_folder, second = stack.enter_context(_folder_of(tree, member.path, make=True))
        with contextlib.suppress(FileNotFoundError):
            host.unlink(second, dir_fd=second_folder)
        try:
            host.link(first, second, src_dir_fd=first_folder, dst_dir_fd=second_folder, follow_symlinks=False)
        except OSError:
            part = _Part(work, tree, member.path, lambda size: None)
            shutil.copyfileobj(source, part, CHUNK)
            part.close(right=True)


class _Part(MemberSink):
    """A file that gets its name after a successful comparison."""

    def __init__(self, work: int, tree: int, path: str, step: Callable[[int], None]) -> None:
        self._work, self._tree, self._path, self._step = work, tree, path, step
        flags = host.O_WRONLY | host.O_CREAT | host.O_EXCL | host.O_NOFOLLOW  # an existing file is not ours
        self._stream = os.fdopen(host.open("part", flags, 0o600, dir_fd=work), "wb")

    def write(self, piece: bytes) -> None:
        self._stream.write(piece)
        self._step(len(piece))

    def close(self, right: bool) -> None:
        with self._stream as stream:
            host.fchmod(stream.fileno(), 0o444 if "/blobs/" in self._path else 0o644)
        if not right:
            host.unlink("part", dir_fd=self._work)
            return
        with _folder_of(self._tree, self._path, make=True) as (folder, name):
            host.replace("part", name, src_dir_fd=self._work, dst_dir_fd=folder)
