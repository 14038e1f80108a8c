"""The kind of a difference, on artefacts that real tools made."""

from __future__ import annotations

import gzip
import io
import json
import os
import py_compile
import shutil
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.compare.images import file_formats
from reprobuild.compare.images.classify import (
    ChangeKind,
    classify,
    classify_unread,
    first_difference,
    source_of,
)

TEXT = b"one\ntwo\nthree\n"


def kind(path: str, one: bytes, other: bytes, **more: object) -> str:
    found, back = classify(path, one, other, **more), classify(path, other, one, **more)
    assert found.kind == back.kind
    return found.kind


# --- bytecode --------------------------------------------------------------------------------


def compiled(
    folder: Path, source: str, *, time: int = 1_700_000_000, name: str = "", mode: str = "TIMESTAMP"
) -> bytes:
    path = folder / "module.py"
    path.write_text(source)
    os.utime(path, (time, time))
    target = py_compile.compile(
        str(path), str(folder / "out.pyc"), name or "/opt/module.py", doraise=True,
        invalidation_mode=py_compile.PycInvalidationMode[mode],
    )  # fmt: skip
    return Path(target or "").read_bytes()


def test_bytecode_with_another_time(tmp_path: Path) -> None:
    one, other = (compiled(tmp_path, "x = 1\n", time=time) for time in (1_700_000_000, 1_700_000_060))
    found = classify("a/__pycache__/module.cpython-311.pyc", one, other, "same")
    assert found == ChangeKind(
        "bytecode", "the time of the source in the header, 1700000000 and 1700000060, from the same source"
    )


def test_bytecode_checked_otherwise(tmp_path: Path) -> None:
    modes = ("TIMESTAMP", "CHECKED_HASH", "UNCHECKED_HASH")
    one, other, third = (compiled(tmp_path, "x = 1\n", mode=mode) for mode in modes)
    assert (
        classify("m.pyc", one, other, "same").detail
        == "checked by time and size and by hash, from the same source"
    )
    assert "checked by hash and by nothing (unchecked hash)" in classify("m.pyc", other, third, "same").detail


def test_bytecode_with_another_size_or_hash_in_the_header(tmp_path: Path) -> None:
    one = compiled(tmp_path, "x = 1\n")
    other = compiled(tmp_path, "x = 1\n# a comment\n")
    assert "the size of the source in the header, 6 and 18" in classify("m.pyc", one, other, "same").detail
    one, other = (compiled(tmp_path, source, mode="CHECKED_HASH") for source in ("x = 1\n", "x = 1\n# c\n"))
    assert classify("m.pyc", one, other, "absent") == ChangeKind(
        "bytecode", "another hash of the source in the header, its source is in no image"
    )


def test_bytecode_of_another_name_code_and_python(tmp_path: Path) -> None:
    one, other = (compiled(tmp_path, "x = 1\n", name=name) for name in ("/tmp/pip-1/m.py", "/opt/env/m.py"))
    found = classify("m.pyc", one, other, "same")
    assert found.kind == "bytecode"
    assert "compiled under another name, /tmp/pip-1/m.py and /opt/env/m.py" in found.detail
    other = compiled(tmp_path, "x = 2\n", name="/tmp/pip-1/m.py")
    assert "other code, from byte " in classify("m.pyc", one, other, "same").detail
    magic = bytes([one[0] ^ 1]) + one[1:]
    assert "another Python: magic number" in classify("m.pyc", one, magic, "same").detail


def test_bytecode_of_another_source(tmp_path: Path) -> None:
    one, other = (compiled(tmp_path, f"x = {n}\n") for n in (1, 2))
    assert classify("m.pyc", one, other, "different") == ChangeKind("content", "compiled from another source")


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("a/__pycache__/m.cpython-311.pyc", "a/m.py"),
        ("a/__pycache__/m.cpython-311.opt-1.pyc", "a/m.py"),
        ("__pycache__/m.cpython-311.pyc", "m.py"),
        ("a/m.pyc", "a/m.py"),
        ("a/__pycache__/m.pyc", ""),
        ("a/m.py", ""),
    ],
)
def test_the_source_of_a_module(path: str, source: str) -> None:
    assert source_of(path) == source


# --- order and time --------------------------------------------------------------------------


def test_lines_in_another_order() -> None:
    record = b"a.py,sha256=x,1\nb.py,sha256=y,2\nx.dist-info/RECORD,,\n"
    other = b"b.py,sha256=y,2\nx.dist-info/RECORD,,\na.py,sha256=x,1\n"
    assert classify("x.dist-info/RECORD", record, other).detail == "the same lines in another order"
    assert kind("f", b"a\nb", b"b\na\n") == "order"
    assert kind("f", b"a\nb\n", b"a\nb\nb\n") == "content"
    assert kind("f", b"a\nb\n", b"a\nc\n") == "content"


