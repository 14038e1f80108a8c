"""The cost of a small change to an image.

It is one line of a patch, or another snapshot with the same torch.

Both are locks made from the example's, unsealed, and built by the whole process `reprobuild build LOCK -o OUT
--offline` in a copy of the filled store in which the example was built. So the figure counts sealing of the change (the
wheel of the source), the layers that changed, and all checks; resolution, which asks networks, is not counted.

1. One line of one source file differs: seconds, and how many layers are new.
2. Three small projects are gone and one line differs: bytes that the store has more, against the bytes of the image.
"""

from __future__ import annotations

import io
import json
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.measure import PROGRAM, Figure, NotRunError, Sample, spread, time_process
from benchmarks.native import IMAGE, LOCK, copy_store
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.lock.system import Artefact
from reprobuild.store.store import Store

LIMIT_SECONDS = 3.0
LIMIT_LAYERS = 1.0
LIMIT_BYTES = 0.02
FEWER = 3
MODULES = (
    "reprobuild/image",
    "reprobuild/realise",
    "reprobuild/infra/sandbox",
    "reprobuild/store/directory",
    "reprobuild/store/store",
    "reprobuild/recipe/build_context",
    "reprobuild/recipe/payload",
    "reprobuild/recipe/layer_order",
    "reprobuild/pipeline/build",
    "reprobuild/pipeline/from_lock",
)


def changed_source(lock: Lock, store: Store, number: int) -> Lock:
    """Return the lock with a changed source, not sealed.

    One Python file of its first source has one more line.

    Raises:
        NotRunError: the lock has no source with a Python file.
    """
    if not lock.sources:
        raise NotRunError("the lock has no source that could change")
    source = lock.sources[0]
    stream, done = io.BytesIO(), False
    writer = TarWriter(stream, lock.epoch)
    with store.verified(source.file.sha256, source.file.filename).open("rb") as tar:
        for entry, content in read_tar(tar):
            data = content() if entry.type == "file" else b""
            if not done and entry.path.endswith(".py") and "setup" not in entry.path:
                data, done = data + f"# change {number}\n".encode(), True
            writer.add(msgspec.structs.replace(entry, size=len(data)), data if entry.type == "file" else None)
    writer.close()
    if not done:
        raise NotRunError(f"{source.name} has no Python file that could change")
    packed = stream.getvalue()
    file = Artefact(filename=source.file.filename, sha256=store.add(packed), size=len(packed))
    other = msgspec.structs.replace(source, file=file)
    return msgspec.structs.replace(unseal(lock), sources=(other, *lock.sources[1:]))


def without_small(lock: Lock) -> Lock:
    """Return the lock without its smallest wheels.

    Wheels made from a source stay.
    """
    wheels = sorted((w for w in lock.wheels if w.role == "environment"), key=lambda wheel: wheel.file.size)
    gone = {wheel.name for wheel in wheels[:FEWER]}
    return msgspec.structs.replace(lock, wheels=tuple(w for w in lock.wheels if w.name not in gone))


class Builder:
    """A copy of the store, and timed builds in it."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.store, self.folder = Store(folder / "store"), folder
        copy_store(store, self.store.root)

    def build(self, lock: Lock, name: str) -> tuple[Sample, set[str], int]:
        """Build a lock, and return its cost, layers and size.

        They are the times, the digests of the layers, and the bytes of the image.
        """
        path, out = self.folder / f"{name}.lock", self.folder / name
        write_lock(lock, path)
        command = ("build", str(path), "-o", str(out), "--store", str(self.store.root), "--offline")
        sample = time_process([*PROGRAM, *command])
        manifest = json.loads((out / IMAGE).read_bytes())["manifest"].removeprefix("sha256:")
        layers = json.loads((out / "image" / "blobs" / "sha256" / manifest).read_bytes())["layers"]
        return sample, {layer["digest"] for layer in layers}, sum(layer["size"] for layer in layers)

    def blobs(self) -> dict[str, int]:
        """Return {name: size} of the store's files."""
        return {path.name: path.stat().st_size for path in (self.store.root / "blobs").glob("*/*")}


def measure(store: Path, results: Path, folder: Path, rounds: int) -> list[Figure]:
    """Return the figures of small changes.

    `folder` is worked in, and left clean.

    Args:
        store: filled, with all files of the lock of `results`; only read.
        results: an output directory of `from-snapshot` or `build`; only read.
        folder: on the file system of the store, so that copies are hard links.
        rounds: the number of timed changes of a line, each another one.

    Raises:
        NotRunError: a filled store is missing.
    """
    if not (results / LOCK).is_file() or not (store / "made").is_dir():
        raise NotRunError("there is no filled store; `make demo` fills one")
    scratch = folder / f"change-{uuid.uuid4().hex[:8]}"
    scratch.mkdir(parents=True)
    try:
        return _figures(Builder(store, scratch), read_lock(results / LOCK), rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _figures(builder: Builder, lock: Lock, rounds: int) -> list[Figure]:
    _, former, size = builder.build(lock, "first")
    builder.build(
        changed_source(lock, builder.store, 0), "warm"
    )  # not counted: unpacks the root of the sandbox
    samples: list[Sample] = []
    new: list[int] = []
    for number in range(1, rounds + 1):
        sample, layers, _ = builder.build(changed_source(lock, builder.store, number), f"changed-{number}")
        samples.append(sample)
        new.append(len(layers - former))
    before = builder.blobs()
    builder.build(changed_source(without_small(lock), builder.store, -1), "second")
    added = sum(size for name, size in builder.blobs().items() if name not in before)
    return [
        _seconds(samples),
        Figure("new layers of a changed line", float(max(new)), "layers", "-", LIMIT_LAYERS, MODULES),
        Figure(
            "second image with the same torch", added / size, "x", "bytes of the first image", LIMIT_BYTES, MODULES,
            {"bytes added": added, "bytes of the first": size, "wheels fewer": FEWER},
        ),
    ]  # fmt: skip


def _seconds(samples: Sequence[Sample]) -> Figure:
    wall = spread([sample.wall for sample in samples])
    details = {"wall": wall, "processor": spread([sample.cpu for sample in samples])}
    return Figure("a changed line of a patch", wall["median"], "s", "-", LIMIT_SECONDS, MODULES, details)
