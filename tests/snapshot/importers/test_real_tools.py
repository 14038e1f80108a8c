"""Files that the tools themselves write here: uv, pip and packaging."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from msgspec import UNSET

from reprobuild.errors import SnapshotError, UsageError
from reprobuild.snapshot.importers.import_snapshot import import_into, open_snapshot
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.read import read_snapshot

ROOT = Path(__file__).parents[3]
PROJECT = """\
[project]
name = "work"
version = "1.2"
requires-python = ">=3.10"
dependencies = ["click==8.1.7", "iniconfig==2.0.0"]

[dependency-groups]
dev = ["packaging==24.2"]
"""


def uv(*words: str, cwd: Path) -> None:
    subprocess.run([sys.executable, "-m", "uv", "-q", *words], cwd=cwd, check=True)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project that uv has locked, with both of its formats."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text(PROJECT)
    uv("lock", cwd=folder)
    uv("export", "--frozen", "--format", "pylock.toml", "-o", "pylock.toml", "--no-emit-project", cwd=folder)
    return folder


def lines(path: Path) -> dict[str, Requirement]:
    with open_snapshot(path) as directory:
        return {line.name: line for line in read_snapshot(directory).requirements}


def test_a_lock_of_uv_has_the_pins_markers_and_hashes_of_the_project(project: Path) -> None:
    found = lines(project / "uv.lock")
    assert {name: line.version for name, line in found.items() if line.kind == "index"} == {
        "click": "8.1.7", "colorama": found["colorama"].version, "iniconfig": "2.0.0", "packaging": "24.2",
    }  # fmt: skip
    assert found["colorama"].marker == 'sys_platform == "win32"'
    assert found["click"].hashes is not UNSET
    assert len(found["click"].hashes) == 2


def test_the_directory_of_a_project_gives_the_same(project: Path) -> None:
    assert lines(project) == lines(project / "uv.lock")


def test_a_pylock_of_uv_gives_the_same_pins(project: Path) -> None:
    pins = {
        name: (line.version, line.marker, line.hashes) for name, line in lines(project / "uv.lock").items()
    }
    found = lines(project / "pylock.toml")
    assert {name: (line.version, line.marker, line.hashes) for name, line in found.items()} == pins


def test_a_project_that_is_a_package_is_an_editable_line(tmp_path: Path) -> None:
    build = '\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    (tmp_path / "pyproject.toml").write_text(PROJECT + build)
    uv("lock", cwd=tmp_path)
    line = lines(tmp_path)["work"]
    assert (line.kind, line.version, line.path) == ("editable", "1.2", str(tmp_path))


def test_a_workspace_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "packages" / "part").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT + '\n[tool.uv.workspace]\nmembers = ["packages/*"]\n')
    (tmp_path / "packages" / "part" / "pyproject.toml").write_text(
        PROJECT.replace('"work"', '"part"').replace("click==8.1.7", "toml==0.10.2")
    )
    uv("lock", cwd=tmp_path)
    assert {"click", "toml"} <= set(lines(tmp_path))


def test_a_report_of_pip_gives_the_lines_of_its_freeze(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    report = subprocess.run([*pip, "inspect"], capture_output=True, check=True, env=environment)
    freeze = subprocess.run(
        [*pip, "freeze", "--all"], capture_output=True, check=True, text=True, env=environment
    )
    (tmp_path / "pip-inspect.json").write_bytes(report.stdout)
    found = lines(tmp_path / "pip-inspect.json")
    rows = freeze.stdout.splitlines()
    pins = dict(row.split("==") for row in rows if "==" in row and row[0] not in "#-")
    # Debian's venv installs pip from a wheel of this machine, of which the import keeps the version.
    direct = {row.partition(" @ ")[0] for row in rows if " @ file:" in row}
    versions = {name: line.version for name, line in found.items() if line.kind == "index"}
    assert {name: version for name, version in versions.items() if name not in direct} == pins
    with open_snapshot(tmp_path / "pip-inspect.json") as directory:
        (python,) = read_snapshot(directory).reports
    assert python.python == sys.version.split()[0]
    assert json.loads(report.stdout)["environment"]["platform_machine"] == (python.machine or "x86_64")


@pytest.mark.parametrize(
    ("archive", "sha256", "digests"),
    [
        ({}, None, ()),
        ({"hash": f"sha256={'a' * 64}"}, "a" * 64, ()),
        ({"hash": f"md5={'b' * 32}"}, None, (f"md5:{'b' * 32}",)),
        (
            {"hash": f"sha256={'a' * 64}", "hashes": {"sha256": "a" * 64, "sha512": "c" * 128, "odd": "d"}},
            "a" * 64,
            (f"sha512:{'c' * 128}",),
        ),
    ],
)
def test_an_archive_of_a_report_is_no_version_of_an_index(
    archive: dict[str, object], sha256: str | None, digests: tuple[str, ...], tmp_path: Path
) -> None:
    url = "https://files.example/six-1.17.0-py2.py3-none-any.whl"
    metadata = {"name": "six", "version": "1.17.0"}
    installed = [{"metadata": metadata, "direct_url": {"url": url, "archive_info": archive}}]
    (tmp_path / "pip-inspect.json").write_text(json.dumps({"version": "1", "installed": installed}))
    line = lines(tmp_path / "pip-inspect.json")["six"]
    assert (line.kind, line.url, line.sha256, line.digests or ()) == ("archive", url, sha256, digests)


def test_an_archive_of_a_pylock_keeps_its_hashes(tmp_path: Path) -> None:
    url = "https://files.example/six-1.17.0-py2.py3-none-any.whl"
    (tmp_path / "pylock.toml").write_text(
        'lock-version = "1.0"\ncreated-by = "x"\n[[packages]]\nname = "six"\nversion = "1.17.0"\n[packages.archive]\n'
        f'url = "{url}"\nhashes = {{ sha512 = "{"c" * 128}", md5 = "{"b" * 32}" }}\n'
    )
    line = lines(tmp_path / "pylock.toml")["six"]
    assert (line.url, line.digests) == (url, (f"md5:{'b' * 32}", f"sha512:{'c' * 128}"))


def test_a_snapshot_in_an_archive_is_that_snapshot(tmp_path: Path) -> None:
    snapshot = ROOT / "examples" / "cpu-train" / "snapshot"
    with tarfile.open(tmp_path / "repro.tar.gz", "w:gz") as archive:
        archive.add(snapshot, "repro/42")
    with open_snapshot(tmp_path / "repro.tar.gz") as directory:
        assert read_snapshot(directory).digest == read_snapshot(snapshot).digest


POETRY_1 = """\
[[package]]
name = "click"
version = "8.1.7"
category = "main"
optional = false
python-versions = ">=3.7"

