"""Pickles read without running anything: every class and function that they name becomes a record of its call.

So torch's checkpoints are read without torch, on any version, and without loading their tensors; the same holds for
plain pickles. The formats: torch/serialization.py (`_save` and `_legacy_save`).
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import io
import os
import pickle
import struct

from reprobuild_runtime.artefacts.distance import KINDS
from reprobuild_runtime.artefacts.found import Unreadable
from reprobuild_runtime.artefacts.sections import Array, Section
from reprobuild_runtime.artefacts.trees import Opaque, canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict, List, Optional, Set, Tuple

# What unpickling hostile or damaged data raises, beside what it raises by itself.
DAMAGED = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError,
    struct.error, MemoryError, RecursionError, ImportError, AssertionError,
)  # fmt: skip
LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # torch's magic number, pickled with protocol 2
_STORAGES = {
    "DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16", "BFloat16Storage": "bfloat16",
    "LongStorage": "int64", "IntStorage": "int32", "ShortStorage": "int16", "CharStorage": "int8",
    "ByteStorage": "uint8", "BoolStorage": "bool", "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64", "UntypedStorage": "uint8",
}  # fmt: skip
_PAIRS = {"complex64": 2, "complex128": 2, "complex32": 2}
_TENSORS = {
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_tensor",
}
_PARAMETERS = {"torch._utils._rebuild_parameter"}
_ARRAYS = {"numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"}


class Ordered(dict):  # type: ignore[type-arg]  # not to be written so before Python 3.9
    """An ordered dictionary, which may have attributes: those of a module's state hold its version."""

    attributes: "Any" = None

    def __setstate__(self, state: "Any") -> None:
        self.attributes = state


_PLAIN: "Dict[str, Any]" = {
    "collections.OrderedDict": Ordered, "builtins.set": set, "builtins.frozenset": frozenset, "builtins.dict": dict,
    "builtins.list": list, "builtins.tuple": tuple, "builtins.bytearray": bytearray, "builtins.complex": complex,
    "__builtin__.set": set, "__builtin__.frozenset": frozenset,
}  # fmt: skip


class Record:
    """A call that a pickle asks for, and what is done to its result."""

    called = ""

    def __new__(cls, *args: "Any", **more: "Any") -> "Record":
        made = object.__new__(cls)
        made.args, made.more = args, more
        made.state, made.items, made.pairs = None, [], {}
        return made

    def __init__(self, *args: "Any", **more: "Any") -> None:
        self.args: "Tuple[Any, ...]"
        self.more: "Dict[str, Any]"
        self.state: "Any"
        self.items: "List[Any]"
        self.pairs: "Dict[Any, Any]"

    def __setstate__(self, state: "Any") -> None:
        self.state = state

    def __setitem__(self, key: "Any", value: "Any") -> None:
        self.pairs[key] = value

    def append(self, item: "Any") -> None:
        """Take an item, as a list does."""
        self.items.append(item)

    add = append

    def extend(self, items: "Any") -> None:
        """Take items, as a list does."""
        self.items.extend(items)


class Storage:
    """The storage of tensors: its type, its key in the file, the number of its elements."""

    def __init__(self, dtype: str, key: str, elements: int, location: str) -> None:
        self.dtype, self.key, self.elements, self.location = dtype, key, elements, location


class Reader(pickle.Unpickler):
    """Reads one pickle; `storages` are those that it named."""

    def __init__(self, file: "IO[bytes]") -> None:
        super().__init__(file, encoding="bytes")
        self.storages: "Dict[str, Storage]" = {}
        self._classes: "Dict[str, type]" = {}

    def find_class(self, module: str, name: str) -> "Any":
        """Return what stands for a class or function."""
        full = "%s.%s" % (module, name)
        if full in _PLAIN:
            return _PLAIN[full]
        if full not in self._classes:
            self._classes[full] = type("Record", (Record,), {"called": full})
        return self._classes[full]

    def persistent_load(self, pid: "Any") -> "Any":
        """Return what stands for something that lies outside of the pickle."""
        if not (isinstance(pid, tuple) and len(pid) >= 5 and _text(pid[0]) == "storage"):
            return Opaque("outside", (pid,))
        called = getattr(pid[1], "called", "").rpartition(".")[2]
        dtype, key = _STORAGES.get(called), _text(pid[2])
        if dtype is None or not isinstance(pid[4], int):
            raise Unreadable("a storage of the unknown type %s" % ascii(called))
        return self.storages.setdefault(key, Storage(dtype, key, pid[4], _text(pid[3])))


