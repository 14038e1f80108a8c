"""The memory of a native build, for wheels of any size.

One wheel has 64 MB, the other 2 GB.

The lock is that of an output directory with one made-up wheel in the place of all others, so that its layer has to be
made. The figure is the greatest resident memory of the whole process, as the kernel has it (getrusage(2), ru_maxrss).
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import uuid
import zipfile
from pathlib import Path

import msgspec

from benchmarks.measure import PROGRAM, Figure, NotRunError, peak_of
from benchmarks.native import LOCK, link_or_copy
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Bytecode, SealedLock
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

SIZES = (64_000_000, 2_000_000_000)
LIMIT_MIB = 512
MODULES = (
    "reprobuild/infra/tar",
    "reprobuild/recipe/build_context",
    "reprobuild/image",
    "reprobuild/store/tar_listing",
    "reprobuild/pipeline/build",
    "reprobuild/pipeline/from_lock",
    "reprobuild/pipeline/from_snapshot",
    "reprobuild/store/directory",
    "reprobuild/store/store",
)
_CHUNK = 1 << 20


def make_wheel(path: Path, size: int) -> None:
    """Write a wheel with one file of `size` bytes.

    It is a random megabyte again and again, stored as it is.
    """
    chunk, digest = os.urandom(_CHUNK), hashlib.sha256()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as wheel:
        with wheel.open("big/data.bin", "w", force_zip64=True) as stream:
            for start in range(0, size, _CHUNK):
                piece = chunk[: size - start]
                digest.update(piece)
                stream.write(piece)
        info = "big-1.0.dist-info"
        texts = {
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: big\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: benchmark\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        rows = [f"big/data.bin,sha256={_record(digest.digest())},{size}"]
        for name, text in texts.items():
            wheel.writestr(name, text)
            rows.append(f"{name},sha256={_record(hashlib.sha256(text.encode()).digest())},{len(text)}")
        wheel.writestr(f"{info}/RECORD", "\n".join([*rows, f"{info}/RECORD,,"]) + "\n")


def _record(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def with_one_wheel(lock: SealedLock, path: Path, store: Store) -> SealedLock:
    """Return the lock with one wheel.

    The store takes the wheel's file; it has no module to compile.
    """
    size, digest, empty = path.stat().st_size, hash_file(path), io.BytesIO()
    TarWriter(empty, lock.epoch).close()
    store.adopt(path, digest)
    bytecode = Bytecode(artefact=digest, tar=store.add(empty.getvalue()))
    file = Artefact(filename="big-1.0-py3-none-any.whl", sha256=digest, size=size)
    wheel = Wheel(name="big", version="1.0", role="environment", file=file)
    realised = msgspec.structs.replace(lock.realised, wheels=(), bytecode=(bytecode,))
    return msgspec.structs.replace(lock, wheels=(wheel,), sources=(), workload=None, realised=realised)


def measure(store: Path, results: Path, folder: Path, sizes: tuple[int, ...] = SIZES) -> list[Figure]:
    """Return a figure for each size.

    Args:
        store: has the base of the lock of `results`; only read.
        results: an output directory; only read.
        folder: a directory for the builds; on the file system of the store, so that copies are hard links.

    Raises:
        NotRunError: a sealed lock is missing.
    """
    if not (results / LOCK).is_file() or not isinstance(lock := read_lock(results / LOCK), SealedLock):
        raise NotRunError(f"{results} holds no sealed lock; `make demo` makes one")
    figures = []
    for size in sizes:
        scratch = folder / f"memory-{uuid.uuid4().hex[:8]}"
        try:
            figures.append(_figure(size, lock, Store(store), scratch))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return figures


def _figure(size: int, lock: SealedLock, given: Store, scratch: Path) -> Figure:
    store, wheel = Store(scratch / "store"), scratch / "big.whl"
    debs = {deb.file.sha256 for deb in (*lock.base.packages, *lock.base.tools)}
    for digest in {lock.realised.base, lock.realised.runtime, *debs}:
        store.blob(digest).parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(str(given.blob(digest)), str(store.blob(digest)))
    make_wheel(wheel, size)
    write_lock(with_one_wheel(lock, wheel, store), scratch / LOCK)
    argv = ["build", str(scratch / LOCK), "-o", str(scratch / "out"), "--store", str(store.root), "--offline"]
    peak, seconds, _ = peak_of([*PROGRAM, *argv])
    name = f"native build with a wheel of {size / 1e6:.0f} MB"
    details = {"seconds": round(seconds, 1)}
    return Figure(name, peak / 1024, "MiB", "greatest resident memory", LIMIT_MIB, MODULES, details)
