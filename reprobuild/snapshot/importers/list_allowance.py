"""The work that all lists of one import may need together: the rules for secrets search each of their rows."""

from __future__ import annotations

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text

MOST_BYTES = 4 << 20  # the rules need up to 3 µs for each; a freeze with hashes has half of it
MOST_ROWS = (
    20_000  # each needs up to a millisecond; hashes do not count, and a full system has some thousands
)
MOST_CUT = 5000  # rows with a secret: an environment of conda with a token in each address has some hundred


class ListAllowance:
    """What is left of the bounds on the lists of one import."""

    def __init__(self) -> None:
        """Begin an import."""
        self._bytes = self._rows = self._cut = 0

    def count_bytes(self, size: int, file: str) -> None:
        """Count the content of a list.

        Raises:
            SnapshotError: the lists are too large.
        """
        self._bytes += size
        if self._bytes > MOST_BYTES:
            raise SnapshotError(
                f"{display_text(file)}: with it, the lists of this import have more than {MOST_BYTES >> 20} MiB",
                hint="unpack it, and import it without the large ones; or take a snapshot where the job runs: "
                "`reprobuild capture -o DIR`",
            )

    def count_row(self, file: str) -> None:
        """Count a row that is searched.

        Raises:
            SnapshotError: the lists have too many.
        """
        self._rows += 1
        if self._rows > MOST_ROWS:
            raise SnapshotError(
                f"{display_text(file)}: with it, the lists of this import have more than {MOST_ROWS} rows",
                hint="import it without the lists that an image does not need; a full system has some thousands of "
                "packages",
            )

    def count_cut(self, file: str) -> None:
        """Count a row with a secret.

        Raises:
            SnapshotError: the lists have too many.
        """
        self._cut += 1
        if self._cut > MOST_CUT:
            raise SnapshotError(
                f"{display_text(file)}: with it, more than {MOST_CUT} rows of this import have a secret",
                hint="take the secrets out of the list, and import it again",
            )
