"""Digests of tensors, computed on the tensor's device without waiting for it.

A digest is 128 bits. It depends on every bit and its position, on the shape and on the type.

The bytes of a tensor are read as 64-bit words. Two lanes sum the products of words and fixed random 64-bit keys, modulo
2^64 (multilinear hashing: Lemire and Kaser, "Strongly universal string hashing is fast", 2012, arXiv 1202.4961).
Addition modulo 2^64 has one result in any order, so a device may sum in parallel. A product loses the upper bits of a
word: the lowest bit in which two words differ, at position p, leaves 64 - p bits of the key. The second lane reads
the same bytes with the halves of each word exchanged (on the CPU: from the fifth byte on), so that p is at most 31 in
one of the lanes. Two different tensors have equal lanes with a probability of at most 2^-33, and mostly near 2^-128.
Words beyond BLOCK make further sums. BLAKE2 joins all sums, the remaining bytes, the shape and the type.
"""

import ctypes
import hashlib

from reprobuild_runtime.trace.jax_arrays import is_array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

BLOCK = 1 << 16  # words of one sum: the keys stay in a processor's second-level cache
SIZE = 16  # bytes of a digest
_WORD = 8
_LOW = 0xFFFFFFFF
_JOINED = 1 << 16  # elements up to which tensors are copied into one
_SMALL = 4096  # bytes up to which BLAKE2 alone is faster on the CPU


class PendingDigest:
    """A digest whose sums may still be on a device.

    Attributes:
        about: the shape, the type and the layout.
        sums: 64-bit integer tensors, each with one dimension.
        rest: bytes after the last whole word.
    """

    __slots__ = ("about", "rest", "sums")

    def __init__(self, about: str, sums: "Sequence[Any]" = (), rest: bytes = b"") -> None:
        self.about, self.sums, self.rest = about, sums, rest

    def finish(self, values: "Sequence[bytes]") -> str:
        """Return the digest in hex, given the bytes of its sums."""
        total = hashlib.blake2b(self.about.encode(errors="backslashreplace") + b"\0", digest_size=SIZE)
        for value in values:
            total.update(value)
        total.update(self.rest)
        return total.hexdigest()


def digest_bytes(data: bytes, about: str = "bytes") -> str:
    """Return the digest of bytes in hex."""
    return PendingDigest(about, rest=data).finish(())