def test_json_in_another_order() -> None:
    value = {"b": [1, 2], "a": {"x": None}}
    assert (
        kind("f", json.dumps(value).encode(), json.dumps(value, sort_keys=True, indent=1).encode()) == "order"
    )
    assert kind("f", b'{"a": 1}', b'{"a": 2}') == "content"
    assert kind("f", b"{", b"[") == "content"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"built 2024-01-02T03:04:05Z\n", b"built 2025-11-12T13:14:15Z\n"),
        (b"built 2024-01-02 03:04:05.123 +0100 by x\n", b"built 2025-11-12 13:14:15.5 +0000 by x\n"),
        (b"Mon, 2 Jan 2024 03:04:05 GMT\n", b"Tue, 12 Nov 2025 13:14:15 GMT\n"),
        (b"Mon Jan  2 03:04:05 UTC 2024\n", b"Tue Nov 12 13:14:15 UTC 2025\n"),
        (b"\x7fELF..\0Jan  2 2024\0" + b"03:04:05\0", b"\x7fELF..\0Nov 12 2025\0" + b"13:14:15\0"),
        (b"Copyright; 2024/01/02\n", b"Copyright; 2025/11/12\n"),
        (b"stamp=1700000000\n", b"stamp=1800000000\n"),
        (b"stamp=1700000000.25\n", b"stamp=1800000000.125\n"),
        (b"ms: 1700000000123,\n", b"ms: 1800000000456,\n"),
        (b"date 20240102T030405Z\n", b"date 20251112T131415Z\n"),
        (b"on 20240102\n", b"on 20251112\n"),
        (b"9 Jan 2024\n", b"19 Jan 2024\n"),
        (b"at 10:00 x\n", b"at 10:00:30 x\n"),
    ],
)  # fmt: skip
def test_only_times_differ(one: bytes, other: bytes) -> None:
    text = TEXT * 10
    assert kind("usr/share/f", text + one + text, text + other + text) == "time"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"version 2024.99.02\n", b"version 2025.99.12\n"),
        (b"id 12345\n", b"id 12346\n"),
        (b"x 2024-01-02 a\n", b"x 2025-01-02 b\n"),
        (b"serial a1700000000\n", b"serial a1800000000\n"),
        (b"", b"2024-01-02\n"),
    ],
)
def test_what_only_looks_like_a_time(one: bytes, other: bytes) -> None:
    assert kind("usr/share/f", TEXT + one, TEXT + other) == "content"


def test_times_and_the_order_of_lines() -> None:
    one, other = b"a 2024-01-02\nb 2024-01-02\n", b"b 2025-01-02\na 2025-01-02\n"
    assert classify("f", one, other) == ChangeKind("time", "only dates, times and the order of lines differ")


# --- formats ---------------------------------------------------------------------------------


def test_gzip_with_another_time_in_its_header() -> None:
    one, other = (gzip.compress(TEXT, mtime=time) for time in (1, 2))
    assert classify("f.gz", one, other) == ChangeKind("time", "the time in the gzip header, 1 and 2")


def test_gzip_of_another_content_or_level() -> None:
    one, other = (gzip.compress(text, mtime=0) for text in (b"a\nb\n", b"b\na\n"))
    assert classify("f.gz", one, other) == ChangeKind("order", "inside, the same lines in another order")
    twice = [gzip.compress(gzip.compress(b"x", mtime=time), mtime=0) for time in (1, 2)]
    assert classify("f.gz.gz", *twice) == ChangeKind("time", "inside, the time in the gzip header, 1 and 2")
    assert (
        kind("f", gzip.compress(TEXT * 1000, 1, mtime=0), gzip.compress(TEXT * 1000, 9, mtime=0)) == "content"
    )
    assert kind("f", gzip.compress(TEXT, mtime=0), gzip.compress(TEXT, mtime=0)[:-3]) == "content"


def zipped(names: list[str], year: int = 2024, content: bytes = TEXT) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name, (year, 1, 2, 3, 4, 6)), content)
    return stream.getvalue()


def test_zip() -> None:
    one = zipped(["a", "b"])
    assert classify("x.jar", one, zipped(["a", "b"], 2025)) == ChangeKind(
        "time", "the times of members of the zip, the first: 2024-01-02 03:04:06 and 2025-01-02 03:04:06"
    )
    assert classify("x.jar", one, zipped(["b", "a"])).detail == "the members of the zip in another order"
    assert "with other times" in classify("x.jar", one, zipped(["b", "a"], 2025)).detail
    assert kind("x.jar", one, zipped(["a", "b"], content=b"other")) == "content"
    assert kind("x.jar", one, zipped(["a", "c"])) == "content"
    assert kind("x.jar", one, one[:-5]) == "content"


