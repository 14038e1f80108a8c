"""Made indexes, packages and `.deb` files, and the little that tests of the real ones share."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import requests

from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.infra.http.client import Net
from reprobuild.lock.system import Artefact, Deb
from reprobuild.resolve.system.fallback_sources import Answer, FoundVersion
from reprobuild.snapshot.model import Mark, SourceLocation, SystemPackage
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

EPOCH = 1_700_000_000
ORDINARY_USER = (
    "setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip


def stanza(name: str, version: str, needs: str = "", *more: str, architecture: str = "amd64") -> str:
    """Return one paragraph of a `Packages` file."""
    lines = [f"Package: {name}", f"Version: {version}", f"Architecture: {architecture}"]
    lines += [f"Filename: pool/{name}_{version}_{architecture}.deb", f"SHA256: {'0' * 64}", "Size: 1"]
    lines += [f"Depends: {needs}"] if needs else []
    return "\n".join([*lines, *more]) + "\n"


def index(*stanzas: str, unasked: Iterable[str] = ()) -> SystemIndex:
    """Return the index of a made release; `unasked` are the stanzas of a backports suite."""
    files = [PackagesFile(uri="http://u:p@mirror.test/d/", content="\n".join(stanzas).encode())]
    files.append(PackagesFile(uri="http://b.test/", content="\n".join(unasked).encode(), automatic=False))
    return SystemIndex("debian", "made", files)


class Shelved:
    """A place that has single versions."""

    label = "a shelf"
    before_past = False

    def __init__(self, *stanzas: str) -> None:
        self._stanzas = stanzas
        self.asked: list[str] = []

    def find(self, package: SystemPackage, mirror: SystemIndex) -> Answer | None:
        self.asked.append(package.name)
        found = [s for s in self._stanzas if f"Package: {package.name}\nVersion: {package.version}\n" in s]
        file = PackagesFile(uri="http://shelf.test/", content="\n".join(found).encode(), automatic=False)
        return (file, FoundVersion(label=self.label)) if found else None


def package(
    name: str, version: str, mark: Mark = "automatic", *, line: int = 2, architecture: str = "amd64",
    suites: tuple[str, ...] = (),
) -> SystemPackage:  # fmt: skip
    """Return one captured package."""
    return SystemPackage(
        place=SourceLocation("apt-packages.txt", line), text="", name=name, version=version,
        architecture=architecture, mark=mark, suites=suites,
    )  # fmt: skip


def tar_bytes(members: Sequence[tuple[tarfile.TarInfo, bytes]], compression: str = "") -> bytes:
    """Return a tar of the given members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """Return the header of one tar member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, mode
    return info


def ar_bytes(parts: Sequence[tuple[str, bytes]]) -> bytes:
    """Return an `ar` archive, the outer format of a `.deb` (deb(5))."""
    out = b"!<arch>\n"
    for name, content in parts:
        out += f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        out += content + b"\n" * (len(content) % 2)
    return out


def add_deb(store: Store, name: str, content: bytes, *, essential: bool = True) -> Deb:
    """Keep a made `.deb` and return what a lock says of it."""
    file = Artefact(filename=f"{name}.deb", sha256=hashlib.sha256(content).hexdigest(), size=len(content))
    store.add(content)
    return Deb(name=name, version="1", architecture="amd64", essential=essential, file=file)


def bring(debs: Iterable[Deb], store: Store) -> None:
    """Fetch real packages into the store."""
    with requests.Session() as session:
        for deb in debs:
            if not store.has(deb.file.sha256):
                answer = session.get(deb.file.url, timeout=120)
                answer.raise_for_status()
                assert store.add(answer.content) == deb.file.sha256


def bring_all(debs: Iterable[Deb], store: Store) -> None:
    """Bring packages into the store from where their addresses say, which may be a directory."""
    fetch([deb.file for deb in debs], store, Net())


def names_in(folder: Path) -> list[str]:
    """Return every path below a directory, sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
