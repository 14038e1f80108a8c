"""The plan of a sealed lock's layers and their parts.

It reads no content. Every layer has the directories above its files, root's and 0755, so the merged tree is
the same for every division of the files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import zstandard
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.errors import BuildError
from reprobuild.image.layers.content import conflict_error
from reprobuild.image.layers.wheel import direct_url_text, site_packages
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.python import Source
from reprobuild.lock.system import PREFIX, Artefact
from reprobuild.recipe.layer_order import order_wheels
from reprobuild.recipe.payload import origin_file
from reprobuild.store.store import Store

# Part of the key of every layer: increase it when other bytes come from the same parts.
RECIPE = 1


class BasePart(Struct, frozen=True, tag="base"):
    """The base tar, unchanged and without other parts."""

    sha256: str


class WheelPart(Struct, frozen=True, tag="wheel"):
    """An installed wheel.

    `direct_url` is the text of that file, or empty.
    """

    filename: str
    sha256: str
    direct_url: str = ""


class TarPart(Struct, frozen=True, tag="tar"):
    """The members of a tar, put into `prefix`.

    All must then be below `below`.
    """

    origin: str
    sha256: str
    prefix: str = ""
    below: str = ""


class GivenPart(Struct, frozen=True, tag="given"):
    """A path with its content: directory, link or small file.

    `target` is that of a link, `content` that of a file; `mode` and `owner` (uid, gid) are a directory's.
    """

    path: str
    target: str | None = None
    content: bytes | None = None
    mode: int = 0o755
    owner: tuple[int, int] = (0, 0)


Part = BasePart | WheelPart | TarPart | GivenPart


class LayerPlan(Struct, frozen=True, kw_only=True):
    """The parts of one layer.

    `omit` are paths that an earlier layer has with another mode.
    """

    title: str
    parts: tuple[Part, ...]
    python: str
    epoch: int
    omit: tuple[str, ...] = ()

    @property
    def base(self) -> str:
        """The sha256 of the base tar, else ""."""
        return self.parts[0].sha256 if self.parts and isinstance(self.parts[0], BasePart) else ""

    def key(self, level: int) -> str:
        """Return the layer's key in the store."""
        parts = msgspec.to_builtins(self.parts)
        zstd = ["zstd", level, *zstandard.ZSTD_VERSION]
        made_from = ["layer", RECIPE, parts, PREFIX, self.python, self.epoch, sorted(self.omit), zstd]
        return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def plan(lock: SealedLock, store: Store) -> list[LayerPlan]:
    """Return a sealed lock's layers in order, without runtime files.

    They are base, interpreter, wheels, sources. The store provides the sizes of wheels, which a lock need not
    have.
    """
    python = lock.interpreter.minor
    bytecode = {item.artefact: item.tar for item in lock.realised.bytecode}

    def planned_layer(title: str, *parts: Part) -> LayerPlan:
        return _plan_layer(lock, title, *parts)

    def bytecode_parts(file: Artefact, below: str) -> list[Part]:
        tar = bytecode.get(file.sha256)
        return [TarPart(f"the bytecode of {file.filename}", tar, below=below)] if tar else []

    base = f"{lock.base.distribution} {lock.base.release}, {len(lock.base.installed)} packages"
    layer_plans = [planned_layer(base, BasePart(lock.realised.base))]
    if lock.realised.interpreter:
        home = lock.interpreter.home
        tree = TarPart("the tree of the interpreter", lock.realised.interpreter, below=home[1:])
        layer_plans.append(planned_layer(f"{home}: Python {lock.interpreter.version}", tree))
    if parts := virtual_environment_parts(lock):
        layer_plans.append(planned_layer(f"{PREFIX}: Python {python}", *parts))
    urls = _direct_urls(lock.sources)
    wheels: dict[str, WheelPart] = {}
    codes: dict[str, list[Part]] = {}
    sizes: dict[str, int] = {}
    for wheel in (*lock.wheels, *lock.built_wheels):
        if wheel.role == "environment":
            made_here = wheel in lock.built_wheels
            url = urls.get(canonicalize_name(wheel.name), "") if made_here else ""
            name = wheel.file.filename
            wheels[name] = WheelPart(name, wheel.file.sha256, url)
            codes[name] = bytecode_parts(wheel.file, PREFIX[1:])
            sizes[name] = _file_size(store.blob(wheel.file.sha256))
    order = order_wheels(sizes)
    layer_plans += [planned_layer(name, wheels[name]) for name in order.alone]
    # Bytecode depends on the base and the interpreter: apart from them, a large wheel is one layer for every base.
    if compiled := [part for name in order.alone for part in codes[name]]:
        layer_plans.append(planned_layer(f"the bytecode of {len(compiled)} wheels", *compiled))
    if order.together:
        together = [part for name in order.together for part in (wheels[name], *codes[name])]
        layer_plans.append(planned_layer(f"{len(order.together)} wheels", *together))
    for source in sorted(lock.sources, key=lambda source: source.name):
        place = source.path.strip("/")
        files = TarPart(f"the source {source.name}", source.file.sha256, prefix=place)
        title = f"{source.path}: {source.commit[:12]}{' with changes' if source.patch else ''}"
        # With the source, so that its next change remakes only this layer.
        origins = [origin_file(source, lock)] if source.watched else []
        origin_parts = [GivenPart(path.strip("/"), content=content) for path, content in origins]
        built = lock.parts(source)
        added = [TarPart(f"what was compiled in {source.name}", built.parts, prefix=place)] if built else []
        whole: list[Part] = [
            GivenPart(place),
            *origin_parts,
            files,
            *bytecode_parts(source.file, place),
            *added,
        ]
        layer_plans.append(planned_layer(title, *whole))
    return layer_plans


