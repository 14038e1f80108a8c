"""Archives that were valid once: changed in their structure, or byte by byte, as a seed says."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import lzma
import stat
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import zstandard

from tests.image.made import record_row
from tests.system.samples import ar_bytes

NAMES = [
    "../evil", "../../evil", "/evil", "{outside}/evil", "a/../../evil", "./a", "a//b", "a\\..\\evil", "C:/evil",
    "c:evil", "",
    ".", "..", "a/.", "a/..", "/", "//", "a\0b", "a\nb", "a\x1b[31mb", ".wh.a", "a/.wh..wh..opq", "x" * 256,
    "x/" * 2100 + "x",
    "é" * 130, "A", "a", "a/b", "link", "link/evil", "link/sub/evil", "hard", "e\u0301", "é", "\udcff", "CON", "a ",
    "a.", "-rf",
    "$(evil)", "a;b", "{info}/RECORD", "{info}/METADATA", "{info}/WHEEL", "{info}/entry_points.txt", "{info}",
    "{info}x/RECORD",
    "p-1.0.data/scripts/a/b", "p-1.0.data/scripts/../../x", "p-1.0.data/data/bin/python", "p-1.0.data/headers/x",
    "p-1.0.data/x", "p-1.0.data", "p-1.0.data/purelib/p/__init__.py", "x.pth", "sitecustomize.py", "usr/bin/sh", "bin",
]  # fmt: skip
TARGETS = [
    "..",
    "../..",
    "/",
    "{outside}",
    "/etc/passwd",
    "a",
    "link",
    ".",
    "",
    "x" * 5000,
    "../../../../{outside}",
]
NUMBERS = [0, 1, 2, 5, 255, 512, 65535, 1 << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]
TYPES = [
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_SPARSE,
    tarfile.XHDTYPE, tarfile.XGLTYPE, b"V", b"9",
]  # fmt: skip
PAX = {
    "path": NAMES, "linkpath": TARGETS, "size": ["-1", "-512", "0", "99999999999999999999", "x", "1e9", "4096"],
    "uid": ["-1", "x", "4294967296"], "mtime": ["-1", "nan", "inf", "x"], "hdrcharset": ["BINARY", "x", "\0"],
    "GNU.sparse.major": ["1"], "GNU.sparse.minor": ["0"], "GNU.sparse.realsize": ["99999999999"],
    "GNU.sparse.size": ["9"],
    "GNU.sparse.map": ["0,1", "x", "0,99999999999"], "GNU.sparse.name": NAMES,
    "SCHILY.xattr.security.capability": ["\1\2"],
    "": ["x"],
}  # fmt: skip
JSON: list[Any] = [
    None,
    True,
    -1,
    1 << 70,
    1.5,
    "",
    "x",
    "sha256:" + "0" * 64,
    "sha256:../../x",
    [],
    {},
    [[]],
    {"a": {}},
]


def filled(text: str, outside: Path) -> str:
    return text.replace("{outside}", str(outside)).replace("{info}", "p-1.0.dist-info")


def any_bytes(random: Random, content: bytes) -> bytes:
    """Change some bytes: flipped, set, cut out, repeated, cut off."""
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 4, 16])):
        if not data:
            break
        at = random.randrange(len(data))
        length = random.choice([1, 2, 4, 16, 512])
        change = random.randrange(6)
        if change == 0:
            data[at] ^= 1 << random.randrange(8)
        elif change == 1:
            data[at : at + length] = random.randbytes(length)
        elif change == 2:
            del data[at : at + length]
        elif change == 3:
            data[at:at] = data[at : at + length]
        elif change == 4:
            data[at : at + 4] = struct.pack(random.choice(["<L", ">L"]), random.choice(NUMBERS))
        elif random.random() < 0.3:
            del data[at:]
    return bytes(data)


def wheel(random: Random, content: bytes, outside: Path) -> bytes:
    """Change members of a wheel, or the fields of its headers."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [
            (info.filename, archive.read(info), info.external_attr >> 16) for info in archive.infolist()
        ]
    for _ in range(random.choice([0, 1, 1, 2, 5])):
        at = random.randrange(len(members))
        name, data, mode = members[at]
        change = random.randrange(8)
        if change == 0:
            members[at] = (filled(random.choice(NAMES), outside), data, mode)
        elif change in (1, 2):
            new = (filled(random.choice(NAMES), outside), random.randbytes(20), mode)
            members.insert(random.randrange(len(members) + 1), new)
        elif change == 3:
            kind = random.choice([stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR, stat.S_IFREG, 0])
            members[at] = (name, data, kind | random.choice([0o644, 0o4755, 0o2755, 0o777]))
        elif change == 4:
            members.append(members[at])
        elif change == 5:
            members[at] = (name, any_bytes(random, data), mode)
        elif change == 6:
            del members[at]
            members = members or [("a", b"", 0o644)]
        else:
            members[at] = (name, bytes(random.choice([1 << 12, 12 << 20])), mode)
    if random.random() < 0.7:  # with a RECORD that fits, what lies deeper is reached
        members = recorded(members)
    result = zipped(members, random)
    return headers(random, result) if random.random() < 0.4 else result