def tarred(names: list[str], time: int = 1) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(TEXT), time
            tar.addfile(info, io.BytesIO(TEXT))
    return stream.getvalue()


def test_tar() -> None:
    one = tarred(["a", "b"])
    assert (
        classify("x.tar", one, tarred(["a", "b"], 9)).detail
        == "the times of members of the tar, the first: 1 and 9"
    )
    assert kind("x.tar", one, tarred(["b", "a"])) == "order"
    assert kind("x.tar", one, tarred(["a", "c"])) == "content"
    packed = [gzip.compress(tarred(["a"], time), mtime=0) for time in (1, 2)]
    assert classify("x.tgz", *packed).detail == "inside, the times of members of the tar, the first: 1 and 2"


def library(*members: tuple[str, bytes, int]) -> bytes:
    """A static library as ar(5) has it: name, time, owner, group, mode, size, mark."""
    rows = b""
    for name, content, time in members:
        header = f"{name + '/':<16}{time:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
        rows += header + content + b"\n" * (len(content) % 2)
    return b"!<arch>\n" + rows


def test_a_static_library() -> None:
    one = library(("a.o", b"a", 5), ("b.o", b"bb", 5))
    order = library(("b.o", b"bb", 5), ("a.o", b"a", 5))
    assert classify("l.a", one, order).detail == "the members of the static library in another order"
    assert classify("l.a", one, library(("a.o", b"a", 5), ("b.o", b"bb", 6))) == ChangeKind(
        "time", "the times of members of the static library, the first: 5 and 6"
    )
    assert kind("l.a", one, library(("a.o", b"a", 5), ("b.o", b"cc", 5))) == "content"
    assert kind("l.a", one, one[:-1]) == "content"


def test_a_debian_package_is_such_a_library(tmp_path: Path) -> None:
    """The reader agrees with the tool that everybody has: a package is an archive of the same format."""
    root = tmp_path / "root" / "DEBIAN"
    root.mkdir(parents=True)
    (root / "control").write_text(
        "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    )
    root.chmod(0o755)
    made = []
    for time in ("1700000000", "1800000000"):
        env = {"PATH": os.defpath, "SOURCE_DATE_EPOCH": time}
        argv = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(root.parent), str(tmp_path / time)]
        subprocess.run(argv, check=True, env=env, capture_output=True)
        made.append((tmp_path / time).read_bytes())
    inner = [side[side.index(b"control.tar") + 60 :] for side in made]
    assert (
        inner[0] != inner[1]
    )  # the members' own times differ as well, so it is no matter of the headers alone
    assert kind("x.deb", *made) == "content"
    stamps = made[0].replace(b"1700000000  0", b"1800000000  0")
    assert classify("x.deb", made[0], stamps) == ChangeKind(
        "time", "the times of members of the static library, the first: 1700000000 and 1800000000"
    )


def test_build_ids() -> None:
    """A program of this machine with another build id, as a linker would write it."""
    one = Path(shutil.which("sh") or "").read_bytes()
    note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
    assert one.count(note) == 1
    at = one.index(note) + len(note)
    other = one[:at] + bytes(20) + one[at + 20 :]
    assert classify("bin/sh", one, other) == ChangeKind(
        "build-id", "only the build id in the ELF note differs"
    )
    assert kind("bin/sh", one, other[:-1] + b"?") == "content"
    assert kind("bin/sh", one, other + b"?") == "content"
    assert kind("f", b"text" + one, b"text" + other) == "content"


def keystore(time: int, *, digest: bytes, tag: int = 2) -> bytes:
    """A Java key store of two certificates, as `keytool -importcert` writes one."""

    def sized(size: int, data: bytes) -> bytes:
        return len(data).to_bytes(size, "big") + data

    rows = b"".join(
        tag.to_bytes(4, "big")
        + sized(2, alias)
        + time.to_bytes(8, "big")
        + sized(2, b"X.509")
        + sized(4, b"cert" + alias)
        for alias in (b"debian:one", b"debian:two")
    )
    return b"\xfe\xed\xfe\xed" + (2).to_bytes(4, "big") + (2).to_bytes(4, "big") + rows + digest * 20


def test_a_java_key_store() -> None:
    one, other = keystore(1_700_000_000_000, digest=b"1"), keystore(1_700_000_060_000, digest=b"2")
    assert classify("etc/ssl/certs/java/cacerts", one, other) == ChangeKind(
        "time",
        "the times of certificates of the Java key store, the first: 1700000000.000 and 1700000060.000",
    )
    assert kind("cacerts", one, keystore(1_700_000_000_000, digest=b"1", tag=1)) == "content"
    assert kind("cacerts", one, one[:40]) == "content"


# --- by place, with evidence ------------------------------------------------------------------


