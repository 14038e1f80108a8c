"""The folder that the Dockerfile and the Apptainer.def are built in: everything they need, by hard link."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.archive import TarWriter, parents
from reprobuild.config import environ_file
from reprobuild.guard.below import link_below
from reprobuild.lock import PREFIX, Lock, Source
from reprobuild.payload import payload
from reprobuild.render import base_file, interpreter_file, own_folder, parts_file, source_file
from reprobuild.store import Store
from reprobuild.wheelorder import order_wheels
from reprobuild.whole import whole_folder


def write_context(lock: Lock, store: Store, out: Path, texts: dict[str, str]) -> Path:
    """Write `out/context`, whole or not at all, and return it.

    Args:
        lock: sealed.
        store: has what the lock names.
        out: the folder of results; a former context is replaced.
        texts: the recipe, of which `requirements.txt` goes into the context.
    """
    target = out / "context"
    with whole_folder(target) as part:
        _fill(lock, store, part, texts)
    return target


def _fill(lock: Lock, store: Store, part: Path, texts: dict[str, str]) -> None:
    assert lock.realised is not None
    own = own_folder(lock)
    for folder in ("wheels", "bytecode", "sources", own):
        (part / folder).mkdir(parents=True)
    blobs = {base_file(lock): lock.realised.base}
    blobs |= {interpreter_file(lock): lock.realised.interpreter} if lock.realised.interpreter else {}
    facts = install_facts(lock, store)
    for wheel in facts["wheels"]:
        blobs |= {file["path"]: file["sha256"] for file in (wheel["wheel"], wheel["bytecode"]) if file}
    blobs |= {source_file(source): source.file.sha256 for source in lock.sources}
    compiled = ((parts_file(source, lock), lock.parts(source)) for source in lock.sources)
    blobs |= {path: built.parts for path, built in compiled if built}
    with ThreadPoolExecutor() as pool:  # hashing lets other threads run
        paths = list(pool.map(lambda item: store.verified(item[1], item[0]), blobs.items()))
    for name, path in zip(blobs, paths, strict=True):
        link_below(path, part, name)
    (part / own / "requirements.txt").write_text(texts["requirements.txt"])
    (part / own / "install.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n")
    # Ours, not that of the sealed lock: it must know what this version writes into install.json.
    (part / own / "install.py").write_bytes(files("reprobuild_runtime").joinpath("install.py").read_bytes())
    _write_payload(lock, store, part / own / "payload.tar")
    _settle(part, lock.epoch)


def install_facts(lock: Lock, store: Store) -> dict[str, Any]:
    """Return what `install.py` is told: the environment's place, and its wheels in their order."""
    assert lock.realised is not None
    bytecode = {code.artefact: code.tar for code in lock.realised.bytecode}
    urls = {canonicalize_name(source.name): _direct_url(source) for source in lock.sources if source.editable}
    wheels: dict[str, dict[str, Any]] = {}
    sizes: dict[str, int] = {}
    for wheel in (*lock.wheels, *lock.realised.wheels):
        if wheel.role == "environment":
            made_here = wheel in lock.realised.wheels
            name, sha256 = wheel.file.filename, wheel.file.sha256
            code = bytecode.get(sha256)
            wheels[name] = {
                "wheel": {"path": f"{own_folder(lock) if made_here else 'wheels'}/{name}", "sha256": sha256},
                "bytecode": code and {"path": f"bytecode/{name}-{code[:12]}.tar", "sha256": code},
                "direct_url": urls.get(canonicalize_name(wheel.name)) if made_here else None,
            }
            sizes[name] = store.blob(sha256).stat().st_size
    return {
        "prefix": PREFIX,
        "executable": lock.interpreter.executable,
        "python": lock.interpreter.version,
        "create": lock.interpreter.kind != "conda",
        "epoch": lock.epoch,
        "wheels": [wheels[name] for name in order_wheels(sizes).names],
    }


def _direct_url(source: Source) -> dict[str, Any]:
    """Return PEP 610's record of an editable source."""
    place = "/".join(part for part in (source.path, source.subdirectory) if part)
    return {"dir_info": {"editable": True}, "url": f"file://{place}"}


def _write_payload(lock: Lock, store: Store, path: Path) -> None:
    found = {**environ_file(lock), **payload(lock, store)}
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
