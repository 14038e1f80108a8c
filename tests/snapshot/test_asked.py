"""What an environment.yml asks for without a version: beside a freeze, beside lists of conda's, and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.resolve.line_resolutions import rule_unread
from reprobuild.snapshot.read import read_snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
HEAD = """name: e
dependencies:
  - ca-certificates=2024.2.2=h1_0
  - openssl=3.2.1=h1_0
  - python=3.11.8=h1_0_cpython
  - numpy
  - pip:
"""
ALONE = "it says what was asked for, and no file beside it what was installed"


def read(tmp_path: Path, pip: str, **beside: str) -> tuple[list[tuple[int, str, str]], list[tuple[int, str]]]:
    """Return the requirements of the file, and the lines of it that stay unresolved."""
    (tmp_path / "environment.yml").write_text(HEAD + "".join(f"      - {one}\n" for one in pip.split("\n")))
    for name, content in beside.items():
        (tmp_path / f"{name.replace('_', '-')}.txt").write_text(content)
    found = read_snapshot(tmp_path)
    lines = [
        (one.place.line, one.kind, one.name) for one in found.requirements if one.place.file.endswith("yml")
    ]
    return lines, [(one.line, one.reason) for one in rule_unread(found) if one.file.endswith("yml")]


def test_alone_its_lines_for_pip_are_a_freeze(tmp_path: Path) -> None:
    pip = f"mypkg @ git+https://git.example.org/x/y@{COMMIT}\ngit+https://git.example.org/z.git\nrequests\nfoo==1.0"
    lines, unread = read(tmp_path, pip + "\n-r other.txt\n--no-deps\n-e /home/u/tool")
    assert lines == [(8, "vcs", "mypkg"), (10, "index", "requests"), (14, "editable", "tool")]
    assert unread == [
        (6, f"{ALONE}: - numpy"),
        (12, "it names another file, which was not captured: -r other.txt"),
        (9, "not a form that `pip freeze` prints: git+https://git.example.org/z.git"),
    ]
    snapshot = read_snapshot(tmp_path)
    assert snapshot.requirements[0].commit == COMMIT
    assert [one.name for one in snapshot.conda if one.channel == "pypi"] == ["foo"]


def test_beside_a_freeze_it_tells_nothing_more(tmp_path: Path) -> None:
    pip = f"mypkg @ git+https://git.example.org/x/y@{COMMIT}\nrequests"
    assert read(tmp_path, pip, requirements="requests==2.0\n") == ([], [])


def test_beside_a_list_of_condas_only_repositories_are_missing(tmp_path: Path) -> None:
    listed = (
        "python 3.11.8 h1_0_cpython\nnumpy 1.26.4 py311_0\nrequests 2.0 pypi_0 pypi\nmypkg 1.0 pypi_0 pypi\n"
    )
    pip = f"mypkg @ git+https://git.example.org/x/y@{COMMIT}\nrequests"
    assert read(tmp_path, pip, conda_list=listed) == ([(8, "vcs", "mypkg")], [])


def test_a_file_written_by_hand_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies:\n  - python=3.11\n  - numpy\n  - pip: [a, b]\n")
    found = read_snapshot(tmp_path)
    assert [(one.line, one.outcome, one.kind) for one in rule_unread(found)] == [
        (2, "unresolved", "unread-line"), (3, "unresolved", "unread-line"), (4, "unresolved", "unread-line"),
    ]  # fmt: skip
    assert [one.name for one in found.requirements] == ["a"]


def test_a_secret_and_two_of_one_name(tmp_path: Path) -> None:
    lines, _ = read(tmp_path, f"mypkg @ git+https://u:hunter2@git.example.org/x/y@{COMMIT}")
    assert lines == [(8, "vcs", "mypkg")]
    assert "hunter2" not in str(read_snapshot(tmp_path))
    with pytest.raises(
        SnapshotError, match=r"environment.yml:9: `a` is pinned again, and differently"
    ) as caught:
        read(tmp_path, "a @ https://f.example.org/a-1-py3-none-any.whl\na @ https://g.example.org/a-2.zip")
    assert caught.value.hint == "keep the line of the environment that ran, or capture that environment alone"
