"""Source trees to wheels, by their own backends, in the sandbox without network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from reprobuild.errors import BuildError
from reprobuild.guard import zips
from reprobuild.guard.names import HOSTILE
from reprobuild.lock import Artefact, Base, Interpreter, Source, Wheel
from reprobuild.proc import Failed
from reprobuild.realise.root import place_script
from reprobuild.realise.unpack import unpack_root
from reprobuild.sandbox import Bind, Root, left_behind, run_in_root
from reprobuild.store import Store, hash_file

RECIPE = 1
_BOTH = "the projects that are needed to build cannot stand in one folder; mend the pyproject.toml"


def wheel_key(
    source: Source, needs: Iterable[Wheel], base: Base, interpreter: Interpreter, epoch: int, tree: str = ""
) -> str:
    """Return the key of a source's wheel: the tree, its place, what builds it, and where."""
    packages = sorted(deb.file.sha256 for deb in base.packages)
    packages += [layer.diff_id for layer in base.image.layers] if base.image else []
    packages += [tree] if tree else []  # of an interpreter that the base does not bring
    tools = sorted(need.file.sha256 for need in needs)
    place = [source.path, source.subdirectory, source.editable]
    parts = ["wheel", RECIPE, source.file.sha256, place, tools, packages, interpreter.version, epoch]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def recall_wheel(key: str, store: Store) -> Wheel | None:
    """Return the wheel that was built under a key, if the store still has it."""
    known = store.recall(key)
    if known is None:
        return None
    wheel = msgspec.convert(known, type=Wheel)
    return wheel if store.has(wheel.file.sha256) else None


def build_wheel(
    source: Source, needs: Sequence[Wheel], interpreter: Interpreter, root: Root, store: Store, epoch: int
) -> Wheel:
    """Build the wheel of a source; an editable one's points to the source's place in the image.

    Args:
        source: a tree in the store.
        needs: wheels that the build imports.
        root: an unpacked base with the interpreter.

    Raises:
        BuildError: the backend failed; the message ends with what it said.
    """
    with store.scratch() as scratch:
        script = place_script("build_wheel.py", scratch)
        tree, site, out = scratch / "tree", scratch / "site", scratch / "out"
        for folder in (tree, site, out):
            folder.mkdir()
        unpack_root(store.verified(source.file.sha256, source.file.filename), tree)
        for need in needs:
            _unpack(need, store, site)
        project = "/".join(part for part in (source.path, source.subdirectory) if part)
        binds = [
            Bind(source=tree, target=source.path, writable=True),
            Bind(source=site, target="/mnt/site"),
            Bind(source=out, target="/mnt/out", writable=True),
            Bind(source=script, target="/mnt/build_wheel.py"),
        ]
        mode = "editable" if source.editable else "plain"
        argv = [
            interpreter.executable,
            "-I",
            "-S",
            "/mnt/build_wheel.py",
            "/mnt/site",
            project,
            "/mnt/out",
            mode,
        ]
        try:
            run_in_root(root, argv, epoch=epoch, binds=binds, purpose=f"build {source.name}")
        except Failed as err:
            raise BuildError(
                str(err),
                hint=f"build {source.name} by hand with its backend; there is no network while it is built",
            ) from None
        return _keep(source, list(out.glob("*.whl")), store)


def _unpack(wheel: Wheel, store: Store, folder: Path) -> None:
    """Unpack a wheel that a build imports; nothing else of it is needed."""
    origin = f"the wheel {wheel.file.filename}"
    path = store.verified(wheel.file.sha256, wheel.file.filename)
    with zips.open_zip(path, origin) as (archive, members):
        for name, info in members.items():
            try:
                archive.extract(info, folder)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise BuildError(f"{origin} and another both write {name}", hint=_BOTH) from None
            except zips.UNREADABLE as err:
                raise BuildError(f"{origin}: {name} cannot be read: {err}", hint=HOSTILE) from None


def _keep(source: Source, built: list[Path], store: Store) -> Wheel:
    try:
        _, version, _, _ = parse_wheel_filename(built[0].name)
    except (IndexError, InvalidWheelFilename):
        raise BuildError(
            f"the backend of {source.name} left no wheel",
            hint="build it by hand with `python -m build --wheel`",
        ) from None
    path = left_behind(built[0], f"the backend of {source.name}")
    size, sha256 = path.stat().st_size, hash_file(path)
    store.adopt(path, sha256)
    file = Artefact(filename=path.name, sha256=sha256, size=size)
    return Wheel(name=source.name, version=str(version), role="environment", file=file)
