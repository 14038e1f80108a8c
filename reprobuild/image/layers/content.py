"""Items: a layer's paths with their sources, and common checks."""

from __future__ import annotations

import contextlib
import hashlib
import io
import stat
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.tar.entries import CHUNK, TarEntry, entry_of, list_parents
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.names import HOSTILE, check_path, check_target


class LayerItem(Struct, frozen=True, kw_only=True):
    """A path of a layer.

    `origin` is the source's name for the user; `open` opens a file's content at its beginning.
    """

    entry: TarEntry
    origin: str
    open: Callable[[], IO[bytes]] | None = None


def directory_item(path: str, origin: str) -> LayerItem:
    """Return a directory owned by root."""
    return LayerItem(entry=TarEntry(path=path, type="directory", mode=0o755), origin=origin)


def link_item(path: str, target: str, origin: str) -> LayerItem:
    """Return a symbolic link owned by root."""
    return LayerItem(entry=TarEntry(path=path, type="symlink", mode=0o777, target=target), origin=origin)


def text_item(path: str, content: bytes, origin: str, mode: int = 0o644) -> LayerItem:
    """Return a small file owned by root."""
    sha256 = hashlib.sha256(content).hexdigest()
    entry = TarEntry(path=path, type="file", mode=mode, size=len(content), sha256=sha256)
    return LayerItem(entry=entry, origin=origin, open=lambda: io.BytesIO(content))


def arrange_items(items: Iterable[LayerItem]) -> list[LayerItem]:
    """Return one item per path, with parents, sorted by path.

    The first of two items with equal content stays.

    Raises:
        BuildError: two items differ at one path, or one is below a path that is not a directory.
    """
    chosen: dict[str, LayerItem] = {}
    for item in items:
        former = chosen.setdefault(item.entry.path, item)
        if former is not item and not _is_same_item(former, item):
            raise conflict_error(item.entry.path, former.origin, item.origin)
    for folder in list_parents(chosen):
        above = chosen.get(folder)
        if above is not None and above.entry.type != "directory":
            below = next(item for path, item in chosen.items() if path.startswith(f"{folder}/"))
            raise conflict_error(folder, above.origin, below.origin)
        chosen.setdefault(folder, directory_item(folder, ""))
    return [chosen[path] for path in sorted(chosen)]


def conflict_error(path: str, first: str, second: str) -> BuildError:
    """Return the error for a path with two different contents."""
    return BuildError(
        f"{first} and {second} both write /{display_text(path)}, with different content",
        hint="no image can hold both: leave one out with `--drop NAME`, or pin versions that do not overlap",
    )


def _is_same_item(first: LayerItem, second: LayerItem) -> bool:
    if first.entry.type != second.entry.type or first.entry.target != second.entry.target:
        return False
    return first.entry.type != "file" or (
        first.entry.size == second.entry.size and _hash_item(first) == _hash_item(second)
    )


def _hash_item(item: LayerItem) -> str:
    if item.entry.sha256 or item.open is None:
        return item.entry.sha256
    digest = hashlib.sha256()
    with item.open() as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def tar_items(path: Path, origin: str, *, prefix: str = "", below: str = "") -> Iterator[list[LayerItem]]:
    """Yield the members of an uncompressed tar as items.

    The tar stays open meanwhile. Modes become 0755 (directories, and files that their owner may execute) or
    0644, owners root; a hard link becomes a file with the content of its target, which must come before it.

    Args:
        path: the tar file.
        origin: its name for the user.
        prefix: the directory for the members, without slashes at its ends.
        below: the directory that every member must then be below.

    Raises:
        BuildError: it is not a tar, or a member is outside, unsafe, a device, or sets its user or group.
    """
    try:
        tar = tars.CarefulTar(path, encoding="utf-8", errors="surrogateescape")
    except (*tars.UNREADABLE, OSError) as err:
        raise BuildError(f"{origin} is not a tar: {err}", hint=HOSTILE) from None
    with tar:
        items: list[LayerItem] = []
        files: dict[str, tarfile.TarInfo] = {}
        try:
            for info in tars.members(tar, origin):
                item = _tar_item(tar, info, origin, prefix, files)
                if item is not None:
                    items.append(item)
        except tars.UNREADABLE as err:
            raise BuildError(f"{origin} cannot be read: {err}", hint=HOSTILE) from None
        for item in items:
            inside = item.entry.path.startswith(f"{below}/") if below else True
            if not inside and item.entry.type != "directory":
                raise BuildError(
                    f"{origin} writes /{display_text(item.entry.path)}, outside /{below}", hint=HOSTILE
                )
        yield [item for item in items if not below or f"{item.entry.path}/".startswith(f"{below}/")]


def _tar_item(
    tar: tarfile.TarFile, info: tarfile.TarInfo, origin: str, prefix: str, files: dict[str, tarfile.TarInfo]
) -> LayerItem | None:
    """Return a member's item, or None for the tar's root.

    `files` are the files before it.
    """
    entry = entry_of(info)
    if not entry.path:
        return None
    check_path(entry.path, origin)
    path = f"{prefix}/{entry.path}" if prefix else entry.path
    if entry.type == "directory":
        return directory_item(path, origin)
    if entry.type == "symlink":
        check_target(entry.target, entry.path, origin)
        return link_item(path, entry.target, origin)
    if entry.type not in ("file", "hardlink"):
        raise ValueError(
            f"{display_text(entry.path)} is a {entry.type}, and sources hold files, directories and links"
        )
    if entry.mode & (stat.S_ISUID | stat.S_ISGID):
        raise ValueError(
            f"{display_text(entry.path)} sets the user or group that runs it, which no source may"
        )
    if entry.type == "hardlink" and entry.target not in files:
        raise ValueError(
            f"{display_text(entry.path)} is a hard link to {entry.target!r}, which is no file before it"
        )
    real = files[entry.target] if entry.type == "hardlink" else info
    files[entry.path] = real

    def content() -> IO[bytes]:
        stream = tar.extractfile(real)
        assert stream is not None
        return stream

    mode = 0o755 if info.mode & 0o100 else 0o644
    return LayerItem(
        entry=TarEntry(path=path, type="file", mode=mode, size=real.size), origin=origin, open=content
    )
