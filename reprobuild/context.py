"""The folder that the Dockerfile and the Apptainer.def are built in: everything they need, by hard link."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from reprobuild.archive import TarWriter, parents
from reprobuild.lock import Lock
from reprobuild.payload import payload, read_runtime
from reprobuild.store import Store


def write_context(lock: Lock, store: Store, out: Path, texts: dict[str, str]) -> Path:
    """Write `out/context`, whole or not at all, and return it.

    Args:
        lock: sealed.
        store: has what the lock names.
        out: the folder of results; a former context is replaced.
        texts: the recipe, of which `requirements.txt` goes into the context.
    """
    assert lock.realised is not None
    part = out / "context.part"
    shutil.rmtree(part, ignore_errors=True)
    for folder in ("wheels", "bytecode", "sources", "tools"):
        (part / folder).mkdir(parents=True)
    blobs = {"base.tar": lock.realised.base}
    wheels = [*(wheel for wheel in lock.wheels if wheel.role == "environment"), *lock.realised.wheels]
    blobs |= {f"wheels/{wheel.file.filename}": wheel.file.sha256 for wheel in wheels}
    blobs |= {f"bytecode/{code.artefact}.tar": code.tar for code in lock.realised.bytecode}
    blobs |= {f"sources/{source.name}.tar": source.file.sha256 for source in lock.sources}
    installer = [wheel for wheel in lock.wheels if wheel.role == "build" and wheel.name == "pip"]
    blobs |= {f"tools/{wheel.file.filename}": wheel.file.sha256 for wheel in installer}
    for name, sha256 in blobs.items():
        _place(store.verified(sha256, name), part / name)
    (part / "requirements.txt").write_text(texts["requirements.txt"])
    (part / "tools" / "install.py").write_bytes(read_runtime(lock, store)["install.py"])
    _write_payload(lock, store, part / "payload.tar")
    _settle(part, lock.epoch)
    target = out / "context"
    shutil.rmtree(target, ignore_errors=True)
    part.replace(target)
    return target


def _place(blob: Path, target: Path) -> None:
    with contextlib.suppress(OSError):
        target.hardlink_to(blob)
        return
    shutil.copyfile(blob, target)


def _write_payload(lock: Lock, store: Store, path: Path) -> None:
    found = payload(lock, store)
    with path.open("wb") as stream:
        writer = TarWriter(stream, lock.epoch)
        for directory in parents(found):
            writer.directory(directory)
        for name, content in sorted(found.items()):
            writer.file(name, content)
        writer.close()


def _settle(folder: Path, epoch: int) -> None:
    """Give every file that is the context's own the epoch and the common modes; links keep the store's."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() or path.stat().st_nlink == 1:
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (epoch, epoch))
    os.utime(folder, (epoch, epoch))
