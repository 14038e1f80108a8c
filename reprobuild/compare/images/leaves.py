"""The values of two JSON documents, compared by their places and types."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reprobuild.lock.diff import Change
from reprobuild_portable import secrets


def _redact_value(name: str, value: str) -> str:
    return secrets.redact(value)


def compare_mappings(
    kind: str,
    first: Mapping[str, str],
    second: Mapping[str, str],
    say: Callable[[str, str], str] = _redact_value,
) -> Iterator[Change]:
    """Yield the differences of two mappings by name.

    Args:
        kind: of the changes.
        first: the values of one side.
        second: those of the other side.
        say: returns the text that is shown for a name and its value.
    """
    for name in sorted({*first, *second}):
        first_value, second_value = first.get(name), second.get(name)
        if first_value != second_value:
            texts = [None if value is None else say(name, value) for value in (first_value, second_value)]
            yield Change(kind=kind, name=name, one=texts[0], other=texts[1])


def compare_leaves(kind: str, first: Any, second: Any) -> Iterator[Change]:
    """Yield the differences of two JSON documents, value by value.

    A text is shown without its quotes, unless both sides would be shown alike.
    """
    encoded = [
        {place: _encode_value(value) for place, value in _list_leaves(side)} for side in (first, second)
    ]
    plain = [{place: format_value(value) for place, value in _list_leaves(side)} for side in (first, second)]
    for change in compare_mappings(kind, encoded[0], encoded[1]):
        sides = [side.get(change.name) for side in plain]
        if sides[0] == sides[1]:
            yield change
        else:
            texts = [None if value is None else secrets.redact(value) for value in sides]
            yield Change(kind=kind, name=change.name, one=texts[0], other=texts[1])
    # The first value of a list and the value "0" of an object have one place.
    shapes = [dict(_list_shapes(side)) for side in (first, second)]
    for place in sorted(shapes[0].keys() & shapes[1].keys()):
        if shapes[0][place] != shapes[1][place]:
            yield Change(kind=kind, name=place, one=shapes[0][place], other=shapes[1][place])


def format_value(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else _encode_value(value)


def _encode_value(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _list_leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield place and value of everything in a JSON document that has no parts."""
    if isinstance(value, (dict, list)) and value:
        for step, item in _list_parts(value):
            yield from _list_leaves(item, f"{place}/{step}")
    else:
        yield place, value


def _list_shapes(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """Yield the place of each list and object that has parts, and which of them it is."""
    if isinstance(value, (dict, list)) and value:
        yield place, "a list" if isinstance(value, list) else "an object"
        for step, item in _list_parts(value):
            yield from _list_shapes(item, f"{place}/{step}")


def _list_parts(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a list or an object, with their steps as RFC 6901 writes them."""
    if isinstance(value, list):
        yield from ((str(index), item) for index, item in enumerate(value))
    else:
        yield from ((key.replace("~", "~0").replace("/", "~1"), item) for key, item in value.items())
