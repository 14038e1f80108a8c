"""The number of directories that an archive's files need."""

from __future__ import annotations

from reprobuild.errors import BuildError
from reprobuild.infra.directory_fd import DEEPEST
from reprobuild.infra.untrusted.names import HOSTILE

# A few hundred bytes can name 200,000 directories. Those of real caches hold a file, or are shared by many.
_FIRST, _FOR_EACH_FILE = 1000, 4
_MOST = 100_000


class DirectoryCount:
    """A count of the directories above the files of an archive, before they are made.

    Args:
        origin: the archive's name for the user.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._files = 0
        self._numbers: dict[tuple[int, str], int] = {}  # by the number of the directory above, and the name

    def add(self, path: str) -> None:
        """Count the new directories of a file.

        Raises:
            BuildError: they are deeper than this program reads them again, or too many for the files so far.
        """
        *above, _ = path.split("/")
        if len(above) > DEEPEST:
            raise BuildError(f"{self._origin} has a file in {len(above)} nested directories", hint=HOSTILE)
        self._files += 1
        number = 0
        for name in above:
            number = self._numbers.setdefault((number, name), len(self._numbers) + 1)
        if len(self._numbers) > min(_FIRST + _FOR_EACH_FILE * self._files, _MOST):
            raise BuildError(
                f"{self._origin} has {len(self._numbers)} directories for {self._files} files", hint=HOSTILE
            )
