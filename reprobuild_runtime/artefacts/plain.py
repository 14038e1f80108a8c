"""Conversion of pickle records to comparable values.

They become tensors and NumPy's arrays, and named parts.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

from reprobuild_runtime.artefacts.findings import UnreadableError
from reprobuild_runtime.artefacts.forms import DEEPEST, Members, Opaque, OrderedDict, canonical, reached
from reprobuild_runtime.artefacts.records import Outside, PickleCall, Storage, text
from reprobuild_runtime.artefacts.sections import Array, FileSection
from reprobuild_runtime.artefacts.ulp import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

_PAIRS = {"complex64": 2, "complex128": 2, "complex32": 2}
_TENSORS = {
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_tensor_v3",
    "torch._utils._rebuild_tensor",
}
_PARAMETERS = {"torch._utils._rebuild_parameter"}
_ARRAYS = {"numpy.core.multiarray._reconstruct", "numpy._core.multiarray._reconstruct"}


class Plain:
    """A converter of records.

    Records of tensors become arrays, and others become named parts.
    """

    def __init__(self, section: "Optional[Callable[[Storage], FileSection]]") -> None:
        self.section = section
        self.made: "Dict[int, Any]" = {}
        self.kept: "List[Any]" = []  # an id is only valid while its object lives

    def whole(self, value: "Any", calls: "Sequence[PickleCall]") -> "Any":
        """Return a pickle's value, with calls whose results it discards.

        Such calls can change other objects.
        """
        ids = reached(value, _list_inner_values) if calls else ()
        rest = [call for call in calls if id(call) not in ids]
        result = self.of(value)
        return Opaque("a value, and calls", (result, self.of(rest))) if rest else result

    def of(self, value: "Any", depth: int = 0) -> "Any":
        """Return a value in comparable form; a ring stays a ring."""
        if depth > DEEPEST:
            raise UnreadableError("it is nested more than %d deep" % DEEPEST)
        if isinstance(value, (str, bytes, int, float, complex, bool, type(None))):
            return value
        if id(value) not in self.made:
            self._keep(value, self._make(value, depth + 1))
        return self.made[id(value)]

    def _keep(self, value: "Any", result: "Any") -> "Any":
        self.made[id(value)] = result
        self.kept.append(value)
        return result

    def _make(self, value: "Any", depth: int) -> "Any":
        if isinstance(value, dict):
            return self._dictionary(value, depth)
        if isinstance(value, list):
            items: "List[Any]" = self._keep(value, [])
            items.extend(self.of(item, depth) for item in value)
            return items
        if isinstance(value, (tuple, set, frozenset)):
            kind = Opaque if isinstance(value, tuple) else Members
            return self._fill(self._keep(value, kind(type(value).__name__)), list(value), depth)
        if isinstance(value, type) and issubclass(value, PickleCall):
            return Opaque("class", (value.called,))
        if isinstance(value, Storage):
            if self.section is None:
                raise UnreadableError("a storage outside of a checkpoint")
            whole = self.section(value)
            return Array(value.dtype, (value.elements,), whole, note=value.location)
        if isinstance(value, PickleCall):
            return self._record(value, depth)
        if isinstance(value, Outside):
            return self._fill(self._keep(value, Opaque("outside")), [value.pid], depth)
        if isinstance(value, bytearray):
            return bytearray(value)
        return Opaque(type(value).__name__, (repr(value),))

    def _dictionary(self, value: "Dict[Any, Any]", depth: int) -> "Any":
        result: "Any" = self._keep(value, OrderedDict() if isinstance(value, OrderedDict) else {})
        for key, item in value.items():
            name = self.of(key, depth)
            result[name if not isinstance(name, bytearray) else Opaque("key", (name,))] = self.of(item, depth)
        if isinstance(value, OrderedDict):
            result.attributes = [self.of(part, depth) for part in value.attributes]
        return result

    def _fill(self, result: "Opaque", parts: "Sequence[Any]", depth: int) -> "Opaque":
        result.parts.extend(self.of(part, depth) for part in parts)
        return result

    def _record(self, record: "PickleCall", depth: int) -> "Any":
        array = self._array(record, depth)
        if array is not None:
            return array
        data = _encode_protocol_2(record)
        if data is not None:
            return data
        parts: "List[Any]" = [list(record.args), *([record.more] if record.more else [])]
        for step in record.steps[1:]:
            parts.append({"state": record.state, "pairs": record.pairs}.get(step, record.items))
        steps = " ".join([*record.steps, *(["named"] if record.more else [])])
        self.kept.append(parts)
        return self._fill(self._keep(record, Opaque(record.called, steps=steps)), parts, depth)

    def _array(self, record: "PickleCall", depth: int) -> "Optional[Array]":
        """Return the array of a record, or None.

        It is None if an array does not show all of the record.
        """
        args, calls = record.args, record.steps == ["called"] and not record.more
        if calls and record.called in _TENSORS and self.section is not None and _is_tensor(record):
            return self._tensor(record.called, args)
        if calls and record.called in _PARAMETERS and len(args) in (2, 3) and isinstance(args[1], bool):
            inner = self.of(args[0], depth)
            if isinstance(inner, Array) and not (args[2:] and args[2]):
                note = inner.note + " parameter" + (" frozen" if not args[1] else "")
                return Array(inner.dtype, inner.shape, inner.section, inner.layout, note)
        if record.called in _ARRAYS and record.steps == ["called", "state"] and not record.more:
            kind = args[0] if args else None
            if isinstance(kind, type) and getattr(kind, "called", "") == "numpy.ndarray":
                return _numpy_array(record.state)
        return None

    def _tensor(self, called: str, args: "Tuple[Any, ...]") -> "Array":
        storage, offset, size, stride = args[:4]
        if not (isinstance(storage, Storage) and self.section is not None and isinstance(offset, int)):
            raise UnreadableError("a tensor without a storage")
        if not all(
            isinstance(part, tuple) and all(isinstance(n, int) and n >= 0 for n in part)
            for part in (size, stride)
        ):
            raise UnreadableError("a tensor of a strange shape")
        dtype = storage.dtype
        if called.endswith("_v3"):
            dtype = getattr(args[6], "called", "").replace("torch.", "", 1)
        metadata = args[7:8] if called.endswith("_v3") else args[6:7]  # the bits of a conjugate, for example
        item_size = element_size(dtype)
        elements = 1
        for number in size:
            elements *= number
        extent = 1 + sum((n - 1) * step for n, step in zip(size, stride)) if elements else 0
        layout = () if elements <= 1 or _is_contiguous(size, stride) else stride
        note = storage.location + (" requires_grad" if len(args) > 4 and args[4] else "")
        note += " %s" % canonical(self.of(metadata[0])) if metadata and metadata[0] is not None else ""
        if dtype not in KINDS:  # of unknown width: all bytes of the storage count
            return Array(dtype, size, self.section(storage), ("from", offset, *stride), note)
        length = extent if layout else elements
        part = self.section(storage).part(offset * item_size, length * item_size)
        return Array(dtype, size, part, layout, note)


def _is_tensor(record: "PickleCall") -> bool:
    """Return whether an array shows all of a tensor's call.

    Hooks, for example, are code.
    """
    args = record.args
    if record.called.endswith("_v3"):
        return len(args) in (7, 8) and _no_hooks(args) and isinstance(args[6], type)
    return len(args) == 4 or (record.called.endswith("_v2") and len(args) in (5, 6, 7) and _no_hooks(args))


def _no_hooks(args: "Tuple[Any, ...]") -> bool:
    return isinstance(args[4], bool) and not (args[5:6] and args[5])


def _list_inner_values(value: "Any") -> "Sequence[Any]":
    """Return the parts of a pickle's object."""
    if isinstance(value, dict):
        return [*value, *value.values(), *getattr(value, "attributes", ())]
    if isinstance(value, PickleCall):
        return [value.args, value.more, value.state, value.items, value.pairs]
    if isinstance(value, Storage) or not isinstance(value, (list, tuple, set, frozenset, Outside)):
        return ()
    return [value.pid] if isinstance(value, Outside) else list(value)


