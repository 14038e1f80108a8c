"""Types of strings of documents: their grammars, and that every document has them everywhere."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from reprobuild.guard.strings import Sha256, Text
from tests.guard.types_walk import free_strings, strings


class Below(Struct):
    """A part of a document that holds itself."""

    good: Sha256
    bad: str
    more: tuple[Below, ...] = ()


class Document(Struct):
    """A document with each kind of place where a string can stand."""

    name: str
    text: Text
    count: int
    parts: tuple[Below, ...]
    values: dict[str, Sha256]
    keys: dict[Sha256, str | None]
    pair: tuple[Sha256, str]
    anything: Any
    raw: Raw
    either: list[str] | Sha256 | None


def test_walk_finds_each_free_string() -> None:
    assert free_strings(Document) == [
        "$.name", "$.parts[...].bad", "$.values{key}", "$.keys[...]", "$.pair[1]", "$.anything", "$.raw",
        "$.either[...]",
    ]  # fmt: skip
    assert [path for path, _ in strings(Document) if path not in free_strings(Document)] == [
        "$.text", "$.parts[...].good", "$.values[...]", "$.keys{key}", "$.pair[0]", "$.either",
    ]  # fmt: skip
