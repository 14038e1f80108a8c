"""Layers that Python's `tarfile` and Go's `archive/tar` would read as different trees are refused."""

from __future__ import annotations

import io
import tarfile

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.tar.index import index_tar
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted.layers import layer_members

END = bytes(1024)
EVIL = b"#!/bin/sh\necho evil\n"
GNU = b"ustar  \0"


def header(
    name: bytes, length: int = 0, kind: bytes = b"0", magic: bytes = b"ustar\00000", prefix: bytes = b"",
    **fields: bytes,
) -> bytes:  # fmt: skip
    """Return a header with any bytes in its fields, and a checksum that fits."""
    block = bytearray(512)
    places = {
        "name": (0, name), "mode": (100, b"0000755\0"), "uid": (108, b"0000000\0"), "gid": (116, b"0000000\0"),
        "size": (124, b"%011o\0" % length), "mtime": (136, b"%011o\0" % 0), "kind": (156, kind), "link": (157, b""),
        "magic": (257, magic), "device": (329, b""), "prefix": (345, prefix), "end": (508, b""),
    }  # fmt: skip
    for key, (place, value) in places.items():
        given = fields.get(key, value)
        block[place : place + len(given)] = given
    block[148:156] = b" " * 8
    block[148:156] = fields.get("sum", b"%06o\0 " % sum(block))
    return bytes(block)


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def member(name: bytes = b"usr/bin/train", content: bytes = EVIL, **fields: bytes) -> bytes:
    return header(name, len(content), **fields) + padded(content)  # type: ignore[arg-type]  # bytes by name


def record(key: bytes, value: bytes) -> bytes:
    rest = b" " + key + b"=" + value + b"\n"
    size = len(rest) + len(str(len(rest)))
    return b"%d" % (len(rest) + len(str(size))) + rest


def pax(*records: tuple[bytes, bytes], kind: bytes = b"x", name: bytes = b"pax") -> bytes:
    body = b"".join(record(*pair) for pair in records)
    return header(name, len(body), kind) + padded(body)


def long(text: bytes, kind: bytes = b"L") -> bytes:
    return header(b"././@LongLink", len(text), kind, GNU) + padded(text)