def _text(value: "Any") -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def read_pickle(path: str) -> "Any":
    """Return the value of a plain pickle, with records for objects; Unreadable where it is none or not alone."""
    with open(path, "rb") as file:
        value = _load(Reader(file))
        if file.read(1):
            raise Unreadable("something follows the pickle")
    return Plain(None).of(value)


def read_torch(data: bytes, section: "Callable[[str], Section]") -> "Any":
    """Return the value of a checkpoint in the zip format, with arrays for tensors.

    Args:
        data: the content of `data.pkl`.
        section: gives the bytes of a storage by its key.
    """
    return Plain(lambda storage: section(storage.key)).of(_load(Reader(io.BytesIO(data))))


def read_legacy(path: str) -> "Any":
    """Return the value of a checkpoint in torch's format before 1.6."""
    sections: "Dict[str, Section]" = {}
    with open(path, "rb") as file:
        for _ in range(3):  # the magic number, the protocol, and sizes of the system
            _load(Reader(file))
        reader = Reader(file)
        value = _load(reader)
        keys = _load(Reader(file))
        at = file.tell()
        for key in keys:
            storage = reader.storages[_text(key)]
            file.seek(at)
            (elements,) = struct.unpack("<q", file.read(8))
            length = elements * _width(storage.dtype)
            sections[storage.key] = Section(path, at + 8, length)
            at += 8 + length
        if at != os.path.getsize(path):
            raise Unreadable("something follows the last storage")
    return Plain(lambda storage: sections[storage.key]).of(value)


def _load(reader: "Reader") -> "Any":
    try:
        return reader.load()
    except Unreadable:
        raise
    except DAMAGED as err:
        raise Unreadable("not a whole pickle: %s: %s" % (type(err).__name__, ascii(str(err))[:200])) from None


def _width(dtype: str) -> int:
    return KINDS[dtype].width * _PAIRS.get(dtype, 1) if dtype in KINDS else 1


