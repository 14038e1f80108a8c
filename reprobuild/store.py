"""Store: files by their sha256, and a memory of what was made from what.

    blobs/HH/HASH     content, read-only, verified when it is first used by a process
    made/KEY          JSON: what was made from inputs with this key (layers, realised trees)
    partial/HASH      downloads that were interrupted
    tmp/              unfinished work; removed by the next process that finds its own one gone

Every file appears by rename, so an interrupted process leaves nothing half-written.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reprobuild.errors import FetchError
from reprobuild.whole import private_folder

CHUNK = 1 << 20


def hash_file(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Store:
    """A folder of blobs. Safe for several processes at once: all writes are renames."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._verified: set[str] = set()
        # Threads that want one blob wait for the first, which hashes it.
        self._hashing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def blob(self, sha256: str) -> Path:
        """Return where a blob stands, or would stand; no check."""
        return self.root / "blobs" / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        """Tell whether the blob is there. Its bytes are checked by `verified`."""
        return self.blob(sha256).is_file()

    def verified(self, sha256: str, what: str) -> Path:
        """Return the path of a blob whose bytes were checked by this process.

        Args:
            sha256: the blob's hash (hex).
            what: the name that the user knows it by.

        Raises:
            FetchError: it is not there, or its bytes changed; a changed blob is removed, so that the next
                run fetches or makes it again.
        """
        with self._hashing[sha256]:
            if sha256 not in self._verified:
                self._verify(sha256, what)
        return self.blob(sha256)

    def _verify(self, sha256: str, what: str) -> None:
        path = self.blob(sha256)
        if not path.is_file():
            raise FetchError(
                f"{what} is not in the store {self.root}", hint="run `reprobuild fetch LOCK`, with a network"
            )
        found = hash_file(path)
        if found != sha256:
            path.unlink()
            raise FetchError(
                f"{what} in the store is damaged: sha256 {found}, locked as {sha256}",
                hint="the damaged copy was removed; run the command again to fetch it anew",
            )
        self._verified.add(sha256)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Give a private folder inside the store that is removed afterwards, and those of killed processes."""
        with private_folder(self.root / "tmp", prefix="") as folder:
            yield folder

    def adopt(self, path: Path, sha256: str | None = None) -> str:
        """Move a finished file of the store's own file system in, and return its sha256.

        Args:
            path: a file below `scratch` or `partial`; it is gone afterwards.
            sha256: its hash when the caller computed it while writing.
        """
        digest = sha256 or hash_file(path)
        target = self.blob(digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        path.chmod(0o444)
        path.replace(target)
        self._verified.add(digest)
        return digest

    def add(self, content: bytes) -> str:
        """Keep bytes, and return their sha256; what is there already is not written again."""
        digest = hashlib.sha256(content).hexdigest()
        with contextlib.suppress(OSError):
            if self.blob(digest).read_bytes() == content:
                self._verified.add(digest)
                return digest
        with self.scratch() as folder:
            path = folder / "blob"
            path.write_bytes(content)
            return self.adopt(path, digest)

    def recall(self, key: str) -> Any | None:
        """Return what `remember` kept under the key, or None."""
        try:
            return json.loads((self.root / "made" / key).read_bytes())
        except (OSError, ValueError):
            return None

    def remember(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key (hex digest of what it was made from)."""
        path = self.root / "made" / key
        with self.scratch() as folder:
            part = folder / key
            part.write_text(json.dumps(value, sort_keys=True))
            path.parent.mkdir(parents=True, exist_ok=True)
            part.replace(path)
