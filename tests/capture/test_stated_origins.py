"""What the metadata of a distribution state is not believed: they may name, or lead to, any file of the user."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from reprobuild_portable.capture import projects
from reprobuild_portable.capture.files import _text
from reprobuild_portable.capture.limits import NAMING_FILE
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.projects import read_project_names
from reprobuild_portable.capture.repositories.discovery import _take_repositories
from tests.capture.repositories import BASE, LEAN, PROGRAM, git, new_origin, write

PRIVATE = b"salaries: 1234567\n"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n-----END OPENSSH PRIVATE KEY-----\n"


def install(site: Path, **files: str) -> Path:
    """Put a distribution called `evil` into a directory of packages, as a wheel without code would."""
    folder = site / "evil-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n\n")
    for name, content in files.items():
        (folder / name.replace("_json", ".json")).write_text(content)
    return folder


def capture(site: Path, folder: Path) -> tuple[Path, dict[str, Any], str]:
    """Capture in a directory of its own; return the snapshot, capture.json and the notes."""
    work = folder / "work"
    work.mkdir()
    argv = [BASE, str(PROGRAM), "-o", "out"]
    env = {**LEAN, "PYTHONPATH": str(site)}
    done = subprocess.run(argv, cwd=work, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((work / "out" / "capture.json").read_text())
    return work / "out", document, done.stderr


@pytest.mark.parametrize(
    ("files", "is_source"),
    [
        ({}, False),
        ({"pyproject.toml": b'[build-system]\nrequires = []\n\n[project]\nname = "other"\n'}, False),
        ({"pyproject.toml": b'[tool.poetry]\nname = "Evil"\n'}, True),
        ({"pyproject.toml": b"[project]\nname = 'evil' # ours\n"}, True),
        ({"setup.cfg": b"[metadata]\nname = other\n"}, False),
        ({"setup.py": b"from setuptools import setup\nsetup()\n"}, False),
        ({"setup.py": b"", "evil.egg-info/PKG-INFO": b"", "other.egg-info/PKG-INFO": b""}, True),
        ({"setup.py": b"", "src/victim.egg-info/PKG-INFO": b""}, False),
        ({"pyproject.toml": b'[project]\n"name" = "other"\n'}, False),
        ({"pyproject.toml": b'project = {name = "other"}\n'}, False),
        ({"pyproject.toml": b"[tool.black]\nline-length = 100\n"}, False),
        ({"pyproject.toml": b'[tool.flit.metadata]\nmodule = "x"\ndist-name = "evil"\n'}, True),
    ],
)
def test_a_wheel_cannot_name_any_repository_as_its_source(
    files: dict[str, bytes], is_source: bool, tmp_path: Path
) -> None:
    top = new_origin(tmp_path)
    for name, content in files.items():
        write(top, name, content)
    git(top, "add", "-A")
    git(top, "commit", "-q", "--allow-empty", "-m", "never pushed")
    write(top, "private.txt", PRIVATE)
    site = tmp_path / "site"
    install(site, direct_url_json=json.dumps({"url": top.as_uri(), "dir_info": {"editable": True}}))
    out, document, notes = capture(site, tmp_path)
    assert [repository["distributions"] for repository in document["repositories"]] == [["evil"]] * is_source
    assert any(PRIVATE in path.read_bytes() for path in out.iterdir()) == is_source
    taken = f"the changes of editable installs are in the snapshot: {top} (evil)\n"
    assert (taken in notes) == is_source
    said = f"evil says that it is installed from {top}, which is no project of this name: nothing there is captured"
    assert (said in notes) != is_source
    line = (out / "requirements.txt").read_text()
    assert (
        "# Editable install whose directory is no project of this name (evil==1.0)\n" in line
    ) != is_source


@pytest.mark.parametrize("name", ["gone", "kept.py", "", "\0"], ids=["gone", "file", "long", "NUL"])
def test_a_path_that_is_no_directory_leads_to_no_repository(name: str, tmp_path: Path) -> None:
    """It may lie in the repository of somebody else."""
    top = new_origin(tmp_path)
    write(top, "private.txt", PRIVATE)
    path = f"{top.as_uri()}/{quote(name) if name else 'a/' * 4_000_000}"
    site = tmp_path / "site"
    install(site, direct_url_json=json.dumps({"url": path, "dir_info": {"editable": True}}))
    out, document, _ = capture(site, tmp_path)
    assert document["repositories"] == []
    assert not any(PRIVATE in path.read_bytes() for path in out.iterdir())
    assert not read_project_names(str(tmp_path))


def state_folder(folder: Path, count: int) -> list[dict[str, Any]]:
    """Return distributions that state one directory."""
    origin = {"editable": True, "path": str(folder)}
    return [{"name": f"p{number}", "version": "1", "origin": origin} for number in range(count)]


def take_for(seconds: float) -> Callable[[str, Callable[[Context], Taken], float], Any]:
    """Return a function that runs a part with some seconds left."""

    def take(name: str, part: Callable[[Context], Taken], budget: float) -> Any:
        try:
            return part(Context({}, time.monotonic() + seconds, "", program=True)).facts
        except GaveUpError:
            return None

    return take


def test_many_wheels_that_state_one_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """150 of them with files of 1 MB took 151 s, beside the budget of 60 s."""
    for name in ("pyproject.toml", "setup.cfg", "setup.py"):
        (tmp_path / name).write_bytes(b"x\n" * NAMING_FILE)
    reads: list[int] = []

    def read_text(path: str, most: int) -> str:
        reads.append(most)
        return _text(path, most)

    monkeypatch.setattr(projects, "_text", read_text)
    monkeypatch.chdir(tmp_path)
    _, lines, strangers = _take_repositories(state_folder(tmp_path, 150), take_for(60.0))
    assert reads == [NAMING_FILE] * 3
    assert strangers == [f"p{number}" for number in range(150)]
    assert "whose directory is no project of this name (p7==1)" in lines["p7"]


def test_a_directory_that_is_not_read_in_time_is_no_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = new_origin(tmp_path)
    write(top, "pyproject.toml", b"[project]\nname = 'p0'\n")
    monkeypatch.chdir(tmp_path)
    records, lines, strangers = _take_repositories(state_folder(top, 1), take_for(-1.0))
    assert (records, strangers) == ([], [])
    assert lines == {"p0": f"# Editable install whose directory was not read in time (p0==1)\n-e {top}"}


@pytest.mark.parametrize("name", ["INSTALLER", "METADATA", "direct_url.json"])
@pytest.mark.parametrize("kind", ["key", "notes"])
def test_a_link_among_the_metadata_shows_no_file(name: str, kind: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(KEY if kind == "key" else f"name: my notes\nversion: {'x' * 500}\n{PRIVATE.decode()}")
    path = install(tmp_path / "site", INSTALLER="pip\n", direct_url_json="{}") / name
    path.unlink()
    path.symlink_to(secret)
    out, document, _ = capture(tmp_path / "site", tmp_path)
    text = b"".join(path.read_bytes() for path in out.iterdir())
    for part in (b"b3BlbnNz", b"xxxx", PRIVATE.strip(), b"my notes"):
        assert part not in text
    assert document["parts"]["distributions"]["outcome"] == "done"


@pytest.mark.parametrize("name", ["INSTALLER", "METADATA", "direct_url.json"])
@pytest.mark.parametrize("kind", ["endless", "pipe", "large"])
def test_metadata_without_an_end_are_not_read(name: str, kind: str, tmp_path: Path) -> None:
    path = install(tmp_path / "site", INSTALLER="pip\n", direct_url_json="{}") / name
    path.unlink()
    if kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 4 << 30)
    other = tmp_path / "site" / "other-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 2.0\n\n")
    out, document, _ = capture(tmp_path / "site", tmp_path)
    assert document["parts"]["distributions"]["outcome"] == "done"
    assert "other==2.0\n" in (out / "requirements.txt").read_text()
