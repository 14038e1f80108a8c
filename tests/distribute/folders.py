"""Small output directories, as a build leaves them, that are made in milliseconds; and what works with them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import msgspec

from reprobuild.context import RunContext, open_client
from reprobuild.image.engine_name import encode_named_index, own_name
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_digest
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, RealisedOutputs
from reprobuild.output.directory import VERDICT, find_former_image, remember_document
from reprobuild.recipe.image_config import image_config
from reprobuild.store.store import Store
from tests.image.layouts import image_of, write_image
from tests.registry.pushing import file, layer
from tests.verify.samples import make_lock, make_verdict

NOWHERE = {"HOME": "/nonexistent", "PATH": "/usr/bin:/bin"}


def noise(size: int, seed: int) -> bytes:
    """Return bytes that no compressor makes smaller."""
    return random.Random(seed).randbytes(size)


def make_results(
    out: Path, contents: Mapping[str, bytes] | None = None, *, certificate: bool = True, seed: int = 42
) -> tuple[Lock, Image]:
    """Write an output directory whose image has a layer for each content, and return what it holds."""
    found = {"etc/one": noise(300_000, 1), "etc/two": noise(200_000, 2)} if contents is None else contents
    out.mkdir(parents=True)
    realised = RealisedOutputs(base="1" * 64, runtime="2" * 64, wheels=(), bytecode=())
    lock = make_lock(realised=realised, seed=seed)
    write_lock(lock, out / "reprobuild.lock")
    layers = [layer([file(path, content)]) for path, content in found.items()]
    layout = write_image(out / "image", layers, image_config(lock).document())
    name = own_name(lock.digest)
    (out / "image" / "index.json").write_bytes(encode_named_index(layout, name))
    image = msgspec.structs.replace(
        image_of(layout), tree=layout_digest(layout), lock=lock.digest, reference=name
    )
    (out / "image.json").write_bytes(msgspec.json.encode(image))
    if certificate:
        (out / "verdict.json").write_bytes(certificate_of(lock, image))
    return lock, image


def certificate_of(lock: Lock, image: Image, made: str = "2026-11-22T05:00:00Z") -> bytes:
    """Return a certificate of an image."""
    verdict = make_verdict(image=image.manifest, tree=image.tree, lock=f"sha256:{lock.digest}", made=made)
    return msgspec.json.encode(verdict)


def remember_verdict(out: Path, store: Store) -> None:
    """Record in a store that a check here made the verdict of an output directory."""
    image = find_former_image(out)
    if image and (out / VERDICT).is_file():
        remember_document(VERDICT, image, (out / VERDICT).read_bytes(), store)


def make_session(store: Path, env: Mapping[str, str] = NOWHERE) -> RunContext:
    """Return a session that says nothing."""
    return RunContext(
        store=Store(store), net=open_client(env), env=env, folder=store.parent, say=lambda _: None,
        progress=lambda *_, **__: None, now=0,
    )  # fmt: skip
