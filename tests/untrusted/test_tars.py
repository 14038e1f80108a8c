"""Tar archives whose headers lie: what `tarfile` would follow, wait for or keep silent about is refused."""

from __future__ import annotations

import bz2
import io
import lzma
import re
import tarfile
import time
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.image.layers.content import tar_items
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted import names, tars
from reprobuild.infra.untrusted.decompress import UnpackedStream
from reprobuild.infra.untrusted.names import HOSTILE
from tests.image.made import TarEntry, file, folder, make_tar
from tests.system.samples import member, tar_bytes


def header(name: str, size: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a header with any bytes for its size, and a checksum that fits."""
    info = tarfile.TarInfo(name)
    info.type = kind
    data = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    data[124:136] = size.ljust(12, b"\0")
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data)


def pax(**values: str) -> bytes:
    info = tarfile.TarInfo("f")
    info.size = 4
    info.pax_headers = values
    return info.tobuf(tarfile.PAX_FORMAT) + b"data".ljust(512, b"\0")


def items(path: Path, content: bytes) -> list[str]:
    path.write_bytes(content)
    with tar_items(path, "the source x") as found:
        return [item.entry.path for item in found]


END = bytes(1024)
NEGATIVE = b"\xff" * 11 + b"\x00"  # -256 in base 256: reading went back to the same header for ever


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (header("a", NEGATIVE) + END, "negative size"),
        (make_tar([file("a", b"")])[:512] + header("a", NEGATIVE) + END, "negative size"),
        (pax(size="-512") + END, "negative size|invalid offset"),
        (header("a", b"77777777777") + END, "unexpected end of data"),
        (header("x", b"77777777777", tarfile.GNUTYPE_LONGNAME) + END, "describes one member"),
        (header("x", b"00001000000", tarfile.XHDTYPE) + bytes(270_000) + END, "describes one member"),
        (header("a", b"0") + b"garbage".ljust(512, b"x") + END, "a header cannot be read"),
        (make_tar([file("a", b"x"), file("b", b"y")])[:1400], "a header cannot be read"),
        (pax(**{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}) + END, ""),
        (pax(**{"GNU.sparse.map": "0,1", "GNU.sparse.size": "9999999999"}) + END, "a sparse file"),
        (pax(path="../evil") + END, "'../evil'"),
        (pax(path="a\0b") + END, "unsafe path"),
        (header("x", b"1", tarfile.GNUTYPE_LONGNAME).join([b"", b"x".ljust(512, b"\0")]) * 1200 + END, ""),
    ],
)
def test_headers_that_lie(tmp_path: Path, content: bytes, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(BuildError, match=r"^the source x") as caught:
        items(tmp_path / "a.tar", content)
    assert re.search(words, str(caught.value))
    assert caught.value.hint == HOSTILE
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("size", [1 << 50, 10_000, 600])
def test_a_size_beyond_the_end_is_seen_at_once(size: int) -> None:
    """Found by the fuzzer: `tarfile` read nothing, 10 KB at a time, until it had read what the header says."""
    content = header("a", b"\x80" + size.to_bytes(11, "big")) + b"x" * 512
    began = time.monotonic()
    with (
        tars.open_stream(io.BytesIO(content)) as tar,
        pytest.raises(tarfile.ReadError, match="unexpected end"),
    ):
        list(tars.members(tar, "the tar"))
    assert time.monotonic() - began < 5


def test_an_archive_without_its_end_is_read_to_its_last_member(tmp_path: Path) -> None:
    content = make_tar([file("a", b"x"), file("b", b"y")])
    assert items(tmp_path / "a.tar", content[: 4 * 512]) == ["a", "b"]


def test_what_git_and_other_tools_write_is_read(tmp_path: Path) -> None:
    """A global header with the commit, long names of both kinds, the old type of a file."""
    commit = tarfile.TarInfo.create_pax_global_header({"comment": "c" * 40})
    gnu = io.BytesIO()
    with tarfile.open(fileobj=gnu, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(tarfile.TarInfo("long/" * 60 + "gnu"))
    content = commit + make_tar([file("long/" * 60 + "pax", b"")])[: 3 * 512] + gnu.getvalue()
    assert items(tmp_path / "a.tar", content) == ["long/" * 60 + "pax", "long/" * 60 + "gnu"]
    assert items(tmp_path / "a.tar", tar_bytes([(member("old", tarfile.AREGTYPE), b"x")])) == ["old"]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_cut_name_that_ends_in_a_slash_is_of_a_file(kind: int, tmp_path: Path) -> None:
    """maturin writes such members: https://github.com/python/cpython/issues/141707."""
    info = tarfile.TarInfo("d" * 99 + "/" + "n" * 120)
    info.size = 4
    data = info.tobuf(kind)
    last = bytearray(data[-512:])
    last[:100], last[156:157] = b"d" * 99 + b"/", tarfile.AREGTYPE
    last[345:500] = bytes(155)  # no prefix
    last[148:156] = b" " * 8
    last[148:156] = b"%06o\0 " % sum(last)
    content = data[:-512] + bytes(last) + b"data".ljust(512, b"\0") + header("b", b"0") + END
    (tmp_path / "a.tar").write_bytes(content)
    with tar_items(tmp_path / "a.tar", "the source x") as found:
        assert [(item.entry.path, item.entry.type, item.entry.size) for item in found] == [
            (info.name, "file", 4), ("b", "file", 0),
        ]  # fmt: skip


def test_an_old_directory_is_one_without_a_header_before_it(tmp_path: Path) -> None:
    content = header("old/", b"0", tarfile.AREGTYPE) + header("b", b"0") + END
    (tmp_path / "a.tar").write_bytes(content)
    with tar_items(tmp_path / "a.tar", "the source x") as found:
        assert [(item.entry.path, item.entry.type) for item in found] == [("old", "directory"), ("b", "file")]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (file("run", b"", 0o4755), "run sets the user or group that runs it"),
        (file("r\nun", b"", 0o2755), r"r\nun sets the user or group that runs it"),
        ((TarEntry(path="p", type="fifo", mode=0o644), b""), "p is a fifo"),
        (
            (TarEntry(path="h", type="hardlink", mode=0o644, target="../../etc/passwd"), b""),
            "no file before it",
        ),
        (
            (TarEntry(path="l", type="symlink", mode=0o777, target="x" * 5000), b""),
            "a link to the impossible",
        ),
        (folder("n" * 256), "of 256 bytes"),
    ],
)
def test_sources_hold_no_rights_pipes_or_impossible_links(
    tmp_path: Path, entry: tuple[TarEntry, bytes], words: str
) -> None:
    with pytest.raises(BuildError, match=r"^the source x") as caught:
        items(tmp_path / "a.tar", make_tar([entry]))
    assert words in str(caught.value)
    assert caught.value.hint == HOSTILE