def recorded(members: list[tuple[str, bytes, int]]) -> list[tuple[str, bytes, int]]:
    rows = [record_row(name, data) for name, data, _ in members if not name.endswith("/RECORD")]
    named = [name for name, _, _ in members if name.endswith("dist-info/RECORD")]
    text = "".join([*rows, *(f"{name},,\n" for name in named)]).encode("utf-8", "replace")
    return [(name, text if name in named else data, mode) for name, data, mode in members]


def zipped(members: list[tuple[str, bytes, int]], random: Random) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data, mode in members:
            info = zipfile.ZipInfo("x")
            info.filename = name.encode("utf-8", "replace").decode()
            info.external_attr = mode << 16
            kinds = [zipfile.ZIP_STORED, *[zipfile.ZIP_DEFLATED] * 8, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
            info.compress_type = random.choice(kinds if random.random() < 0.1 else kinds[:9])
            archive.writestr(info, data)
    return stream.getvalue()


def headers(random: Random, content: bytes) -> bytes:
    """Set fields of local headers, of the directory, or of its end."""
    data = bytearray(content)
    places = []
    for magic, length in ((b"PK\3\4", 30), (b"PK\1\2", 46), (b"PK\5\6", 22)):
        at = data.find(magic)
        while at >= 0:
            places.append((at, length))
            at = data.find(magic, at + 4)
    for _ in range(random.choice([1, 1, 2, 3])):
        at, length = random.choice(places)
        field = at + random.randrange(4, length - 3)
        if random.random() < 0.5:
            data[field : field + 4] = struct.pack("<L", random.choice(NUMBERS))
        else:
            data[field : field + 2] = struct.pack(
                "<H", random.choice([0, 1, 8, 9, 12, 14, 0x40, 0x800, 0x2009, 65535])
            )
    return bytes(data)


def tar(random: Random, content: bytes, outside: Path) -> bytes:
    """Change members of a tar: names, links, kinds, pax headers, or header fields with a fitting checksum."""
    members = []
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        for info in archive:
            stream = archive.extractfile(info) if info.isreg() else None
            members.append((info, stream.read() if stream else b""))
    for _ in range(random.choice([0, 1, 2, 3, 6])):
        info = tarfile.TarInfo("a")
        at = random.randrange(len(members) + 1)
        change = random.randrange(7)
        if change in (0, 1) and members:
            members[at % len(members)][0].name = filled(random.choice(NAMES), outside)
        elif change == 2:
            info.name = random.choice(["link", filled(random.choice(NAMES), outside)])
            info.type = random.choice([tarfile.SYMTYPE, tarfile.LNKTYPE])
            info.linkname = filled(random.choice([*TARGETS, *NAMES]), outside)
            members.insert(at, (info, b""))
        elif change == 3:
            info.name, info.type = filled(random.choice(NAMES), outside), random.choice(TYPES)
            info.mode = random.choice([0o644, 0o4755, 0, 0o1777])
            members.insert(at, (info, random.randbytes(random.choice([0, 10, 600]))))
        elif change == 4:
            key = random.choice(list(PAX))
            info.pax_headers = {key: filled(random.choice(PAX[key]), outside)}
            members.insert(at, (info, b"data"))
        elif change == 5:
            members.append((info, bytes(random.choice([100, 12 << 20]))))
        elif members:
            members.append(members[at % len(members)])
    result = tarred(members)
    return fields(random, result) if random.random() < 0.4 else result


def tarred(members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    stream = io.BytesIO()
    for info, data in members:
        info.size = len(data)
        try:
            head = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
        except (ValueError, UnicodeError):
            continue
        stream.write(head + data + bytes(-len(data) % 512))
    stream.write(bytes(10240))
    return stream.getvalue()


def fields(random: Random, content: bytes) -> bytes:
    """Set fields of headers, whose checksums are made to fit."""
    data = bytearray(content)
    for _ in range(random.choice([1, 1, 2, 4])):
        at = 512 * random.randrange(max(1, len(data) // 512))
        if data[at + 257 : at + 262] != b"ustar":
            continue
        offset, values = random.choice(
            [
                (100, [b"0004755\0", b"\xff" * 8]), (124, [b"77777777777\0", b"\xff" * 12, b"\x80" + b"\xff" * 11,
                b"-0000000010\0",
                 b"00000000001\0", b"xxxxxxxxxxxx"]), (156, TYPES), (157, [b"../..\0", b"/\0"]), (0, [b"../x\0",
                 b"/x\0"]),
                (345, [b"..\0", b"/abs\0"]), (257, [b"\0\0\0\0\0\0"]),
            ]
        )  # fmt: skip
        value = random.choice(values)
        data[at + offset : at + offset + len(value)] = value
        data[at + 148 : at + 156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    return bytes(data)


def deb(random: Random, content: bytes, outside: Path) -> bytes:
    """Change the tars of a package, or its outer archive. `content` is its data.tar; the control file is made."""
    packers: list[tuple[str, Callable[[bytes], bytes]]] = [
        ("", bytes), (".gz", lambda d: gzip.compress(d, 1)), (".xz", lambda d: lzma.compress(d, preset=0)),
        (".zst", zstandard.ZstdCompressor().compress),
    ]  # fmt: skip
    info = tarfile.TarInfo("./control")
    control = b"Package: tool\nVersion: 1\nDepends: a | b (>= 1), c\n"
    if random.random() < 0.3:
        control = any_bytes(random, control)
    plain = tarred([(info, control)])
    parts = [("debian-binary", b"2.0\n")]
    for name, data in (("control.tar", plain), ("data.tar", tar(random, content, outside))):
        suffix, pack = random.choice(packers)
        packed = pack(data)
        parts.append((name + suffix, any_bytes(random, packed) if random.random() < 0.2 else packed))
    if random.random() < 0.2:
        change = random.randrange(4)
        if change == 0:
            random.shuffle(parts)
        elif change == 1:
            parts.insert(
                random.randrange(4), random.choice([("_odd", b"x"), ("data.tar", b""), ("../x", b"x")])
            )
        elif change == 2:
            del parts[random.randrange(len(parts))]
        else:
            parts.append(parts[random.randrange(len(parts))])
    result = ar_bytes(parts)
    if random.random() < 0.1:
        at = result.find(b"`\n")
        sizes = (b"-60       ", b"9999999999", b"x         ", b"1e3       ")
        result = result[: at - 10] + random.choice(sizes) + result[at:]
    return result


def layout(random: Random, folder: Path, outside: Path) -> None:
    """Change the JSON of a layout, with digests that fit, or a layer, or the files themselves."""
    blobs = folder / "blobs" / "sha256"
    index = json.loads((folder / "index.json").read_bytes())
    manifest = json.loads((blobs / index["manifests"][0]["digest"][7:]).read_bytes())
    config = json.loads((blobs / manifest["config"]["digest"][7:]).read_bytes())

    def keep(data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).unlink(missing_ok=True)
        (blobs / digest).write_bytes(data)
        return f"sha256:{digest}"

    if random.random() < 0.5:
        at = random.randrange(len(manifest["layers"]))
        kind, pack = random.choice(
            [
                ("+gzip", lambda d: gzip.compress(d, 1)),
                ("+zstd", zstandard.ZstdCompressor().compress),
                ("", bytes),
                ("+x", bytes),
            ]
        )
        data = zstandard.ZstdDecompressor().stream_reader(
            (blobs / manifest["layers"][at]["digest"][7:]).read_bytes(), read_across_frames=True
        ).read()  # fmt: skip
        data = tar(random, data, outside)
        config["rootfs"]["diff_ids"][at] = f"sha256:{hashlib.sha256(data).hexdigest()}"
        packed = pack(data)
        packed = any_bytes(random, packed) if random.random() < 0.2 else packed
        manifest["layers"][at] = {
            "mediaType": f"application/vnd.oci.image.layer.v1.tar{kind}", "digest": keep(packed), "size": len(packed),
        }  # fmt: skip
    if random.random() < 0.4:
        config = changed(random, config)
    manifest["config"]["digest"] = keep(json.dumps(config).encode())
    if random.random() < 0.4:
        manifest = changed(random, manifest)
    index["manifests"][0]["digest"] = keep(json.dumps(manifest).encode())
    if random.random() < 0.3:
        index = changed(random, index)
    text = json.dumps(index).encode()
    if random.random() < 0.1:
        text = random.choice([b"[" * 100_000, b"", b"9" * 10_000, any_bytes(random, text)])
    (folder / "index.json").write_bytes(text)


def changed(random: Random, value: Any) -> Any:
    """Put something else in the place of one part of a JSON value."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(sorted(value))
        if random.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: changed(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [changed(random, item) if place == at else item for place, item in enumerate(value)]
    return random.choice(JSON)
