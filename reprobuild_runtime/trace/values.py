"""Digests of the values of variables, bounded and without addresses."""

import hashlib
import re
import sys
from array import array
from itertools import islice

from reprobuild_runtime.trace import jax_arrays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable, Iterator, Set

_ITEMS = 256  # of one container
_DEEPEST = 4
_LARGEST = 1 << 22  # bytes of an array or a string
_PLAIN = (int, float, complex, bool, type(None))
# Types whose `repr` is their value.
_BY_TEXT = ("datetime", "uuid", "decimal", "fractions", "pathlib", "ipaddress", "posix", "nt")
# Types of these modules hold numbers of processes, locks and files.
_CLOSED = ("threading", "_thread", "queue", "asyncio", "multiprocessing", "concurrent", "socket", "logging", "io",
           "_io", "tempfile", "selectors", "contextlib")  # fmt: skip
_DRAWN = re.compile(r"/tmp[a-z0-9_]{8}(?![\w.-])")  # names that Python's tempfile draws
_LEFT_OUT = ("module", "function", "builtin_function_or_method", "type", "method", "method_descriptor", "ABCMeta",
             "wrapper_descriptor", "_Feature", "getset_descriptor", "classmethod", "staticmethod", "PjitFunction",
             "RecordedFunction")  # fmt: skip


def is_variable(value: object) -> bool:
    """Return whether a value is data: no module, function or class."""
    return type(value).__name__ not in _LEFT_OUT and not isinstance(value, type)


def digest_variable(value: object) -> str:
    """Return the digest of a value, 16 hex digits."""
    total = hashlib.blake2b(digest_size=8)
    for part in _describe(value, 0, set()):
        total.update(part)
        total.update(b"\0")
    return total.hexdigest()


def _describe(value: "Any", depth: int, visited: "Set[int]") -> "Iterator[bytes]":
    name = type(value).__name__
    yield name.encode(errors="backslashreplace")
    if isinstance(value, _PLAIN):
        yield repr(value).encode()
    elif isinstance(value, str):
        yield _DRAWN.sub("/tmp", value[:_LARGEST]).encode(errors="backslashreplace")
    elif isinstance(value, (bytes, bytearray)):
        yield bytes(value[:_LARGEST])
    elif isinstance(value, memoryview) or not is_variable(value):
        return
    elif id(value) in visited or depth >= _DEEPEST:
        yield b"..."
    else:
        visited.add(id(value))
        try:
            yield from _describe_parts(value, depth, visited)
        except Exception as err:  # a property of the program, or a container that another thread changes
            yield f"unreadable {type(err).__name__}".encode()
        visited.discard(id(value))


def _describe_parts(value: "Any", depth: int, visited: "Set[int]") -> "Iterator[bytes]":
    if _is_tensor(value):
        yield from _describe_tensor(value)
    elif jax_arrays.is_array(value):
        data, about = jax_arrays.read_array(value)
        yield about.encode()
        yield data
    elif _is_array(value):
        yield f"{value.dtype} {value.shape}".encode()
        if value.dtype.kind == "O":
            yield from _describe_items(value.ravel()[:_ITEMS].tolist(), depth, visited)
        else:
            yield value.ravel()[: _LARGEST // max(value.itemsize, 1)].tobytes()
    elif isinstance(value, dict):
        yield str(len(value)).encode()
        pairs = [part for pair in islice(value.items(), _ITEMS) for part in pair]
        yield from _describe_items(pairs, depth, visited)
    elif isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        yield str(len(value)).encode()
        yield from _describe_items(_select(value), depth, visited)
    elif type(value).__module__.partition(".")[0] in _BY_TEXT:
        yield _DRAWN.sub("/tmp", repr(value)).encode(errors="backslashreplace")
    else:
        yield from _describe_object(value, depth, visited)


def _select(value: "Any") -> "Any":
    """Return the items of a container: all numbers, else the first ones and some of the others."""
    if isinstance(value, (list, tuple)) and len(value) > _ITEMS and isinstance(value[0], float):
        try:
            return [array("d", value).tobytes()]
        except (TypeError, OverflowError):
            pass
    first = list(islice(value, _ITEMS))
    return first + list(islice(value, _ITEMS, None, max(1, len(value) // _ITEMS)))


def _describe_object(value: "Any", depth: int, visited: "Set[int]") -> "Iterator[bytes]":
    module = type(value).__module__
    if type(value).__name__ in ("Random", "SystemRandom") and module == "random":
        words = sys.modules["random"].Random.__mro__[1].getstate(value)
        yield repr(words).encode()
        return
    if type(value).__name__ == "Generator" and module.startswith("torch"):
        yield from _describe_tensor(value.get_state())
        return
    if type(value).__name__ == "Future" and module.startswith("concurrent.") and value.done():
        yield from _describe_items([value._result], depth, visited)
        return
    if module.startswith("numpy.random"):
        source = getattr(value, "bit_generator", value)
        yield repr(source.state).encode()
        return
    if module == "_io":
        file = getattr(value, "name", None)  # the number of a descriptor depends on other threads
        yield from _describe_items([file] if isinstance(file, (str, bytes)) else [], depth, visited)
        return
    fields = getattr(value, "__dict__", None)
    if (
        isinstance(fields, dict)
        and module.partition(".")[0] not in _CLOSED
        and type(value).__name__ != "Popen"
    ):
        names = [part for name, item in list(fields.items())[:_ITEMS] for part in (name, item)]
        yield from _describe_items(names, depth, visited)


def _describe_items(items: "Iterable[Any]", depth: int, visited: "Set[int]") -> "Iterator[bytes]":
    for item in items:
        yield from _describe(item, depth + 1, visited)


def _is_array(value: "Any") -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


def _is_tensor(value: "Any") -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "Tensor") and isinstance(value, torch.Tensor)


def _describe_tensor(value: "Any") -> "Iterator[bytes]":
    """Describe a tensor, with its bytes if they are in this process's memory."""
    from reprobuild_runtime.trace import recorder

    current = recorder.current()
    if current is None or current.digests is None:
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        return
    before, current.busy = current.busy, True
    try:
        yield current.digests.finish([current.digests.start(value)])[0].encode()
    finally:
        current.busy = before
