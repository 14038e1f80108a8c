"""Archives of sources: every kind that was ever used, and those that would do harm."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import names
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.sdists import read_sdist
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import EPOCH, Artefact
from reprobuild.realise.projects import unpack_project
from reprobuild.store.store import Store

PACKERS = {
    ".tar.gz": gzip.compress,
    ".tgz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
}


def tar(*members: tuple[str, bytes | str | None, int]) -> bytes:
    """Return a tar of (name, content or link or None for a directory, mode)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content, mode in members:
            info = tarfile.TarInfo(name)
            info.mode = mode
            if isinstance(content, bytes):
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
                continue
            info.type = tarfile.DIRTYPE if content is None else tarfile.SYMTYPE
            info.linkname = content or ""
            archive.addfile(info)
    return stream.getvalue()


USUAL = tar(
    ("a-1/", None, 0o755), ("a-1/setup.py", b"setup", 0o644), ("a-1/tool", b"#!/bin/sh\n", 0o755),
    ("./a-1/sub/p.toml", b"toml", 0o600), ("a-1/link", "setup.py", 0o777),
)  # fmt: skip


def read(
    place: Path, name: str, content: bytes, subdirectory: str = ""
) -> dict[str, tuple[bytes | str, bool]]:
    path = place / "blob"
    path.write_bytes(content)
    return {
        member.path: (member.open().read() if member.target is None else member.target, member.executable)
        for member in read_sdist(path, name, subdirectory)
    }


@pytest.mark.parametrize("ending", PACKERS)
def test_every_kind_of_tar(tmp_path: Path, ending: str) -> None:
    found = read(tmp_path, f"a-1{ending}", PACKERS[ending](USUAL))
    assert found["setup.py"] == (b"setup", False)
    assert found["tool"] == (b"#!/bin/sh\n", True)
    assert found["sub/p.toml"] == (b"toml", False)
    assert found["link"][0] == "setup.py"
    assert read(tmp_path, f"a-1{ending}", PACKERS[ending](USUAL), "sub") == {"p.toml": (b"toml", False)}


def test_a_zip(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a-1/", b"")
        archive.writestr("a-1/setup.py", b"setup")
    assert read(tmp_path, "a-1.zip", stream.getvalue()) == {"setup.py": (b"setup", False)}


@pytest.mark.parametrize(
    ("name", "content", "words", "hint"),
    [
        ("a-1.rar", b"", "a-1.rar is an archive of no known kind",
         "those are read: .tar, also packed by gzip, bzip2 or xz, and .zip"),
        ("a.tar", tar(("a/x", b"", 0), ("b/x", b"", 0)), "holds 'b/x' beside the directory 'a': an sdist has one",
         "build a wheel of it by hand, and put that into a directory of pip's find-links"),
        ("a.tar", tar(("a/../../x", b"", 0)), "holds the unsafe path 'a/../../x'", HOSTILE),
        ("a.tar", tar(("/etc/x", b"", 0)), "holds the unsafe path '/etc/x'", HOSTILE),
        ("a.tar.gz", b"no gzip", "a.tar.gz cannot be read: not a gzip file", HOSTILE),
        ("a.tar.xz", b"no xz", "a.tar.xz cannot be read: invalid compressed data", HOSTILE),
        ("a.tar.gz", gzip.compress(USUAL)[:-300], "a.tar.gz cannot be read: ", HOSTILE),
        ("a.zip", b"no zip", "a.zip is not a zip archive", HOSTILE),
    ],
)  # fmt: skip
def test_archives_that_are_refused(tmp_path: Path, name: str, content: bytes, words: str, hint: str) -> None:
    with pytest.raises(BuildError) as caught:
        read(tmp_path, name, content)
    assert words in str(caught.value)
    assert (caught.value.hint or "").startswith(hint)


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ALLOWANCE", 1 << 10)
    bomb = gzip.compress(tar(("a/x", bytes(4 << 20), 0)))
    with pytest.raises(BuildError, match=f"has {len(bomb)} bytes and unpacks to more than") as caught:
        read(tmp_path, "a.tar.gz", bomb)
    assert caught.value.hint == HOSTILE


def test_a_device(tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        info = tarfile.TarInfo("a/null")
        info.type = tarfile.CHRTYPE
        archive.addfile(info)
    with pytest.raises(BuildError, match="holds 'a/null', which is neither a file nor a link") as caught:
        read(tmp_path, "a.tar", stream.getvalue())
    assert caught.value.hint == HOSTILE


def unpack(tmp_path: Path, content: bytes) -> Path:
    store = Store(tmp_path / "store")
    file = Artefact(filename="a-1.tar", sha256=store.add(content), size=len(content))
    folder = tmp_path / "folder"
    folder.mkdir()
    unpack_project(Sdist(name="a", version="1", file=file), store, folder)
    return folder


def test_it_is_unpacked_with_one_time(tmp_path: Path) -> None:
    folder = unpack(tmp_path, USUAL)
    assert {path.name for path in folder.iterdir()} == {"setup.py", "tool", "sub", "link"}
    assert (folder / "link").readlink() == Path("setup.py")
    assert {path.lstat().st_mtime for path in folder.rglob("*") if not path.is_dir()} == {EPOCH}
    assert [oct((folder / name).stat().st_mode) for name in ("setup.py", "tool")] == ["0o100644", "0o100755"]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(
        BuildError, match=r"a-1\.tar holds 'out', which cannot be unpacked: File exists"
    ) as caught:
        unpack(tmp_path, tar(("a/out", str(outside), 0), ("a/out/x", b"harm", 0)))
    assert caught.value.hint == HOSTILE
    assert not list(outside.iterdir())
