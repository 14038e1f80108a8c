"""The SIFs for Apptainer, in the user's cache directory.

Each image has `MANIFEST.sif` beside its record (`image_records`); a file that differs from its `CachedSif` is made
again.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct

from reprobuild.engines.image_records import PART, ImageRecord, ImageRecords, open_user_directory
from reprobuild.image.formats.single_file import single_file_name
from reprobuild.image.oci.read import Layout
from reprobuild.infra.untrusted.strings import OptionalAbsolutePath, Sha256
from reprobuild_portable.hashing import hash_file

FOLDER = "reprobuild-sif"


class CachedSif(ImageRecord, frozen=True, kw_only=True):
    """A SIF in the cache.

    `sha256` is the file's (hex); a command starts in the directory `workdir`.
    """

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
        return cls(open_user_directory(env, FOLDER, "SIF"))

    @property
    def _records(self) -> ImageRecords[CachedSif]:
        return ImageRecords(self.folder, CachedSif)

    def locked(self) -> AbstractContextManager[None]:
        """Take the file lock of the cache directory."""
        return self._records.locked()

    def find(self, reference: str) -> CachedSif | None:
        """Return the image with a name, or None; its file is not checked."""
        return self._records.find(reference)

    def find_by_manifest(self, manifest: str) -> CachedSif | None:
        """Return the image with a manifest digest."""
        return self._records.find_by_manifest(manifest)

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
        try:
            yield part
            written = part / single_file_name("sif")
            sif = CachedSif(
                manifest=image.manifest, config=image.config_digest, sha256=hash_file(written),
                size=written.stat().st_size,
                workdir=image.runtime.directory,
            )  # fmt: skip
            written.replace(self.file(sif))
            self._records.write(sif)
        finally:
            shutil.rmtree(part, ignore_errors=True)

    def call(self, reference: str, manifest: str) -> None:
        """Name an image, and remove the former image of the name if it has no other name.

        The caller holds the file lock.
        """
        if former := self._records.call(reference, manifest):
            self.file(former).unlink(missing_ok=True)
