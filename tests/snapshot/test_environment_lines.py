"""Items of an environment.yml that hold several lines or a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.samples import SECRETS

TOKEN = SECRETS["github"]
ESCAPED = TOKEN.replace("ghp", "\\x67hp")


def read(folder: Path, content: str) -> Snapshot:
    (folder / "environment.yml").write_text(content)
    return read_snapshot(folder)


def requests(snapshot: Snapshot) -> list[str]:
    return [request.text for request in snapshot.conda_requests]


def unclear(snapshot: Snapshot) -> list[tuple[int, str]]:
    return [(remark.place.line, remark.reason) for remark in snapshot.remarks if not remark.understood]


SEVERAL = "several lines for pip in one item: write each as its own item"


@pytest.mark.parametrize(
    "item",
    [
        '"idna==1 #\\nevil==2"', '"idna==1\\revil==2"', '"idna==1 ;\\u2028evil==2"', '"idna\\n==1"',
        "|\n      idna==1 #\n      evil==2", "'idna==1 #\n\n      evil==2'", '"idna>=1 #\\x0bevil==2"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("freeze", ["", "six==1.16.0\n"])
def test_an_item_for_pip_is_one_line(tmp_path: Path, item: str, freeze: str) -> None:
    if freeze:
        (tmp_path / "requirements.txt").write_text(freeze)
    snapshot = read(tmp_path, f"dependencies:\n- pip:\n  - requests==2.0\n  - {item}\n")
    assert (4, SEVERAL) in unclear(snapshot)
    names = {line.name for line in (*snapshot.requirements, *snapshot.conda)}
    assert names == {"requests", *(["six"] if freeze else [])}


def test_one_line_of_several_rows_is_an_item_for_pip(tmp_path: Path) -> None:
    snapshot = read(tmp_path, "dependencies:\n- pip:\n  - |\n    idna==1\n  - requests\n      ==2.0\n")
    assert [(line.name, line.version) for line in snapshot.requirements] == [
        ("idna", "1"),
        ("requests", "2.0"),
    ]


def test_a_secret_beside_a_request_leaves_its_bound(tmp_path: Path) -> None:
    snapshot = read(tmp_path, f"dependencies:\n- nala<2  # {TOKEN}\n- six=1.0=h1_0 # {TOKEN}\n")
    assert requests(snapshot) == ["nala<2"]
    assert [(package.name, package.build) for package in snapshot.conda] == [("six", "h1_0")]
    assert TOKEN not in str(snapshot)
    snapshot = read(tmp_path, f"dependencies: [nala<2, {TOKEN}, 'idna 3.*']\n")
    assert requests(snapshot) == ["nala<2", "idna 3.*"]
    assert (1, "a secret in a list that should hold none: not read") in unclear(snapshot)
    assert TOKEN not in str(snapshot)


@pytest.mark.parametrize(
    "item",
    [
        TOKEN, SECRETS["huggingface"], f"'nala\n    {TOKEN}'", f'"nala {ESCAPED}"', f"nala={TOKEN}", f"c::{TOKEN}",
        f'"six=1.0={ESCAPED}"', f"'six=\n     {TOKEN}'", f'"six=\n     {ESCAPED}"', f'"{TOKEN}::six=1.0=h1_0"',
        '"nala[url=https://joe:hunter2hunter2@h.example/six.conda]"',
    ],
)  # fmt: skip
def test_a_secret_in_an_item_is_a_question(tmp_path: Path, item: str) -> None:
    snapshot = read(tmp_path, f"dependencies:\n- six=2.0=h1_0\n- {item}\n- {{other: {item}}}\n")
    assert [package.name for package in snapshot.conda] == ["six"]
    assert requests(snapshot) == []
    assert (3, "a secret in a list that should hold none: not read") in unclear(snapshot)
    shown = str(snapshot)
    assert [word for word in (TOKEN, SECRETS["huggingface"], ESCAPED, "hunter2") if word in shown] == []


@pytest.mark.parametrize("item", [f'"foo=={ESCAPED}"', f"'foo==1\n      {TOKEN}'", f'"foo=={ESCAPED} ; x"'])
def test_a_secret_for_pip_is_a_question(tmp_path: Path, item: str) -> None:
    snapshot = read(tmp_path, f"dependencies:\n- pip:\n  - {item}\n  - idna==1\n")
    assert [line.name for line in snapshot.requirements] == ["idna"]
    assert (3, "a secret in a list that should hold none: not read") in unclear(snapshot)
    assert (TOKEN in str(snapshot), ESCAPED in str(snapshot)) == (False, False)


@pytest.mark.parametrize(
    "item", ["'nala <2\\tx'".replace("'", '"'), '"nala\\u200b<2"', f"nala>={'1.' * 2500}0", '"##[nala]"']
)
def test_a_request_that_cannot_be_kept_whole_is_a_question(tmp_path: Path, item: str) -> None:
    snapshot = read(tmp_path, f"dependencies:\n- idna<2\n- {item}\n")
    assert requests(snapshot) == ["idna<2"]
    assert 3 in {line for line, _ in unclear(snapshot)}


def test_a_long_request_is_solved_whole(tmp_path: Path) -> None:
    spec = "nala>=1," + ",".join(f"!=1.{at}" for at in range(300)) + ",<2"
    assert len(spec) > 1000
    assert requests(read(tmp_path, f"dependencies:\n- {spec}\n")) == [spec]


def test_a_channel_of_a_request_has_no_login(tmp_path: Path) -> None:
    snapshot = read(tmp_path, "dependencies:\n- https://joe:hunter2hunter2@h.example/c::nala<2\n")
    assert requests(snapshot) == ["https://h.example/c::nala<2"]
    assert "hunter2" not in str(snapshot)


def test_variables_of_merged_keys_are_not_kept(tmp_path: Path) -> None:
    snapshot = read(
        tmp_path,
        "dependencies:\n- idna<2\n<<:\n- {variables: {A: blah}}\n- <<:\n    variables:\n      B: blah\n    x: 1\n",
    )
    assert "blah" not in str(snapshot)
    assert {4, 5, 8} <= {line for line, _ in unclear(snapshot)} | {
        remark.place.line for remark in snapshot.remarks
    }
