"""conda packages and channels that the tests make: the real formats, with content of the tests' own.

https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html
"""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import zstandard
from msgspec import Struct

from reprobuild.lock.python import CondaPackage
from reprobuild.lock.system import Artefact
from reprobuild.store.store import Store

PLACEHOLDER = "/opt/placehold" + "_placehold" * 24
TIME = 1_700_000_000


class Link(Struct, frozen=True):
    """A symbolic link of a package."""

    target: str


class Spec(Struct, kw_only=True):
    """What a package holds. `placeholders` are {path: "text" or "binary"} of files that name the prefix.

    `without` are documents of `info/` that it does not have, as packages from before they were invented.
    """

    name: str
    version: str = "1.0"
    build: str = "0"
    subdir: str = "linux-64"
    depends: tuple[str, ...] = ()
    files: Mapping[str, bytes | Link] = {}
    executable: tuple[str, ...] = ()
    placeholders: Mapping[str, str] = {}
    noarch: str = ""
    entry_points: tuple[str, ...] = ()
    ending: str = ".conda"
    extra: Mapping[str, bytes | Link] = {}
    index: Mapping[str, Any] = {}
    paths: Mapping[str, Any] | None = None
    without: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        return f"{self.name}-{self.version}-{self.build}{self.ending}"


def write_package(spec: Spec, channel: Path) -> Path:
    """Write a package into its place in the directory of a channel."""
    target = channel / spec.subdir / spec.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    info = _tar({f"info/{name}": content for name, content in _info(spec).items()}, spec)
    files = _tar(spec.files, spec)
    if spec.ending == ".tar.bz2":
        whole = _tar({**{f"info/{n}": c for n, c in _info(spec).items()}, **spec.files}, spec)
        target.write_bytes(bz2.compress(whole))
        return target
    packer = zstandard.ZstdCompressor()
    stem = spec.filename.removesuffix(".conda")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, content in (
            ("metadata.json", b'{"conda_pkg_format_version": 2}'),
            (f"pkg-{stem}.tar.zst", packer.compress(files)),
            (f"info-{stem}.tar.zst", packer.compress(info)),
        ):
            archive.writestr(zipfile.ZipInfo(name, (2023, 11, 14, 22, 13, 20)), content)
    return target


def locked(spec: Spec, channel: Path, store: Store) -> CondaPackage:
    """Write a package, put it into a store, and return what a lock says of it."""
    path = write_package(spec, channel)
    sha256 = store.add(path.read_bytes())
    file = Artefact(
        filename=spec.filename, sha256=sha256, size=path.stat().st_size,
        url=f"https://channel.test/main/{spec.subdir}/{spec.filename}",
    )  # fmt: skip
    return CondaPackage(
        name=spec.name, version=spec.version, build=spec.build, subdir=spec.subdir, channel="https://channel.test/main",
        file=file,
    )  # fmt: skip


def index_channel(channel: Path, *, md5_only: bool = False) -> None:
    """Write `repodata.json` of each subdir, as conda-index does."""
    for subdir in ("linux-64", "noarch"):
        folder = channel / subdir
        folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, dict[str, Any]] = {"packages": {}, "packages.conda": {}}
        for path in sorted((*folder.glob("*.tar.bz2"), *folder.glob("*.conda"))):
            content = path.read_bytes()
            record = read_index(path) | {"size": len(content), "md5": hashlib.md5(content).hexdigest()}
            if not md5_only:
                record["sha256"] = hashlib.sha256(content).hexdigest()
            found["packages.conda" if path.suffix == ".conda" else "packages"][path.name] = record
        document = {"info": {"subdir": subdir}, **found, "removed": [], "repodata_version": 1}
        text = json.dumps(document).encode()
        (folder / "repodata.json").write_bytes(text)
        (folder / "repodata.json.zst").write_bytes(zstandard.ZstdCompressor().compress(text))


def read_index(path: Path) -> dict[str, Any]:
    """Return the `info/index.json` of a package that was written here."""
    if path.suffix == ".conda":
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.startswith("info-"))
            tar = zstandard.ZstdDecompressor().decompressobj().decompress(archive.read(name))
    else:
        tar = bz2.decompress(path.read_bytes())
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        stream = opened.extractfile("info/index.json")
        assert stream is not None
        found: dict[str, Any] = json.loads(stream.read())
        return found


def _info(spec: Spec) -> dict[str, bytes | Link]:
    index = {
        "name": spec.name, "version": spec.version, "build": spec.build, "build_number": 0, "subdir": spec.subdir,
        "depends": list(spec.depends), "arch": "x86_64" if spec.subdir == "linux-64" else None, "platform": "linux",
        "timestamp": TIME * 1000, "license": "MIT",
    }  # fmt: skip
    if spec.noarch:
        index["noarch"] = spec.noarch
    paths = spec.paths if spec.paths is not None else {"paths": _paths(spec), "paths_version": 1}
    found: dict[str, bytes | Link] = {
        "index.json": json.dumps({**index, **spec.index}).encode(),
        "paths.json": json.dumps(paths).encode(),
        "files": "".join(f"{name}\n" for name in spec.files).encode(),
        "about.json": b"{}",
    }
    if spec.noarch:
        link = {"noarch": {"type": spec.noarch, "entry_points": list(spec.entry_points)},
                "package_metadata_version": 1}  # fmt: skip
        found["link.json"] = json.dumps(link).encode()
    return {name: content for name, content in {**found, **spec.extra}.items() if name not in spec.without}


def _paths(spec: Spec) -> list[dict[str, Any]]:
    rows = []
    for name, content in spec.files.items():
        data = b"" if isinstance(content, Link) else content
        row = {
            "_path": name, "path_type": "softlink" if isinstance(content, Link) else "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(), "size_in_bytes": len(data),
        }  # fmt: skip
        if name in spec.placeholders:
            row |= {"file_mode": spec.placeholders[name], "prefix_placeholder": PLACEHOLDER}
        rows.append(row)
    return rows


def _tar(files: Mapping[str, bytes | Link], spec: Spec) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.mtime = TIME
            if isinstance(content, Link):
                member.type, member.linkname = tarfile.SYMTYPE, content.target
                tar.addfile(member)
            else:
                member.size, member.mode = len(content), 0o775 if name in spec.executable else 0o664
                tar.addfile(member, io.BytesIO(content))
    return out.getvalue()
