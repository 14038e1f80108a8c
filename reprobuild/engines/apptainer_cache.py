"""The SIFs that are made for Apptainer, in the user's cache folder.

Of each image `MANIFEST.sif` and `MANIFEST.json` (`CachedSif`), with MANIFEST the hex of its manifest digest; of each
name `names/HASH` with that hex, since a name can hold what a file's name cannot. All is made under one lock and
renamed into place; a file that is not what its `CachedSif` says is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
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
from reprobuild.image.formats.single_file import filename
from reprobuild.image.oci.read import Layout
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Digest, OptionalAbsolutePath, Sha256

FOLDER = "reprobuild-sif"
PART = ".part"


_LARGEST = 1 << 16


class CachedSif(Struct, frozen=True, kw_only=True):
    """A SIF: the digests of the image ("sha256:...") and of the file (hex), and the folder a command starts in."""

    manifest: Digest
    config: Digest
    workdir: OptionalAbsolutePath
    sha256: Sha256
    size: int


class Cache(Struct, frozen=True):
    """The folder of SIFs."""

    folder: Path

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Cache:
        """Return the cache of the user, made where it is missing.

        Raises:
            EngineError: others can write there, so that they could change what is run.
        """
        above = Path(env.get("XDG_CACHE_HOME") or Path(env.get("HOME", "/var/tmp")) / ".cache")
        cache = cls((above / FOLDER).absolute())
        try:
            above.mkdir(parents=True, exist_ok=True)
            cache.folder.mkdir(exist_ok=True, mode=0o700)
            (cache.folder / "names").mkdir(exist_ok=True)
            found = cache.folder.stat()
        except OSError as err:
            raise EngineError(
                f"no SIF can be kept in {cache.folder}: {err.strerror}",
                hint="let XDG_CACHE_HOME name a folder that can be written",
            ) from None
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise EngineError(
                f"{cache.folder} can be changed by other users",
                hint="let XDG_CACHE_HOME name a folder of your own, or remove this one",
            )
        return cache

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other process from changing the folder meanwhile."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def find(self, reference: str) -> CachedSif | None:
        """Return the image of a name, without a look at its file; None where there is none that can be read."""
        try:
            return self._kept(read_plain(self._name(reference), _LARGEST).decode())
        except (OSError, UnicodeDecodeError):
            return None

    def of_manifest(self, manifest: str) -> CachedSif | None:
        """Return the image with a manifest digest."""
        return self._kept(manifest.partition(":")[2])

    def _kept(self, digest: str) -> CachedSif | None:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            return None
        try:
            kept = msgspec.json.decode(read_plain(self.folder / f"{digest}.json", _LARGEST), type=CachedSif)
        except (OSError, msgspec.DecodeError):
            return None
        return kept if kept.manifest == f"sha256:{digest}" else None

    def _name(self, reference: str) -> Path:
        return self.folder / "names" / hashlib.sha256(reference.encode()).hexdigest()

    def file(self, kept: CachedSif) -> Path:
        """Return the SIF of an image."""
        return self.folder / f"{kept.manifest.partition(':')[2]}.sif"

    def whole(self, kept: CachedSif) -> bool:
        """Tell whether the SIF has the bytes that were written; all of it is read."""
        try:
            return self.file(kept).stat().st_size == kept.size and _sha256(self.file(kept)) == kept.sha256
        except OSError:
            return False

    @contextlib.contextmanager
    def made(self, image: Layout) -> Iterator[Path]:
        """Give a folder to write `image.sif` to, and keep that; under the lock."""
        part = self.folder / f"new{PART}"
        shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
        part.mkdir()
        digest = image.manifest.partition(":")[2]
        try:
            yield part
            written = part / filename("sif")
            kept = CachedSif(
                manifest=image.manifest, config=image.config_digest, sha256=_sha256(written),
                size=written.stat().st_size,
                workdir=(image.config.get("config") or {}).get("WorkingDir") or "/",
            )  # fmt: skip
            written.replace(self.file(kept))
            self._write(self.folder / f"{digest}.json", msgspec.json.encode(kept))
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def call(self, reference: str, manifest: str) -> None:
        """Give an image a name; the image that had it goes, where it has no other. Under the lock."""
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


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        digest = hashlib.sha256()
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
