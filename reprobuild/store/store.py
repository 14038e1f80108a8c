"""The store: files by sha256, and a memory of results.

    blobs/HH/HASH           content, read-only, verified when it is first used by a process
    made/KEY                JSON: the results for inputs with this key (layers, realised trees)
    making/KEY              locked by the process that makes the result of this key
    kept/PATH-HASH          JSON: a lock file to keep, and the files that its runs used
    partial/HASH.MACHINE    downloads that were interrupted
    tmp/MACHINE.*           unfinished work; removed by the next process that finds its own one gone
    in-use                  locked by every process that uses the store
    key                     signs `made`, for users who know it: see `signature`

The directory is private when this program makes it. Blobs are 0444 in it: output directories hold hard links to them.
Every file appears by rename, so an interrupted process leaves no half-written file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from reprobuild.errors import FetchError
from reprobuild.infra.atomic import PrivateDirectory
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Sha256
from reprobuild.store.blob_hash import hash_open, is_still
from reprobuild.store.directory import StoreDirectory
from reprobuild.store.keyring import StoreKeyring, keyring
from reprobuild.store.signature import is_private, make_key, read_key, sign, verify
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.host import host

CHUNK = 1 << 20
LARGEST_MEMORY = 256 << 20  # the listings of libraries of some hundred wheels have some megabytes
HOUR = 3600.0
_SHA256 = re.compile("[0-9a-f]{64}")


def touch(path: Path) -> None:
    """Refresh a path's time, at most once an hour.

    Other machines then see it in use, even if locks do not reach them.
    """
    with contextlib.suppress(OSError):  # not there, or not ours
        if time.time() - path.lstat().st_mtime > HOUR:
            host.utime(path, follow_symlinks=False)


class DamagedError(FetchError):
    """The bytes of a blob changed, and it was removed."""


class Used(Struct, frozen=True, kw_only=True):
    """The requests to a store, sorted: hashes of blobs, keys of `made`."""

    blobs: tuple[Sha256, ...] = ()
    made: tuple[Sha256, ...] = ()


class Store(StoreDirectory):
    """A directory of blobs, safe for several processes at once.

    All writes are renames.

    While it is used, `sole` removes no file from it, if the file system has locks. `used` has the requests so far.
    """

    def __init__(
        self,
        root: Path,
        known: StoreKeyring | None = None,
        doubt: Callable[[Store], object] = lambda store: None,
    ) -> None:
        """Use a directory as a store.

        Args:
            root: the directory; it is made when the first file is kept.
            known: the keys that the user trusts; by default those of the user of this process.
            doubt: called once, at the first request for results, if the user does not trust the store's key.
        """
        super().__init__(root)
        self.known = known or keyring()
        self._verified: set[str] = set()
        # Threads that want one blob wait for the first, which hashes it.
        self._hashing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._blobs: set[str] = set()
        self._made: set[str] = set()
        self._key: bytes | None = None
        self._doubt: Callable[[Store], object] | None = doubt
        self._here: dict[str, bytes] = {}  # results that this process remembers without a trusted key

    def blob(self, sha256: str) -> Path:
        """Return the path of a blob, without a check.

        Raises:
            FetchError: this is not a sha256, so the lock is not valid.
        """
        if not _SHA256.fullmatch(sha256):
            raise FetchError(
                f"{sha256[:80]!r} is no sha256", hint="make the lock again with `reprobuild lock DIR`"
            )
        return self.root / "blobs" / sha256[:2] / sha256

    def has(self, sha256: str, size: int = 0) -> bool:
        """Return whether the blob exists; `verified` checks its bytes.

        A blob of another size than the locked `size` counts as missing, and `adopt` replaces it. 0 is any size.
        """
        if not _SHA256.fullmatch(sha256):
            return False
        self._hold()
        blob = self.blob(sha256)
        self._asked(self._blobs, sha256, blob)
        with contextlib.suppress(FileNotFoundError):  # another process removes it
            return blob.is_file() and size in (0, blob.stat().st_size)
        return False

    @property
    def used(self) -> Used:
        """The existing files that were asked for so far."""
        blobs = sorted(sha256 for sha256 in tuple(self._blobs) if self.blob(sha256).is_file())
        keys = sorted(key for key in tuple(self._made) if (self.root / "made" / key).is_file())
        return Used(blobs=tuple(blobs), made=tuple(keys))

    @contextlib.contextmanager
    def private_directory(self, above: str, name: str) -> Iterator[Path]:
        """Yield a directory in the store for the user alone.

        Its files are trusted without a signature.

        It stays if the user trusts the key of the store and shares it with no group. Its name depends on the key, so a
        store that is handed over cannot have it. Otherwise it is removed afterwards.

        Args:
            above: a directory of the store.
            name: distinguishes it from others of that directory.
        """
        self._hold(make=True)
        self._key = self._trusted_key() or make_key(self.root, self.known)
        if self._key is None or self.shared or not is_private(self.root):
            with self.scratch() as folder:
                yield folder
            return
        mark = hashlib.sha256(sign(self._key, f"{above}/{name}", b"")).hexdigest()[:32]
        folder = self.root / above / mark
        folder.mkdir(parents=True, exist_ok=True)
        yield folder

    def _asked(self, names: set[str], name: str, path: Path) -> None:
        """Record a used file, and refresh its time for others."""
        if name not in names:
            names.add(name)
            touch(path)

    def verified(self, sha256: str, origin: str) -> Path:
        """Return the path of a blob after a check of its bytes.

        This process checks each blob once.

        Args:
            sha256: the blob's hash (hex).
            origin: the name that the user knows.

        Raises:
            DamagedError: its bytes changed; it is removed, so that the next run fetches or makes it again.
            FetchError: it is missing.
        """
        with self._hashing[sha256]:
            if sha256 not in self._verified:
                self._verify(sha256, origin)
        return self.blob(sha256)

    def _verify(self, sha256: str, origin: str) -> None:
        path = self.blob(sha256)
        self._hold()
        self._asked(self._blobs, sha256, path)
        if not path.is_file():
            raise FetchError(
                f"{origin} is not in the store {self.root}",
                hint="run `reprobuild fetch LOCK`, with a network; or name the store that has it: --store DIR",
            )
        digest, facts = hash_open(path)
        # Another process may have replaced it.
        while digest != sha256 and path.is_file() and not is_still(path, facts):
            digest, facts = hash_open(path)
        if digest != sha256:
            path.unlink(missing_ok=True)
            raise DamagedError(
                f"{origin} in the store is damaged: sha256 {digest}, locked as {sha256}",
                hint="the damaged copy was removed; run the command again to fetch it anew",
            )
        self._verified.add(sha256)

    def adopt(self, path: Path, sha256: str | None = None) -> str:
        """Move a finished file into the store; return its sha256.

        The file must be on the store's file system.

        Args:
            path: a file below `scratch` or `partial`; it no longer exists afterwards.
            sha256: its hash, if the caller computed it while writing.
        """
        digest = sha256 or hash_file(path)
        # Members of a shared store write to `partial`, too.
        number = host.open(path, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK)
        try:
            host.fchmod(number, 0o444)
        finally:
            host.close(number)
        with self.open_folder("blobs", self.blob(digest).parent.name) as folder:
            host.replace(path, digest, dst_dir_fd=folder)
        self._verified.add(digest)
        self._blobs.add(digest)
        return digest

    def adopt_new(self, scratch: PrivateDirectory, name: str, file: IO[bytes], sha256: str) -> None:
        """Move a new file into the store.

        Args:
            scratch: an `open_scratch` directory.
            name: of a file in it.
            file: the file, open for writing; it is closed.
            sha256: its hash (hex).
        """
        host.fchmod(file.fileno(), 0o444)
        file.close()
        with self.open_folder("blobs", self.blob(sha256).parent.name) as folder:
            scratch.move(name, sha256, folder)
        self._verified.add(sha256)
        self._blobs.add(sha256)

    def add(self, content: bytes) -> str:
        """Keep bytes, and return their sha256.

        Bytes that are already stored are not written again.
        """
        digest = hashlib.sha256(content).hexdigest()
        self._hold()
        self._blobs.add(digest)
        with contextlib.suppress(OSError):
            if read_plain(self.blob(digest), len(content)) == content:
                self._verified.add(digest)
                return digest
        with self.open_scratch() as scratch, scratch.open_new("blob") as file:
            file.write(content)
            self.adopt_new(scratch, "blob", file, digest)
        return digest

    def recall(self, key: str) -> Any | None:
        """Return the value that `remember` kept under a key, or None.

        A value that another key signed counts as missing.
        """
        self._hold()
        self._asked(self._made, key, self.root / "made" / key)
        content = self.signed(self.root / "made" / key)
        try:
            return None if content is None else json.loads(content)
        except (ValueError, RecursionError):
            return None

    def remember(self, key: str, value: Any) -> None:
        """Keep a JSON value under a key, the hex digest of its inputs."""
        self._made.add(key)
        self.keep_signed(self.root / "made" / key, json.dumps(value, sort_keys=True).encode())

    def signed(self, path: Path) -> bytes | None:
        """Return a valid signed file's content, or None.

        `keep_signed` wrote the file.
        """
        key = self._trusted_key()
        if key is None:
            return self._here.get(str(path))
        try:
            return verify(key, path.name, read_plain(path, LARGEST_MEMORY))
        except OSError:
            return None

    def _trusted_key(self) -> bytes | None:
        """Return the store's trusted key.

        Call `doubt` the first time that there is no such key.
        """
        self._key = self._key or read_key(self.root, self.known)
        if self._key is None:
            with self._guard:
                doubt, self._doubt = self._doubt, None
            if doubt is not None:
                doubt(self)
        return self._key

    def conceal(self, secret: str) -> str:
        """Return a digest (hex) of a secret, under the store's key; without a trusted key it is a new one each time."""
        self._hold(make=True)
        self._key = self._trusted_key() or make_key(self.root, self.known)
        key = self._key or os.urandom(32)
        return sign(key, "secret", secret.encode("utf-8", "surrogateescape")).partition(b"\n")[0].decode()

    def keep_signed(self, path: Path, content: bytes) -> None:
        """Write a signed file of the store, outside of `blobs`.

        If the user does not trust a key of the store, no file is written: only this process remembers the content.
        """
        self._hold(make=True)
        self._key = self._trusted_key() or make_key(self.root, self.known)
        if self._key is None:
            self._here[str(path)] = content
            return
        self.keep_file(path, sign(self._key, path.name, content))

    def keep_file(self, path: Path, content: bytes) -> None:
        """Write a file of the store, outside of `blobs`; no link in the store is followed."""
        *above, name = path.relative_to(self.root).parts
        with self.open_scratch() as scratch, self.open_folder(*above) as folder:
            scratch.write(name, content)
            scratch.move(name, name, folder)