class TensorDigests:
    """Digests of the tensors of one process.

    The keys of each device are made at first use.
    """

    def __init__(self, torch: "Any") -> None:
        self._torch = torch
        self._keys: "Dict[str, Any]" = {}

    def start(self, tensor: "Any") -> PendingDigest:
        """Begin the digest of a tensor.

        A tensor without readable bytes (of the device `meta`, or a wrapper) has a digest of its description alone.
        """
        try:
            return self._start(tensor)
        except Exception as err:
            return PendingDigest(f"unreadable {type(tensor).__name__}: {type(err).__name__}")

    def _start(self, tensor: "Any") -> PendingDigest:
        torch = self._torch
        tensor = unwrap(tensor.detach())
        about = f"{tensor.dtype} {tuple(tensor.shape)}"
        if tensor.layout is not torch.strided:
            parts = [self._start(part) for part in _list_sparse_parts(torch, tensor)]
            return PendingDigest(
                f"{about} {tensor.layout} " + "; ".join(part.about for part in parts),
                [value for part in parts for value in part.sums],
                b"".join(part.rest for part in parts),
            )
        if tensor.device.type == "meta" or not tensor.numel():
            return PendingDigest(f"{about} {tensor.device.type if tensor.numel() else 'empty'}")
        if not tensor.is_contiguous():
            dense = tensor.permute(sorted(range(tensor.dim()), key=lambda axis: -tensor.stride(axis)))
            if dense.is_contiguous():  # as it is in memory
                about += f" {tuple(tensor.stride())}"
                tensor = dense
        flat = _flatten(torch, tensor)
        size = flat.numel()
        whole = size - size % _WORD
        if flat.device.type == "cpu":
            if size <= _SMALL:
                return PendingDigest(about, rest=ctypes.string_at(flat.data_ptr(), size))
            rest = ctypes.string_at(flat.data_ptr() + whole, size - whole)
            return PendingDigest(about, self._sum_on_cpu(flat, whole), rest)
        words = flat[:whole].view(torch.int64)
        sums = self._sum_lanes(words, (words >> 32 & _LOW) | (words << 32)) if whole else []
        return PendingDigest(about, [*sums, flat[whole:].to(torch.int64)] if whole < size else sums)

    def join(self, values: "Sequence[Any]") -> PendingDigest:
        """Return one digest of tensors and other values; small tensors are copied into one first."""
        torch = self._torch
        about: "List[str]" = []
        small: "Dict[Tuple[Any, Any], List[Any]]" = {}
        parts = []
        for value in values:
            if not isinstance(value, torch.Tensor):
                about.append(repr(value))
                continue
            tensor = unwrap(value.detach())
            if tensor.numel() <= _JOINED and tensor.layout is torch.strided and not tensor.is_quantized:
                about.append(str(tuple(tensor.shape)))
                small.setdefault((tensor.dtype, tensor.device), []).append(tensor.reshape(-1))
            else:
                parts.append(self.start(tensor))
        parts += [self.start(flat[0] if len(flat) == 1 else torch.cat(flat)) for flat in small.values()]
        return PendingDigest(
            " ".join(about + [part.about for part in parts]),
            [value for part in parts for value in part.sums],
            b"".join(part.rest for part in parts),
        )

    def _sum_on_cpu(self, flat: "Any", whole: int) -> "List[Any]":
        # PyTorch refuses a view of words that begins in the middle of a word, and `frombuffer` does not.
        torch = self._torch
        memory = (ctypes.c_char * whole).from_address(flat.data_ptr())
        first = torch.frombuffer(memory, dtype=torch.int64)
        second = torch.frombuffer(memory, dtype=torch.int64, offset=4, count=whole // _WORD - 1)
        # The first and the last half word of the second lane: the first lane has them in its lower or upper bits, and
        # so they are joined as they are.
        ends = torch.frombuffer(memory, dtype=torch.int32)[:: max(whole // 4 - 1, 1)]
        return [*self._sum_lanes(first, second), ends.to(torch.int64)]

    def _sum_lanes(self, first: "Any", second: "Any") -> "List[Any]":
        keys = self._keys_of(first.device)
        return [*self._sum(first, keys[:BLOCK]), *self._sum(second, keys[BLOCK:])]

    def _sum(self, words: "Any", keys: "Any") -> "List[Any]":
        count = words.numel()
        blocks = count // BLOCK
        whole = blocks * BLOCK
        sums = []
        on_cpu = words.device.type == "cpu"
        if blocks:
            table = words[:whole].view(blocks, BLOCK)
            sums.append(self._torch.mv(table, keys) if on_cpu else (table * keys).sum(1))
        if count > whole:
            rest, some = words[whole:], keys[: count - whole]
            sums.append((self._torch.dot(rest, some) if on_cpu else (rest * some).sum()).reshape(1))
        return sums

    def _keys_of(self, device: "Any") -> "Any":
        name = str(device)
        if name not in self._keys:
            data = bytearray(hashlib.shake_128(b"reprobuild trace").digest(2 * BLOCK * _WORD))
            self._keys[name] = self._torch.frombuffer(data, dtype=self._torch.int64).to(device)
        return self._keys[name]

    def finish(self, pending: "Iterable[PendingDigest]") -> "List[str]":
        """Return digests in hex, with one copy from each device."""
        digests = list(pending)
        devices: "Dict[str, List[Any]]" = {}
        for digest in digests:
            for value in digest.sums:
                devices.setdefault(str(value.device), []).append(value)
        values = {
            name: iter(_copy_out(self._torch.cat(sums), [value.numel() for value in sums]))
            for name, sums in devices.items()
        }
        return [
            digest.finish([next(values[str(value.device)]) for value in digest.sums]) for digest in digests
        ]


def _copy_out(joined: "Any", sizes: "Sequence[int]") -> "List[bytes]":
    """Return the bytes of the parts of a tensor of 64-bit integers."""
    memory = joined.cpu()
    data = ctypes.string_at(memory.data_ptr(), memory.numel() * _WORD)
    parts, start = [], 0
    for size in sizes:
        parts.append(data[start : start + size * _WORD])
        start += size * _WORD
    return parts


def unwrap(tensor: "Any") -> "Any":
    """Return the local tensor of a DTensor, else the tensor itself."""
    local = getattr(tensor, "_local_tensor", None)
    return tensor if local is None else local


def _flatten(torch: "Any", tensor: "Any") -> "Any":
    """Return the bytes of a strided tensor."""
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    for resolve in ("resolve_conj", "resolve_neg"):  # views that represent other values than their bytes
        tensor = getattr(tensor, resolve, lambda value=tensor: value)()
    flat = tensor.reshape(-1)  # a copy, if the elements do not lie densely
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    flat = flat.view(torch.uint8)
    return flat.clone() if flat.storage_offset() % _WORD and flat.device.type != "cpu" else flat


def _list_sparse_parts(torch: "Any", tensor: "Any") -> "Sequence[Any]":
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in (getattr(torch, "sparse_csr", None), getattr(torch, "sparse_bsr", None)):
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    return tensor.ccol_indices(), tensor.row_indices(), tensor.values()


def list_tensors(torch: "Any", value: object, depth: int = 0) -> "List[Any]":
    """Return the tensors in a value, in order: in lists, tuples, mappings and objects with `__dict__`."""
    return [tensor for _, tensor in list_leaves(torch, value, depth) if isinstance(tensor, torch.Tensor)]


_DEEPEST = 8


def list_leaves(
    torch: "Any", value: object, depth: int = 0, path: str = "", visited: "Optional[Dict[int, object]]" = None
) -> "List[Tuple[str, Any]]":
    """Return (path, tensor or array or plain value) for the parts of a value, in order."""
    visited = {} if visited is None else visited
    if isinstance(value, torch.Tensor) or hasattr(value, "__array_interface__") or is_array(value):
        return [(path, value)]
    if isinstance(value, (str, bytes, int, float, bool, complex)) or value is None:
        return [(path, value)]
    if depth >= _DEEPEST or id(value) in visited:
        return []
    visited[id(value)] = value
    if isinstance(value, dict):
        parts = [(f"{path}[{key!r}]" if path else str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        parts = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
    else:
        fields = getattr(value, "__dict__", None)
        parts = (
            [(f"{path}.{name}", item) for name, item in fields.items()] if isinstance(fields, dict) else []
        )
    return [leaf for name, item in parts for leaf in list_leaves(torch, item, depth + 1, name, visited)]