def plan_large_wheels(lock: Lock, store: Store) -> list[LayerPlan]:
    """Return the layers of large wheels that no build makes, largest first.

    They follow from the lock, so they can be made before anything is built.
    """
    wheels = [wheel.file for wheel in lock.wheels if wheel.role == "environment"]
    sizes = {file.filename: _file_size(store.blob(file.sha256)) for file in wheels}
    alone = set(order_wheels(sizes).alone)
    files = sorted(wheels, key=lambda file: (-sizes[file.filename], file.filename))
    return [
        _plan_layer(lock, file.filename, WheelPart(file.filename, file.sha256))
        for file in files
        if file.filename in alone
    ]


def _plan_layer(lock: Lock, title: str, *parts: Part) -> LayerPlan:
    return LayerPlan(title=title, parts=parts, python=lock.interpreter.minor, epoch=lock.epoch)


def _file_size(blob: Path) -> int:
    return blob.stat().st_size if blob.is_file() else 0  # a missing file is reported when it is read


def virtual_environment_parts(lock: Lock) -> list[GivenPart]:
    """Return the parts that make the prefix a virtual environment.

    PEP 405 describes it; conda's prefix is not one.
    """
    if lock.interpreter.kind == "conda":
        return []
    python = lock.interpreter.minor
    executable, prefix = lock.interpreter.executable, PREFIX[1:]
    settings = (
        f"home = {executable.rpartition('/')[0]}\n"
        f"include-system-site-packages = {str(lock.interpreter.shared).lower()}\n"
        f"version = {lock.interpreter.version}\n"
    )
    return [
        GivenPart(f"{prefix}/bin/python", target=executable),
        GivenPart(f"{prefix}/bin/python3", target="python"),
        GivenPart(f"{prefix}/bin/python{python}", target="python"),
        GivenPart(f"{prefix}/pyvenv.cfg", content=settings.encode()),
        GivenPart(site_packages(python)),
    ]


def _direct_urls(sources: Sequence[Source]) -> dict[str, str]:
    """Return {project: text of direct_url.json} of editable sources.

    The form is that of PEP 610, "editable".
    """
    urls = {}
    for source in sources:
        if source.editable:
            url = "file://" + "/".join(part for part in (source.path, source.subdirectory) if part)
            text_ = direct_url_text({"dir_info": {"editable": True}, "url": url}).decode()
            urls[str(canonicalize_name(source.name))] = text_
    return urls


def files_layer(lock: SealedLock, files: Mapping[str, bytes], tree: Mapping[str, TarEntry]) -> LayerPlan:
    """Return the last layer: runtime files and the working directory.

    The working directory is added if no other layer has it.

    Args:
        lock: the sealed lock.
        files: {path: content}, with or without a leading slash.
        tree: the merged tree of all other layers.

    Raises:
        BuildError: the working directory is a file or below a link, or a path of ours is taken.
    """
    parts = [GivenPart(path.strip("/"), content=content) for path, content in sorted(files.items())]
    for part in parts:
        if part.path in tree:
            raise conflict_error(part.path, "another layer", "reprobuild itself")
    steps = [step for step in lock.workdir.split("/") if step]
    for folder in ("/".join(steps[: depth + 1]) for depth in range(len(steps))):
        present = tree.get(folder)
        if present is None:
            parts.append(GivenPart(folder))
        elif present.type == "directory":  # unchanged: a layer's parents would be root's and 0755
            parts.append(GivenPart(folder, mode=present.mode, owner=(present.uid, present.gid)))
        elif present.type != "symlink" or folder != "/".join(steps):
            raise BuildError(
                f"the working directory {lock.workdir} cannot be: /{folder} is a {present.type}",
                hint=f"leave out the system package that brings /{folder} with `--drop NAME`",
            )
    return LayerPlan(
        title="reprobuild's own files", parts=tuple(parts), python=lock.interpreter.minor, epoch=lock.epoch
    )
