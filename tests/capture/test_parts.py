"""Single parts: distributions of every origin, rpm, libraries that are loaded, quoting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from reprobuild.snapshot.parsers import pip_freeze
from reprobuild_runtime import capture
from tests.capture.repositories import ENV
from tests.conftest import ROOT


@pytest.fixture
def context(tmp_path: Path) -> capture.Context:
    return capture.Context({"PATH": ENV["PATH"]}, 1e12, str(tmp_path), program=False)


def plant(
    site: Path, name: str, version: str = "1.0", direct_url: Any = None, metadata: str | None = None
) -> None:
    folder = site / f"{name}-{version}.dist-info"
    folder.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: not this one\n"
    (folder / "METADATA").write_text(text if metadata is None else metadata)
    if direct_url is not None:
        (folder / "direct_url.json").write_text(json.dumps(direct_url))


ORIGINS: list[tuple[Any, str, dict[str, Any]]] = [
    (None, "lib==1.0", {"kind": "index", "version": "1.0"}),
    (
        {"url": "https://git.example/a/b.git", "vcs_info": {"vcs": "git", "commit_id": "1" * 40}},
        f"lib @ git+https://git.example/a/b.git@{'1' * 40}",
        {"kind": "vcs", "commit": "1" * 40},
    ),
    (
        {"url": "https://git.example/b", "vcs_info": {"vcs": "git", "commit_id": "1" * 40}, "subdirectory": "python"},
        f"lib @ git+https://git.example/b@{'1' * 40}#subdirectory=python",
        {"kind": "vcs", "subdirectory": "python"},
    ),
    (
        {"url": "https://files.example/lib-1.0-py3-none-any.whl", "archive_info": {"hashes": {"sha256": "a" * 64}}},
        f"lib @ https://files.example/lib-1.0-py3-none-any.whl#sha256={'a' * 64}",
        {"kind": "archive", "sha256": "a" * 64},
    ),
    (
        {"url": "file:///wheels/lib-1.0-py3-none-any.whl", "archive_info": {"hash": "sha256=" + "a" * 64}},
        f"lib @ file:///wheels/lib-1.0-py3-none-any.whl#sha256={'a' * 64}",
        {"kind": "archive", "sha256": "a" * 64, "path": "/wheels/lib-1.0-py3-none-any.whl"},
    ),
    (
        {"url": "file:///croot/lib_1700000000000/work", "dir_info": {}},
        "lib @ file:///croot/lib_1700000000000/work",
        {"kind": "conda"},
    ),
    ({"url": "file:///home/ada/lib", "dir_info": {}}, "lib @ file:///home/ada/lib", {"kind": "directory"}),
    (
        {"url": "file:///home/ada/my%20lib", "dir_info": {"editable": True}},
        "# Editable install with no version control (lib==1.0)\n-e /home/ada/my lib",
        {"kind": "editable", "path": "/home/ada/my lib"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("direct_url", "line", "read"), ORIGINS)
def test_every_origin_has_its_line(
    direct_url: Any, line: str, read: dict[str, Any], context: capture.Context, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    plant(tmp_path / "site", "lib", direct_url=direct_url)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    facts = capture.take_distributions(context).facts
    text = capture._format_freeze(facts["found"], {})
    assert text.decode() == line + "\n"
    ((requirement,), remarks) = pip_freeze.parse(text)
    assert {name: getattr(requirement, name) for name in read} == read
    assert all(remark.understood for remark in remarks)


VERSIONS = {
    "2.1.0+cu121": "lib==2.1.0+cu121", "1!2.0rc1.post1.dev2": "lib==1!2.0rc1.post1.dev2", "1.0-1": "lib==1.0.post1",
    "v1.2": "lib==1.2", "2.0.0RC1": "lib==2.0.0rc1", "2023c-1": "lib==2023rc1",
    "1.0.0-SNAPSHOT": "lib===1.0.0-SNAPSHOT",
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_has_one_line_in_pip_in_the_capture_and_in_the_image(
    version: str, context: capture.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a snapshot fails its own round trip."""
    site = tmp_path / "site"
    plant(site, "lib", version)
    pip = [sys.executable, "-m", "pip", "freeze", "--path", str(site)]
    said = subprocess.run(pip, capture_output=True, text=True, check=True).stdout
    image = subprocess.run(
        [sys.executable, "-I", ROOT / "reprobuild_runtime" / "freeze.py", site],
        capture_output=True,
        check=True,
    )
    monkeypatch.setattr(sys, "path", [str(site)])
    captured = capture._format_freeze(capture.take_distributions(context).facts["found"], {}).decode()
    assert {said.strip(), captured.strip(), *json.loads(image.stdout)["freeze"]} == {VERSIONS[version]}


