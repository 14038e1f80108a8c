"""The strings that a document type can hold: where each stands, and which have no grammar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import inspect


def strings(root: Any) -> list[tuple[str, inspect.Type]]:
    """Return (path, type) of each string of a document type, in msgspec's notation: `$.wheels[...].name`.

    A key of a dict stands as `{key}` and its value as `[...]`. What has no type of its own (`Any`, `object`,
    `msgspec.Raw`) counts as a string, because it can hold one.

    Args:
        root: a type that msgspec can read: a Struct, a dict, a list, a union.
    """
    return list(_walk(inspect.type_info(root), "$", ()))


def free_strings(root: Any) -> list[str]:
    """Return the paths of the strings without a grammar or a bound: a bare `str`, `Any`, `object`, `msgspec.Raw`.

    Args:
        root: as in `strings`.
    """
    return [path for path, kind in strings(root) if not is_bound(kind)]


def is_bound(kind: inspect.Type) -> bool:
    """Tell whether a string has a pattern or a length."""
    return isinstance(kind, inspect.StrType) and (kind.pattern is not None or kind.max_length is not None)


def _walk(kind: inspect.Type, path: str, above: tuple[Any, ...]) -> Iterator[tuple[str, inspect.Type]]:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, (inspect.StrType, inspect.AnyType, inspect.RawType)):
        yield path, kind
    elif (
        fields := getattr(kind, "fields", None)
    ) is not None:  # a Struct, dataclass, NamedTuple or TypedDict
        if kind.cls not in above:
            for field in fields:
                name = getattr(field, "encode_name", None) or field.name
                yield from _walk(field.type, f"{path}.{name}", (*above, kind.cls))
    elif isinstance(kind, inspect.UnionType):
        for part in kind.types:
            yield from _walk(part, path, above)
    elif isinstance(kind, inspect.DictType):
        yield from _walk(kind.key_type, f"{path}{{key}}", above)
        yield from _walk(kind.value_type, f"{path}[...]", above)
    elif isinstance(kind, inspect.TupleType):
        for number, part in enumerate(kind.item_types):
            yield from _walk(part, f"{path}[{number}]", above)
    elif isinstance(kind, inspect.CollectionType):
        yield from _walk(kind.item_type, f"{path}[...]", above)
    elif isinstance(kind, inspect.CustomType):
        raise AssertionError(f"{path}: msgspec does not check {kind.cls}")
