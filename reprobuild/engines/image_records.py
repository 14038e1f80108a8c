"""The images of an engine without a store of its own, in the user's cache directory.

Each image has a record `MANIFEST.json`, with MANIFEST the hex of its manifest digest. Each name has `names/HASH` with
that hex, since a file name cannot hold every image name. All files are written under one file lock and renamed into
place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from reprobuild.errors import EngineError
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import Layout
from reprobuild.infra.cache_directory import cache_directory
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Digest
from reprobuild_portable.host import fcntl

PART = ".part"
_LARGEST = 1 << 20


class ImageRecord(Struct, frozen=True, kw_only=True):
    """An image of the cache: its manifest and config digests ("sha256:...")."""

    manifest: Digest
    config: Digest


Record = TypeVar("Record", bound=ImageRecord)


class ImageRecords(Struct, Generic[Record], frozen=True):
    """The records of a cache directory, of one type."""

    folder: Path
    kind: type[Record]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Take the file lock of the cache directory."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def find(self, reference: str) -> Record | None:
        """Return the image with a name, or None.

        Its files are not checked. None also means an unreadable record.
        """
        try:
            return self._read(read_plain(self._name(reference), _LARGEST).decode())
        except (OSError, UnicodeDecodeError):
            return None

    def find_by_manifest(self, manifest: str) -> Record | None:
        """Return the image with a manifest digest."""
        return self._read(manifest.partition(":")[2])

    def list_all(self) -> list[Record]:
        """Return all images."""
        return [record for path in self.folder.glob("*.json") if (record := self._read(path.stem))]

    def write(self, record: Record) -> None:
        """Write the record of an image. The caller holds the file lock."""
        self._write(self._path(record), msgspec.json.encode(record))

    def call(self, reference: str, manifest: str) -> Record | None:
        """Name an image; return the former image of the name if it has no other name.

        The record of that image is removed. The caller holds the file lock.
        """
        former = self.find(reference)
        digest = manifest.partition(":")[2]
        self._write(self._name(reference), digest.encode())
        named = {
            read_plain(path, _LARGEST).decode()
            for path in (self.folder / "names").iterdir()
            if not path.name.endswith(PART)
        }
        if former is None or former.manifest.partition(":")[2] in named:
            return None
        self._path(former).unlink(missing_ok=True)
        return former

    def _read(self, digest: str) -> Record | None:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            return None
        try:
            content = read_plain(self.folder / f"{digest}.json", _LARGEST)
            record = decode_json(content, self.kind)
        except (OSError, msgspec.DecodeError):
            return None
        return record if record.manifest == f"sha256:{digest}" else None

    def _path(self, record: Record) -> Path:
        return self.folder / f"{record.manifest.partition(':')[2]}.json"

    def _name(self, reference: str) -> Path:
        return self.folder / "names" / hashlib.sha256(reference.encode()).hexdigest()

    def _write(self, path: Path, content: bytes) -> None:
        part = path.with_name(path.name + PART)
        part.write_bytes(content)
        part.replace(path)


def check_digests(layout: Layout, digests: ImageDigests) -> None:
    """Refuse a layout of another image.

    Both digests are compared, each with its own: one JSON file must not pass as manifest and as configuration.

    Raises:
        EngineError: it has another manifest or configuration.
    """
    if layout.digests != digests:
        raise EngineError(
            f"{layout.folder} holds {layout.manifest} with {layout.config_digest}, "
            f"not {digests.manifest} with {digests.config}",
            hint="it was built again meanwhile: run the command again",
        )


def open_user_directory(env: Mapping[str, str], name: str, contents: str) -> Path:
    """Return a directory in the user's cache for an engine's images, and make it.

    Args:
        env: the user's environment.
        name: of the directory.
        contents: for an error, "SIF".

    Raises:
        EngineError: others can write there, and so could change the image that is run.
    """
    above = cache_directory(env)
    folder = (above / name).absolute()
    try:
        above.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / "names").mkdir(exist_ok=True)
        status, link = folder.stat(), folder.lstat()
    except OSError as err:
        raise EngineError(
            f"no {contents} can be kept in {folder}: {err.strerror}",
            hint="let XDG_CACHE_HOME name a directory that can be written",
        ) from None
    if {status.st_uid, link.st_uid} != {os.geteuid()} or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EngineError(
            f"{folder} can be changed by other users",
            hint="let XDG_CACHE_HOME name a directory of your own, or remove this one",
        )
    return folder
