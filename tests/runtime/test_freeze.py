"""The freeze says what `pip freeze` says, and more."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from conftest import ROOT, RUNTIME, Environment, Ran, make_environment, run
from test_gittree import git, write_tree

sys.path.insert(0, str(ROOT))

from reprobuild_runtime import freezeline

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def add(site: Path, name: str, version: str, direct_url: Mapping[str, object] | None = None) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (folder / "INSTALLER").write_text("pip\n")
    (folder / "RECORD").write_text("")
    if direct_url is not None:
        (folder / "direct_url.json").write_text(json.dumps(direct_url))


def freeze(environment: Environment, *folders: Path, files: Path | None = None) -> Ran:
    env = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "0", "PYTHONHASHSEED": "7"}
    if files:
        env["REPROBUILD_FILES"] = str(files)
    return run(str(environment.python), "-I", str(RUNTIME / "freeze.py"), *map(str, folders), env=env)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A git clone with a remote."""
    folder = tmp_path / "src" / "tiny-train"
    folder.mkdir(parents=True)
    (folder / "tiny.py").write_text("x = 1\n")
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", "https://example.org/team/tiny-train.git")
    write_tree(folder)
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one")
    return folder


@pytest.fixture
def environment(tmp_path: Path, source: Path) -> Environment:
    made = make_environment(tmp_path / "venv")
    archive = "https://example.org/a-1.0-py3-none-any.whl"
    add(made.site, "Zeta", "1.0")
    add(made.site, "alpha-Beta", "2023.07.01")
    add(made.site, "local", "2.13.0+cu130")
    add(made.site, "pre", "1.0-RC.1")
    add(made.site, "posted", "1.0-2")
    add(
        made.site,
        "hashed",
        "1.0",
        {"url": archive, "archive_info": {"hash": "sha256=ab", "hashes": {"sha256": "ab"}}},
    )
    add(made.site, "unhashed", "1.0", {"url": archive, "archive_info": {}})
    vcs = {"vcs": "git", "commit_id": COMMIT, "requested_revision": "main"}
    add(
        made.site,
        "cloned",
        "1.0",
        {"url": "https://example.org/c.git", "vcs_info": vcs, "subdirectory": "py"},
    )
    add(made.site, "over-ssh", "1.0", {"url": "ssh://git@example.org/c.git", "vcs_info": vcs})
    add(made.site, "folder", "1.0", {"url": "file:///home/user/my%20project", "dir_info": {}})
    plain = tmp_path / "plain dir"
    plain.mkdir()
    add(made.site, "editable-plain", "1.0", {"url": plain.as_uri(), "dir_info": {"editable": True}})
    add(made.site, "tiny-train", "0.1", {"url": source.as_uri(), "dir_info": {"editable": True}})
    add(made.site, "setuptools", "80.0")
    add(made.site, "pip", "25.0")
    return made


def sources(tmp_path: Path, source: Path, **more: object) -> Path:
    entry = {
        "name": "Tiny_Train",
        "url": "https://example.org/team/tiny-train.git",
        "commit": git(source, "rev-parse", "HEAD"),
        "tree": git(source, "rev-parse", "HEAD^{tree}"),
        "path": str(source),
        "generated": ["*.egg-info"],
    }
    folder = tmp_path / "files"
    (folder / "sources").mkdir(parents=True)
    (folder / "sources/src-tiny-train.json").write_text(json.dumps({**entry, **more}))
    return folder


def test_equals_pip_freeze(tmp_path: Path, environment: Environment, source: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(environment.python), "freeze"]
    expected = subprocess.run(pip, capture_output=True, text=True, check=True).stdout.splitlines()
    ran = freeze(environment, files=sources(tmp_path, source))
    assert len(expected) == 13  # twelve shown, and a comment
    assert ran.json["freeze"] == expected
    assert ran.err == ""


