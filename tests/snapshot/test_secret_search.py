"""The search for secrets in a text, block by block: what it finds, and how much it keeps in mind."""

from __future__ import annotations

import random
import string
import time
import timeit
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from reprobuild_portable import secrets
from reprobuild_portable.secrets import search
from reprobuild_portable.secrets.judges import has_marks
from reprobuild_portable.secrets.rules import VALUES, select_rules
from tests.snapshot.samples import SECRETS
from tests.snapshot.shapes import SHAPES, fill

ROOT = Path(__file__).parents[2]
WHOLE = 1 << 40  # one block, as if there were none
NAMELESS = "aws-secret-value"
PIECES = (
    *SECRETS.values(),
    *(fill(shape, random.Random(name))[0] for name, shape in SHAPES.items()),
    *("@", "a_key:", "token", " -p ", "password = x1", "\r", "", " ", "name: DB_TOKEN", "value: "),
    "Größe", "-----BEGIN CERT",
)  # fmt: skip


def found_with(
    block: int, text: bytes, most: int | None = None, many: int = search._MANY
) -> list[tuple[int, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_BLOCK", block)
        patch.setattr(search, "_MANY", many)
        return secrets.find(text, most)


@settings(max_examples=60)
@given(
    parts=st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=20)), max_size=30),
    between=st.sampled_from(["\n", " ", ""]),
    block=st.sampled_from([1, 40, 1000]),
    most=st.sampled_from([None, 0, 1, 3]),
    many=st.sampled_from([0, 100]),
)
def test_blocks_change_nothing(
    parts: list[str], between: str, block: int, most: int | None, many: int
) -> None:
    text = between.join(parts).encode("utf-8", "replace")
    assert found_with(block, text, most, many) == found_with(WHOLE, text)[:most]


@pytest.mark.parametrize("block", [300, search._BLOCK])
def test_blocks_change_nothing_in_our_own_files(block: int) -> None:
    files = [
        *ROOT.glob("reprobuild_portable/secrets/*.py"),
        *ROOT.glob("tests/snapshot/*.py"),
        *ROOT.glob("docs/*.md"),
    ]
    text = b"\n".join(file.read_bytes() for file in sorted(files))
    whole = found_with(WHOLE, text)
    assert whole
    assert found_with(block, text) == whole


def test_a_mark_in_a_long_word_counts_in_every_block() -> None:
    """What is known of a text from its long words is known of each part of it."""
    lines = [SECRETS[rule] for rule in sorted(SECRETS)]
    text = "\n\n".join([*lines, *["plain words"] * 20, *reversed(lines)]).encode()
    assert found_with(1, text) == found_with(WHOLE, text)
    assert len(found_with(1, text)) >= 2 * len(lines)


def test_many_secrets_without_marks_are_found() -> None:
    source = random.Random(7)
    values = [
        "".join(source.choices(string.ascii_letters + string.digits, k=40)) for _ in range(search._MANY + 50)
    ]
    text = "\n".join(line for value in values for line in (f"x = {value}", "nothing", f"_{value}")).encode()
    found = found_with(500, text)
    assert found == found_with(WHOLE, text, many=len(values))
    assert len([rule for _, rule in found if rule == NAMELESS]) > search._MANY


@pytest.mark.parametrize("line", [b"@\n", b"a_key:\n"])
def test_only_the_lines_of_a_block_are_kept_in_mind(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    places: Callable[..., list[tuple[int, int]]] = search._find_marked_lines

    def counted(*args: object) -> list[tuple[int, int]]:
        found = places(*args)
        kept.append(len(found))
        return found

    monkeypatch.setattr(search, "_find_marked_lines", counted)
    assert secrets.find(line * ((1 << 18) // len(line))) == []
    assert 0 < max(kept) <= (1 << 16) // len(line) + 1


@pytest.mark.parametrize("row", ['"curl",\n', '["curl","-a",\n', 'f("mysql","-pa")\n', "s.login('a',\n"])
def test_many_lists_take_no_long_time(row: str) -> None:
    """A list may go on for some lines, and each is judged once."""
    began = time.process_time()
    assert secrets.find((row * (1_000_000 // len(row))).encode()) == []
    assert time.process_time() - began < 4


def test_a_list_is_named_by_the_line_of_its_program() -> None:
    text = 'x = 1\nrun([\n    "mysql",\n    "-u", "ada",\n    "-pS3cret9xYz",\n])\nrun(["mysql", "-pS3cret9xYz"])\n'
    assert secrets.find(text.encode()) == [(3, "command-list"), (7, "command-list")]
    patch = "".join(f"+{line}\n" for line in text.splitlines())
    assert secrets.find(patch.encode()) == [(3, "command-list"), (7, "command-list")]
    assert "S3cret9xYz" not in secrets.redact(text)


@pytest.mark.parametrize(
    "text", ["", "plain", "mc alias set a http://h x Y1", "TOKEN=sk-1 curl -u a:b https://u:p@h/"]
)
def test_the_rules_of_a_text_are_those_with_a_mark_in_it(text: str) -> None:
    """An address is searched by few rules: a value of a variable may have thousands of addresses."""
    assert select_rules(text) == [rule for rule in VALUES if has_marks(rule, text.lower())]
    assert len(select_rules(text)) < len(VALUES) / 3


def test_each_mark_selects_its_rules_at_any_place() -> None:
    for rule in VALUES:
        for mark in rule.marks:
            for text in (mark, f"x{mark.upper()}", f"{mark}x", f"=={mark}=="):
                assert select_rules(text) == [rule for rule in VALUES if has_marks(rule, text.lower())]


def test_selecting_the_rules_of_a_line_takes_less_than_a_third_of_looking_for_each_mark() -> None:
    line, marks = "numpy==1.26.4", [mark for rule in VALUES for mark in rule.marks]
    select = min(timeit.repeat(lambda: select_rules(line), number=200, repeat=5))
    assert 3 * select < min(timeit.repeat(lambda: [mark in line for mark in marks], number=200, repeat=5))