def test_a_leftover_of_an_interrupted_installation_is_not_the_distribution(
    context: capture.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip renames `torch` to `~orch` before it removes it; the metadata inside keeps the name."""
    plant(tmp_path / "site", "~orch", metadata="Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    plant(tmp_path / "site", "torch", "2.0")
    (tmp_path / "site" / "idna-3.7.dist-info").mkdir()
    (tmp_path / "site" / "~ix-1.0.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])
    facts = capture.take_distributions(context).facts
    text = capture._format_freeze(facts["found"], {}).decode()
    assert sorted(text.splitlines()) == ["torch==2.0", "~orch==1.0"]
    found, _ = pip_freeze.parse(text.encode())
    assert {(line.kind, line.name) for line in found} == {("index", "torch"), ("leftover", "~orch")}
    notes = capture._notes({"distributions": facts, "parts": {}, "repositories": []})
    folder = tmp_path / "site" / "idna-3.7.dist-info"
    assert notes == [
        f"{folder} has no metadata that can be read: the freeze leaves it out, and the image will not have it"
    ]


def test_the_first_of_each_name_and_what_cannot_be_read(
    context: capture.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "first", "My.Lib", "2.0")
    plant(tmp_path / "second", "my_lib", "1.0")
    plant(
        tmp_path / "second", "nameless", metadata="Metadata-Version: 2.1\n\nName: in the text\nVersion: 1\n"
    )
    plant(tmp_path / "second", "torn", direct_url="not an object")
    plant(tmp_path / "second", "pip", "26.0")
    project = tmp_path / "project"
    (project / "old.egg-info").mkdir(parents=True)
    (project / "old.egg-info" / "PKG-INFO").write_text("Metadata-Version: 1.0\nName: old\nVersion: 0.1\n")
    (tmp_path / "second" / "old.egg-link").write_text(f"{project}\n.")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(tmp_path / "second"), "/nonexistent"])
    facts = capture.take_distributions(context).facts
    assert [(one["name"], one["version"]) for one in facts["found"]] == [
        ("My.Lib", "2.0"),
        ("old", "0.1"),
        ("pip", "26.0"),
    ]
    assert sorted(Path(one["location"]).name for one in facts["broken"]) == [
        "nameless-1.0.dist-info",
        "torn-1.0.dist-info",
    ]
    text = capture._format_freeze(facts["found"], {}).decode()
    assert text == f"My.Lib==2.0\n# Editable install with no version control (old==0.1)\n-e {project}\n"


@pytest.mark.parametrize("finder", [False, True])
def test_every_form_of_a_distribution(
    finder: bool, context: capture.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the finder of somebody, which only `importlib.metadata` asks."""
    site = tmp_path / "site"
    plant(site, "folder")
    plant(
        site,
        "long",
        metadata="Name: long\nClassifier: x\n" + "Keywords: y\n" * capture.HEAD + "Version: 2\n\ntext\n",
    )
    plant(site, "windows", metadata="Name: windows\r\nVersion: 3\r\n\r\nVersion: 4\r\n")
    url = "https://files.example/" + "x" * capture.HEAD
    plant(site, "far", direct_url={"url": url, "archive_info": {}})
    (site / "single-5.egg-info").write_text("Metadata-Version: 1.1\nName: single\nVersion: 5\n")
    (site / "EGG-INFO").mkdir()
    egg = tmp_path / "laid-6.egg" / "EGG-INFO"
    egg.mkdir(parents=True)
    (egg / "PKG-INFO").write_text("Name: laid\nVersion: 6\n")
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("zipped-7.dist-info/METADATA", "Name: zipped\nVersion: 7\n")
    monkeypatch.setattr(
        sys, "path", [f"{site}/", str(egg.parent), str(tmp_path / "zipped.zip"), str(tmp_path / "no")]
    )
    if finder:
        monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, NothingFinder])
    facts = capture.take_distributions(context).facts
    assert [(one["name"], one["version"]) for one in facts["found"]] == [
        ("far", "1.0"), ("folder", "1.0"), ("laid", "6"), ("long", "2"), ("single", "5"), ("windows", "3"),
        ("zipped", "7"),
    ]  # fmt: skip
    assert facts["found"][0]["origin"]["url"] == url
    assert {one["location"].rstrip("/") for one in facts["found"]} == {
        str(site),
        str(egg.parent),
        str(tmp_path / "zipped.zip"),
    }
    assert facts["broken"] == []