def test_document(tmp_path: Path, environment: Environment, source: Path) -> None:
    files = sources(tmp_path, source)
    document = freeze(environment, files=files).json
    found = {entry["name"]: entry for entry in document["distributions"]}
    assert document["python"] == ".".join(map(str, sys.version_info[:3]))
    assert document["implementation"] == "CPython"
    assert document["site_packages"] == [str(environment.site)]
    assert document["broken"] == []
    assert {"pip", "setuptools"} <= set(found)
    assert [found["tiny-train"][key] for key in ("version", "editable", "location")] == [
        "0.1",
        True,
        str(environment.site),
    ]
    assert found["tiny-train"]["tree"] == found["tiny-train"]["source"]["tree"] == write_tree(source)
    assert found["Zeta"]["direct_url"] is found["Zeta"]["tree"] is found["Zeta"]["source"] is None
    (source / "tiny.egg-info").mkdir()
    (source / "tiny.egg-info" / "PKG-INFO").write_text("made by an installation")
    (source / "tiny.py").write_text("x = 2\n")
    again = freeze(environment, files=files).json["distributions"]
    changed = next(entry for entry in again if entry["name"] == "tiny-train")
    assert changed["tree"] != changed["source"]["tree"]


def test_a_source_that_is_gone_has_no_tree(tmp_path: Path, environment: Environment, source: Path) -> None:
    files = sources(tmp_path, source, path="/nonexistent")
    found = freeze(environment, files=files).json["distributions"]
    assert next(entry["tree"] for entry in found if entry["name"] == "tiny-train") is None


def test_old_develop_installation(tmp_path: Path, bare: Environment) -> None:
    project = tmp_path / "old"
    (project / "Old_Name.egg-info").mkdir(parents=True)
    (project / "Old_Name.egg-info" / "PKG-INFO").write_text(
        "Metadata-Version: 1.0\nName: Old-Name\nVersion: 3\n"
    )
    (bare.site / "Old-Name.egg-link").write_text(f"{project}\n.")
    (entry,) = freeze(bare).json["distributions"]
    assert (entry["name"], entry["editable"]) == ("Old-Name", True)
    assert entry["freeze"].endswith(f"\n-e {project}")


def test_broken_metadata_is_named_and_the_rest_is_there(bare: Environment) -> None:
    add(bare.site, "good", "1")
    (bare.site / "nothing-1.0.dist-info").mkdir()
    add(bare.site, "bad-url", "1", {"dir_info": {}})
    document = freeze(bare).json
    assert [entry["name"] for entry in document["distributions"]] == ["good"]
    assert [Path(entry["path"]).name for entry in document["broken"]] == [
        "bad_url-1.dist-info",
        "nothing-1.0.dist-info",
    ]


def test_no_credentials(bare: Environment) -> None:
    url = "https://user:s3cret@example.org/a.whl"
    add(bare.site, "a", "1", {"url": url, "archive_info": {}})
    add(bare.site, "b", "1", {"url": url, "vcs_info": {"vcs": "git", "commit_id": COMMIT}})
    add(bare.site, "c", "1", {"url": "https://${USER}:${TOKEN}@example.org/a.whl", "archive_info": {}})
    ran = freeze(bare)
    assert "s3cret" not in ran.out
    assert "${USER}:${TOKEN}@" in ran.out


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("git@example.org:a/b.git", "-e git+ssh://git@example.org/a/b.git@C#egg=n_m"),
        ("ssh://git@example.org/a/b", "-e git+ssh://git@example.org/a/b@C#egg=n_m"),
        ("https://u:p@example.org/a", "-e git+https://example.org/a@C#egg=n_m"),
        ("git+https://example.org/a", "-e git+https://example.org/a@C#egg=n_m"),
        ("/srv/a.git", "-e git+file:///srv/a.git@C#egg=n_m"),
    ],
)
def test_addresses_as_pip_writes_them(url: str, line: str) -> None:
    assert freezeline.editable("n-m", "1", "/src/n", {"url": url, "commit": "C"}) == line


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("v1.0", "1.0"), ("1!2.0", "1!2.0"), ("0!2.0", "2.0"), ("1.0alpha2", "1.0a2"), ("1.0.c", "1.0rc0"),
        ("1.0preview_3", "1.0rc3"), ("1.0-1", "1.0.post1"), ("1.0.r4", "1.0.post4"), ("1.0DEV", "1.0.dev0"),
        ("1.0+Ubuntu-1_02", "1.0+ubuntu.1.2"), ("2004d", None), ("1.0+", None), ("", None), ("١.٠", None),
    ],
)  # fmt: skip
def test_versions_in_their_normal_form(text: str, normal: str | None) -> None:
    assert freezeline.normal_version(text) == normal
