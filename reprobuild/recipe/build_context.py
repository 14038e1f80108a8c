"""The build context of the Dockerfile and the Apptainer.def.

It has all files that they need, as hard links.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.infra.atomic import atomic_directory
from reprobuild.infra.tar.entries import list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.write_below import link_below
from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Source
from reprobuild.lock.system import PREFIX
from reprobuild.recipe.image_config import environ_file
from reprobuild.recipe.layer_order import order_wheels
from reprobuild.recipe.payload import payload_files
from reprobuild.recipe.render import base_file, interpreter_file, own_directory, parts_file, source_file
from reprobuild.store.store import Store

OWN = (
    "requirements.txt",
    "install.json",
    "install.py",
    "payload.tar",
)  # files that this program makes for a context


def write_context(lock: SealedLock, store: Store, out: Path, texts: dict[str, str]) -> Path:
    """Write `out/context` atomically, and return its path.

    Args:
        lock: the lock of the image.
        store: has the files of the lock.
        out: the output directory; a former context is replaced.
        texts: the recipe, of which `requirements.txt` goes into the context.
    """
    target = out / "context"
    with atomic_directory(target) as part:
        _fill_context(lock, store, part, texts)
    return target


def _fill_context(lock: SealedLock, store: Store, part: Path, texts: dict[str, str]) -> None:
    for folder in ("wheels", "bytecode", "sources", own_directory(lock)):
        (part / folder).mkdir(parents=True)
    blobs = context_blobs(lock)
    with ThreadPoolExecutor() as pool:  # hashing lets other threads run
        paths = list(pool.map(lambda item: store.verified(item[1], item[0]), blobs.items()))
    for name, path in zip(blobs, paths, strict=True):
        link_below(path, part, name)
    sizes = {sha256: path.stat().st_size for sha256, path in zip(blobs.values(), paths, strict=True)}
    for name, content in own_files(lock, store, texts, sizes).items():
        (part / name).write_bytes(content)
    _normalise_metadata(part, lock.epoch)


def context_blobs(lock: SealedLock) -> dict[str, str]:
    """Return {path in the context: sha256} of a lock's files."""
    blobs = {base_file(lock): lock.realised.base}
    blobs |= {interpreter_file(lock): lock.realised.interpreter} if lock.realised.interpreter else {}
    for wheel in _wheel_facts(lock).values():
        blobs |= {file["path"]: file["sha256"] for file in (wheel["wheel"], wheel["bytecode"]) if file}
    blobs |= {source_file(source): source.file.sha256 for source in lock.sources}
    compiled = ((parts_file(source, lock), lock.parts(source)) for source in lock.sources)
    return blobs | {path: built.parts for path, built in compiled if built}


def own_files(
    lock: SealedLock, store: Store, texts: Mapping[str, str], sizes: Mapping[str, int]
) -> dict[str, bytes]:
    """Return {path in the context: content} of our own files.

    Args:
        lock: the lock of the image.
        store: has the runtime package of the lock.
        texts: the recipe.
        sizes: of the wheels, by their sha256.
    """
    facts = json.dumps(install_facts(lock, sizes), indent=1, ensure_ascii=False) + "\n"
    contents = {
        "requirements.txt": texts["requirements.txt"].encode(),
        "install.json": facts.encode(),
        # Ours, not that of the sealed lock: it must know the format that this version writes into install.json.
        "install.py": files("reprobuild_runtime").joinpath("install.py").read_bytes(),
        "payload.tar": _pack_payload(lock, store),
    }
    return {f"{own_directory(lock)}/{name}": content for name, content in contents.items()}


def install_facts(lock: SealedLock, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return the input of `install.py`.

    It has the environment's path, and its wheels in order.
    """
    wheels = _wheel_facts(lock)
    order = order_wheels({name: sizes[facts["wheel"]["sha256"]] for name, facts in wheels.items()}).names
    return {
        "prefix": PREFIX,
        "executable": lock.interpreter.executable,
        "python": lock.interpreter.version,
        "create": lock.interpreter.kind != "conda",
        **({"shared": True} if lock.interpreter.shared else {}),  # so that other contexts stay as they were
        "epoch": lock.epoch,
        "wheels": [wheels[name] for name in order],
    }


def _wheel_facts(lock: SealedLock) -> dict[str, dict[str, Any]]:
    """Return the input of `install.py` for each wheel.

    The key is the file name.
    """
    bytecode = {code.artefact: code.tar for code in lock.realised.bytecode}
    urls = {
        canonicalize_name(source.name): _direct_url_record(source)
        for source in lock.sources
        if source.editable
    }
    wheels: dict[str, dict[str, Any]] = {}
    for wheel in (*lock.wheels, *lock.built_wheels):
        if wheel.role == "environment":
            made_here = wheel in lock.built_wheels
            name, sha256 = wheel.file.filename, wheel.file.sha256
            code = bytecode.get(sha256)
            wheels[name] = {
                "wheel": {
                    "path": f"{own_directory(lock) if made_here else 'wheels'}/{name}",
                    "sha256": sha256,
                },
                "bytecode": code and {"path": f"bytecode/{name}-{code[:12]}.tar", "sha256": code},
                "direct_url": urls.get(canonicalize_name(wheel.name)) if made_here else None,
            }
    return wheels


def _direct_url_record(source: Source) -> dict[str, Any]:
    """Return PEP 610's record of an editable source."""
    place = "/".join(part for part in (source.path, source.subdirectory) if part)
    return {"dir_info": {"editable": True}, "url": f"file://{place}"}


def _pack_payload(lock: SealedLock, store: Store) -> bytes:
    contents = {**environ_file(lock), **payload_files(lock, store)}
    stream = io.BytesIO()
    writer = TarWriter(stream, lock.epoch)
    for directory in list_parents(contents):
        writer.directory(directory)
    for name, content in sorted(contents.items()):
        writer.file(name, content)
    writer.close()
    return stream.getvalue()


def _normalise_metadata(folder: Path, epoch: int) -> None:
    """Normalise times and modes of the context's own files.

    Every file gets the epoch and the common modes; links keep the store's.
    """
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() or path.stat().st_nlink == 1:
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.utime(path, (epoch, epoch))
    os.utime(folder, (epoch, epoch))
