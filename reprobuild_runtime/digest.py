"""SHA-256 over the bytes of tensors and arrays.

Equal digests mean equal bits, shapes, types and layouts.
"""

import ctypes
import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable


def digest(values: "Iterable[Any]") -> str:
    """Return the SHA-256 of tensors, arrays and byte strings, in order.

    The arrays are NumPy's, but NumPy is not needed.
    """
    total = hashlib.sha256()
    for value in values:
        head, body = (b"bytes", value) if isinstance(value, bytes) else _describe_value(value)
        total.update(b"%d %s %d\0" % (len(head), head, len(body)))
        total.update(body)
    return total.hexdigest()


def _describe_value(value: "Any") -> "tuple[bytes, bytes]":
    if hasattr(value, "detach"):
        return _tensor(value)
    return f"{value.shape} {value.dtype.str} {value.strides}".encode(), value.tobytes()


def _tensor(value: "Any") -> "tuple[bytes, bytes]":
    head = f"{tuple(value.shape)} {value.dtype} {tuple(value.stride())}".encode()
    flat = value.detach().cpu()
    for resolve in (
        "resolve_conj",
        "resolve_neg",
    ):  # views that represent other values than their bytes; torch 1.10
        flat = getattr(flat, resolve, lambda: flat)()  # noqa: B023  called at once
    flat = flat.contiguous()
    size = flat.numel() * flat.element_size()
    return head, ctypes.string_at(flat.data_ptr(), size) if size else b""
