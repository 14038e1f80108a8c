"""Requests of an environment.yml in two snapshots: other requests are a doubt, and equal ones are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.snapshot.read import read_snapshot
from tests.compare.samples import compared, make_snapshot
from tests.compare.test_statements import freezes, grave, of_files, shown

LONG = ",".join(f"!=1.{number}" for number in range(300))
TOKEN = "token=ghp_" + "a" * 36


def requests(folder: Path, text: str, one: str, other: str, freeze: str = "") -> list[tuple[str, ...]]:
    """Return the places in doubt of two files that differ here, in which nothing else differs."""
    more = {"requirements_txt": freeze} if freeze else {}
    files = [{"environment_yml": text.replace("@", side), **more} for side in (one, other)]
    for side in files:
        same = of_files(folder / f"same-{len(list(folder.glob('*')))}", side, side)
        assert [row for row in grave(same) if row[0] == "file"] == []
    found = of_files(folder / "pair", *files)
    assert shown(found) == []
    return [names for kind, _, names in grave(found) if kind == "file"]


@pytest.mark.parametrize(
    ("text", "one", "other", "place"),
    [
        (f"dependencies: [python=3.11, 'numpy >=1,{LONG},@']\n", "<2", "<3", "environment.yml:1"),
        (f"dependencies:\n- python=3.11\n- numpy >=1,{LONG},@\n", "<2", "<3", "environment.yml:3"),
        (
            "{channels: [@], dependencies: [python=3.11, numpy]}",
            "c",
            "c, nodefaults",
            "environment.yml: channels",
        ),
        ("{channels: [@], dependencies: [python=3.11, numpy]}", "a, b", "a b", "environment.yml: channels"),
        ("{channels: [@], dependencies: [python=3.11, numpy]}", "a, b", "b, a", "environment.yml: channels"),
        ("{dependencies: [python=3.11, {pip: ['foo@==1']}]}", "", "[gpu]", "environment.yml:1"),
        ("dependencies: [a=1=0, {pip: ['foo@==1']}]", "", "[gpu]", "environment.yml:1"),
    ],
)
def test_other_requests_are_in_doubt(text: str, one: str, other: str, place: str, tmp_path: Path) -> None:
    expected = [(place,)] * (1 if one == "" else 2)
    assert requests(tmp_path, text, one, other) == expected


def test_an_escaped_character_is_not_the_text_of_its_escape(tmp_path: Path) -> None:
    found = requests(tmp_path, '{dependencies: [python=3.11, "foo @"]}', r"\x1b", r"\\x1b")
    assert [places[0] for places in found] == ["environment.yml:1"] * 2


def test_a_channel_and_a_request_may_not_change_places(tmp_path: Path) -> None:
    text = "{channels: [%s], dependencies: [python=3.11, %s]}"
    files = [{"environment_yml": text % pair} for pair in (("pytorch", "numpy"), ("numpy", "pytorch"))]
    places = ("environment.yml:1", "environment.yml: channels")
    assert [names for _, _, names in grave(of_files(tmp_path, *files))] == [places] * 2


def test_a_request_without_its_secret_equals_no_other(tmp_path: Path) -> None:
    file = {"environment_yml": f"dependencies:\n- python=3.11\n- numpy>=1 {TOKEN}\n"}
    found = of_files(tmp_path, file, file)
    assert ("environment.yml:3",) in [names for _, _, names in grave(found)]


FREEZE = "numpy==1.26\ntorch==2.1\n"


@pytest.mark.parametrize(
    ("one", "other", "places"),
    [
        ("cudatoolkit=11.8", "cudatoolkit=12.1", [("environment.yml:3",)] * 2),
        ("mkl<2024", "mkl>2024", [("environment.yml:3",)] * 2),
        ("numpy<2", "numpy<3", []),
        ("pytorch=2.0", "pytorch=2.1", []),
        ("python=3.11", "python=3.12", []),
        ("pip<23", "pip>23", []),
    ],
)
def test_a_freeze_does_not_answer_for_packages_of_conda(
    one: str, other: str, places: list[tuple[str, ...]], tmp_path: Path
) -> None:
    text = "dependencies:\n  - python\n  - '@'\n"
    assert requests(tmp_path, text, one, other, FREEZE) == places


def test_requests_beside_a_freeze_are_no_part_of_the_digest(tmp_path: Path) -> None:
    text = "dependencies:\n  - python=3.11.8=0\n  - mkl\n"
    found = read_snapshot(
        make_snapshot(tmp_path / "a", environment_yml=text, requirements_txt="six==1.16.0\n")
    )
    assert [request.name for request in found.conda_beside] == ["mkl"]
    assert found.conda_requests == ()
    assert found.digest == "67b3e97648c435d1e6c05c58a2b287137a3fed4350a32d42f062cadd0c77f479"


def test_a_list_of_conda_answers_all_requests(tmp_path: Path) -> None:
    listed = "mkl 2023 h1_0 conda-forge\n"
    files = [
        {"environment_yml": f"dependencies: [{name}]\n", "conda_list_txt": listed, "requirements_txt": FREEZE}
        for name in ("mkl<2024", "mkl")
    ]
    assert compared(*(make_snapshot(tmp_path / f"{n}", **side) for n, side in enumerate(files))).is_same
    assert [row for row in grave(of_files(tmp_path / "both", *files)) if row[0] == "file"] == []


@pytest.mark.parametrize("marker", ['; sys_platform == "win32"', '; python_version < "3.6"'])
def test_markers_beside_an_exact_build_of_conda(marker: str, tmp_path: Path) -> None:
    text = "dependencies:\n  - python=3.11.8=0\n  - pip:\n    - six==1\n    - foo==1.0{}\n"
    found = of_files(tmp_path, {"environment_yml": text.format("")}, {"environment_yml": text.format(marker)})
    assert shown(found) == [("foo", "1.0", None)]
    there = '; sys_platform == "linux"'
    found = of_files(
        tmp_path / "x", {"environment_yml": text.format("")}, {"environment_yml": text.format(there)}
    )
    assert shown(found) == []


def test_shortened_lines_of_a_freeze_equal_no_other(tmp_path: Path) -> None:
    found = freezes(tmp_path, f"foo>=1,{LONG},<2", f"foo>=1,{LONG},<3")
    assert [(kind, len(names)) for kind, _, names in grave(found)] == [("python", 1)] * 2