def _is_contiguous(size: "Tuple[int, ...]", stride: "Tuple[int, ...]") -> bool:
    """Return whether the elements are in order, without gaps."""
    step = 1
    for number, wide in zip(reversed(size), reversed(stride)):
        if number != 1 and wide != step:
            return False
        step *= number
    return True


def _encode_protocol_2(record: "PickleCall") -> "Optional[bytes]":
    """Return the bytes that a pickle of protocol 2 writes as text."""
    args = record.args
    if record.called != "_codecs.encode" or record.steps != ["called"] or record.more or len(args) != 2:
        return None
    if text(args[1]) != "latin1" or not isinstance(args[0], str):
        return None
    try:
        return args[0].encode("latin-1")
    except UnicodeEncodeError:
        return None


def _numpy_array(state: "Any") -> "Optional[Array]":
    """Return the NumPy array of a pickle's state.

    Return None for arrays of objects and of several fields.
    """
    if not (isinstance(state, tuple) and len(state) == 5):
        return None
    _, shape, dtype, by_columns, data = state
    name = _numpy_type(dtype)
    data = _encode_protocol_2(data) if isinstance(data, PickleCall) else data
    if (
        name is None
        or not isinstance(data, bytes)
        or not isinstance(shape, tuple)
        or not all(isinstance(n, int) and n >= 0 for n in shape)
    ):
        return None
    return Array(name, shape, FileSection("", 0, len(data), data), ("by columns",) if by_columns else ())


def _numpy_type(dtype: "Any") -> "Optional[str]":
    """Return the name of an element type, or None.

    It is None if the type has fields, metadata, or another byte order.
    """
    if not (isinstance(dtype, PickleCall) and dtype.called == "numpy.dtype" and dtype.args):
        return None
    state = dtype.state
    if isinstance(state, tuple) and (
        len(state) != 8 or text(state[1]) == ">" or any(part is not None for part in state[2:5])
    ):
        return None
    return numpy_dtype(text(dtype.args[0]))


def numpy_dtype(code: str) -> "Optional[str]":
    """Return the name of an element type, by NumPy's code.

    Return None for big-endian numbers, text and objects.
    """
    letter, width = code.lstrip("<|=")[:1], code.lstrip("<|=")[1:]
    if code.startswith(">") or not width.isdigit():
        return None
    names = {"f": "float", "i": "int", "u": "uint", "c": "complex"}
    if letter == "b" and width == "1":
        return "bool"
    name = "%s%d" % (names[letter], 8 * int(width)) if letter in names else ""
    return name if name in KINDS else None


def element_size(dtype: str) -> int:
    """Return the bytes of an element, 1 if unknown."""
    return KINDS[dtype].width * _PAIRS.get(dtype, 1) if dtype in KINDS else 1
