"""Deterministic tar files: the same bytes for the same entries, and nothing lost on the way back."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path

import hypothesis
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import TarEntry, entry_of, list_parents, normalise_name
from reprobuild.infra.tar.index import index_tar
from reprobuild.infra.tar.reading import list_tar, read_tar
from reprobuild.infra.tar.writing import TarWriter, full_header, plain_header

EPOCH = 1_700_000_000
LONG = "/".join(f"folder-{n:02}-{'x' * 20}" for n in range(12))
ENTRIES: list[tuple[TarEntry, bytes]] = [
    (TarEntry(path="dir", type="directory", mode=0o1777, uid=5, gid=7), b""),
    (TarEntry(path="dir/file", type="file", mode=0o4755, uid=3_000_000, gid=1, size=3), b"abc"),
    (TarEntry(path="dir/empty", type="file", mode=0), b""),
    (TarEntry(path="dir/block", type="file", mode=0o644, size=512), b"\0" * 512),
    (TarEntry(path=f"{LONG}/file", type="file", mode=0o644, size=1), b"x"),
    (TarEntry(path="gr\u00fc\u00dfe/\u4e2d\u6587 name", type="file", mode=0o600, size=2), b"\xff\0"),
    (TarEntry(path="latin-\udce9", type="file", mode=0o600, size=1), b"1"),
    (TarEntry(path="link", type="symlink", mode=0o777, target=f"../{LONG}"), b""),
    (TarEntry(path="dots", type="symlink", mode=0o777, target="./dir/"), b""),
    (TarEntry(path="absolute", type="symlink", mode=0o777, target="/dir/file"), b""),
    (TarEntry(path="odd", type="symlink", mode=0o777, target="\u00fc\udcff"), b""),
    (TarEntry(path="hard", type="hardlink", mode=0o4755, uid=3_000_000, gid=1, target="dir/file"), b""),
    (TarEntry(path="null", type="char", mode=0o666, device=(1, 3)), b""),
    (TarEntry(path="disk", type="block", mode=0o660, device=(259, 1048575)), b""),
    (TarEntry(path="pipe", type="fifo", mode=0o644), b""),
    (TarEntry(path="capable", type="file", mode=0o755, size=1, xattrs=(
        ("security.capability", "0100000200200000000000000000000000000000"), ("user.n\u00fc", "c3bc0a00ff"),
    )), b"c"),
]  # fmt: skip


def write(
    entries: list[tuple[TarEntry, bytes]] = ENTRIES, epoch: int = EPOCH
) -> tuple[bytes, list[TarEntry]]:
    stream = io.BytesIO()
    writer = TarWriter(stream, epoch)
    for entry, content in entries:
        writer.add(entry, content if entry.type == "file" else None)
    writer.close()
    return stream.getvalue(), writer.listing


def expected(entry: TarEntry, content: bytes) -> TarEntry:
    digest = hashlib.sha256(content).hexdigest() if entry.type == "file" else ""
    return msgspec.structs.replace(entry, sha256=digest)


def test_nothing_is_lost_on_the_way_back() -> None:
    data, listing = write()
    wanted = [expected(entry, content) for entry, content in ENTRIES]
    assert listing == wanted
    assert list(list_tar(io.BytesIO(data))) == wanted
    contents = {e.path: read() for e, read in read_tar(io.BytesIO(data)) if e.type == "file"}
    assert contents == {entry.path: content for entry, content in ENTRIES if entry.type == "file"}


def test_the_same_entries_give_the_same_bytes_whatever_the_machine() -> None:
    data, _ = write()
    program = (
        "from tests.test_archive import write; import hashlib;print(hashlib.sha256(write()[0]).hexdigest())"
    )
    for env in ({"LC_ALL": "C", "TZ": "Asia/Tokyo"}, {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "5"}):
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=Path(__file__).parent.parent, env=env, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.stdout.strip() == hashlib.sha256(data).hexdigest()


def test_the_bytes_are_known() -> None:
    plain = [ENTRIES[0], (TarEntry(path="dir/file", type="file", mode=0o644, size=3), b"abc")]
    data, _ = write(plain)
    assert len(data) == tarfile.RECORDSIZE
    assert data[:100] == b"dir/" + bytes(96)
    assert data[136:148] == b"%011o\0" % EPOCH
    assert data[257:265] == b"ustar\x0000"
    assert data[265:329] == bytes(64)  # no names of owners
    assert data[1024:1027] == b"abc"
    assert data[1027:] == bytes(len(data) - 1027)


@given(
    st.builds(
        TarEntry,
        path=st.text(min_size=1, max_size=110) | st.text("ab/.", min_size=95, max_size=105),
        type=st.just("file"),
        mode=st.integers(0, 0o7777),
        uid=st.integers(0, 1 << 22),
        gid=st.integers(0, 1 << 22),
        size=st.integers(0, 1 << 34),
    ),
    st.integers(0, 1 << 34),
)
def test_the_quick_header_is_that_of_tarfile(entry: TarEntry, epoch: int) -> None:
    quick = plain_header(entry, epoch)
    assert quick in (None, full_header(entry, epoch))
    ordinary = entry.path.isascii() and len(entry.path) <= 100 and entry.path[-1] != "/"
    small = entry.size < 1 << 33 > epoch and max(entry.uid, entry.gid) < 1 << 21
    assert (quick is not None) == (ordinary and small)


def test_the_time_is_the_epoch_and_nothing_else_changes_with_it() -> None:
    with tarfile.open(fileobj=io.BytesIO(write()[0])) as tar:
        assert {info.mtime for info in tar} == {EPOCH}
    assert write()[0] != write(epoch=EPOCH + 1)[0]
    assert list(list_tar(io.BytesIO(write(epoch=1)[0]))) == list(list_tar(io.BytesIO(write()[0])))


def test_gnu_tar_reads_it(tmp_path: Path) -> None:
    entries = [item for item in ENTRIES if item[0].type in ("directory", "file", "symlink")]
    path = tmp_path / "x.tar"
    path.write_bytes(write(entries)[0])
    argv = ["tar", "--list", "--quoting-style=literal", "--file", str(path)]
    done = subprocess.run(
        argv, env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}, check=True, capture_output=True
    )
    names = done.stdout.decode("utf-8", "surrogateescape").splitlines()
    assert names == [entry.path + "/" * (entry.type == "directory") for entry, _ in entries]


@pytest.mark.parametrize(("content", "said"), [(b"ab", "shorter"), (b"abcd", "longer")])
def test_content_of_another_length_is_refused(content: bytes, said: str) -> None:
    entry = TarEntry(path="x", type="file", mode=0o644, size=3)
    for source in (content, io.BytesIO(content)):
        with pytest.raises(ValueError, match=f"x is {said} than its 3 bytes"):
            TarWriter(io.BytesIO(), 0).add(entry, source)


def test_a_file_needs_content() -> None:
    with pytest.raises(ValueError, match="x is a file without content"):
        TarWriter(io.BytesIO(), 0).add(TarEntry(path="x", type="file", mode=0o644, size=1))


def test_short_forms() -> None:
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    writer.directory("a")
    writer.file("a/b", b"xy", 0o755)
    writer.symlink("c", "a/b")
    writer.close()
    found = list(list_tar(io.BytesIO(stream.getvalue())))
    assert [(e.path, e.type, e.mode, e.uid, e.size, e.target) for e in found] == [
        ("a", "directory", 0o755, 0, 0, ""), ("a/b", "file", 0o755, 0, 2, ""), ("c", "symlink", 0o777, 0, 0, "a/b"),
    ]  # fmt: skip


def test_parents_come_first_and_once() -> None:
    assert list_parents(["a/b/c", "a/d", "x", "a/b/e/f"]) == ["a", "a/b", "a/b/e"]
    assert list_parents([]) == []


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("./a/b", "a/b"),
        ("/a", "a"),
        (".//a/", "a"),
        (".", ""),
        ("./", ""),
        ("a", "a"),
        (".a/", ".a"),
        ("././a", "a"),
    ],
)
def test_names_are_normalised(written: str, name: str) -> None:
    assert normalise_name(written) == name


def test_what_a_layer_cannot_hold_is_refused() -> None:
    info = tarfile.TarInfo("sparse")
    info.type = tarfile.GNUTYPE_SPARSE
    with pytest.raises(ValueError, match=r"sparse is of the tar type b'S', which a layer cannot hold"):
        entry_of(info)
    info.type = tarfile.AREGTYPE
    assert entry_of(info).type == "file"


# --- index_tar -------------------------------------------------------------------------------

Found = list[tuple[TarEntry, int]] | str
NAMES = st.one_of(
    st.sampled_from(["a", "./b/c", "/d", "e/", "p" * 90 + "/" + "n" * 80, "x" * 100, "l" * 300, "\u00e9", "\udcff"]),
    st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=120),
)  # fmt: skip
KINDS = [tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
         tarfile.FIFOTYPE, tarfile.CONTTYPE]  # fmt: skip


@st.composite
def tars(draw: st.DrawFn) -> bytes:
    """Tars as other programs write them: every format, odd names, large numbers, records for all that follow."""
    form = draw(st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    stream = io.BytesIO()
    if form == tarfile.PAX_FORMAT and draw(st.booleans()):
        stream.write(tarfile.TarInfo.create_pax_global_header({"comment": "x", "uid": "77"}))
    for _ in range(draw(st.integers(0, 5))):
        info = tarfile.TarInfo(draw(NAMES))
        info.type = draw(st.sampled_from(KINDS))
        info.linkname = draw(NAMES) if info.type in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
        info.mode = draw(st.integers(0, 0o7777))
        info.uid = draw(st.sampled_from([0, 1000, 2**21 - 1, 2**21, 2**31]))
        info.gid = draw(st.sampled_from([0, 42]))
        content = draw(st.binary(max_size=600)) if info.isreg() else b""
        info.size = len(content)
        try:
            stream.write(info.tobuf(form, "utf-8", "surrogateescape"))
        except ValueError:  # this format cannot hold it
            continue
        stream.write(content + bytes(-len(content) % 512))
    return stream.getvalue() + draw(st.sampled_from([b"", bytes(1024), bytes(10240), b"x" * 512]))


def found_by(read: object, tar: bytes) -> Found:
    try:
        return list(read(io.BytesIO(tar)))  # type: ignore[operator]  # either reader
    except (tarfile.TarError, ValueError, BuildError) as err:
        return type(err).__name__


def by_tarfile(stream: io.BytesIO) -> list[tuple[TarEntry, int]]:
    with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
        return [(entry_of(info), info.offset_data) for info in tar]


@hypothesis.given(tars())
@hypothesis.settings(max_examples=300, deadline=None)
def test_an_index_is_what_tarfile_reads(tar: bytes) -> None:
    check_index(tar)


def check_index(tar: bytes) -> None:
    """What engines read otherwise is refused; all else is what `tarfile` reads."""
    found = found_by(index_tar, tar)
    if not isinstance(found, str):
        assert found == found_by(by_tarfile, tar)


@hypothesis.given(
    tars(),
    st.lists(st.tuples(st.integers(0, 4000), st.binary(min_size=1, max_size=12)), max_size=3),
    st.integers(0),
)
@hypothesis.settings(max_examples=300, deadline=None)
def test_an_index_of_a_damaged_tar_is_what_tarfile_reads(
    tar: bytes, changes: list[tuple[int, bytes]], cut: int
) -> None:
    data = bytearray(tar)
    for offset, new in changes:
        data[offset : offset + len(new)] = new
    del data[len(data) - cut % (len(data) + 1) :]
    check_index(bytes(data))


def test_an_index_of_a_listing() -> None:
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    for entry, content in ENTRIES:
        writer.add(entry, content if entry.type == "file" else None)
    writer.close()
    stream.seek(0)
    index = list(index_tar(stream))
    assert [entry for entry, _ in index] == [
        msgspec.structs.replace(entry, sha256="") for entry in writer.listing
    ]
    data = stream.getvalue()
    contents = [data[offset : offset + entry.size] for entry, offset in index if entry.type == "file"]
    assert contents == [content for entry, content in ENTRIES if entry.type == "file"]