class NothingFinder(metadata.DistributionFinder):
    """A finder that finds nothing."""

    @classmethod
    def find_spec(cls, *args: Any) -> None:
        """Find no module."""

    @classmethod
    def find_distributions(cls, *args: Any) -> Any:
        """Find no distribution."""
        return iter(())


def test_a_parent_that_cannot_be_seen_ends_the_chain(
    context: capture.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended meanwhile; hidepid hides those of others in the same way."""
    child = subprocess.Popen(["true"])
    child.wait()
    monkeypatch.setattr(os, "getpid", lambda: child.pid)
    monkeypatch.setattr(sys, "argv", ["train.py", "--lr", "1"])
    facts = capture.take_command(context).facts
    assert (facts["argv"], facts["processes"]) == (["train.py", "--lr", "1"], [])


def test_rpm_lists_its_packages(
    context: capture.Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "rpm"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nprintf 'zlib 1.2-3.el9 x86_64\\nbash 5.1-2.el9 x86_64\\n'\n")
    fake.chmod(0o755)
    found = context._replace(environ={"PATH": f"{fake.parent}:{ENV['PATH']}"})
    monkeypatch.setattr(capture, "RPM_FOLDERS", ("/nonexistent",))
    with pytest.raises(capture.GaveUpError) as caught:
        capture.take_rpm(found)
    assert caught.value.reason == "not-there"
    monkeypatch.setattr(capture, "RPM_FOLDERS", (str(tmp_path),))
    taken = capture.take_rpm(found)
    assert taken.texts["rpm-packages.txt"] == b"bash 5.1-2.el9 x86_64\nzlib 1.2-3.el9 x86_64\n"
    assert taken.facts == {"packages": 2}


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15", True), ("/opt/nccl/lib/libnccl.so.2", True),
        ("/site/torch/lib/libcudnn_graph.so.9", True), ("/site/nvidia/cudnn/lib/libcudnn.so.9", True),
        ("/site/torch/lib/libgomp-a34b3233.so.1", True), ("/usr/lib/libmpi.so.40.30.4", True),
        ("/usr/lib/libc.so.6", False), ("/usr/lib/libcuda.so.txt", False),
    ],
)  # fmt: skip
def test_libraries_that_change_numbers_or_speed(path: str, counts: bool) -> None:
    assert bool(capture._LIBRARIES.search(path)) == counts


def test_torch_is_looked_at_where_it_is_loaded(
    context: capture.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = types.SimpleNamespace(__version__="2.13.0+cpu", cuda=None, git_version="abc")
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(version=version))
    facts = capture.take_gpu(context).facts
    assert facts["torch"] == {
        "__version__": "2.13.0+cpu",
        "cuda": "None",
        "hip": "None",
        "git_version": "abc",
    }


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("ada:pw@git.example:a/b.git", "git.example:a/b.git"),
        ("git@git.example:a/b.git", "git@git.example:a/b.git"),
        ("https://ada:pw4nobody@git.example/a", "https://git.example/a"),
        ("/srv/git/a:b@c", "/srv/git/a:b@c"),
        ("../origin.git", "../origin.git"),
    ],
)
def test_addresses_of_remotes_without_credentials(url: str, bare: str) -> None:
    assert capture._strip_remote_login(url) == bare


def test_a_text_keeps_no_secret_of_the_environment() -> None:
    environ = {
        "A_TOKEN": "Zq7-of-nobody", "B_TOKEN": "short", "C_TOKEN": "onlyletters", "D_TOKEN": "1234567890",
        "E_TOKEN": "/a/path/x", "F": "plain value 1",
    }  # fmt: skip
    secrets = capture._known_secrets(environ)
    assert secrets == [b"Zq7-of-nobody"]
    document = {"a": ["x Zq7-of-nobody y", 1, None], "b": {"Zq7": "onlyletters"}}
    assert capture._scrub_document(document, secrets) == {
        "a": ["x *** y", 1, None],
        "b": {"Zq7": "onlyletters"},
    }
