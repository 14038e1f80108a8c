"""Layers merged by the rules of the OCI image specification.

The rules are in "Applying Changesets".
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from reprobuild.errors import BuildError
from reprobuild.image.layering.folders import OwnFolders
from reprobuild.image.layering.order import DAMAGED as DAMAGED
from reprobuild.image.layering.order import WrittenPaths
from reprobuild.image.layering.overlay import OwnWrites
from reprobuild.infra.display import escape_text
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.names import HOSTILE, check_name

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"

_ODD = re.compile(r"(^|/)\.{0,2}(/|$)")  # such a path stays as it is, for the code that refuses it
_MOST_LINKS = 40  # as in Linux, path_resolution(7)
# Parent directories that no layer writes: builders write nearly all. Each costs half a kilobyte.
MOST_IMPLIED = 500_000
MOST_IMPLIED_TEXT = 64 << 20
# Names on the way to directories that are missing, or behind links.
MOST_STEPS = 20_000_000

Tree = dict[str, TarEntry]


class Located(TarEntry, frozen=True, kw_only=True):
    """An entry of a layer, with its content's offset.

    `offset` is in the layer's tar, for a file.
    """

    layer: int = 0
    offset: int = 0


def merge(listings: Iterable[Iterable[TarEntry]], below: Tree | None = None, *, follow: bool = True) -> Tree:
    """Return {path: entry} of merged layers, sorted by path.

    Hard links become files. `below` is a tree, merged before, under the layers. The rules are those of the
    OCI image specification, "Applying Changesets": the later entry wins, directories merge, a whiteout
    removes the entries of lower layers, whatever its place in its layer. Our own layers have no whiteouts;
    images of other builders may. An entry below a symbolic link of its own layer is moved to the link's
    target within the tree. With `follow` off it is refused, and the entries are not a layer that engines
    unpack.

    Raises:
        BuildError: a hard link's target is not in its layer or has other metadata, a path is below a
            non-directory, links lead in a circle, following paths takes too much, a whiteout comes after an
            entry of its layer that engines delete by it, or engines make different trees of a layer (an
            opaque marker at the root, `overlay`, `folders`).
    """
    try:
        return _merge(listings, below, follow=follow)
    except BuildError as err:  # it names paths, which may have line breaks
        raise BuildError(escape_text(str(err)), hint=err.hint) from None


def _merge(listings: Iterable[Iterable[TarEntry]], below: Tree | None, *, follow: bool) -> Tree:
    growing = _Growing(below or {"": TarEntry(path="", type="directory", mode=0o755)}, follow=follow)
    for listing in listings:
        growing.begin_layer()
        entries = [(entry.path.rpartition("/")[2].startswith(WHITEOUT), entry) for entry in listing]
        for whiteout, entry in entries:
            if not whiteout and entry.type == "directory" and growing.has_link(entry.path):
                growing.put(entry)  # whiteouts below it do not mean the link's target
        victims = {n: growing.remove(entry.path) for n, (whiteout, entry) in enumerate(entries) if whiteout}
        last, written = max(victims, default=-1), WrittenPaths()
        for number, (whiteout, entry) in enumerate(entries):
            if whiteout:
                growing.follow_whiteout(entry.path, victims[number])
                continue
            place = growing.put(entry)
            if number < last:
                written.add((entry.path, place), number)
        first = next((number for number, (whiteout, _) in enumerate(entries) if not whiteout), last)
        for number, places in victims.items():
            if number > first:
                growing.check_order(entries[number][1].path, places, written, number)
        growing.end_layer()
    return dict(sorted(growing.tree.items()))


class _Growing:
    """A tree that grows by layers.

    Each path except the root's is among the children of its directory.
    """

    def __init__(self, below: Tree, *, follow: bool) -> None:
        self.tree = dict(below)
        self._follow = follow
        self._children: dict[str, set[str]] = {}
        self._implied, self._implied_text, self._steps = 0, 0, 0
        self._own, self._folders = OwnWrites(), OwnFolders()
        for path in self.tree:
            self._join(path)

    def begin_layer(self) -> None:
        """Begin a layer over the present tree."""
        self._own, self._folders = OwnWrites(), OwnFolders()

    def end_layer(self) -> None:
        """Refuse a layer with different trees in different engines."""
        self._own.check_folders(self.tree)
        if self._follow:
            self._folders.check(self.tree)

    def has_link(self, path: str) -> bool:
        """Return whether a path itself is a symbolic link."""
        former = self.tree.get(path)
        return former is not None and former.type == "symlink"

    def put(self, entry: TarEntry) -> str:
        """Put an entry at its place, and return the place.

        The parent directories are made.
        """
        path = self._place(entry.path)
        former = self.tree.get(path)
        if former is not None and former.type == "directory" and entry.type != "directory":
            self._own.add_replaced_directory(path)
            self._clear(path)
        self._make_parents(path)
        self.tree[path] = self._resolved(entry, path)
        self._own.add(self.tree[path], is_new=former is None)
        self._folders.add(self.tree[path], former)
        self._join(path)
        return path

    def remove(self, path: str) -> set[str]:
        """Apply a whiteout, and return its path and place.

        Return an empty set if it names no path.
        """
        victim, place = self._victim(path)
        if victim is None:
            return set()
        if not place and self._children.get(""):
            raise BuildError(
                "a layer holds an opaque marker at its root: engines that mount layers over each other ignore it, and "
                "show the files of lower layers",
                hint=DAMAGED,
            )
        below = self._clear(place)
        if path.endswith(OPAQUE):
            self._own.clear(place)
            self._folders.clear(place)
            return {victim, place}
        self._own.remove(place, below)
        self._folders.remove(place)
        if place and place in self.tree:
            del self.tree[place]
            self._children[place.rpartition("/")[0]].discard(place)
        return {victim, place}

    def follow_whiteout(self, path: str, places: set[str]) -> None:
        """Record a whiteout that now leads elsewhere and deletes something.

        It leads there through a link of its layer.
        """
        victim, place = self._victim(path)
        is_astray = victim is not None and place not in places and place in self.tree
        if is_astray and not path.endswith(OPAQUE):  # see `check_order`
            self._own.add_whiteout_below_link(path, place)

    def check_order(self, path: str, places: set[str], written: WrittenPaths, number: int) -> None:
        """Refuse a whiteout after entries that it would delete.

        `places` is the result of `remove`.
        """
        victim, place = self._victim(path)
        if victim is not None and path.endswith(OPAQUE):
            written.check_opaque(path, {*places, place}, number)
        elif victim is not None:
            written.check_whiteout(path, {*places, place}, number)

    def _victim(self, path: str) -> tuple[str | None, str]:
        """Return the path that a whiteout names, and its place.

        The path is None if it names no path.
        """
        folder, _, name = path.rpartition("/")
        if name == WHITEOUT or _ODD.search(path):
            return None, ""
        if name == OPAQUE:
            return folder, self._real(folder)
        victim = f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/")
        return victim, self._place(victim)

    def _join(self, path: str) -> None:
        if path:
            self._children.setdefault(path.rpartition("/")[0], set()).add(path)

    def _clear(self, folder: str) -> list[str]:
        """Remove all paths below a directory, and return them.

        The time depends on their number, and not on the size of the tree.
        """
        removed, number = [folder], 0
        while number < len(removed):
            for child in self._children.pop(removed[number], ()):
                del self.tree[child]
                removed.append(child)
            number += 1
        return removed[1:]

    def _make_parents(self, path: str) -> None:
        above = path.rpartition("/")[0]
        while above not in self.tree:
            self._count_implied(above)
            self.tree[above] = TarEntry(path=above, type="directory", mode=0o755)
            self._own.add(self.tree[above], is_new=True)
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
            raise BuildError(
                "its layers write below very many directories that none of them has", hint=HOSTILE
            )

    def _resolved(self, entry: TarEntry, path: str) -> TarEntry:
        """Return the entry in its form for the digest."""
        if entry.type == "symlink":
            return msgspec.structs.replace(entry, path=path, mode=0o777)
        if entry.type != "hardlink":
            return entry if entry.path == path else msgspec.structs.replace(entry, path=path)
        place = self._place(entry.target)
        target = self.tree.get(place)
        if target is None or target.type == "directory":
            raise BuildError(
                f"/{entry.path} is a hard link to /{entry.target}, which is no file", hint=DAMAGED
            )
        if not _headers_agree(entry, target):
            raise BuildError(
                f"/{entry.path} is a hard link to /{entry.target} with another mode, owner or attribute",
                hint=DAMAGED,
            )
        if self._follow:
            self._own.check_target(entry.path, entry.target, place)
        return msgspec.structs.replace(target, path=path)

    def _place(self, path: str) -> str:
        """Return a path's place after following the links above it.

        A link at its end is not followed.
        """
        above, _, name = path.rpartition("/")
        known = self.tree.get(above)
        if not self._follow or (known is not None and known.type == "directory") or _ODD.search(path):
            return path
        place = f"{self._real(above)}/{name}".lstrip("/")
        if place != path:
            check_name(place, "a layer, through its links,")
        return place

    def _real(self, path: str) -> str:
        """Return a directory's place after following all links.

        The place is never outside the tree.
        """
        real, steps, links = "", path.split("/")[::-1], 0
        self._steps += len(steps)
        while steps:
            if self._steps > MOST_STEPS:
                raise BuildError("its layers have very long ways to their directories", hint=HOSTILE)
            part = steps.pop()
            if part == "..":
                real = real.rpartition("/")[0]
            elif part not in ("", "."):
                step = f"{real}/{part}".lstrip("/")
                entry = self.tree.get(step)
                if entry is None or entry.type != "symlink":
                    real = step
                    continue
                self._own.check_link(path, step)
                links += 1
                if links > _MOST_LINKS:
                    raise BuildError(f"a layer writes below /{path}, whose links have no end", hint=DAMAGED)
                real = "" if entry.target.startswith("/") else real
                more = entry.target.split("/")[::-1]
                self._steps += len(more)
                steps += more
        return real


def _headers_agree(link: TarEntry, target: TarEntry) -> bool:
    """Return whether a hard link's header agrees with its file's.

    Engines apply it to both names. GNU tar repeats no attributes. The mode of a symbolic link has no meaning.
    """
    same = (link.uid, link.gid) == (target.uid, target.gid) and link.xattrs in ((), target.xattrs)
    return same and (target.type == "symlink" or link.mode == target.mode)
