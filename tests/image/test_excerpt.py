"""What is quoted of two contents that differ."""

from __future__ import annotations

import pytest

from reprobuild.compare.images.excerpt import LARGEST, quote_difference, quoting_obstacle
from reprobuild.infra.tar.entries import TarEntry
from reprobuild_portable import secrets

ENTRY = TarEntry(path="opt/a.txt", type="file", mode=0o644)


@pytest.mark.parametrize("sizes", [(LARGEST + 1, 1), (1, LARGEST + 1)])
def test_large_files_are_neither_searched_nor_quoted(
    sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(text: bytes) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(secrets, "find", refuse)
    one, other = (b"@\n" * (size // 2) + b"x" * (size % 2) for size in sizes)
    assert quoting_obstacle("opt/a.txt", ENTRY, ENTRY, (one, other)) == "it has more than 1 MiB"
    assert quote_difference(one, other, quote=False) == "from line 1"


def test_a_file_of_just_that_size_is_searched_and_quoted() -> None:
    one, other = (b"x\n" * (LARGEST // 2 - 1) + end for end in (b"a\n", b"b\n"))
    assert quoting_obstacle("opt/a.txt", ENTRY, ENTRY, (one, other)) == ""
    assert quote_difference(one, other, quote=True) == f"line {LARGEST // 2}: 'a' and 'b'"
