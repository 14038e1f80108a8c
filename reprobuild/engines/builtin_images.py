"""The images of the built-in engine: layers unpacked once each, in the user's cache directory.

A layer is a directory below `layers`, named by the hash of its tar. Images share layers, and no container changes one.
A layer that has lost files is unpacked again.
Whiteouts of a layer become those of overlayfs. A layer without an image is removed when its name gets another image.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from reprobuild.engines.builtin_counts import LayerCounts
from reprobuild.engines.builtin_unpack import unpack_layer
from reprobuild.engines.image_records import PART, ImageRecord, ImageRecords, open_user_directory
from reprobuild.errors import EngineError
from reprobuild.image.oci.read import Layout, layout_size
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import try_lock
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.infra.untrusted.strings import Line, Sha256, Value
from reprobuild_portable.host import fcntl

FOLDER = "reprobuild-images"
# Linux takes the options of a mount in one page, 4096 bytes (mount(2)): 29 for each layer, and those of a container
MOST_LAYERS = 127
MOST_WORKERS = 4  # more wait for the disk


class UnpackedImage(ImageRecord, frozen=True, kw_only=True):
    """An image of the cache: the hashes of its layers' tars, lowest first, and parts of its configuration.

    `env` has lines `NAME=VALUE`.
    """

    layers: tuple[Sha256, ...]
    env: tuple[Value, ...]
    entrypoint: tuple[Value, ...]
    cmd: tuple[Value, ...]
    workdir: Line
    user: Line


class UnpackedImages(Struct, frozen=True):
    """The cache directory of unpacked images."""

    folder: Path

    @classmethod
    def open_user_cache(cls, env: Mapping[str, str]) -> UnpackedImages:
        """Return the user's cache, with its directories made.

        Raises:
            EngineError: others can write there, and so could change the image that is run.
        """
        folder = open_user_directory(env, FOLDER, "image")
        for name in ("layers", "entries", "containers"):
            (folder / name).mkdir(exist_ok=True, mode=0o700)
        return cls(folder)

    @property
    def _counts(self) -> LayerCounts:
        return LayerCounts(self.folder / "entries")

    @property
    def _records(self) -> ImageRecords[UnpackedImage]:
        return ImageRecords(self.folder, UnpackedImage)

    def find(self, reference: str) -> UnpackedImage:
        """Return the image with a name; `add` has counted its files.

        Raises:
            EngineError: there is none, or a layer of it is missing.
        """
        image = self._records.find(reference)
        if image is None or not all(path.is_dir() for path in self.directories(image)):
            raise EngineError(f"the engine has no image {reference}", hint="`reprobuild verify OUT` loads it")
        return image

    def add(self, layout: Layout, reference: str, progress: Progress = ignore_progress) -> bool:
        """Unpack the layers that are missing, and name the image.

        Return False if the image had this name already.

        Raises:
            BuildError: a layer is damaged.
            EngineError: a layer cannot be unpacked, or there are too many.
        """
        count = len({layer_name(diff_id) for _, _, diff_id in layout.layers})
        if count > MOST_LAYERS:
            raise EngineError(
                f"{layout.folder} has {count} layers, and the built-in engine takes at most {MOST_LAYERS}",
                hint="choose another engine with --engine, or build the image again from its lock",
            )
        records = self._records
        with records.locked():
            named = records.find(reference)
            if named and named.manifest == layout.manifest and self._is_complete(named):
                return False
            had_damage = self._unpack_missing(layout, progress)
            records.write(
                UnpackedImage(
                    manifest=layout.manifest, config=layout.config_digest,
                    layers=tuple(diff_id for _, _, diff_id in layout.layers),
                    env=layout.runtime.env, entrypoint=layout.runtime.entrypoint, cmd=layout.runtime.cmd,
                    workdir=layout.runtime.directory, user=layout.runtime.user,
                )
            )  # fmt: skip
            if records.call(reference, layout.manifest) or had_damage:
                self._remove_unused()
        return True

    def directories(self, image: UnpackedImage) -> list[Path]:
        """Return the directories of an image's layers, lowest first; a repeated layer counts once, at its top."""
        names = [layer_name(layer) for layer in image.layers]
        unique = [name for number, name in enumerate(names) if name not in names[number + 1 :]]
        return [self.folder / "layers" / name for name in unique]

    @contextlib.contextmanager
    def container(self) -> Iterator[Path]:
        """Yield a new directory for the files of a container, and remove it.

        Its lock shows that the container runs. Directories of processes that were killed are removed, too.
        """
        scratch = self.folder / "containers" / secrets.token_hex(16)
        with self._records.locked():
            for path in (self.folder / "containers").iterdir():
                if not _is_running(path):
                    _remove_quietly(path)
            scratch.mkdir(mode=0o700)
            descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            yield scratch
        finally:
            _remove_quietly(scratch)
            os.close(descriptor)

    def _is_complete(self, image: UnpackedImage) -> bool:
        return all(map(self._counts.is_whole, self.directories(image)))

    def _unpack_missing(self, layout: Layout, progress: Progress) -> bool:
        """Unpack layers side by side, the largest first; return whether one of them had lost files."""
        total, done = layout_size(layout.folder), 0
        members, allowance = layout.allowance(), layout.allowance()
        sizes = {
            number: layout.blob(digest).stat().st_size for number, (_, digest, _) in enumerate(layout.layers)
        }
        missing: dict[str, int] = {}
        for number in sorted(sizes, key=lambda number: -sizes[number]):
            name = layer_name(layout.layers[number][2])
            if not self._counts.is_whole(self.folder / "layers" / name):
                missing.setdefault(name, number)
        damaged = [name for name in missing if self._set_aside(self.folder / "layers" / name)]
        workers = min(MOST_WORKERS, len(os.sched_getaffinity(0)))
        with ThreadPoolExecutor(workers) as pool:
            futures = {
                pool.submit(
                    unpack_layer, layout, number, self.folder / "layers" / name, members, allowance
                ): number
                for name, number in missing.items()
            }
            try:
                for future, number in futures.items():
                    future.result()
                    self._counts.note(self.folder / "layers" / layer_name(layout.layers[number][2]))
                    done += sizes[number]
                    progress(done, total)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return len(damaged) > 0

    def _remove_unused(self) -> None:
        """Remove layers that no image has, unless a container may use one."""
        if any(_is_running(path) for path in (self.folder / "containers").iterdir()):
            return
        used = {path.name for image in self._records.list_all() for path in self.directories(image)}
        for path in (self.folder / "layers").iterdir():
            if path.name not in used:
                self._remove_layer(path)

    def _remove_layer(self, path: Path) -> None:
        """Remove a layer, or a part of one."""
        self._counts.forget(path)
        doomed = path if path.name.endswith(PART) else path.with_name(path.name + PART)
        if doomed != path:
            path.rename(doomed)  # a removal that is cut short leaves no layer
        remove(doomed)

    def _set_aside(self, path: Path) -> bool:
        """Rename a layer that has lost files, because a container may use it; return whether there was one."""
        self._counts.forget(path)
        if not path.is_dir():
            return False
        path.rename(path.with_name(f"{path.name}.{secrets.token_hex(4)}{PART}"))
        return True


def _is_running(scratch: Path) -> bool:
    """Return whether a process holds the lock of a container's directory."""
    try:
        descriptor = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False  # it has ended meanwhile
    try:
        return not try_lock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


def _remove_quietly(path: Path) -> None:
    with contextlib.suppress(OSError):  # the container's result is the one to report
        remove(path)


def layer_name(diff_id: str) -> str:
    """Return the name of a layer's directory: 168 bits of its hash.

    The kernel takes the names of all layers of a container in one page, and an image has at most 127 of them.
    """
    return base64.urlsafe_b64encode(bytes.fromhex(diff_id)[:21]).decode()
