"""A small output directory, and its bundle; registries on loopback are not asked through a proxy."""

from __future__ import annotations

import io
import os
import random
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.distribute.bundle import BundleOptions, BundleResult, bundle
from reprobuild.image.engine_name import own_name
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.file import write_lock
from reprobuild.lock.system import EPOCH, Artefact, Deb
from reprobuild.output.directory import IMAGE, LOCK, REPORT, VERDICT
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from tests.distribute.folders import remember_verdict
from tests.image.made import SITE, Made, file
from tests.verify.samples import make_verdict

EVERY = frozenset({"wheels", "debs", "context"})
LONG = (
    "a-name-that-is-longer-than-the-hundred-bytes-for-which-the-oldest-tar-has-room-in-its-header-" + "x" * 40
)


@dataclass(frozen=True)
class Results:
    """An output directory, and the store that it was made with."""

    out: Path
    store: Store

    def bundle(self, target: Path, **more: object) -> BundleResult:
        """Write its bundle, with all inputs."""
        wanted = msgspec.convert({"parts": EVERY, **more}, BundleOptions)
        target.parent.mkdir(exist_ok=True)
        remember_verdict(self.out, self.store)
        return bundle(self.out, target, self.store, wanted, os.environ, say=lambda text: None)


def small_runtime(store: Store) -> str:
    """Put a runtime package of one module into the store, packed as that of a build is."""
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    writer.file("startup.py", b"")
    writer.close()
    return store.add(stream.getvalue())


def make_results(folder: Path, size: int = 200_000, name: str = f"{LONG}.tar") -> Results:
    """Build an image of a wheel of `size` bytes and a source, and write what `build` and `verify` write beside it.

    Args:
        folder: for the store and the output directory.
        size: of the wheel.
        name: of the source's file.
    """
    made = Made(folder / "made")
    noise = random.Random(5)
    wheel = made.wheel("some", {"some/__init__.py": b"", "some/data": noise.randbytes(size)})
    made.compiled(wheel.file.sha256, {f"{SITE}/some/__pycache__/__init__.cpython-311.pyc": b"code"})
    source = made.source(
        "mylib", [file("mylib.py", b"print(1)\n"), file("README", noise.randbytes(size // 4))]
    )
    made.sources = [msgspec.structs.replace(source, file=msgspec.structs.replace(source.file, filename=name))]
    deb = noise.randbytes(size // 2)
    package = Deb(
        name="bash", version="1-1", architecture="amd64", essential=False,
        file=Artefact(filename="bash.deb", sha256=made.store.add(deb), size=len(deb)),
    )  # fmt: skip
    plain = made.lock()
    lock = msgspec.structs.replace(
        plain, base=msgspec.structs.replace(plain.base, packages=(package,)),
        realised=msgspec.structs.replace(plain.realised, runtime=small_runtime(made.store)),
    )  # fmt: skip
    out = folder / "out"
    image = build_image(lock, made.store, out, files={}, reference=own_name(lock.digest))
    write_lock(lock, out / LOCK)
    (out / IMAGE).write_bytes(msgspec.json.format(msgspec.json.encode(image)) + b"\n")
    (out / VERDICT).write_bytes(
        msgspec.json.encode(make_verdict(tree=image.tree, image=image.manifest, lock=f"sha256:{lock.digest}"))
    )
    (out / REPORT).write_text("<p>fine</p>\n")
    for name, text in render_recipe(lock).items():
        if name != "requirements.txt":
            (out / name).write_text(text)
    write_context(lock, made.store, out, render_recipe(lock))
    return Results(out=out, store=made.store)


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return make_results(tmp_path / "sender")


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")
