"""The bytes of JAX's arrays. To read them waits for the device."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple


def is_tracer(value: object) -> bool:
    """Return whether a value stands for an array while JAX traces a function."""
    jax: "Any" = sys.modules.get("jax")
    return hasattr(jax, "core") and isinstance(value, jax.core.Tracer)


def is_array(value: object) -> bool:
    """Return whether a value is an array of JAX with elements."""
    jax: "Any" = sys.modules.get("jax")
    return hasattr(jax, "Array") and isinstance(value, jax.Array) and not is_tracer(value)


def read_array(value: "Any") -> "Tuple[bytes, str]":
    """Return the bytes of an array, and its type and shape.

    If other processes have parts of it, the bytes are those on the devices of this process.
    """
    about = f"{value.dtype} {value.shape}"
    if value.is_deleted():  # given away to a jitted function
        return b"", f"{about} deleted"
    parts = [value] if value.is_fully_addressable else [shard.data for shard in value.addressable_shards]
    return b"".join(_read_part(part) for part in parts), about


def _read_part(value: "Any") -> bytes:
    jax, numpy = sys.modules["jax"], sys.modules["numpy"]
    key = getattr(jax.dtypes, "prng_key", None)
    if key is not None and jax.dtypes.issubdtype(value.dtype, key):
        value = jax.random.key_data(value)
    return bytes(numpy.asarray(value).tobytes())