class Plain:
    """Turns records into arrays where they are tensors, and into named parts where they are anything else."""

    def __init__(self, section: "Optional[Callable[[Storage], Section]]") -> None:
        self.section = section
        self.made: "Dict[int, Any]" = {}
        self.open: "Set[int]" = set()
        self.kept: "List[Any]" = []  # an id is only good while its object lives

    def of(self, value: "Any", depth: int = 0) -> "Any":
        """Return a value as it is to be compared."""
        if depth > 200:
            raise Unreadable("it is nested more than 200 deep")
        if isinstance(value, (str, bytes, int, float, complex, bool, type(None))):
            return value
        if id(value) in self.made:
            return self.made[id(value)]
        if id(value) in self.open:
            return "<a ring>"
        self.open.add(id(value))
        made = self._make(value, depth + 1)
        self.open.discard(id(value))
        self.made[id(value)] = made
        self.kept.append(value)
        return made

    def _make(self, value: "Any", depth: int) -> "Any":
        if isinstance(value, dict):
            made = {self._key(key, depth): self.of(item, depth) for key, item in value.items()}
            attributes = getattr(value, "attributes", None)
            return {**made, "(attributes)": self.of(attributes, depth)} if attributes else made
        if isinstance(value, (list, tuple)):
            return type(value)(self.of(item, depth) for item in value)
        if isinstance(value, (set, frozenset)):
            return type(value)(self._key(item, depth) for item in value)
        if isinstance(value, type) and issubclass(value, Record):
            return Opaque("class", (value.called,))
        if isinstance(value, Storage):
            if self.section is None:
                raise Unreadable("a storage outside of a checkpoint")
            whole = self.section(value)
            return Array(value.dtype, (value.elements,), whole, note=value.location)
        if isinstance(value, Record):
            return self._record(value, depth)
        if isinstance(value, Opaque):
            return Opaque(value.name, tuple(self.of(item, depth) for item in value.parts))
        if isinstance(value, bytearray):
            return bytes(value)
        return Opaque(type(value).__name__, (repr(value),))

    def _key(self, key: "Any", depth: int) -> "Any":
        made = self.of(key, depth)
        return made if not isinstance(made, (list, dict, set, tuple)) else Opaque("", (made,))

    def _record(self, record: "Record", depth: int) -> "Any":
        if record.called in _TENSORS and len(record.args) >= 4 and self.section is not None:
            return self._tensor(record.called, record.args)
        if record.called in _PARAMETERS and record.args:
            inner = self.of(record.args[0], depth)
            if not isinstance(inner, Array) or not record.args[1:2] or record.args[1] is True:
                return inner
            return Array(inner.dtype, inner.shape, inner.section, inner.layout, inner.note + " frozen")
        if record.called in _ARRAYS:
            array = _numpy_array(record.state)
            if array is not None:
                return array
        data = _encoded(record)
        if data is not None:
            return data
        parts: "List[Any]" = [self.of(list(record.args), depth)]
        for more in (record.more, record.state, record.items, record.pairs):
            if more:
                parts.append(self.of(more, depth))
        return Opaque(record.called, tuple(parts))

    def _tensor(self, called: str, args: "Tuple[Any, ...]") -> "Array":
        storage, offset, size, stride = args[:4]
        if not (isinstance(storage, Storage) and self.section is not None and isinstance(offset, int)):
            raise Unreadable("a tensor without a storage")
        if not all(
            isinstance(part, tuple) and all(isinstance(n, int) and n >= 0 for n in part)
            for part in (size, stride)
        ):
            raise Unreadable("a tensor of a strange shape")
        dtype = storage.dtype
        if called.endswith("_v3"):
            dtype = getattr(args[6], "called", "").replace("torch.", "", 1) if len(args) > 6 else ""
        metadata = args[7:8] if called.endswith("_v3") else args[6:7]  # the bits of a conjugate, for example
        width = _width(dtype)
        elements = 1
        for number in size:
            elements *= number
        extent = 1 + sum((n - 1) * step for n, step in zip(size, stride)) if elements else 0
        layout = () if elements <= 1 or _ordered(size, stride) else stride
        note = storage.location + (" requires_grad" if len(args) > 4 and args[4] else "")
        note += " %s" % canonical(self.of(metadata[0])) if metadata and metadata[0] else ""
        if dtype not in KINDS:  # of unknown width: all bytes of the storage count
            return Array(dtype, size, self.section(storage), ("from", offset, *stride), note)
        length = extent if layout else elements
        part = self.section(storage).part(offset * width, length * width)
        return Array(dtype, size, part, layout, note)


def _ordered(size: "Tuple[int, ...]", stride: "Tuple[int, ...]") -> bool:
    """Tell whether the elements lie in order, without gaps."""
    step = 1
    for number, wide in zip(reversed(size), reversed(stride)):
        if number != 1 and wide != step:
            return False
        step *= number
    return True


def _encoded(record: "Record") -> "Optional[bytes]":
    """Return the bytes that a pickle of protocol 2 writes as text."""
    if record.called != "_codecs.encode" or len(record.args) != 2 or _text(record.args[1]) != "latin1":
        return None
    return record.args[0].encode("latin-1", "replace") if isinstance(record.args[0], str) else None


def _numpy_array(state: "Any") -> "Optional[Array]":
    """Return the array of NumPy that a pickle's state describes; None for those of objects and of several fields."""
    if not (isinstance(state, tuple) and len(state) == 5):
        return None
    _, shape, dtype, by_columns, data = state
    code = _text(dtype.args[0]) if isinstance(dtype, Record) and dtype.args else ""
    if isinstance(dtype, Record) and isinstance(dtype.state, tuple) and _text(dtype.state[1]) == ">":
        return None
    name = numpy_dtype(code)
    data = _encoded(data) if isinstance(data, Record) else data
    if (
        name is None
        or not isinstance(data, bytes)
        or not isinstance(shape, tuple)
        or not all(isinstance(n, int) and n >= 0 for n in shape)
    ):
        return None
    return Array(name, shape, Section("", 0, len(data), data), ("by columns",) if by_columns else ())


def numpy_dtype(code: str) -> "Optional[str]":
    """Return the name of a type of elements by NumPy's code; None for big-endian numbers, text and objects."""
    letter, width = code.lstrip("<|=")[:1], code.lstrip("<|=")[1:]
    if code.startswith(">") or not width.isdigit():
        return None
    names = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
    if letter == "b" and width == "1":
        return "bool"
    name = "%s%d" % (names[letter], 8 * int(width)) if letter in names else ""
    return name if name in KINDS else None