def test_a_hard_link_to_a_link_or_to_itself_is_refused(tmp_path: Path) -> None:
    for target in ("l", "h"):
        entries = [
            (TarEntry(path="l", type="symlink", mode=0o777, target="h"), b""),
            (TarEntry(path="h", type="hardlink", mode=0o644, target=target), b""),
        ]
        with pytest.raises(BuildError, match=r"h is a hard link to .*, which is no file before it"):
            items(tmp_path / "a.tar", make_tar(entries))


def test_many_members_need_no_memory() -> None:
    """A header of `tarfile` takes some 2 KB: a million of them are not kept."""
    content = make_tar([file(f"f{number}", b"") for number in range(300)])
    with tars.open_stream(io.BytesIO(content)) as tar:
        for _ in tars.members(tar, "the tar"):
            assert len(tar.members) == 0
    assert len(list(list_tar(io.BytesIO(content)))) == 300


def test_a_header_of_digits_is_refused_at_once() -> None:
    """CPython before 3.11.10 looks for `hdrcharset` in quadratic time."""
    digits = b"7" * (128 << 10)
    content = header("x", b"%o" % len(digits), tarfile.XHDTYPE) + digits + header("f", b"0") + END
    with pytest.raises(tarfile.ReadError, match="a number of a hundred digits"):
        list(list_tar(io.BytesIO(content)))


def test_long_attributes_are_read() -> None:
    entry = TarEntry(path="f", type="file", mode=0o644, xattrs=(("user.x", "61" * 65536),))
    (found,) = list_tar(io.BytesIO(make_tar([(entry, b"")])))
    assert found.xattrs == entry.xattrs


PACKERS = {"bz2": bz2.compress, "xz": partial(lzma.compress, preset=0)}


@pytest.mark.parametrize("mode", ["r|*", ""])
@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_tar_is_unpacked_in_bounded_pieces(
    kind: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tarfile` unpacks 10 KiB of a packed file at once: here all of it."""
    content = PACKERS[kind](header("a", b"%o" % (1 << 24)) + bytes(1 << 24))
    monkeypatch.setattr(names, "ALLOWANCE", 1 << 20)
    tracemalloc.start()
    try:
        with (
            tars.open_stream(io.BytesIO(content), mode or f"r|{kind}") as tar,
            pytest.raises(BuildError, match="unpacks to more than"),
        ):
            list(tars.members(tar, "the tar", packed=0))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", PACKERS)
def test_packed_streams_behind_each_other_are_one(kind: str) -> None:
    """As pbzip2 writes them; xz fills a stream with zeros, and bytes of other kinds do not count."""
    plain, pack = make_tar([file("a", b"x" * 5000), file("b", b"y")]), PACKERS[kind]
    for content in (pack(plain[:3000]) + pack(plain[3000:]), pack(plain) + bytes(8), pack(plain) + b"other"):
        with tars.open_stream(io.BytesIO(content), "r|*") as tar:
            assert [info.name for info in tars.members(tar, "the tar")] == ["a", "b"]
    for content, words in ((pack(plain)[:-20], "unexpected end"), (pack(plain)[:4] + b"no" * 99, "invalid")):
        stream = UnpackedStream(io.BytesIO(content), kind)
        with pytest.raises(tarfile.ReadError, match=words):
            list(iter(lambda: stream.read(100), b""))  # noqa: B023  # it is used at once


def test_bytes_of_headers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    record = b"%d comment=" % (128 << 10)
    extension = (
        header("x", b"%o" % (128 << 10), tarfile.XHDTYPE) + record.ljust((128 << 10) - 1, b"a") + b"\n"
    )
    content = (extension * 2 + header("f", b"0")) * 5 + END
    monkeypatch.setattr(names, "ALLOWANCE", 1 << 20)
    with (
        tars.open_stream(io.BytesIO(content)) as tar,
        pytest.raises(BuildError, match="unpacks to more than"),
    ):
        list(tars.members(tar, "the tar", packed=0))


def test_global_headers_that_describe_members_are_refused() -> None:
    """`tarfile` copies all of them for each member. `git archive` writes the commit as a comment."""

    def read_names(records: bytes) -> list[str]:
        begin = header("g", b"%o" % len(records), tarfile.XGLTYPE) + records.ljust(512, b"\0")
        with tars.open_stream(io.BytesIO(begin + header("f", b"0") + END)) as tar:
            return [info.name for info in tars.members(tar, "the tar")]

    assert read_names(b"17 comment=01234\n") == ["f"]
    with pytest.raises(tarfile.ReadError, match="a global header describes members"):
        read_names(b"17 comment=01234\n12 mtime=12\n")
