"""The Python that a question proposes: the newest that date, format and pins allow, and only as an option to copy."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.cli.main import run_line
from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError
from reprobuild.resolve.interpreter.proposal import (
    PythonLimits,
    is_allowed_by,
    propose_python,
    read_python_releases,
)
from reprobuild.resolve.readiness import list_questions
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.model import Snapshot
from tests.resolve.served import Served
from tests.resolve.small import around, snapshot
from tests.resolve.test_files import Index

NO_PYTHON = "no file of the snapshot shows which Python it was"
NEWEST = read_python_releases()[-1].minor
DAY = "2024-01-15T00:00:00Z"


def proposed(**limits: object) -> str:
    proposal = propose_python(PythonLimits(**limits))  # type: ignore[arg-type]  # a case names some fields
    return f"{proposal.minor} {proposal.reason}" if proposal else ""


def test_the_table_has_each_minor_version_with_its_source() -> None:
    releases = read_python_releases()
    assert [release.minor for release in releases] == [
        f"3.{number}" for number in range(6, 6 + len(releases))
    ]
    days = {release.minor: (str(release.day), release.pep) for release in releases}
    assert days["3.8"] == ("2019-10-14", 569)
    assert days["3.14"] == ("2025-10-07", 745)


@pytest.mark.parametrize(
    ("limits", "answer"),
    [
        ({}, ""),
        ({"moment": DAY, "date": "2024-01-14"}, "3.12 released by 2024-01-14"),
        ({"moment": "2023-10-02T00:00:00Z", "date": "2023-10-01"}, "3.11 released by 2023-10-01"),
        ({"moment": "2023-10-03T00:00:00Z", "date": "2023-10-02"}, "3.12 released by 2023-10-02"),
        ({"moment": "2010-01-01T00:00:00Z", "date": "2010-01-01"}, ""),
        ({"requires": ">=3.9"}, ""),
        ({"requires": ">=3.9", "locked": True}, f"{NEWEST} in the range >=3.9"),
        ({"requires": "no range", "locked": True}, ""),
        ({"locked": True}, ""),
        ({"requires": ">=3.9,<3.12"}, "3.11 in the range >=3.9,<3.12"),
        ({"requires": "==3.10.*"}, "3.10 in the range ==3.10.*"),
        ({"requires": "no range", "pinned": ("3.9",)}, "3.9 with a file for each pinned release"),
        ({"pinned": ("3.7", "3.8")}, "3.8 with a file for each pinned release"),
        ({"pinned": ()}, ""),
        (
            {"moment": DAY, "date": "the day", "requires": "<3.12", "pinned": ("3.8", "3.9", "3.12")},
            "3.9 released by the day, in the range <3.12, with a file for each pinned release",
        ),
    ],
)  # fmt: skip
def test_the_newest_that_all_facts_allow(limits: dict[str, object], answer: str) -> None:
    assert proposed(**limits) == answer


@pytest.mark.parametrize(
    ("requires", "answer"),
    [("", True), (">3.11.4", True), ("<3.11", False), ("==3.11.9", True), ("???", True)],
)
def test_a_range_allows_a_minor_version_by_one_patch_release(requires: str, answer: bool) -> None:
    assert is_allowed_by("3.11", requires) is answer


def test_a_question_proposes_by_date_or_by_the_start_of_the_run() -> None:
    lines = Snapshot(digest="")
    question = list_questions(lines, Decisions(as_of="2022-11-01"))[1]
    assert (question.text, question.options) == (
        f"Python: {NO_PYTHON}; 3.11 is the newest released by the end of 2022-11-01", ("--python 3.11",),
    )  # fmt: skip
    facts = ImportFacts(format="x", started="2021-12-01T10:00:00+00:00", requires_python="<3.10")
    run = msgspec.structs.replace(lines, imported=facts)
    question = list_questions(run, Decisions())[1]
    assert question.options == ("--python 3.9",)
    assert question.text.endswith("released by 2021-12-01T10:00:00+00:00, in the range <3.10")
    assert [one.options for one in list_questions(run, Decisions(python="3.9"))] == [
        (),
        ("--accept no-apt-list",),
    ]


POETRY = '[metadata]\nlock-version = "2.0"\npython-versions = "{}"\n'
PACKAGE = '[[package]]\nname = "six"\nversion = "1.16.0"\noptional = false\nfiles = []\n'


RANGES = [
    ("poetry.lock", PACKAGE + POETRY.format(">=3.8,<3.11"), "--python 3.10"),
    ("poetry.lock", PACKAGE + POETRY.format("^3.9, !=3.9.1, <3.12"), "--python 3.11"),
    ("poetry.lock", PACKAGE + POETRY.format("^3.9 || ^2.7"), "--python X.Y.Z"),
    ("poetry.lock", PACKAGE + POETRY.format("^3.9"), f"--python {NEWEST}"),
    (
        "pdm.lock",
        '[metadata]\n[[metadata.targets]]\nrequires_python = "==3.9.*"\n'
        '[[package]]\nname = "six"\nversion = "1.16.0"\n',
        "--python 3.9",
    ),
    (
        "pylock.toml",
        'lock-version = "1.0"\ncreated-by = "x"\nrequires-python = "<3.13"\n[[packages]]\nname = "six"\n'
        'version = "1.16.0"\n[[packages.wheels]]\nurl = "https://f.example/six-1.16.0-py3-none-any.whl"\n'
        f'hashes = {{sha256 = "{"0" * 64}"}}\n',
        "--python 3.12",
    ),
    (
        "uv.lock",
        'version = 1\nrequires-python = ">=3.9, <3.12"\n[[package]]\nname = "job"\nversion = "1"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "six" }]\n[[package]]\nname = "six"\n'
        'version = "1.16.0"\nsource = { registry = "https://index.example.org/simple" }\n'
        'sdist = { url = "https://index.example.org/six-1.16.0.tar.gz", hash = "sha256:'
        f'{"0" * 64}" }}\n',
        "--python 3.11",
    ),
    (
        "uv.lock",
        'version = 1\nrevision = 2\nrequires-python = ">=3.10"\n[[package]]\nname = "job"\nversion = "1"\n'
        'source = { virtual = "." }\ndependencies = [{ name = "six" }]\n[[package]]\nname = "six"\n'
        'version = "1.16.0"\nsource = { registry = "https://index.example.org/simple" }\n'
        'sdist = { url = "https://index.example.org/six-1.16.0.tar.gz", hash = "sha256:'
        f'{"0" * 64}" }}\n',
        f"--python {NEWEST}",
    ),
    ("setup.cfg", "[options]\npython_requires = >=3.9\ninstall_requires = six\n", "--python X.Y.Z"),
    (
        "Pipfile.lock",
        '{"_meta": {"requires": {"python_version": "3.10"}}, "default": {"six": {"version": "==1.16.0"}}}',
        "--python 3.10",
    ),
    ("README.md", "# m\n### Framework versions\n- Python: 3.11\n- Pytorch 2.1.0\n", "--python 3.11"),
    ("requirements.txt", "six==1.16.0\n", "--python X.Y.Z"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "option"), RANGES)
def test_show_proposes_by_the_range_of_the_format(
    name: str, text: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert run_line(["show", str(tmp_path / name)]) == 0
    assert f" {option} " in f"{capsys.readouterr().out.splitlines()[-1]} "


LOCKS = {name: text for name, text, _ in RANGES if "lock" in name and name != "Pipfile.lock"}
PROJECT = (
    '[project]\nname = "job"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["six==1.16.0"]\n'
)


@pytest.mark.parametrize("name", [*LOCKS, "pyproject.toml"])
@pytest.mark.parametrize(("pin", "option"), [("3.10\n", "--python 3.10"), ("3.14\n3.12\n", "--python 3.14")])
def test_a_file_of_pyenv_and_uv_says_more_than_a_range(
    name: str, pin: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(LOCKS.get(name, PROJECT))
    (tmp_path / ".python-version").write_text(pin)
    assert run_line(["show", str(tmp_path)]) == 0
    assert f" {option} " in f"{capsys.readouterr().out.splitlines()[-1]} "


def test_a_lock_proposes_by_the_files_of_the_pins(served: Served, tmp_path: Path) -> None:
    """One pin has wheels for two Pythons, another requires a newer one, and a marker keeps a third out."""
    index = Index(served)
    for tag in ("cp38", "cp39"):
        index.add(f"one-1.0-{tag}-{tag}-manylinux_2_17_x86_64.whl")
    index.add("two-1.0-py3-none-any.whl", **{"requires-python": ">=3.9"})
    index.add("win-1.0-cp312-cp312-win_amd64.whl")
    held = snapshot(
        tmp_path / "snapshot", apt_packages="",
        requirements="one==1.0\ntwo==1.0\nwin==1.0 ; sys_platform == 'win32'\ngone==1.0\n",
    )  # fmt: skip
    context = msgspec.structs.replace(
        around(tmp_path), indexes=PackageIndexes(find_links=(), simple=(index.url,), credentials={})
    )
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(accept=("no-apt-list",)), context)
    assert str(caught.value) == f"{NO_PYTHON}; 3.9 is the newest with a file for each pinned release"
    assert caught.value.hint.endswith("; proposed: --python 3.9")
    with pytest.raises(LockError) as caught:
        resolve_snapshot(held, Decisions(), context)
    assert (
        str(caught.value).splitlines()[0]
        == f"{NO_PYTHON}; 3.9 is the newest with a file for each pinned release"
    )
    assert caught.value.hint.endswith("; all answers at once: --python 3.9 --accept no-apt-list")
