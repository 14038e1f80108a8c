"""The SIFs for Apptainer, in the user's cache directory.

Each image has `MANIFEST.sif` and `MANIFEST.json` (`CachedSif`), with MANIFEST the hex of its manifest digest. Each
name has `names/HASH` with that hex, since a file name cannot hold every image name. All files are written
under one file lock and renamed into place; a file that differs from its `CachedSif` is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import EngineError
from reprobuild.image.formats.single_file import single_file_name
from reprobuild.image.oci.read import Layout
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Digest, OptionalAbsolutePath, Sha256
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.host import fcntl

FOLDER = "reprobuild-sif"
PART = ".part"


_LARGEST = 1 << 16


class CachedSif(Struct, frozen=True, kw_only=True):
    """A SIF in the cache, with its digests.

    `manifest` and `config` are the image's digests ("sha256:..."), `sha256` is the file's (hex); a command
    starts in the directory `workdir`.
    """

    manifest: Digest
    config: Digest
    workdir: OptionalAbsolutePath
    sha256: Sha256
    size: int


class Cache(Struct, frozen=True):
    """The cache directory of SIFs."""

    folder: Path

    @classmethod
    def open_user_cache(cls, env: Mapping[str, str]) -> Cache:
        """Return the user's cache, with its directory made.

        Raises:
            EngineError: others can write there, and so could change the image that is run.
        """
        above = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/var/tmp")) / ".cache")
        cache = cls((above / FOLDER).absolute())
        try:
            above.mkdir(parents=True, exist_ok=True)
            cache.folder.mkdir(exist_ok=True, mode=0o700)
            (cache.folder / "names").mkdir(exist_ok=True)
            status = cache.folder.stat()
        except OSError as err:
            raise EngineError(
                f"no SIF can be kept in {cache.folder}: {err.strerror}",
                hint="let XDG_CACHE_HOME name a directory that can be written",
            ) from None
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise EngineError(
                f"{cache.folder} can be changed by other users",
                hint="let XDG_CACHE_HOME name a directory of your own, or remove this one",
            )
        return cache

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Take the file lock of the cache directory."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def find(self, reference: str) -> CachedSif | None:
        """Return the image with a name, or None.

        Its file is not checked. None also means an unreadable record.
        """
        try:
            return self._find_kept(read_plain(self._name(reference), _LARGEST).decode())
        except (OSError, UnicodeDecodeError):
            return None

    def find_by_manifest(self, manifest: str) -> CachedSif | None:
        """Return the image with a manifest digest."""
        return self._find_kept(manifest.partition(":")[2])

    def _find_kept(self, digest: str) -> CachedSif | None:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            return None
        try:
            sif = msgspec.json.decode(read_plain(self.folder / f"{digest}.json", _LARGEST), type=CachedSif)
        except (OSError, msgspec.DecodeError):
            return None
        return sif if sif.manifest == f"sha256:{digest}" else None

    def _name(self, reference: str) -> Path:
        return self.folder / "names" / hashlib.sha256(reference.encode()).hexdigest()

    def file(self, sif: CachedSif) -> Path:
        """Return the SIF of an image."""
        return self.folder / f"{sif.manifest.partition(':')[2]}.sif"

    def is_complete(self, sif: CachedSif) -> bool:
        """Return whether the SIF has the bytes that were written.

        The whole file is read.
        """
        try:
            return self.file(sif).stat().st_size == sif.size and hash_file(self.file(sif)) == sif.sha256
        except OSError:
            return False

    @contextlib.contextmanager
    def open_new(self, image: Layout) -> Iterator[Path]:
        """Yield a directory for `image.sif`, and keep that file.

        The caller holds the file lock.
        """
        part = self.folder / f"new{PART}"
        shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
        part.mkdir()
        digest = image.manifest.partition(":")[2]
        try:
            yield part
            written = part / single_file_name("sif")
            sif = CachedSif(
                manifest=image.manifest, config=image.config_digest, sha256=hash_file(written),
                size=written.stat().st_size,
                workdir=image.runtime.directory,
            )  # fmt: skip
            written.replace(self.file(sif))
            self._write(self.folder / f"{digest}.json", msgspec.json.encode(sif))
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def call(self, reference: str, manifest: str) -> None:
        """Name an image, and remove an image without names.

        The former image of the name is removed if it has no other name. The caller holds the file lock.
        """
        former = self.find(reference)
        digest = manifest.partition(":")[2]
        self._write(self._name(reference), digest.encode())
        named = {
            read_plain(path, _LARGEST).decode()
            for path in (self.folder / "names").iterdir()
            if not path.name.endswith(PART)
        }
        if former and former.manifest.partition(":")[2] not in named:
            self.file(former).unlink(missing_ok=True)
            self.file(former).with_suffix(".json").unlink(missing_ok=True)

    def _write(self, path: Path, content: bytes) -> None:
        part = path.with_name(path.name + PART)
        part.write_bytes(content)
        part.replace(path)
