"""Layers put over each other, as the OCI image specification says it ("Applying Changesets")."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from reprobuild.archive import Entry
from reprobuild.errors import BuildError
from reprobuild.guard.names import HOSTILE, check_name

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
DAMAGED = "the layer is damaged, or its builder broke the image specification; build the image again"

_ODD = re.compile(r"(^|/)\.{0,2}(/|$)")  # such a path stays as it is, for those who refuse it
_MOST_LINKS = 40  # as Linux has it, path_resolution(7)
# Folders that no layer writes and that stand above a path: builders write nearly all. Each costs half a kilobyte.
MOST_IMPLIED = 500_000
MOST_IMPLIED_TEXT = 64 << 20
# Names on the way to folders that are not there yet, or lie behind links.
MOST_STEPS = 20_000_000

Tree = dict[str, Entry]


class Located(Entry, frozen=True, kw_only=True):
    """An entry of a layer; a file's content begins at `offset` of the layer's tar."""

    layer: int = 0
    offset: int = 0


def merge(listings: Iterable[Iterable[Entry]], below: Tree | None = None, *, follow: bool = True) -> Tree:
    """Return {path: entry} of layers put over each other, sorted by path; hard links are files.

    `below` is the tree, merged before, that the layers stand on.

    The rules are those of the OCI image specification, "Applying Changesets": the later entry wins,
    directories merge, a whiteout removes what lower layers have, whatever its place in its layer. Our own layers hold
    no whiteouts; images of other builders may. What stands below a symbolic link of a folder comes to where the link
    leads within the tree, as where containerd applies layers to one root; with `follow` off it is refused.

    Raises:
        BuildError: a hard link's target is not there, a path is below what is not a directory, links lead in a
            circle, or following paths takes too much.
    """
    growing = _Growing(below or {"": Entry(path="", type="directory", mode=0o755)}, follow=follow)
    for listing in listings:
        entries = [(entry.path.rpartition("/")[2].startswith(WHITEOUT), entry) for entry in listing]
        for whiteout, entry in entries:
            if not whiteout and entry.type == "directory" and growing.has_link(entry.path):
                growing.put(entry)  # whiteouts below it do not mean where the link led
        for whiteout, entry in entries:
            if whiteout:
                growing.remove(entry.path)
        for whiteout, entry in entries:
            if not whiteout:
                growing.put(entry)
    return dict(sorted(growing.tree.items()))


class _Growing:
    """A tree that layers are put on. Each path but the root's stands among the children of its folder."""

    def __init__(self, below: Tree, *, follow: bool) -> None:
        self.tree = dict(below)
        self._follow = follow
        self._children: dict[str, set[str]] = {}
        self._implied, self._implied_text, self._steps = 0, 0, 0
        for path in self.tree:
            self._join(path)

    def has_link(self, path: str) -> bool:
        """Tell whether a path itself is a symbolic link."""
        former = self.tree.get(path)
        return former is not None and former.type == "symlink"

    def put(self, entry: Entry) -> None:
        """Put an entry in its place, with the folders above it."""
        path = self._place(entry.path)
        former = self.tree.get(path)
        if former is not None and former.type == "directory" and entry.type != "directory":
            self._clear(path)
        self._make_parents(path)
        self.tree[path] = self._resolved(entry, path)
        self._join(path)

    def remove(self, path: str) -> None:
        """Remove what a whiteout means, where that is there."""
        folder, _, name = path.rpartition("/")
        if name == WHITEOUT or _ODD.search(path):
            return  # of nothing
        victim = folder if name == OPAQUE else f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/")
        victim = self._real(victim) if name == OPAQUE else self._place(victim)
        self._clear(victim)
        if name != OPAQUE and victim and victim in self.tree:
            del self.tree[victim]
            self._children[victim.rpartition("/")[0]].discard(victim)

    def _join(self, path: str) -> None:
        if path:
            self._children.setdefault(path.rpartition("/")[0], set()).add(path)

    def _clear(self, folder: str) -> None:
        """Remove all below a folder, in time that grows with what is there and not with the tree."""
        left = [folder]
        while left:
            for child in self._children.pop(left.pop(), ()):
                del self.tree[child]
                left.append(child)

    def _make_parents(self, path: str) -> None:
        above = path.rpartition("/")[0]
        while above not in self.tree:
            self._count_implied(above)
            self.tree[above] = Entry(path=above, type="directory", mode=0o755)
            self._join(above)
            above = above.rpartition("/")[0]
        if self.tree[above].type != "directory":
            raise BuildError(
                f"a layer writes below /{above}, which is a {self.tree[above].type}", hint=DAMAGED
            )

    def _count_implied(self, path: str) -> None:
        self._implied += 1
        self._implied_text += len(path)
        if self._implied > MOST_IMPLIED or self._implied_text > MOST_IMPLIED_TEXT:
            raise BuildError("its layers write below very many folders that none of them has", hint=HOSTILE)

    def _resolved(self, entry: Entry, path: str) -> Entry:
        """Return the entry as the digest sees it."""
        if entry.type == "symlink":
            return msgspec.structs.replace(entry, path=path, mode=0o777)
        if entry.type != "hardlink":
            return entry if entry.path == path else msgspec.structs.replace(entry, path=path)
        target = self.tree.get(self._place(entry.target))
        if target is None or target.type == "directory":
            raise BuildError(
                f"/{entry.path} is a hard link to /{entry.target}, which is no file", hint=DAMAGED
            )
        return msgspec.structs.replace(target, path=path)

    def _place(self, path: str) -> str:
        """Return where a path is once the links above it are followed; a link at its end is not."""
        above, _, name = path.rpartition("/")
        known = self.tree.get(above)
        if not self._follow or (known is not None and known.type == "directory") or _ODD.search(path):
            return path
        place = f"{self._real(above)}/{name}".lstrip("/")
        if place != path:
            check_name(place, "a layer, through its links,")
        return place

    def _real(self, path: str) -> str:
        """Return where a folder is once all links are followed, never out of the tree."""
        real, left, links = "", path.split("/")[::-1], 0
        self._steps += len(left)
        while left:
            if self._steps > MOST_STEPS:
                raise BuildError("its layers have very long ways to their folders", hint=HOSTILE)
            part = left.pop()
            if part == "..":
                real = real.rpartition("/")[0]
            elif part not in ("", "."):
                step = f"{real}/{part}".lstrip("/")
                entry = self.tree.get(step)
                if entry is None or entry.type != "symlink":
                    real = step
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise BuildError(f"a layer writes below /{path}, whose links have no end", hint=DAMAGED)
                real = "" if entry.target.startswith("/") else real
                more = entry.target.split("/")[::-1]
                self._steps += len(more)
                left += more
        return real
