"""Addresses without their logins and tokens: what was cut out of them may be another origin, which is a doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from reprobuild.compare.environments.addresses import CUT
from reprobuild.compare.environments.comparison import EnvironmentComparison
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

BUILD = "linux-64/mkl-2023-h1_0.conda"
MD5 = "#" + "b" * 32
HIDING_CHANNELS = [
    pytest.param("https://c.example.org/%s/" + BUILD, TOKEN, OTHER, id="path"),
    pytest.param("https://c.example.org/t/%s/ch/" + BUILD, "ab-12345", "cd-67890", id="conda's token"),
    pytest.param("https://c.example.org/%%74/%s/ch/" + BUILD, "ab-12345", "cd-67890", id="encoded"),
    pytest.param("https://c.example.org/%sch/" + BUILD, "", "t/cd-67890/", id="a token of one side"),
    pytest.param("https://%s@c.example.org/ch/" + BUILD, "u:good1", "evil:pw2", id="login"),
    pytest.param("https://c.example.org/ch/" + BUILD + "?token=%s", "abcdef", "ghijkl", id="query"),
    pytest.param("mkl 2023 h1_0 https://c.example.org/t/%s/ch", "ab-12345", "cd-67890", id="a row"),
    pytest.param("mkl 2023 h1_0 token:%s/ch", "good1", "evil1", id="a name"),
]
HIDING_EXPORTS = [
    pytest.param(
        "channels:\n- conda-forge\n- https://c.example.org/t/%s/ch\n", "- mkl=2023=h1_0", id="channels"
    ),
    pytest.param("", "- https://c.example.org/t/%s/ch::mkl=2023=h1_0", id="of a package"),
    pytest.param("", "  [a=1=0, 'https://c.example.org/t/%s/ch::mkl=2023=h1_0']", id="in one line"),
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


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        pytest.param("foo bar https://%sh.example/x y", "u:good1@", "u:evil:pw2@", id="login"),
        pytest.param("foo bar https://h.example/x?sig=%s y", "abcdef0123456789", "0123456789abcdef", id="query"),
    ],
)  # fmt: skip
def test_a_line_that_is_not_read_equals_its_whole_text(
    text: str, one: str, other: str, tmp_path: Path
) -> None:
    found = freezes(tmp_path / "differ", text % one, text % other)
    assert [kind for kind, _, _ in grave(found)] == ["file", "file"]
    assert one not in repr(found)
    assert grave(freezes(tmp_path / "same", text % one, text % one)) == []


def explicit(folder: Path, one: str, other: str) -> EnvironmentComparison:
    """Compare two lists of conda's, in each of which a package follows another one."""
    head = "@EXPLICIT\nhttps://c.example.org/ch/linux-64/a-1-0.conda\n"
    return of_files(
        folder, {"conda_explicit_txt": f"{head}{one}\n"}, {"conda_explicit_txt": f"{head}{other}\n"}
    )


@pytest.mark.parametrize(("text", "one", "other"), HIDING_CHANNELS)
def test_what_was_cut_may_be_another_channel(text: str, one: str, other: str, tmp_path: Path) -> None:
    found = explicit(tmp_path / "differ", text % one, text % other)
    assert shown(found) == []
    assert doubted(grave(found)) == [("mkl",)]
    assert not any(value in repr(found) for value in (TOKEN, "good1", "ab-12345", "abcdef"))
    for index, value in enumerate((one, other)):
        again = explicit(tmp_path / f"same-{index}", text % value, text % value)
        assert (shown(again), grave(again)) == ([], [])


@pytest.mark.parametrize(("head", "line"), HIDING_EXPORTS)
def test_the_channels_of_an_export(head: str, line: str, tmp_path: Path) -> None:
    one, other, again = (
        {"environment_yml": f"{head}dependencies:\n{line}\n".replace("%s", token)}
        for token in ("ab-12345", "cd-67890", "ab-12345")
    )
    found = of_files(tmp_path / "differ", one, other)
    assert shown(found) == []
    assert doubted(grave(found)) == [("mkl",)]
    assert doubted(grave(of_files(tmp_path / "same", one, again))) == []


def test_the_hash_of_a_file_decides_its_channel(tmp_path: Path) -> None:
    address = f"https://c.example.org/t/%s/ch/{BUILD}"
    one, other = address % "ab-12345", address % "cd-67890"
    for called, digest in {"md5": MD5, "sha256": "#sha256:" + "a" * 64}.items():
        found = explicit(tmp_path / called, one + digest, other + digest)
        assert (shown(found), grave(found)) == ([], [])
    found = explicit(tmp_path / "of one side", one + MD5, other)
    assert doubted(grave(found)) == [("mkl",)]
    found = explicit(tmp_path / "of one address", one + MD5, one)
    assert doubted(grave(found)) == []
    found = explicit(tmp_path / "other", one + MD5, other + "#" + "c" * 32)
    assert ([name for name, _, _ in shown(found)], grave(found)) == (["mkl"], [])


def test_one_channel_in_two_forms(tmp_path: Path) -> None:
    address = "https://c.example.org/t/%s/ch"
    head = "# packages in environment at /x:\n# Name Version Build Channel\n"
    sides = {
        called: make_snapshot(tmp_path / called, **files)
        for called, files in {
            "explicit": {"conda_explicit_txt": f"@EXPLICIT\n{address % 'ab-12345'}/{BUILD}\n"},
            "row": {"conda_list_txt": f"{head}mkl   2023 h1_0 {address % 'ab-12345'}\n"},
            "export": {"environment_yml": f"dependencies:\n- {address % 'ab-12345'}::mkl=2023=h1_0\n"},
            "name": {"conda_list_txt": f"{head}mkl 2023 h1_0 ch\n"},
        }.items()
    }
    for side in sides.values():
        assert doubted(grave(compared(sides["explicit"], side))) == []
    other = make_snapshot(tmp_path / "other", conda_list_txt=f"{head}mkl 2023 h1_0 {address % 'cd-67890'}\n")
    assert doubted(grave(compared(sides["explicit"], other))) == [("mkl",)]
    assert doubted(grave(compared(sides["name"], other))) == []  # a name is any address that ends in it


def test_a_distribution_of_conda(tmp_path: Path) -> None:
    address = "https://c.example.org/t/%s/ch/linux-64/numpy-2.0-py311h0_0.conda"
    found = explicit(tmp_path, address % "ab-12345", address % "cd-67890")
    assert [item for item in grave(found) if item[1] == CUT] == [("python", CUT, ("numpy",))]


def test_two_packages_of_one_distribution(tmp_path: Path) -> None:
    lines = [
        "https://c.example.org/t/x/ch/linux-64/pytorch-2-py311_0.conda\n"
        f"https://c.example.org/t/{token}/ch/linux-64/torch-2-py311_0.conda"
        for token in ("ab-12345", "cd-67890")
    ]
    assert doubted(grave(explicit(tmp_path, *lines))) == [("torch",)]


def test_a_lock_of_conda_with_a_name_of_escapes(tmp_path: Path) -> None:
    """The name of a file is shown with escapes, and the file is read all the same."""
    sides = [make_snapshot(tmp_path / token) for token in ("ab-12345", "cd-67890")]
    for side in sides:
        text = f"@EXPLICIT\nhttps://c.example.org/t/{side.name}/ch/{BUILD}\n"
        (side / "a\x1b.lock").write_text(text)
    assert doubted(grave(compared(*sides))) == [("mkl",)]
