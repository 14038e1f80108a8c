"""Files of arrays: safetensors, npy, and zip files.

The zip files are npz, torch's checkpoints, and others.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import ast
import contextlib
import json
import os
import shutil
import struct
import tempfile
import zipfile
import zlib

from reprobuild_runtime.artefacts.findings import Collector, UnreadableError
from reprobuild_runtime.artefacts.nested import Walk
from reprobuild_runtime.artefacts.pickles import read_torch
from reprobuild_runtime.artefacts.plain import numpy_dtype
from reprobuild_runtime.artefacts.sections import Array, FileSection, compare_arrays
from reprobuild_runtime.artefacts.text_formats import NUMBERS, unique
from reprobuild_runtime.artefacts.ulp import BLOCK, KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple

_MOST_HEADER = 100_000_000  # bytes: safetensors' own limit, safetensors/src/tensor.rs
_MOST_PICKLE = 1 << 30
_MOST_MEMBERS = 1_000_000
_NPY_HEADER = 1 << 16
_LOCAL = struct.Struct("<4s5H3I2H")  # APPNOTE.TXT 4.3.7
_SAFETENSORS = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U64": "uint64",
    "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool", "C64": "complex64",
}  # fmt: skip


def read_safetensors(path: str) -> "Tuple[Dict[str, Array], Any, bytes]":
    """Return arrays, metadata and raw header of a safetensors file.

    The arrays are by name.

    https://github.com/huggingface/safetensors#format
    """
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", (file.read(8) + b"\0" * 8)[:8])
        if not 2 <= length <= min(_MOST_HEADER, os.path.getsize(path) - 8):
            raise UnreadableError("its header has %d bytes" % length)
        header = file.read(length)
    try:
        facts = json.loads(header, object_pairs_hook=unique, **NUMBERS)
        metadata = facts.pop("__metadata__", {})
        arrays = {}
        for name, fact in facts.items():
            begin, end = fact["data_offsets"]
            shape = fact["shape"]
            if len(fact) != 3 or not isinstance(shape, list) or fact["dtype"] in KINDS:
                raise UnreadableError("an array is described in a strange way")
            dtype = _SAFETENSORS.get(fact["dtype"], str(fact["dtype"]))
            if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
                raise UnreadableError("an array has a strange shape or place")
            arrays[name] = Array(dtype, shape, FileSection(path, 8 + length + begin, end - begin))
            if dtype in KINDS and _bytes(arrays[name]) != end - begin:
                raise UnreadableError("an array has not as many bytes as its shape says")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as err:
        raise UnreadableError("its header cannot be read: %s" % type(err).__name__) from None
    at = 8 + length
    for start, size in sorted((array.section.start, array.section.length) for array in arrays.values()):
        if start != at:
            raise UnreadableError("its arrays overlap, or leave bytes between them")
        at += size
    if at != os.path.getsize(path):
        raise UnreadableError("bytes follow its last array")
    return arrays, metadata, header


def compare_safetensors(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two safetensors files."""
    (first, of_first, header), (second, of_second, other) = (
        read_safetensors(first_path),
        read_safetensors(second_path),
    )
    Walk(collector).compare("__metadata__", None, of_first, of_second)
    Walk(collector).compare("", None, first, second)
    if not collector.count and header != other:
        collector.note("the headers are written differently, and say the same")


