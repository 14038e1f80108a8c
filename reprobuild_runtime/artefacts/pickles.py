"""Pickles read without running code.

Every class and function that they name becomes a record of its call.

So torch's checkpoints are read without torch, of any version, and without loading their tensors; the same holds for
plain pickles. The formats: torch/serialization.py (`_save` and `_legacy_save`).
"""

import io
import os
import pickle
import struct

from reprobuild_runtime.artefacts.findings import UnreadableError
from reprobuild_runtime.artefacts.forms import OrderedDict
from reprobuild_runtime.artefacts.plain import Plain, element_size
from reprobuild_runtime.artefacts.records import Bytes, Calls, Outside, PickleCall, Storage, text
from reprobuild_runtime.artefacts.sections import FileSection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any, Callable, Dict, List

# Errors of unpickling untrusted or damaged data.
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
_PLAIN: "Dict[str, Any]" = {
    "collections.OrderedDict": OrderedDict, "builtins.set": set, "builtins.frozenset": frozenset, "builtins.dict": dict,
    "builtins.list": list, "builtins.tuple": tuple, "builtins.bytearray": Bytes, "builtins.complex": complex,
    "__builtin__.set": set, "__builtin__.frozenset": frozenset,
}  # fmt: skip


class Reader(pickle.Unpickler):
    """A reader of one pickle; `storages` are those that it named."""

    def __init__(self, file: "IO[bytes]") -> None:
        super().__init__(file, encoding="bytes")
        self.storages: "Dict[str, Storage]" = {}
        self.calls: "List[PickleCall]" = []
        self._classes: "Dict[str, type]" = {}

    def find_class(self, module: str, name: str) -> "Any":
        """Return a placeholder for a class or function."""
        full = "%s.%s" % (module, name)
        if full in _PLAIN:
            return _PLAIN[full]
        if full not in self._classes:
            self._classes[full] = Calls("Record", (PickleCall,), {"called": full, "calls": self.calls})
        return self._classes[full]

    def persistent_load(self, pid: "Any") -> "Any":
        """Return a placeholder for an object outside of the pickle."""
        if not (isinstance(pid, tuple) and len(pid) >= 5 and text(pid[0]) == "storage"):
            return Outside(pid)
        if pid[5:] not in ((), (None,)):
            raise UnreadableError("a view of a storage")
        called = getattr(pid[1], "called", "").rpartition(".")[2]
        dtype, key = _STORAGES.get(called), text(pid[2])
        if dtype is None or not isinstance(pid[4], int):
            raise UnreadableError("a storage of the unknown type %s" % ascii(called))
        return self.storages.setdefault(key, Storage(dtype, key, pid[4], text(pid[3])))


def read_pickle(path: str) -> "Any":
    """Return the value of a plain pickle, with records for objects.

    Unreadable is raised if it is not valid, or has data after it.
    """
    with open(path, "rb") as file:
        reader = Reader(file)
        value = _load(reader)
        if file.read(1):
            raise UnreadableError("something follows the pickle")
    return Plain(None).whole(value, reader.calls)


def read_torch(data: bytes, section: "Callable[[str], FileSection]") -> "Any":
    """Return the value of a zip checkpoint, with arrays for tensors.

    Args:
        data: the content of `data.pkl`.
        section: returns the bytes of a storage by its key.
    """
    reader = Reader(io.BytesIO(data))
    value = _load(reader)
    return Plain(lambda storage: section(storage.key)).whole(value, reader.calls)


def read_legacy(path: str) -> "Any":
    """Return the value of a checkpoint in torch's format before 1.6."""
    sections: "Dict[str, FileSection]" = {}
    with open(path, "rb") as file:
        for _ in range(3):  # the magic number, the protocol, and sizes of the system
            _load(Reader(file))
        reader = Reader(file)
        value = _load(reader)
        keys = _load(Reader(file))
        at = file.tell()
        for key in keys:
            storage = reader.storages[text(key)]
            file.seek(at)
            (elements,) = struct.unpack("<q", file.read(8))
            length = elements * element_size(storage.dtype)
            sections[storage.key] = FileSection(path, at + 8, length)
            at += 8 + length
        if at != os.path.getsize(path):
            raise UnreadableError("something follows the last storage")
    return Plain(lambda storage: sections[storage.key]).whole(value, reader.calls)


def _load(reader: "Reader") -> "Any":
    try:
        return reader.load()
    except UnreadableError:
        raise
    except DAMAGED as err:
        raise UnreadableError(
            "not a whole pickle: %s: %s" % (type(err).__name__, ascii(str(err))[:200])
        ) from None
