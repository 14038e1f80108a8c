"""Small wheels, tars and locks that the tests of this directory are made of."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.file import VERSION
from reprobuild.lock.model import Bytecode, Lock, RealisedOutputs, SealedLock, seal
from reprobuild.lock.python import Interpreter, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Artefact, Base, EnvVar
from reprobuild.store.store import Store

SITE = "opt/env/lib/python3.11/site-packages"
EPOCH = 1_700_000_000


def record_row(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
    quoted = f'"{name}"' if "," in name else name
    return f"{quoted},sha256={digest},{len(content)}\n"


def make_wheel(
    path: Path,
    files: Mapping[str, bytes],
    *,
    scripts: str = "",
    executable: Sequence[str] = (),
    rows: Mapping[str, str] | None = None,
    modes: Mapping[str, int] | None = None,
) -> Path:
    """Write a wheel named like `path`; `rows` replaces rows of RECORD (an empty one removes it)."""
    project, version = path.name.split("-")[:2]
    info = f"{project}-{version}.dist-info"
    content = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: made\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if scripts:
        content[f"{info}/entry_points.txt"] = scripts.encode()
    record = "".join((rows or {}).get(name, record_row(name, data)) for name, data in content.items())
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            member = zipfile.ZipInfo(name)
            mode = 0o100755 if name in executable else 0o100644
            member.external_attr = (modes or {}).get(name, mode) << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return path


def make_tar(entries: Sequence[tuple[TarEntry, bytes]]) -> bytes:
    stream = io.BytesIO()
    writer = TarWriter(stream, 0)
    for entry, content in entries:
        writer.add(entry, content if entry.type == "file" else None)
    writer.close()
    return stream.getvalue()


def file(path: str, content: bytes, mode: int = 0o644, **more: Any) -> tuple[TarEntry, bytes]:
    return TarEntry(path=path, type="file", mode=mode, size=len(content), **more), content


def folder(path: str, mode: int = 0o755, **more: Any) -> tuple[TarEntry, bytes]:
    return TarEntry(path=path, type="directory", mode=mode, **more), b""


def symlink(path: str, target: str) -> tuple[TarEntry, bytes]:
    return TarEntry(path=path, type="symlink", mode=0o777, target=target), b""


BASE = [
    folder("etc"),
    file("etc/shadow", b"root:*::\n", 0o640, gid=42),
    folder("root", 0o700),
    folder("tmp", 0o1777),
    folder("usr"),
    folder("usr/bin"),
    file("usr/bin/python3.11", b"ELF", 0o755, xattrs=(("security.capability", "0100000200ff"),)),
    (TarEntry(path="usr/bin/python-again", type="hardlink", mode=0o755, target="usr/bin/python3.11"), b""),
    symlink("bin", "usr/bin"),
]


class Made:
    """A store, and the lock that is made step by step of what is put into it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = Store(root / "store")
        self.wheels: list[Wheel] = []
        self.built: list[Wheel] = []
        self.sources: list[Source] = []
        self.bytecode: list[Bytecode] = []
        self.base = self.store.add(make_tar(BASE))
        root.mkdir(exist_ok=True)

    def keep(self, path: Path) -> Artefact:
        content = path.read_bytes()
        return Artefact(filename=path.name, sha256=self.store.add(content), size=len(content))

    def wheel(self, name: str, files: Mapping[str, bytes], *, built: bool = False, **more: Any) -> Wheel:
        path = make_wheel(self.root / f"{name}-1.0-py3-none-any.whl", files, **more)
        wheel = Wheel(name=name, version="1.0", role="environment", file=self.keep(path))
        (self.built if built else self.wheels).append(wheel)
        return wheel

    def compiled(self, artefact: str, files: Mapping[str, bytes]) -> None:
        tar = make_tar([file(path, content) for path, content in files.items()])
        self.bytecode.append(Bytecode(artefact=artefact, tar=self.store.add(tar)))

    def source(self, name: str, entries: Sequence[tuple[TarEntry, bytes]], **more: Any) -> Source:
        tar = make_tar(entries)
        source = Source(
            name=name, url="", commit="c" * 40, tree="7" * 40, patch=None, path=f"/src/{name}", editable=True,
            epoch=EPOCH, file=Artefact(filename=f"{name}.tar", sha256=self.store.add(tar), size=len(tar)),
        )  # fmt: skip
        self.sources.append(msgspec.structs.replace(source, **more))
        return source

    def unsealed_lock(self, **more: Any) -> Lock:
        lock = Lock(
            version=VERSION, snapshot="5" * 64, platform="linux/amd64", epoch=EPOCH, seed=None, profile="torch",
            interpreter=Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="asked"),
            base=Base(distribution="debian", release="bookworm", packages=()),
            wheels=tuple(self.wheels), sources=tuple(self.sources),
            environment=(EnvVar(name="OMP_NUM_THREADS", value="4"),), workdir="/src", workload=None,
            decisions=RecordedDecisions(), rulings=(),
        )  # fmt: skip
        return msgspec.structs.replace(lock, **more)

    def lock(self, *, realised: RealisedOutputs | None = None, **more: Any) -> SealedLock:
        outputs = RealisedOutputs(
            base=self.base, runtime="0" * 64, wheels=tuple(self.built), bytecode=tuple(self.bytecode)
        )
        return seal(self.unsealed_lock(**more), realised or outputs)


def members(content: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        return {info.name: info for info in tar}
