"""Layers with different trees in different engines.

Docker, Podman and containerd unpack each layer into its own directory, which overlayfs mounts over those
below. Kaniko and drivers without overlays unpack all layers into one root. The OCI image specification does
not decide between the two if they differ: such a layer is refused, since one digest would stand for two
trees. https://docs.kernel.org/filesystems/overlayfs.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reprobuild.errors import BuildError
from reprobuild.image.layering.order import DAMAGED
from reprobuild.infra.tar.entries import TarEntry


class OwnWrites:
    """The writes and removals of a layer, for engine differences."""

    def __init__(self) -> None:
        self._links: set[str] = set()
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._torn: set[str] = set()  # directories replaced by another type
        self._lower_torn: list[str] = []
        self._removed: dict[str, list[str]] = {}
        self._whiteouts: set[str] = set()
        self._opaque: set[str] = set()
        self._astray: list[tuple[str, str]] = []

    def add(self, entry: TarEntry, *, is_new: bool) -> None:
        """Add an entry at its place.

        `is_new` is true if the tree had none there.
        """
        if entry.type == "symlink":
            self._links.add(entry.path)
        elif entry.type == "directory" and is_new:
            self._folders.add(entry.path)
        if entry.type != "directory":
            self._files.add(entry.path)

    def add_replaced_directory(self, folder: str) -> None:
        """Add a directory replaced by an entry of another type."""
        self._torn.add(folder)
        if folder not in self._folders:
            self._lower_torn.append(folder)

    def remove(self, place: str, below: list[str]) -> None:
        """Add a path that a whiteout removes, with its contents.

        The contents are those of lower layers.
        """
        self._whiteouts.add(place)
        if below:
            self._removed.setdefault(place, []).extend(below)

    def clear(self, folder: str) -> None:
        """Add a directory whose lower contents an opaque marker removes."""
        self._opaque.add(folder)

    def add_whiteout_below_link(self, whiteout: str, place: str) -> None:
        """Add a whiteout below a link of its own layer.

        `place` is the path that it means through the link.
        """
        self._astray.append((whiteout, place))

    def check_target(self, path: str, target: str, place: str) -> None:
        """Refuse a hard link to a lower layer's file.

        The file is in `place`.

        Raises:
            BuildError: engines that unpack each layer into its own directory do not find the file.
        """
        if place not in self._files:
            raise BuildError(
                f"/{path} is a hard link to /{target} of a lower layer, which engines that unpack each layer alone do "
                "not find",
                hint=DAMAGED,
            )

    def check_link(self, path: str, link: str) -> None:
        """Refuse a path that leads through a lower layer's link.

        Raises:
            BuildError: an overlay has a directory in place of the link, and one root follows the link.
        """
        if link not in self._links:
            raise _ambiguity_error(f"writes below /{path}, and a lower layer has the symbolic link /{link}")

    def check_folders(self, tree: Mapping[str, TarEntry]) -> None:
        """Refuse removed and restored directories with lower contents.

        The lower contents are those of other layers.

        Raises:
            BuildError: an overlay shows the lower contents, and one root does not; or a whiteout deletes the
                target of a link of its layer.
        """
        for whiteout, place in self._astray:
            raise BuildError(
                f"a layer holds the whiteout /{whiteout} below a symbolic link of its own: engines delete /{place} by "
                "it",
                hint=DAMAGED,
            )
        for folder in self._lower_torn:
            if _is_directory(tree, folder):
                raise _ambiguity_error(
                    f"holds /{folder} as a directory and as another file, and a lower layer has the directory"
                )
        for folder, below in self._removed.items():
            if _is_directory(tree, folder) and self._is_bare(tree, folder, below):
                raise _ambiguity_error(
                    f"holds /{folder} and its whiteout, and a lower layer has files in that directory"
                )

    def _is_bare(self, tree: Mapping[str, TarEntry], folder: str, below: Iterable[str]) -> bool:
        """Return whether an overlay shows one of these lower paths."""
        return any(path not in tree and not self._is_hidden(tree, folder, path) for path in below)

    def _is_hidden(self, tree: Mapping[str, TarEntry], folder: str, path: str) -> bool:
        """Return whether the layer hides a path below a directory.

        The whiteout of the directory itself does not count.
        """
        hidden = False
        while path != folder:
            is_other = path in tree and not _is_directory(tree, path)
            if path in self._torn:
                return False  # it took the whiteouts below it along
            hidden = hidden or is_other or path in self._whiteouts
            path = path.rpartition("/")[0]
            hidden = hidden or path in self._opaque
        return hidden and folder not in self._torn


def _is_directory(tree: Mapping[str, TarEntry], path: str) -> bool:
    return path in tree and tree[path].type == "directory"


def _ambiguity_error(problem: str) -> BuildError:
    return BuildError(
        f"a layer {problem}: engines that mount layers over each other show another tree there than those that "
        "unpack all layers into one root",
        hint=DAMAGED,
    )
