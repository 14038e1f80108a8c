"""Values of documents, checked by their types: the one use of msgspec's decoders.

msgspec prepares a type when it is first used. It publishes the half-prepared description of a struct, which a second
thread then reads: the process ends by a signal (msgspec 0.22, `StructInfo_Convert`). So one thread prepares a type.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, overload

import msgspec

_Kind = TypeVar("_Kind")
_LOCK = threading.Lock()
_prepared: set[Any] = set()


@overload
def decode_json(content: bytes | str | msgspec.Raw, kind: type[_Kind]) -> _Kind: ...
@overload
def decode_json(content: bytes | str | msgspec.Raw, kind: Any) -> Any: ...
def decode_json(content: bytes | str | msgspec.Raw, kind: Any) -> Any:
    """Return the value of a JSON document.

    Args:
        content: the document.
        kind: the type of the value.

    Raises:
        msgspec.DecodeError: it is not JSON, or not of the type. `ValueError`: it is not UTF-8. `RecursionError`: it is
            too deep.
    """
    return msgspec.json.decode(content, type=_prepare(kind))


@overload
def decode_toml(content: bytes | str, kind: type[_Kind], *, strict: bool = True) -> _Kind: ...
@overload
def decode_toml(content: bytes | str, kind: Any, *, strict: bool = True) -> Any: ...
def decode_toml(content: bytes | str, kind: Any, *, strict: bool = True) -> Any:
    """Return the value of a TOML document.

    Args:
        content: the document.
        kind: the type of the value.
        strict: numbers in strings are no numbers.

    Raises:
        msgspec.DecodeError: it is not TOML, or not of the type. `ValueError`: it is not UTF-8.
    """
    return msgspec.toml.decode(content, type=_prepare(kind), strict=strict)


@overload
def decode_value(value: Any, kind: type[_Kind]) -> _Kind: ...
@overload
def decode_value(value: Any, kind: Any) -> Any: ...
def decode_value(value: Any, kind: Any) -> Any:
    """Return a typed value.

    Args:
        value: dictionaries, lists and plain values, of a decoder without types.
        kind: the type of the result.

    Raises:
        msgspec.ValidationError: it is not of the type. `RecursionError`: it is too deep.
    """
    return msgspec.convert(value, type=_prepare(kind))


@overload
def json_decoder(kind: type[_Kind]) -> msgspec.json.Decoder[_Kind]: ...
@overload
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]: ...
def json_decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return a decoder of many JSON documents of one type.

    Its errors are those of `decode_json`.
    """
    return msgspec.json.Decoder(_prepare(kind))


def _prepare(kind: Any) -> Any:
    if kind not in _prepared:
        with _LOCK:
            msgspec.json.Decoder(kind)
            _prepared.add(kind)
    return kind
