"""A small valid value of any document type, made from the type alone, and the places of its strings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

SHA = "0123456789abcdef" * 4
WORDS = (
    "x", SHA, f"sha256:{SHA}", SHA[:40], SHA[:32], SHA[:16], "100644", "1", "", "/x", "/src/x", "x/y",
    "https://example.org/x", "3.11.2", "x-1.0.whl", "2026-11-22T05:00:00Z", "linux/amd64", "LABEL", "amd64",
    "localhost/x:1", "Sat, 11 Jul 2026 10:16:37 UTC",
)  # fmt: skip
Place = tuple["str | int | Name", ...]


class Typed(str):
    """A string of a sample, and its type."""

    kind: inspect.StrType


class Name(NamedTuple):
    """In a place: the name of a key, not its value."""

    key: str


def sample(root: Any) -> Any:
    """Return a value of a type as JSON has it: each field, list and dict filled once."""
    return _sample(inspect.type_info(root), ())


def string_places(value: Any, above: Place = ()) -> Iterator[tuple[Place, Typed]]:
    """Yield where each string of a value stands, and the string."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, Typed):
                yield (*above, Name(key)), key
            yield from string_places(inner, (*above, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from string_places(inner, (*above, number))
    elif isinstance(value, Typed):
        yield above, value


def replaced(value: Any, place: Place, new: str) -> Any:
    """Return a value in which one string is another."""
    if not place:
        return new
    if isinstance(place[0], Name):
        return {new if key == place[0].key else key: inner for key, inner in value.items()}
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[place[0]] = replaced(copy[place[0]], place[1:], new)
    return copy


def _sample(kind: inspect.Type, above: tuple[Any, ...]) -> Any:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.StrType):
        typed = Typed(word(kind))
        typed.kind = kind
        return typed
    if isinstance(kind, (inspect.IntType, inspect.FloatType)):
        return max(1, kind.ge or 1) if kind.lt is None and (kind.le is None or kind.le >= 1) else 0
    if isinstance(kind, inspect.BoolType):
        return True
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, inspect.UnionType):
        parts = [part for part in kind.types if not isinstance(part, inspect.NoneType)]
        strings = [part for part in parts if isinstance(part, inspect.StrType)]
        return _sample((strings or parts)[0], above)
    if isinstance(kind, inspect.StructType):
        if kind.cls in above:
            return None
        fields = (
            field for field in kind.fields if not isinstance(field.type, inspect.RawType) or field.required
        )
        return {field.encode_name: _sample(field.type, (*above, kind.cls)) for field in fields}
    if isinstance(kind, inspect.DictType):
        return {_sample(kind.key_type, above): _sample(kind.value_type, above)}
    if isinstance(kind, inspect.TupleType):
        return [_sample(part, above) for part in kind.item_types]
    if isinstance(kind, inspect.CollectionType):
        inner = _sample(kind.item_type, above)
        return [] if inner is None else [inner]
    if isinstance(kind, inspect.BytesType):
        return ""
    return None


def word(kind: inspect.StrType) -> str:
    """Return a text of a type; a text of the document that others write in the same place."""
    for text in WORDS:
        if (kind.pattern is None or re.search(kind.pattern, text)) and len(text) >= (kind.min_length or 0):
            return text
    raise AssertionError(f"no word for {kind.pattern}")


def decoded(root: Any, value: Any) -> Any:
    """Return what a document of a type says, from its JSON."""
    return msgspec.json.decode(json.dumps(value).encode(), type=root)
