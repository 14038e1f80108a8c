"""Whiteouts after the entries of their own layer.

By the OCI image specification whiteouts affect only lower layers. Engines apply a layer member by member:
containerd and moby delete an entry of the same layer, too, if its whiteout comes later. An opaque marker
spares the entries that the layer has written itself, except for directories without an own entry.
"""

from __future__ import annotations

from collections.abc import Iterable

from reprobuild.errors import BuildError

DAMAGED = "the layer is damaged, or its builder broke the image specification; build the image again"


class WrittenPaths:
    """The paths that a layer has written, with member numbers.

    The number is that of the first member at the path or below it.
    """

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        # Directories with an entry below them in a directory without a member of its own.
        self._bare: dict[str, int] = {}

    def add(self, paths: Iterable[str], number: int) -> None:
        """Add the names of a member; numbers increase."""
        for path in paths:
            above = path.rpartition("/")[0]
            if above not in self._first:
                self._add_bare(above, number)
            _mark_upwards(self._first, path, number)

    def _add_bare(self, folder: str, number: int) -> None:
        while folder and folder not in self._first:
            folder = folder.rpartition("/")[0]
            _mark_upwards(self._bare, folder, number)

    def check_whiteout(self, name: str, victims: Iterable[str], number: int) -> None:
        """Refuse a whiteout after an entry that it would delete.

        Raises:
            BuildError: engines would delete the entry, and the image specification keeps it.
        """
        if any(self._first.get(victim, number) < number for victim in victims):
            raise _ambiguity_error(name)

    def check_opaque(self, name: str, folders: set[str], number: int) -> None:
        """Refuse an opaque marker after an entry it would delete.

        Raises:
            BuildError: see `check_whiteout`.
        """
        linked = len(folders) > 1 and any(self._first.get(folder, number) < number for folder in folders)
        if linked or any(self._bare.get(folder, number) < number for folder in folders):
            raise _ambiguity_error(name)


def _mark_upwards(numbers: dict[str, int], path: str, number: int) -> None:
    """Record a number for a path and its parents.

    It stops at a path with a number: that is smaller.
    """
    while path not in numbers:
        numbers[path] = number
        if not path:
            return
        path = path.rpartition("/")[0]


def _ambiguity_error(name: str) -> BuildError:
    return BuildError(f"a layer holds /{name} behind an entry that engines delete by it", hint=DAMAGED)
