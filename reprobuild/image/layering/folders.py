"""Lower directories that a layer writes below or repeats.

Engines that unpack each layer into its own directory make a directory without an entry in the layer. Docker
and Podman make it with the mode 0755 for root, and an overlay then shows that in place of the lower layer's
directory; containerd copies the mode of the lower one. Of attributes, an overlay shows only those of the
upper directory, and in one root, or if one layer has a directory twice, the former ones stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprobuild.errors import BuildError
from reprobuild.image.layering.order import DAMAGED
from reprobuild.infra.tar.entries import TarEntry

# The engines' mode of a directory without an entry. ko, Bazel and Jib leave entries out.
_MODE = 0o755
# `filesystem` of Fedora has a root that even its owner cannot write to. The root user ignores that.
_ROOT_MODES = (_MODE, 0o555)


class OwnFolders:
    """The directories of a layer, and those it writes into."""

    def __init__(self) -> None:
        self._entries: set[str] = set()
        self._above = {""}
        self._above_whiteouts: set[str] = set()
        self._removed: set[str] = set()

    def add(self, entry: TarEntry, former: TarEntry | None) -> None:
        """Add an entry at its place, instead of `former`.

        Raises:
            BuildError: it is a directory with other attributes than it has in this layer already, or lacks
                some that a lower layer gave it.
        """
        if entry.path:
            self._above.add(entry.path.rpartition("/")[0])
        if entry.type == "directory":
            if former is not None and former.type == "directory" and former.xattrs != entry.xattrs:
                self._check_attributes(entry, former)
            self._entries.add(entry.path)

    def _check_attributes(self, entry: TarEntry, former: TarEntry) -> None:
        if entry.path in self._entries:
            raise BuildError(
                f"a layer holds /{entry.path} twice, with other attributes: engines that unpack it keep both",
                hint=DAMAGED,
            )
        if {name for name, _ in former.xattrs} - {name for name, _ in entry.xattrs}:
            raise BuildError(
                f"a layer holds /{entry.path} without attributes that a lower layer gave it: engines that unpack all "
                "layers into one root keep them",
                hint=DAMAGED,
            )

    def remove(self, place: str) -> None:
        """Add a path that a whiteout removes."""
        self._above_whiteouts.add(place.rpartition("/")[0])
        self._removed.add(place)

    def clear(self, folder: str) -> None:
        """Add a directory with an opaque marker."""
        self._above_whiteouts.add(folder)

    def check(self, tree: Mapping[str, TarEntry]) -> None:
        """Refuse directories without an entry that engines make differently.

        Raises:
            BuildError: the layer writes below such a directory.
        """
        self._above.update(self._nearest(folder, tree) for folder in self._above_whiteouts)
        checked_folders: set[str] = set()
        for folder in self._above:
            while folder not in checked_folders:
                checked_folders.add(folder)
                if folder not in self._entries and _is_special(folder, tree.get(folder)):
                    raise _implied_directory_error(folder)
                folder = folder.rpartition("/")[0]

    def _nearest(self, folder: str, tree: Mapping[str, TarEntry]) -> str:
        """Return the directory of a whiteout, or its nearest parent.

        The parent counts if the layer removes the directory or has another file there.
        """
        above, is_removed = folder, False
        while above not in tree:
            is_removed = is_removed or above in self._removed
            above = above.rpartition("/")[0]
        if above != folder and not is_removed and tree[above].type == "directory":
            raise BuildError(
                f"a layer holds a whiteout in /{folder}, which no layer has: some engines make that directory",
                hint=DAMAGED,
            )
        return above


def _is_special(folder: str, entry: TarEntry | None) -> bool:
    if entry is None or entry.type != "directory":
        return False
    modes = (_MODE,) if folder else _ROOT_MODES
    return entry.mode not in modes or (entry.uid, entry.gid) != (0, 0) or bool(entry.xattrs)


def _implied_directory_error(folder: str) -> BuildError:
    return BuildError(
        f"a layer writes below /{folder} and has no entry for it, and a lower layer has it with a mode, owner "
        "or attribute of its own: some engines show these, and others 0755 of root",
        hint=DAMAGED,
    )
