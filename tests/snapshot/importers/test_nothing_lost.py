"""Packages of locks that are no plain pins: hashes, markers and subdirectories travel, and a gap is asked for."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from reprobuild.resolve.line_resolutions import unread_remarks
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.read import read_snapshot

A, B, LONG = "a" * 64, "b" * 64, "c" * 128
COMMIT = "d" * 40
WHEEL = "six-1.17.0-py2.py3-none-any.whl"
URL = f"https://files.example/{WHEEL}"
WINDOWS = 'sys_platform == "win32"'
PYLOCK = 'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nname = "six"\n'
POETRY = '[[package]]\nname = "six"\nversion = "1.17.0"\noptional = false\n'
PDM = '[[package]]\nname = "six"\nversion = "1.17.0"\n'


def imported(folder: Path, files: dict[str, str], start: str = "") -> tuple[list[str], list[Requirement]]:
    """Import a file or a directory; return the texts of the lines that a lock asks for, and the requirements."""
    for name, content in files.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_text(content)
    import_into(folder / "in" / (start or next(iter(files))), folder / "out")
    snapshot = read_snapshot(folder / "out")
    return [remark.text for remark in unread_remarks(snapshot)], list(snapshot.requirements)


def pipfile(entry: object) -> str:
    return json.dumps({"_meta": {}, "default": {"six": entry}})


LOCAL_FILES = {
    "pylock.toml": PYLOCK + f'[packages.archive]\npath = "vendor/{WHEEL}"\nhashes = {{sha256 = "{A}"}}\n',
    "pylock.wheel.toml": PYLOCK
    + f'version = "1.17.0"\n[[packages.wheels]]\npath = "vendor/{WHEEL}"\nhashes = {{sha256 = "{A}"}}\n',
    "poetry.lock": POETRY + f'files = [{{file = "{WHEEL}", hash = "sha256:{A}"}}]\n[package.source]\n'
    f'type = "file"\nurl = "vendor/{WHEEL}"\n',
    "pdm.lock": PDM + f'path = "./vendor/{WHEEL}"\nfiles = [{{file = "{WHEEL}", hash = "sha256:{A}"}}]\n',
    "Pipfile.lock": pipfile({"file": f"vendor/{WHEEL}", "hashes": [f"sha256:{A}"]}),
    "path-Pipfile.lock": pipfile({"path": f"./vendor/{WHEEL}", "hashes": [f"sha256:{A}"]}),
    "pixi.lock": json.dumps(
        {
            "environments": {"default": {"packages": {"linux-64": [{"pypi": f"./vendor/{WHEEL}"}]}}},
            "packages": [{"pypi": f"./vendor/{WHEEL}", "name": "six", "version": "1.17.0", "sha256": A}],
        }
    ),
    "uv.lock": 'version = 1\nrequires-python = ">=3.11"\n[[package]]\nname = "work"\nversion = "0"\n'
    'source = { virtual = "." }\ndependencies = [{ name = "six" }]\n[[package]]\nname = "six"\nversion = "1.17.0"\n'
    f'source = {{ path = "vendor/{WHEEL}" }}\nwheels = [{{ filename = "{WHEEL}", hash = "sha256:{A}" }}]\n',
}  # fmt: skip


@pytest.mark.parametrize("file", LOCAL_FILES)
def test_a_file_beside_a_lock_is_no_pin_of_an_index(file: str, tmp_path: Path) -> None:
    asked, (line,) = imported(tmp_path, {file: LOCAL_FILES[file]})
    assert asked == []
    assert (line.kind, line.path, line.sha256) == ("archive", str(tmp_path / "in/vendor" / WHEEL), A)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        (
            f'[packages.vcs]\ntype = "git"\npath = "../six"\ncommit-id = "{COMMIT}"\n',
            "its repository is a directory, which only its machine has",
        ),
        ('[[packages.wheels]]\npath = "six-1-py3-none-any.whl"\nhashes = {sha256 = "HASH"}\n'
         '[packages.sdist]\npath = "six-1.tar.gz"\nhashes = {sha256 = "HASH"}\n',
         "it has several files beside the lock: write a line for the one that ran"),
        ('[packages.archive]\npath = "six.bin"\nhashes = {sha256 = "HASH"}\n',
         "its file has no name of a wheel or of an archive"),
        (f'[packages.archive]\nurl = "{URL}"\nhashes = {{blake2b = "HASH"}}\n',
         "none of its hashes has a form that can be compared"),
        (f'version = "1.17.0"\n[[packages.wheels]]\nurl = "{URL}"\nhashes = {{sha256 = "odd"}}\n',
         "none of its hashes has a form that can be compared"),
        ('[packages.directory]\npath = "six"\neditable = true\n',
         "an editable install has no marker: write a line for it, or leave it out"),
    ],
)  # fmt: skip
def test_a_package_of_a_pylock_that_no_line_can_hold_is_asked_for(
    rest: str, reason: str, tmp_path: Path
) -> None:
    content = PYLOCK + f"marker = '{WINDOWS}'\n" + rest.replace("HASH", A)
    asked, lines = imported(tmp_path, {"pylock.toml": content})
    assert (asked, lines) == ([f"(packages six of pylock.toml is not imported: {reason})"], [])


def test_a_file_beside_a_lock_in_an_archive_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "pylock.toml").write_text(LOCAL_FILES["pylock.toml"])
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "pylock.toml", "pylock.toml")
    import_into(tmp_path / "run.tar.gz", tmp_path / "out")
    (remark,) = unread_remarks(read_snapshot(tmp_path / "out"))
    assert "its file is beside the lock: unpack the archive, and import the directory" in remark.text


ADDRESSES = {
    "poetry.lock": POETRY
    + f'files = [{{file = "{WHEEL}", hash = "sha256:{A}"}}]\n[package.source]\ntype = "url"\nurl = "{URL}"\n',
    "pdm.lock": PDM + f'url = "{URL}"\nfiles = [{{url = "{URL}", hash = "sha256:{A}"}}]\n',
    "Pipfile.lock": pipfile({"file": URL, "hashes": [f"sha256:{A}"]}),
}


@pytest.mark.parametrize("file", ADDRESSES)
def test_an_address_keeps_its_hash(file: str, tmp_path: Path) -> None:
    asked, (line,) = imported(tmp_path, {file: ADDRESSES[file]})
    assert asked == []
    assert (line.kind, line.url, line.sha256) == ("archive", URL, A)


def test_several_hashes_of_an_address_are_kept(tmp_path: Path) -> None:
    _, (line,) = imported(
        tmp_path, {"Pipfile.lock": pipfile({"file": URL, "hashes": [f"sha256:{A}", f"sha256:{B}"]})}
    )
    assert line.hashes == (A, B)


@pytest.mark.parametrize("value", [f"sha512:{LONG}", f"md5:{'e' * 32}"])
@pytest.mark.parametrize("file", ["pylock.toml", "Pipfile.lock", "poetry.lock", "pdm.lock"])
def test_a_pin_without_a_sha256_is_asked_for(file: str, value: str, tmp_path: Path) -> None:
    algorithm, _, content = value.partition(":")
    row = f'files = [{{file = "{WHEEL}", hash = "{value}"}}]\n'
    lock = {
        "pylock.toml": PYLOCK + f'version = "1.17.0"\n[[packages.wheels]]\nurl = "{URL}"\n'
        f'hashes = {{{algorithm} = "{content}"}}\n',
        "Pipfile.lock": pipfile({"version": "==1.17.0", "hashes": [value]}),
        "poetry.lock": POETRY + row, "pdm.lock": PDM + row,
    }[file]  # fmt: skip
    asked, _ = imported(tmp_path, {file: lock})
    assert asked == [f"--hash={value}"]


SUBDIRECTORIES = {
    "pylock.toml": PYLOCK + '[packages.vcs]\ntype = "git"\nurl = "https://git.example/six"\n'
    f'commit-id = "{COMMIT}"\nsubdirectory = "inner"\n',
    "pylock.archive.toml": PYLOCK + '[packages.archive]\nurl = "https://files.example/six-1.tar.gz"\n'
    f'subdirectory = "inner"\nhashes = {{sha256 = "{A}"}}\n',
    "pdm.lock": PDM
    + f'git = "https://git.example/six"\nrevision = "{COMMIT}"\nsubdirectory = "inner"\n',
    "Pipfile.lock": pipfile({"git": "https://git.example/six", "ref": COMMIT, "subdirectory": "inner"}),
    "pixi.lock": json.dumps(
        {
            "environments": {"default": {"packages": {"linux-64": [{"pypi": "GIT"}]}}},
            "packages": [{"pypi": "GIT", "name": "six", "version": "1"}],
        }
    ).replace("GIT", f"git+https://git.example/six?subdirectory=inner&rev=main#{COMMIT}"),
}  # fmt: skip


@pytest.mark.parametrize("file", SUBDIRECTORIES)
def test_the_subdirectory_of_a_package_travels(file: str, tmp_path: Path) -> None:
    asked, (line,) = imported(tmp_path, {file: SUBDIRECTORIES[file]})
    assert (asked, line.subdirectory) == ([], "inner")


def test_a_repository_of_another_kind_is_no_pin_of_an_index(tmp_path: Path) -> None:
    _, (line,) = imported(
        tmp_path, {"pdm.lock": PDM + f'hg = "https://hg.example/six"\nrevision = "{COMMIT}"\n'}
    )
    assert (line.kind, line.url) == ("vcs", "hg+https://hg.example/six")


@pytest.mark.parametrize("entry", [{"version": ">=1.0"}, "*", "==1.0", {"version": "*"}, ["==1.0"]])
def test_an_entry_of_pipenv_that_is_no_pin_is_asked_for(entry: object, tmp_path: Path) -> None:
    asked, lines = imported(tmp_path, {"Pipfile.lock": pipfile(entry)})
    assert (len(asked), lines) == (1, [])
    assert asked[0].startswith("(default.six of Pipfile.lock is not imported: it ")


def test_the_name_of_a_package_cannot_hide_its_question(tmp_path: Path) -> None:
    lock = json.dumps({"_meta": {}, "default": {"six) $ x": "*"}})
    asked, _ = imported(tmp_path, {"Pipfile.lock": lock})  # `(x) $ y` would be a prompt
    assert len(asked) == 1


def test_a_dependency_of_sacred_without_a_version_is_asked_for(tmp_path: Path) -> None:
    run = {"command": "x", "experiment": {"dependencies": ["six==1.17.0", "torch==<unknown>"]}, "host": {}}
    asked, (line,) = imported(tmp_path, {"run.json": json.dumps(run)})
    reason = "Sacred does not know its version"
    assert asked == [f"(experiment.dependencies[1] of run.json is not imported: {reason})"]
    assert line.name == "six"


def test_the_hashes_of_a_line_that_stays_out_go_to_no_other_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        f"idna==3.7 \\\n    --hash=sha256:{A}",
        f"six @ https://h.example/{'x' * 1000} \\\n    --hash=sha256:{B}",
    ]
    monkeypatch.setattr(
        "reprobuild.snapshot.importers.uv_lock._export", lambda *more: "".join(f"{row}\n" for row in rows)
    )
    asked, (line,) = imported(tmp_path, {"uv.lock": 'version = 1\nrequires-python = ">=3.11"\n'})
    assert (line.name, line.hashes) == ("idna", (A,))
    assert asked == ["(package six of uv.lock is not imported: it has more than 1000 characters)"]


RUN = {"wandb-metadata.json": "{}"}
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (f"six @ https://h.example/{'x' * 1000}", "it has more than 1000 characters"),
        (f"six @ https://h.example/%67{TOKEN[1:]}/six-1.tar.gz", "it looks like a secret"),
        ("six @ https:\\\\me:password@h.example/six-1.tar.gz",
         "its address holds a login, in a form that no program reads"),
    ],
)  # fmt: skip
def test_a_requirement_of_a_run_that_stays_out_is_asked_for(row: str, reason: str, tmp_path: Path) -> None:
    asked, _ = imported(tmp_path, RUN | {"requirements.txt": f"click==8.1.7\n{row}\n"}, ".")
    assert asked == [f"(line 2 of requirements.txt is not imported: {reason})"]


def test_a_comment_that_stays_out_is_no_question(tmp_path: Path) -> None:
    asked, _ = imported(tmp_path, RUN | {"requirements.txt": f"click==8.1.7\n# {'x' * 1000}\n"}, ".")
    assert asked == []


def test_a_long_row_of_one_requirement_is_read(tmp_path: Path) -> None:
    hashes = " ".join(f"--hash=sha256:{number:064x}" for number in range(20))
    rows = [f"six==1.17.0 {hashes}", f"click==8.1.7{' ' * 2000}", f"idna==3.7  # {'x' * 2000}"]
    asked, (six, click, idna) = imported(tmp_path, RUN | {"requirements.txt": "\n".join(rows)}, ".")
    assert asked == []
    assert [line.version for line in (six, click, idna)] == ["1.17.0", "8.1.7", "3.7"]
    assert len(six.hashes or ()) == 20


def test_a_directory_of_poetry_keeps_its_marker(tmp_path: Path) -> None:
    lock = (
        POETRY
        + f'markers = \'{WINDOWS}\'\ndevelop = DEVELOP\n[package.source]\ntype = "directory"\nurl = "lib"\n'
    )
    asked, (line,) = imported(tmp_path / "a", {"poetry.lock": lock.replace("DEVELOP", "false")})
    assert (asked, line.kind, line.marker) == ([], "directory", WINDOWS)
    asked, lines = imported(tmp_path / "b", {"poetry.lock": lock.replace("DEVELOP", "true")})
    reason = "an editable install has no marker: write a line for it, or leave it out"
    assert (asked, lines) == ([f"(package six of poetry.lock is not imported: {reason})"], [])


CLICK = (
    '[[package]]\nname = "click"\nversion = "8.1.7"\noptional = false\n[package.dependencies]\n'
    f"colorama = {{version = \"*\", markers = '{WINDOWS}'}}\n"
    '[[package]]\nname = "colorama"\nversion = "0.4.6"\noptional = false\n'
)
OPTIONAL = (
    '[[package]]\nname = "log"\nversion = "1"\noptional = false\n[package.dependencies]\n'
    'colorama = {version = "*", optional = true, markers = "extra == \'x\'"}\n'
)
PROJECT = '[tool.poetry.dependencies]\npython = "^3.11"\nclick = "*"\n'


@pytest.mark.parametrize(
    ("version", "lock", "project", "marker"),
    [
        ("2.1", CLICK, PROJECT, None), ("2.0", CLICK, PROJECT, WINDOWS), ("2.0", CLICK, None, None),
        ("2.0", CLICK, PROJECT + 'Colorama = "*"\n', None),
        ("1.1", CLICK, '[project]\ndependencies = ["click", "colorama>=0.4"]\n', None),
        ("1.1", CLICK, '[project]\ndependencies = ["click"]\n', WINDOWS), ("1.1", CLICK, "a = [", None),
        ("2.0", CLICK + OPTIONAL, PROJECT, WINDOWS),
        ("2.0", CLICK + OPTIONAL, PROJECT + 'log = {version = "*", extras = ["x"]}\n', None),
        ("2.0", CLICK + OPTIONAL, '[project]\ndependencies = ["click", "log[x]"]\n', None),
        (
            "2.0",
            CLICK + OPTIONAL + '[[package]]\nname = "a"\nversion = "1"\n[package.dependencies]\n'
            'log = {version = "*", extras = ["x"]}\n',
            PROJECT, None,
        ),
    ],
)  # fmt: skip
def test_a_package_of_poetry_has_no_marker_that_others_do_not_prove(
    version: str, lock: str, project: str | None, marker: str | None, tmp_path: Path
) -> None:
    files = {"poetry.lock": lock + f'[metadata]\nlock-version = "{version}"\n'}
    _, lines = imported(tmp_path, files | ({"pyproject.toml": project} if project else {}))
    (line,) = [line for line in lines if line.name == "colorama"]
    assert (line.marker or None) == marker
