from __future__ import annotations

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text, escape_text
from reprobuild.report.html.markup import attribute_text
from reprobuild.snapshot import text
from reprobuild.snapshot.parsers import pip_freeze


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends(encoding: str, end: str) -> None:
    assert text.decode_lines(end.join(["a==1", "ü==2", ""]).encode(encoding), "f") == ["a==1", "ü==2", ""]


def test_utf16_big_endian() -> None:
    assert text.decode_lines(b"\xfe\xff" + "a==1\n".encode("utf-16-be"), "f") == ["a==1", ""]


@pytest.mark.parametrize("other", ["\x0b", "\x0c", "\x85", "\u2028", "\r"])
def test_only_line_feeds_end_a_line(other: str) -> None:
    assert len(text.decode_lines(f"a{other}b\nc".encode(), "f")) == 2


def test_undecodable_bytes_name_the_line() -> None:
    with pytest.raises(SnapshotError, match=r"requirements.txt:2: byte 6 is not UTF-8 text") as err:
        pip_freeze.parse(b"a==1\nb\xff==2\n")
    assert "iconv" in err.value.hint


def test_a_nul_names_the_line() -> None:
    with pytest.raises(SnapshotError, match=r"requirements.txt:2: there is a NUL byte") as err:
        pip_freeze.parse(b"a==1\nb\0==2\n" + b"c==3\n" * 9)
    assert "damaged" in err.value.hint


def test_utf16_without_its_mark() -> None:
    with pytest.raises(SnapshotError, match="NUL") as err:
        text.decode("PATH=/bin\nHOME=/root\n".encode("utf-16-le"), "env.txt", nul=True)
    assert "UTF-16" in err.value.hint


def test_too_large() -> None:
    with pytest.raises(SnapshotError, match="64 MiB") as err:
        text.check_size(text.LIMIT + 1, "env.txt")
    assert "what wrote it" in err.value.hint


@pytest.mark.parametrize("bad", ["\x1b[31m", "\x07", "\x9b31m", "\u202e", "\u2028", "\ud800"])
def test_nothing_that_acts_on_a_terminal_is_shown(bad: str) -> None:
    assert display_text(f"a{bad}b").isprintable()


def test_long_lines_are_not_shown_whole() -> None:
    assert len(display_text("x" * 1500)) == 1001
    assert display_text("x" * 30_000) == "(30000 characters: too long to show)"


@pytest.mark.parametrize(
    "line",
    [
        "$ pip freeze",
        "(venv) me@host:~/work$ pip freeze",
        "[me@host ~]$ module list",
        "[root@pod projects]# ",
        "PS C:\\work> pip freeze",
        "pip3 list",
        ":sudo apt list x --installed",
        "uv pip freeze",
        "bash: module: command not found",
    ],
)
def test_prompts_and_commands(line: str) -> None:
    assert text.noise_remark("f", 1, line) is not None


@pytest.mark.parametrize(
    "line", ["pip==24.0", "x @ https://example.org/x-1.tar.gz", "adduser/stable 1 all", "A=$"]
)
def test_captured_lines_are_no_prompts(line: str) -> None:
    assert text.noise_remark("f", 1, line) is None


@pytest.mark.parametrize(
    "code",
    [0x34F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x180F, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xE0100, 0xE01EF],
    ids=hex,
)  # fmt: skip
def test_what_paints_nothing_is_escaped(code: int) -> None:
    """Two names that differ in it alone would look like one."""
    shown = escape_text(f"a{chr(code)}b")
    assert shown == (f"a\\u{code:04x}b" if code < 0x10000 else f"a\\U{code:08x}b")
    assert chr(code) not in attribute_text(f"a{chr(code)}b")