def paths(content: bytes) -> list[str]:
    found = [entry.path for entry in list_tar(io.BytesIO(content))]
    assert [entry.path for entry, _ in index_tar(io.BytesIO(content))] == found
    return found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (member(magic=GNU, prefix=b"00000000000"), "prefix"),
        (member(magic=b"\0" * 8, prefix=b"opt"), "prefix"),
        (member(prefix=b"p" * 131 + b"00000000000 00000000000 ", end=b"tar\0"), "prefix"),
        (member(b"", prefix=b"opt"), "without a name"),
        (member(b"a\0", kind=b"3", magic=b"\0" * 8, device=b"0000001\0"), "oldest format"),
        (pax((b"path", b"opt/data"), kind=b"g") + member(), "global header"),
        (pax((b"path", b"opt/data"), kind=b"g", name=b"pax_global_header") + member(), "global header"),
        (pax((b"comment", b"x"), kind=b"g", name=b"usr/bin/.wh.train") + member(), "global header"),
        (member() + pax((b"comment", b"x"), kind=b"g", name=b"pax_global_header") + member(b"b"), "global"),
        (pax((b"path", b"opt/data"), kind=b"X") + member(), "tar type b'X'"),
        (pax((b"path", b"a")) + pax((b"path", b"b")) + member(), "two headers"),
        (long(b"a\0") + long(b"b\0") + member(), "two headers"),
        (long(b"a\0") + pax((b"path", b"b")) + member(), "two headers"),
        (long(b"a\0", b"K") + pax((b"linkpath", b"b")) + header(b"l", kind=b"2"), "two headers"),
        (pax((b"path", b"")) + member(), "an empty name"),
        (long(b"\0") + member(), "an empty name"),
        (pax((b"path", b"a/")) + member(kind=b"\0"), "directory to others"),
        (long(b"a\0") + member(b"b/", kind=b"\0"), "directory to others"),
        (pax((b"uid", b"2097152")) + member(b"a/", kind=b"\0"), "directory to others"),
        (long(b"a\0", b"K") + member(b"a/", kind=b"\0"), "directory to others"),
        (pax((b"comment", b"x"), kind=b"g", name=b"pax_global_header") + member(b"a/", kind=b"\0"), "directory to oth"),
        (member(b"a/"), "directory to others"),
        (pax((b"size", b"")) + member(), "empty size"),
        (pax((b"size", b"1_0")) + member(), "states the size"),
        (pax((b"uid", b"9223372036854775808")) + member(), "states the uid"),
        (pax((b"mtime", b"1e3")) + member(), "states the mtime"),
        (member(size=b"\x00" + b"00000000024"), "cannot be read: the size"),
        (member(size=b"0o000000024\0"), "cannot be read: the size"),
        (member(size=b"\x81" + bytes(10) + b"\x14"), "cannot be read: the size"),
        (member(size=b"\x80\0\0" + b"\xff" * 9), "cannot be read: the size"),
        (member(uid=b"\xff" * 8), "negative uid"),
        (member(sum=b"\0" + b"12345\0 "), "bad checksum"),
        (header(b"pax", 4, b"x") + padded(b"9 a=") + member(), "pax header is damaged"),
        (header(b"x", 9, b"x") + padded(record(b"a", b"bcd") + record(b"path", b"evil")) + member(), "behind its end"),
        (header(b"L", 1, b"L") + padded(b"name\0") + member(), "behind its end"),
        (bytes(512) + member(), "one block of zeros"),
        (pax((b"path", b"a")), "is missing"),
        (pax((b"GNU.sparse.name", b"a")) + member(), "a sparse file"),
        (member(kind=b"S", magic=GNU), "a sparse file"),
        (pax((b"path", b"a\0b")) + member(), "unsafe path"),
        (pax((b"path", b"a/" * 2100)) + member(), "of 4200 bytes"),
        (member(b".wh..wh.plnk/5"), "engines take for different"),
        (header(b"./.wh..wh.plnk/", kind=b"5"), "engines take for different"),
        (member(b".wh..wh.aufs"), "engines take for different"),
        (member(b"etc/.wh..wh.x"), "engines take for different"),
        (member(b"etc/.wh..wh..opq.x"), "engines take for different"),
        (member(b".wh..wh..opq/x"), "engines take for different"),
        (member(b"etc/.wh."), "engines take for different"),
        (member(b"etc/.wh.."), "engines take for different"),
        (member(b"etc/.wh..."), "engines take for different"),
        (header(b"etc/.wh../", kind=b"5"), "engines take for different"),
        (pax((b"SCHILY.xattr.trusted.overlay.opaque", b"y")) + member(), "'trusted.overlay.opaque' of overlay mounts"),
        (pax((b"SCHILY.xattr.user.overlay.redirect", b"/x")) + member(), "'user.overlay.redirect' of overlay mounts"),
        (header(b"etc/x", kind=b"3", device=b"0000000\00000000\0"), "holds 'etc/x', the character device 0:0, by"),
        (header(b"etc/x", kind=b"3"), "the character device 0:0, by which overlays delete"),
        (member(b".wh.x/y"), "holds '.wh.x/y', which engines take for different"),
        (member(b"etc/.wh.x/y/z"), "engines take for different"),
        (header(b"etc/.wh.x/", kind=b"5"), "engines take for different"),
        (header(b"etc/.wh.x", kind=b"5"), "engines take for different"),
        (header(b".wh.x/", kind=b"\0", magic=b"\0" * 8), "engines take for different"),
        (header(b"etc/.wh..wh..opq/", kind=b"5"), "engines take for different"),
        (pax((b"SCHILY.xattr.user.fuseoverlayfs.opaque", b"y")) + member(), "'user.fuseoverlayfs.opaque' of overlay"),
        (pax((b"SCHILY.xattr.security.fuseoverlayfs.origin", b"y")) + member(), "fuseoverlayfs.origin' of overlay"),
        (pax((b"SCHILY.xattr.trusted.fuseoverlayfs.opaque", b"y")) + member(), "fuseoverlayfs.opaque' of overlay"),
        (pax((b"SCHILY.xattr.user.containers.override_stat", b"0:0:4755")) + member(),
         "holds 'usr/bin/train' with the attribute 'user.containers.override_stat' of overlay mounts"),
        (pax((b"SCHILY.xattr.system.posix_acl_default", b"\x02")) + header(b"d/", kind=b"5"),
         "the tar holds 'd/' with an access control list, 'system.posix_acl_default', which engines apply to more"),
        (pax((b"SCHILY.xattr.system.posix_acl_access", b"\x02")) + member(), "list, 'system.posix_acl_access', which"),
    ],
)  # fmt: skip
def test_what_readers_take_for_different_trees_is_refused(content: bytes, words: str) -> None:
    for read in (list_tar, index_tar):
        with pytest.raises((BuildError, tarfile.ReadError), match=words):
            list(read(io.BytesIO(content + END)))  # type: ignore[operator]  # either reader


