"""Layers put over each other, as the OCI image specification says it ("Applying Changesets")."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reprobuild.archive import Entry
from reprobuild.errors import BuildError

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
DAMAGED = "the layer is damaged, or its builder broke the image specification; build the image again"

Tree = dict[str, Entry]


class Located(Entry, frozen=True, kw_only=True):
    """An entry of a layer; a file's content begins at `offset` of the layer's tar."""

    layer: int = 0
    offset: int = 0


def merge(listings: Iterable[Iterable[Entry]], below: Tree | None = None) -> Tree:
    """Return {path: entry} of layers put over each other, sorted by path; hard links are files.

    `below` is the tree, merged before, that the layers stand on.

    The rules are those of the OCI image specification, "Applying Changesets": the later entry wins,
    directories merge, a whiteout removes what lower layers have. Our own layers hold no whiteouts; images
    of other builders may.

    Raises:
        BuildError: a hard link's target is not there, or a path is below what is not a directory.
    """
    tree = dict(below or {"": Entry(path="", type="directory", mode=0o755)})
    for listing in listings:
        entries = list(listing)
        for entry in entries:
            name = entry.path.rpartition("/")[2]
            if name.startswith(WHITEOUT):
                _remove(tree, entry.path, name)
        for entry in entries:
            if entry.path.rpartition("/")[2].startswith(WHITEOUT):
                continue
            former = tree.get(entry.path)
            if former is not None and former.type == "directory" and entry.type != "directory":
                _remove_below(tree, entry.path)
            _make_parents(tree, entry.path)
            tree[entry.path] = _resolved(tree, entry)
    return dict(sorted(tree.items()))


def _make_parents(tree: Tree, path: str) -> None:
    above = path.rpartition("/")[0]
    while above not in tree:
        tree[above] = Entry(path=above, type="directory", mode=0o755)
        above = above.rpartition("/")[0]
    if tree[above].type != "directory":
        raise BuildError(f"a layer writes below /{above}, which is a {tree[above].type}", hint=DAMAGED)


def _resolved(tree: Tree, entry: Entry) -> Entry:
    """Return the entry as the digest sees it."""
    if entry.type == "symlink":
        return msgspec.structs.replace(entry, mode=0o777)
    if entry.type != "hardlink":
        return entry
    target = tree.get(entry.target)
    if target is None or target.type == "directory":
        raise BuildError(f"/{entry.path} is a hard link to /{entry.target}, which is no file", hint=DAMAGED)
    return msgspec.structs.replace(target, path=entry.path)


def _remove(tree: Tree, path: str, name: str) -> None:
    folder = path[: -len(name)].rstrip("/")
    if name == OPAQUE:
        _remove_below(tree, folder)
    else:
        victim = f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/")
        gone = tree.pop(victim, None)
        if (
            gone is not None and gone.type == "directory"
        ):  # looking below each of thousands of files takes minutes
            _remove_below(tree, victim)


def _remove_below(tree: Tree, folder: str) -> None:
    start = f"{folder}/" if folder else ""
    for path in [path for path in tree if path and path.startswith(start)]:
        del tree[path]
