"""What an environment.yml asks for without a version: beside a freeze, beside lists of conda's, and alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.lock.file import read_lock
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.line_resolutions import UNREAD, open_conda_requests, rule_conda_requests, rule_unread
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import reprobuild

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
    return lines, [
        (one.line, one.reason)
        for one in rule_unread(found)
        if one.file.endswith("yml") and one.kind == UNREAD
    ]


def test_alone_its_lines_for_pip_are_a_freeze(tmp_path: Path) -> None:
    pip = f"mypkg @ git+https://git.example.org/x/y@{COMMIT}\ngit+https://git.example.org/z.git\nrequests\nfoo==1.0"
    lines, unread = read(tmp_path, pip + "\n-r other.txt\n--no-deps\n-e /home/u/tool")
    assert lines == [(8, "vcs", "mypkg"), (10, "index", "requests"), (14, "editable", "tool")]
    assert unread == [
        (12, "it names another file, which was not captured: -r other.txt"),
        (9, "not a form that `pip freeze` prints: git+https://git.example.org/z.git"),
    ]
    snapshot = read_snapshot(tmp_path)
    assert snapshot.requirements[0].commit == COMMIT
    assert [(one.name, one.place.line) for one in open_conda_requests(snapshot)] == [("numpy", 6)]
    assert [remark.reason for remark in snapshot.remarks if remark.place.line == 6] == [ALONE]
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
        (4, "unresolved", "unread-line"), (3, "unresolved", "conda-request"),
    ]  # fmt: skip
    assert [(one.line, one.subject, one.kind) for one in rule_conda_requests(found)] == [
        (3, "numpy", "conda-request")
    ]
    assert [(one.name, one.version) for one in found.requirements] == [("python", "3.11"), ("a", None)]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("numpy=1.26.4", "numpy"), ("numpy >=1.26,<2", "numpy"), ("conda-forge::py-xgboost=2.*", "py-xgboost"),
        ("'pytorch::pytorch-cuda=12.1'", "pytorch-cuda"), ("conda-forge::numpy", "numpy"),
        ("numpy[version='>=1']", "numpy"),
    ],
)  # fmt: skip
def test_a_package_that_conda_was_asked_for_has_its_name(line: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - python=3.11\n  - {line}\n")
    (ruling,) = rule_conda_requests(read_snapshot(tmp_path))
    assert (ruling.subject, ruling.line) == (name, 3)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("python=3.11.9", "3.11.9"), ("python==3.11", "3.11"), ("python=3.11.*", "3.11"), ("python 3.10.*", "3.10"),
        ("conda-forge::python=3.12", "3.12"), ("python>=3.10", None), ("python", None), ("python=3.8,<4", None),
    ],
)  # fmt: skip
def test_the_python_that_conda_was_asked_for_is_evidence(
    line: str, version: str | None, tmp_path: Path
) -> None:
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - {line}\n  - pip:\n      - six==1.16.0\n")
    snapshot = read_snapshot(tmp_path)
    pythons = gather_evidence(snapshot).pythons
    assert [python.version for python in pythons] == ([version] if version else [])
    assert snapshot.conda == ()
    assert [(one.name, one.version) for one in snapshot.requirements if one.name != "python"] == [
        ("six", "1.16.0")
    ]


def test_installers_are_no_question(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text(
        "dependencies: \n  - python=3.11\n  - pip\n  - setuptools=70.0.0\n  - pip:\n      - six==1.16.0\n"
    )
    snapshot = read_snapshot(tmp_path)
    assert rule_conda_requests(snapshot) == []
    assert [(one.name, one.version) for one in snapshot.requirements if one.name != "python"] == [
        ("setuptools", "70.0.0"), ("six", "1.16.0"),
    ]  # fmt: skip


def test_the_other_answers_to_a_request_of_conda(tmp_path: Path) -> None:
    path = tmp_path / "environment.yml"
    path.write_text("dependencies:\n  - python=3.11\n  - numpy=1.26.4\n  - pip: [six==1.16.0]\n")
    store = ("--store", tmp_path / "store", "-o", tmp_path / "lock")
    refused = reprobuild("lock", path, "--accept", "no-apt-list", *store)
    assert refused.returncode == 4
    assert "with --accept numpy the image will NOT have numpy" in refused.stderr
    assert (
        "run `conda env export > environment.yml` in the environment that ran, or --as-of DATE chooses the packages "
        "that conda's channels had on that day"
    ) in refused.stderr
    locked = reprobuild("lock", path, "--accept", "no-apt-list", "--accept", "numpy", *store)
    assert locked.returncode == 0, locked.stderr
    lock = read_lock(tmp_path / "lock")
    assert {wheel.name for wheel in lock.wheels} >= {"six"}
    assert lock.interpreter.version.startswith("3.11.")
    # PyPI's package, below `pip:`.
    path.write_text("dependencies:\n  - python=3.11\n  - pip:\n      - six==1.16.0\n      - idna==3.7\n")
    locked = reprobuild("lock", path, "--accept", "no-apt-list", *store)
    assert locked.returncode == 0, locked.stderr
    assert {wheel.name for wheel in read_lock(tmp_path / "lock").wheels} >= {"six", "idna"}


def test_a_secret_and_two_of_one_name(tmp_path: Path) -> None:
    lines, _ = read(tmp_path, f"mypkg @ git+https://u:hunter2@git.example.org/x/y@{COMMIT}")
    assert lines == [(8, "vcs", "mypkg")]
    assert "hunter2" not in str(read_snapshot(tmp_path))
    with pytest.raises(
        SnapshotError, match=r"environment.yml:9: `a` is pinned again, and differently"
    ) as caught:
        read(tmp_path, "a @ https://f.example.org/a-1-py3-none-any.whl\na @ https://g.example.org/a-2.zip")
    assert caught.value.hint == "keep the line of the environment that ran, or capture that environment alone"


def digests(folder: Path, *files: str) -> list[str]:
    found = []
    for file in files:
        (folder / "environment.yml").write_text(file)
        found.append(read_snapshot(folder).digest)
    return found


LONG = ",".join(f"!=1.{number}" for number in range(300))


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("{variables: {A: b}, dependencies: [python=3.11, 'nala@']}", "<2", ">=2"),
        (f"dependencies:\n- python=3.11\n- numpy >=1,{LONG},@\n", "<2", "<3"),
        (f"{{dependencies: [python=3.11, 'numpy >=1,{LONG},@']}}", "<2", "<3"),
        ('{variables: {A: b}, dependencies: [numpy, "a @"]}', r"\x1b", r"\\x1b"),
        ("{channels: [@], variables: {A: b}, dependencies: [a]}", "c", "d"),
    ],
    ids=["variables", "long", "long flow", "escapes", "channels"],
)  # fmt: skip
def test_the_digest_covers_whole_requests(text: str, one: str, other: str, tmp_path: Path) -> None:
    first, second, again = digests(tmp_path, *(text.replace("@", side) for side in (one, other, one)))
    assert first != second
    assert first == again


def test_the_digest_depends_on_no_secret_of_a_request(tmp_path: Path) -> None:
    rows = [f"dependencies:\n- python=3.11\n- numpy>=1 token=ghp_{letter * 36}\n" for letter in "ab"]
    first, second = digests(tmp_path, *rows)
    assert first == second
    (tmp_path / "environment.yml").write_text(rows[0])
    assert [request.name for request in read_snapshot(tmp_path).conda_requests] == ["python"]


def test_a_file_that_asks_conda_for_nothing_keeps_its_digest(tmp_path: Path) -> None:
    known = "3114ab4a49c2d68633c123bfdb5d0bb49b2a30e8de83b9bf65f6d1e7514b4762"
    assert digests(tmp_path, "dependencies: [python=3.11.8=0, mkl=2024=0]\nvariables: {A: b}\n") == [known]


def test_a_marker_beside_an_exact_build_of_conda_stays(tmp_path: Path) -> None:
    rows = (
        'foo==1.0; sys_platform == "win32"',
        'foo==1.1; sys_platform == "linux"',
        "bar[gpu]==2",
        "six==1.16.0",
    )
    pip = "".join(f"    - {row}\n" for row in rows)
    (tmp_path / "environment.yml").write_text(f"dependencies:\n  - python=3.11.8=0\n  - pip:\n{pip}")
    found = read_snapshot(tmp_path)
    assert [package.name for package in found.conda] == ["python"]
    assert [(line.name, line.version, line.marker or "") for line in found.requirements] == [
        ("foo", "1.0", 'sys_platform == "win32"'), ("foo", "1.1", 'sys_platform == "linux"'), ("bar", "2", ""),
        ("six", "1.16.0", ""),
    ]  # fmt: skip
    (tmp_path / "conda-list.txt").write_text("python 3.11.8 0\nfoo 1.1 pypi_0 pypi\nsix 1.16.0 pypi_0 pypi\n")
    found = read_snapshot(tmp_path)  # the list says what was installed
    assert [line.name for line in found.requirements] == ["bar"]
    assert [package.version for package in found.conda if package.name == "foo"] == ["1.1"]
    (tmp_path / "conda-list.txt").unlink()
    (tmp_path / "requirements.txt").write_text("foo==1.1\nbar==2\nsix==1.16.0\n")
    reason = "a line for pip with a marker or extras: the freeze tells what was installed"
    remarks = [remark.place.line for remark in read_snapshot(tmp_path).remarks if remark.reason == reason]
    assert remarks == [4, 5, 6]