def read_npy(path: str, start: int = 0, length: "int | None" = None) -> "Array":
    """Return the array of an npy file, or of a part of a file.

    https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """
    whole = FileSection(path, start, os.path.getsize(path) - start if length is None else length)
    head = b"".join(whole.part(0, min(whole.length, _NPY_HEADER + 12)).pieces(BLOCK))
    if head[:6] != b"\x93NUMPY" or len(head) < 12:
        raise UnreadableError("it is no npy file")
    size, begin = (
        (struct.unpack("<H", head[8:10])[0], 10) if head[6] == 1 else (struct.unpack("<I", head[8:12])[0], 12)
    )
    if size > _NPY_HEADER or begin + size > whole.length:
        raise UnreadableError("its header has %d bytes" % size)
    try:
        facts = ast.literal_eval(
            head[begin : begin + size].decode("utf-8" if head[6] == 3 else "latin-1").strip()
        )
        code, by_columns, shape = facts["descr"], facts["fortran_order"], facts["shape"]
    except (ValueError, SyntaxError, KeyError, TypeError, RecursionError, MemoryError) as err:
        raise UnreadableError("its header cannot be read: %s" % type(err).__name__) from None
    if not (isinstance(shape, tuple) and all(isinstance(number, int) and number >= 0 for number in shape)):
        raise UnreadableError("an array of a strange shape")
    dtype = (numpy_dtype(code) if isinstance(code, str) else None) or str(code)
    section = whole.part(begin + size, whole.length - begin - size)
    array = Array(dtype, shape, section, ("by columns",) if by_columns and len(shape) > 1 else ())
    if dtype in KINDS and _bytes(array) != section.length:
        raise UnreadableError("an array has not as many bytes as its shape says")
    return array