def test_a_shadow_file() -> None:
    """As Debian's base-passwd writes it, with the day on which it was installed."""
    one = b"root:*:19675:0:99999:7:::\ndaemon:*:19675:0:99999:7:::\n"
    other = one.replace(b"daemon:*:19675", b"daemon:*:19715")
    found = classify("etc/shadow", one, other)
    assert found == ChangeKind(
        "time", "only the days of the last change of passwords differ, the first: 19675 and 19715"
    )
    assert kind("etc/shadow", one, one.replace(b"daemon:*:", b"daemon:$6$x:")) == "content"
    assert kind("etc/shadow", one, one + b"new:*:1:0:99999:7:::\n") == "content"
    assert kind("etc/shadow", one, one.replace(b"daemon:*:19675", b"daemon:*:never")) == "content"
    assert kind("usr/share/f", one, other) == "content"


@pytest.mark.parametrize(
    ("path", "one", "other", "found"),
    [
        ("etc/machine-id", b"0" * 32 + b"\n", b"1" * 32 + b"\n", "identity"),
        ("etc/machine-id", b"uninitialized\n", b"", "identity"),
        ("etc/machine-id", b"x\n", b"y\n", "content"),
        ("etc/ssh/ssh_host_rsa_key", b"-----BEGIN A\n", b"-----BEGIN B\n", "identity"),
        ("etc/ssh/ssh_host_rsa_key.pub", b"ssh-rsa A\n", b"ssh-rsa B\n", "identity"),
        ("etc/ssh/ssh_host_rsa_key.pub", b"A\n", b"B\n", "content"),
        ("var/log/dpkg.log", b"2024-01-02 a\n", b"2025-01-02 a\n", "log"),
        ("var/log/x", b"1", b"2", "log"),
        ("var/cache/ldconfig/aux-cache", b"1", b"2", "cache"),
        ("var/cache/apt/pkgcache.bin", b"1", b"2", "cache"),
        ("etc/ld.so.cache", b"1", b"2", "cache"),
        ("root/.cache/x", b"1", b"2", "cache"),
        ("home/me/.cache/x", b"1", b"2", "cache"),
        ("usr/share/icons/x/icon-theme.cache", b"1", b"2", "cache"),
        ("etc/passwd-", b"1", b"2", "cache"),
        ("var/lib/dpkg/status-old", b"1", b"2", "cache"),
        ("opt/conda-meta/history", b"1", b"2", "log"),
        ("usr/var/log/x", b"1", b"2", "content"),
        ("etc/passwd", b"1", b"2", "content"),
    ],
)  # fmt: skip
def test_places(path: str, one: bytes, other: bytes, found: str) -> None:
    assert kind(path, one, other) == found


def test_a_log_says_what_differs_in_it() -> None:
    found = classify("var/log/dpkg.log", b"2024-01-02 a\n", b"2025-01-02 a\n")
    assert found.detail == "only dates and times differ, the first: 2024-01-02 and 2025-01-02"


def test_what_was_not_read() -> None:
    assert classify_unread("var/log/x") == ChangeKind("log")
    assert classify_unread("usr/lib/libtorch.so") == ChangeKind("content")


# --- what nobody expects ---------------------------------------------------------------------


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_the_first_difference(one: bytes, other: bytes) -> None:
    at = first_difference(one, other)
    assert one[:at] == other[:at]
    assert one == other or one[at : at + 1] != other[at : at + 1]


KEYS = keystore(1, digest=b"1")
MARKS = [b"", b"\x1f\x8b\x08", b"PK\x03\x04", b"!<arch>\n", b"\xfe\xed\xfe\xed", b"\x7fELF", b"{", KEYS]
PATHS = st.sampled_from(["f", "f.pyc", "etc/shadow"])


@given(st.sampled_from(MARKS), st.binary(max_size=300), st.binary(max_size=300), PATHS)
def test_any_bytes_have_a_kind(start: bytes, one: bytes, other: bytes, path: str) -> None:
    if one != other:
        assert kind(path, start + one, start + other)


@given(st.data())
def test_damaged_archives_have_a_kind(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([zipped(["a", "b"]), tarred(["a"]), gzip.compress(TEXT), KEYS]))
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if bytes(content) != whole:
        assert kind("f", whole, bytes(content))


def test_a_bomb_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_formats, "LARGEST", 1 << 20)
    one, other = (gzip.compress(bytes(n << 20), mtime=0) for n in (8, 9))
    assert kind("f.gz", one, other) == "content"
    one, other = (zipped(["a"], content=bytes((8 << 20) + n)) for n in (0, 1))
    assert kind("f.zip", one, other) == "content"


def test_many_lines_are_quick() -> None:
    """A file of nothing but ends of lines costs no minutes."""
    one, other = b"\n" * (32 << 20), b"\n" * ((32 << 20) - 1) + b"x"
    assert kind("f", one, other) == "content"