def test_what_builders_write_is_read() -> None:
    """Headers as docker, buildkit, podman, kaniko, bsdtar and `git archive` write them, and those of old tars."""
    commit = pax((b"comment", b"c" * 40), kind=b"g", name=b"pax_global_header")
    content = b"".join(
        (
            commit, member(b"plain"), member(b"ustar", prefix=b"opt"), member(b"gnu", magic=GNU),
            member(b"old", magic=b"\0" * 8, kind=b"\0"), header(b"folder/", kind=b"\0", magic=b"\0" * 8),
            pax((b"path", b"pax"), (b"mtime", b"1.5"), (b"size", b"20"), (b"uid", b"70000")) + member(b"x"),
            pax((b"SCHILY.xattr.user.x", b"a\0b")) + long(b"both\0") + member(b"x", magic=GNU),
            long(b"l" * 200 + b"\0") + long(b"t" * 200 + b"\0", b"K") + header(b"x", kind=b"2", magic=GNU, link=b"y"),
            header(b"hard", kind=b"1", link=b"plain"), member(b"a/.wh..x"),
            member(b"a/.wh..wh..opq"), header(b"null", kind=b"3", device=b"0000001\00000003\0"),
            member(b"large", uid=b"\x80\0\0\0\0\x20\0\0", mtime=b"\xff" * 12), member(b"spaces", mode=b"   755 \0"),
        )
    )  # fmt: skip
    expected = ["plain", "opt/ustar", "gnu", "old", "folder", "pax", "both", "l" * 200, "hard", "a/.wh..x",
                "a/.wh..wh..opq", "null", "large", "spaces"]  # fmt: skip
    for end in (END, b"", bytes(512)):
        assert paths(content + end) == expected
    found = {entry.path: entry for entry in list_tar(io.BytesIO(content + END))}
    assert (found["pax"].uid, found["pax"].size) == (70000, 20)
    assert found["both"].xattrs == (("user.x", "610062"),)
    assert (found["l" * 200].target, found["null"].device) == ("t" * 200, (1, 3))
    assert (found["folder"].type, found["large"].uid) == ("directory", 0x200000)


def test_a_file_that_seeks_and_a_stream_give_the_same() -> None:
    content = member(b"a") + member(b"b", b"x" * 600) + END

    class Stream:
        def __init__(self) -> None:
            self._file = io.BytesIO(content)

        def read(self, size: int = -1) -> bytes:
            return self._file.read(min(size, 7))

    rows = [
        [
            (info.name, info.offset_data, opened.read() if opened else b"")
            for info, opened in layer_members(stream, "x")
        ]
        for stream in (io.BytesIO(content), Stream())  # type: ignore[list-item]  # `read` is all that is called
    ]
    assert rows[0] == rows[1]
    assert rows[0][1] == ("b", 1536, b"x" * 600)
