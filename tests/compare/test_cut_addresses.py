"""Addresses without their logins and tokens: what was cut out of them may be another origin, which is a doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from reprobuild.compare.environments.addresses import CUT
from tests.compare.samples import compared, info, make_image, make_snapshot
from tests.compare.test_statements import freezes, grave, of_files, shown

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
OTHER = "ghp_" + "A9b8C7d6E5f4" * 3
WHEEL = "foo-1-py3-none-any.whl"
SUM = "#sha256=" + "a" * 64
HIDING = [
    pytest.param(f"foo @ https://h.example/%s/{WHEEL}", TOKEN, OTHER, id="path"),
    pytest.param(f"foo @ https://h.example/{WHEEL}?token=%s", TOKEN, OTHER, id="query"),
    pytest.param(f"foo @ https://h.example/{WHEEL}%s", "", "?token=abcdef", id="a query of one side"),
    pytest.param(f"foo @ https://%s@h.example/{WHEEL}", "u:good1", "evil:pw2", id="login"),
    pytest.param(f"foo @ https://%sh.example/{WHEEL}", "", "evil:pw2@", id="a login of one side"),
    pytest.param(f"foo @ file:///x/%s/{WHEEL}", TOKEN, OTHER, id="file"),
    pytest.param("foo @ git+https://h.example/%s/a.git@main", TOKEN, OTHER, id="repository"),
    pytest.param("-e git+https://h.example/%s/a.git@main#egg=foo", TOKEN, OTHER, id="editable"),
    pytest.param("foo @ https://h.example/foo-1.tar.gz#subdirectory=%s", TOKEN, OTHER, id="subdirectory"),
    pytest.param(
        "foo @ https://h.example/foo-1.tar.gz" + SUM + "&subdirectory=%s", TOKEN, OTHER,
        id="subdirectory of one file"
    ),
    pytest.param(
        f"foo @ git+https://h.example/a.git@{'c' * 40}#subdirectory=%s", TOKEN, OTHER, id="subdirectory of a commit"
    ),
]  # fmt: skip
PROVEN = [
    pytest.param(f"foo @ https://h.example/%s/{WHEEL}{SUM}", TOKEN, OTHER, id="sha256"),
    pytest.param(f"foo @ https://%s@h.example/{WHEEL} --hash=sha256:{'a' * 64}", "u:a", "v:b", id="hash"),
    pytest.param(f"foo @ git+https://%s@h.example/a.git@{'c' * 40}", "u:a", "v:b", id="commit"),
]


def environment(line: str) -> dict[str, Any]:
    """Return the file of an environment whose line for pip is written with an escape, as no search reads it."""
    escaped = "".join(rf"\x{ord(letter):02x}" for letter in line)
    return {"environment_yml": f'dependencies:\n- a=1=0\n- pip:\n  - "{escaped}"\n'}


def doubted(names: list[tuple[str, str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    return [found for _, reason, found in names if reason == CUT]


@pytest.mark.parametrize(("text", "one", "other"), HIDING)
def test_what_was_cut_may_be_another_origin(text: str, one: str, other: str, tmp_path: Path) -> None:
    found = freezes(tmp_path / "freeze", text % one, text % other)
    assert shown(found) == []
    assert doubted(grave(found)) == [("foo",)]
    assert TOKEN not in repr(found)
    assert "good1" not in repr(found)
    if not text.startswith("-e"):
        found = of_files(tmp_path / "environment", environment(text % one), environment(text % other))
        assert shown(found) == []
        assert doubted(grave(found)) == [("foo",)]


@pytest.mark.parametrize(("text", "one", "other"), HIDING)
def test_one_whole_address_is_no_doubt(text: str, one: str, other: str, tmp_path: Path) -> None:
    for index, value in enumerate((one, other)):
        found = freezes(tmp_path / f"freeze-{index}", f"{text % value}  # mine", text % value)
        assert (shown(found), grave(found)) == ([], [])
        line = environment(text % value)
        found = of_files(tmp_path / f"environment-{index}", line, line)
        assert (shown(found), doubted(grave(found))) == ([], [])


@pytest.mark.parametrize(("text", "one", "other"), PROVEN)
def test_a_file_and_a_commit_are_the_same_at_each_address(
    text: str, one: str, other: str, tmp_path: Path
) -> None:
    found = freezes(tmp_path, text % one, text % other)
    assert (shown(found), grave(found)) == ([], [])


def test_an_address_that_was_cut_before_equals_no_other(tmp_path: Path) -> None:
    line = f"foo @ https://h.example/***/{WHEEL}"
    assert doubted(grave(freezes(tmp_path / "one", line, line))) == [("foo",)]
    assert doubted(grave(freezes(tmp_path / "proven", line + SUM, line + SUM))) == []


def test_a_difference_that_is_shown_needs_no_doubt(tmp_path: Path) -> None:
    address = f"foo @ https://%sexample/{WHEEL}"
    found = freezes(tmp_path, address % "u:a@h.", address % "v:b@i.")
    assert [name for name, _, _ in shown(found)] == ["foo"]
    assert grave(found) == []


def test_the_address_in_an_image(tmp_path: Path) -> None:
    def image(called: str, url: str, **archive: str) -> Path:
        record = json.dumps({"url": url, "archive_info": archive})
        return make_image(tmp_path / called, *info("foo", "1", direct_url=record))

    address = f"https://h.example/%s/{WHEEL}"
    one, other = image("one", address % TOKEN), image("other", address % OTHER)
    again = image("again", address % TOKEN)
    snapshot = make_snapshot(tmp_path / "snapshot", requirements_txt=f"foo @ {address % TOKEN}\n")
    assert doubted(grave(compared(one, other))) == [("foo",)]
    assert compared(one, other).is_same
    assert doubted(grave(compared(one, again))) == []
    assert doubted(grave(compared(snapshot, again))) == []
    assert doubted(grave(compared(snapshot, other))) == [("foo",)]
    hashed = [image(f"hashed-{t[-3:]}", address % t, hash=f"sha256={'a' * 64}") for t in (TOKEN, OTHER)]
    assert doubted(grave(compared(*hashed))) == []


def test_an_encoded_token_is_cut_from_no_address(tmp_path: Path) -> None:
    """The encoded ones are shown, or the line is not read, which is a doubt itself."""
    lines = [
        f"foo @ file:///x/{quote(token[0])}%{ord(token[1]):x}{token[2:]}/{WHEEL}" for token in (TOKEN, OTHER)
    ]
    found = freezes(tmp_path, lines[0], lines[1])
    assert [kind for kind, _, _ in grave(found)] == ["file", "file"]