def compare_npy(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two npy files."""
    compare_arrays("array", read_npy(first_path), read_npy(second_path), collector)


def _bytes(array: "Array") -> int:
    return array.elements * KINDS[array.dtype].width * (2 if array.dtype.startswith("complex") else 1)


def unpacking_limit(folder: str) -> int:
    """Return the bytes that may be unpacked into a directory.

    They are half of the free space.
    """
    return shutil.disk_usage(folder).free // 2


class Zip:
    """A zip file: its members by name, and their bytes.

    Compressed ones are unpacked into a directory.
    """

    def __init__(self, path: str, scratch: str) -> None:
        self.path, self.scratch = path, scratch
        try:
            with zipfile.ZipFile(path) as opened:
                self.infos, self.comment = opened.infolist(), opened.comment
        except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError) as err:
            raise UnreadableError("no whole zip: %s" % ascii(str(err))[:200]) from None
        self.members = {info.filename: info for info in self.infos}
        if len(self.members) > _MOST_MEMBERS or len(self.members) != len(self.infos):
            raise UnreadableError("a zip with a name twice, or with too many")
        if any("\0" in info.orig_filename for info in self.infos):
            raise UnreadableError("a zip with a name that ends early")
        self.unpacked = 0

    def section(self, name: str) -> "FileSection":
        """Return the bytes of a member."""
        info = self.members.get(name)
        if info is None:
            raise UnreadableError("it has no member %s" % ascii(name)[:200])
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            return self._unpacked(info)
        with open(self.path, "rb") as file:
            file.seek(info.header_offset)
            head = file.read(_LOCAL.size)
        if len(head) != _LOCAL.size or head[:4] != b"PK\3\4":
            raise UnreadableError("a member is not where it is said to be")
        *_, of_name, of_extra = _LOCAL.unpack(head)
        return FileSection(self.path, info.header_offset + _LOCAL.size + of_name + of_extra, info.file_size)

    def _unpacked(self, info: "zipfile.ZipInfo") -> "FileSection":
        self.unpacked += 1
        target = os.path.join(self.scratch, str(self.unpacked))
        if info.file_size > unpacking_limit(self.scratch):
            raise UnreadableError("there is no room to unpack %d bytes" % info.file_size)
        try:
            with zipfile.ZipFile(self.path) as whole, whole.open(info) as source, open(target, "wb") as copy:
                rest = info.file_size
                while rest and (piece := source.read(min(BLOCK, rest))):
                    copy.write(piece)
                    rest -= len(piece)
        except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as err:
            raise UnreadableError("a member cannot be unpacked: %s" % type(err).__name__) from None
        return FileSection(target, 0, os.path.getsize(target))

    def checkpoint(self) -> "str | None":
        """Return the name prefix in torch's checkpoint.

        Return None for other files.
        """
        names = [name for name in self.members if name.endswith("/data.pkl") and name.count("/") == 1]
        top = names[0][: -len("data.pkl")] if len(names) == 1 else None
        return top if top is not None and top + "version" in self.members else None


@contextlib.contextmanager
def _open_both(first_path: str, second_path: str) -> "Iterator[List[Zip]]":
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        yield [Zip(first_path, first), Zip(second_path, second)]


def compare_zip(first_path: str, second_path: str, collector: "Collector") -> str:
    """Compare two zip files; return a description of their content."""
    with _open_both(first_path, second_path) as zips:
        tops = [opened.checkpoint() for opened in zips]
        if None not in tops:
            checkpoints = [_checkpoint(opened, str(top)) for opened, top in zip(zips, tops)]
            Walk(collector).compare("", None, *checkpoints)
            _compare_checksums(zips, [str(top) for top in tops], collector)
            _compare_other_members(zips, [str(top) for top in tops], collector)
            if not collector.count:
                collector.note("the content is equal, the containers are not")
            return "torch checkpoint"
        arrays = all(name.endswith(".npy") for opened in zips for name in opened.members)
        _members(zips, collector, arrays)
        _compare_checksums(zips, ["", ""], collector)
        if not collector.count:
            collector.note("the members are equal; times, order or packing of the containers are not")
        return "npz" if arrays else "zip"


def _checkpoint(opened: "Zip", top: str) -> "Any":
    order = opened.members.get(top + "byteorder")
    if order is not None and b"".join(opened.section(order.filename).pieces(BLOCK)) != b"little":
        raise UnreadableError("its numbers are not little-endian")
    section = opened.section(top + "data.pkl")
    if section.length > _MOST_PICKLE:
        raise UnreadableError("its pickle has %d bytes" % section.length)
    return read_torch(b"".join(section.pieces(BLOCK)), lambda key: opened.section("%sdata/%s" % (top, key)))


def _compare_other_members(zips: "List[Zip]", tops: "List[str]", collector: "Collector") -> None:
    """Compare a checkpoint's other members.

    They are not its pickle and storages, but TorchScript's code and constants, and the version.

    The id that torch writes is a checksum of all records, including bytes that no tensor shows.
    """
    for opened, top in zip(zips, tops):
        opened.members = {
            _own_name(name, top): info
            for name, info in opened.members.items()
            if not name.startswith((top + "data/", top + ".data/")) and name != top + "data.pkl"
        }
    _members(zips, collector, False)


def _own_name(name: str, top: str) -> str:
    return name[len(top) :] if name.startswith(top) else "/" + name


def _compare_checksums(zips: "List[Zip]", tops: "List[str]", collector: "Collector") -> None:
    """Compare the CRCs of stored members with the same bytes.

    A reader refuses a member with a wrong CRC. Other bytes have another CRC, and may be equal in content.
    """
    first, second = (
        {_own_name(name, top): info for name, info in opened.members.items()}
        for opened, top in zip(zips, tops)
    )
    for name in sorted(first.keys() & second.keys()):
        infos = (first[name], second[name])
        if infos[0].CRC == infos[1].CRC or infos[0].file_size != infos[1].file_size:
            continue
        a, b = (opened.section(info.filename) for opened, info in zip(zips, infos))
        if all(piece == other for piece, other in zip(a.pieces(BLOCK), b.pieces(BLOCK))):
            shown = ascii(name)[1:-1]
            collector.differ("%s: the same bytes with another checksum: a file is damaged" % shown)


def _members(zips: "List[Zip]", collector: "Collector", arrays: bool) -> None:
    first, second = zips
    if first.comment != second.comment:
        collector.differ("another comment of the zip")
    for name in sorted({*first.members, *second.members}):
        if name not in first.members or name not in second.members:
            collector.differ(
                "%s: only in the %s run" % (ascii(name)[1:-1], "first" if name in first.members else "second")
            )
            continue
        first_section, second_section = first.section(name), second.section(name)
        shown = ascii(name.rpartition(".npy")[0] if arrays else name)[1:-1]
        if arrays:
            with contextlib.suppress(
                UnreadableError
            ):  # arrays of objects and of fields are compared as bytes
                a, b = (
                    read_npy(part.path, part.start, part.length) for part in (first_section, second_section)
                )
                compare_arrays(shown, a, b, collector)
                continue
        compare_arrays(
            shown,
            Array("bytes", (first_section.length,), first_section),
            Array("bytes", (second_section.length,), second_section),
            collector,
        )