[metadata]
lock-version = "1.1"
python-versions = "^3.11"

[metadata.files]
click = [{file = "click-8.1.7-py3-none-any.whl", hash = "sha256:HASH"}]
"""


def test_a_lock_of_poetry_1_has_its_hashes_in_another_table(tmp_path: Path) -> None:
    (tmp_path / "poetry.lock").write_text(POETRY_1.replace("HASH", "a" * 64))
    line = lines(tmp_path)["click"]
    assert (line.version, line.hashes) == ("8.1.7", ("a" * 64,))


CAPTURE = "take a snapshot where the job runs: `reprobuild capture -o DIR`"
MARKS = "look at what wrote it; a merge may have left its marks"
AGAIN = "look at what wrote it; or export it again"
LIST = "a list of requirements is named requirements.txt; or export the lock again"
LINUX = "add linux-64 to its platforms, and lock again"
FORMATS = (
    "these are read: Guild run, W&B run, MLflow model or run, Sacred run, ClearML task, Aim run, "
    "SageMaker training job, Slurm job, uv.lock, pylock.toml, pip inspect, pixi.lock, "
    "conda-lock.yml, poetry.lock, pdm.lock, Pipfile.lock, "
    "Hugging Face model card, pyproject.toml, setup.cfg, requirements*.txt, environment.yml, and the other "
    "files of a snapshot; or take a snapshot where the job "
    "runs: `reprobuild capture -o DIR`"
)
UNPACK = "unpack it yourself, and name the directory"
UV = "in the project, `uv lock` writes it again"
DAMAGED = [
    ("uv.lock", "version = [", "uv.lock is not TOML", MARKS),
    ("uv.lock", 'version = 99\nrequires-python = ">=3.9"\n', "uv.lock: uv cannot read it", UV),
    ("pylock.toml", "numpy==1.26.4\n", "pylock.toml is not TOML", MARKS),
    ("pylock.toml", 'lock-version = "1.0"\n', "pylock.toml is not a lock of PEP 751", LIST),
    ("pip-inspect.json", "[]", "pip-inspect.json: a mapping of fields is needed", AGAIN),
    ("poetry.lock", "", "poetry.lock: `poetry.lock` names no package", CAPTURE),
    ("Pipfile.lock", "{", "Pipfile.lock", AGAIN),
    (
        "pixi.lock",
        "environments: {}\n",
        "pixi.lock has no environment for Linux, only for no platform",
        LINUX,
    ),
    (
        "conda-lock.yml",
        "package: 7\n",
        "conda-lock.yml has no environment for Linux, only for no platform",
        LINUX,
    ),
    (
        "conda-lock.yml",
        'package: [{name: a, platform: "x\\nhint: y"}]\n',
        r"conda-lock.yml has no environment for Linux, only for x\nhint: y",
        LINUX,
    ),
    ("notes.txt", "x", "`notes.txt` is of no known format", FORMATS),
    ("snap.zip", "x", "`snap.zip` cannot be unpacked", UNPACK),
]


@pytest.mark.parametrize(("name", "content", "message", "hint"), DAMAGED)
def test_a_damaged_file_is_refused(
    name: str, content: str, message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text(content)
    with pytest.raises(SnapshotError) as err:
        import_into(Path(name), tmp_path / "out")
    assert message in str(err.value)
    assert err.value.hint == hint
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_directory_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    (tmp_path / "requirements.txt").write_text("numpy==1.26.4\n")
    with pytest.raises(UsageError, match="out exists") as err:
        import_into(tmp_path / "requirements.txt", tmp_path / "out")
    assert err.value.hint == "name a new directory with -o"
    assert import_into(tmp_path / "requirements.txt", tmp_path / "new").format == "a file (requirements.txt)"
