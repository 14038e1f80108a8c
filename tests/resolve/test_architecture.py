"""Which architecture it was: what each file shows, files that contradict each other, and the user's word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.errors import LockError
from reprobuild.resolve.architecture import captured_platform
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot, snapshot_digest

REPORT = "PyTorch version: 2.3.1\nPython platform: Linux-5.10.0-{0}.aarch64-{0}-with-glibc2.38\n"
EXPLICIT = "@EXPLICIT\nhttps://conda.example.org/forge/{}/python-3.11.8-h1_0.conda\n"


def capture(machine: str, *, python: bool = True) -> str:
    document = {"capture": 1, "repositories": [], "machine": {"uname": ["Linux", "n1", "6.1", "#1", machine]}}
    of_python = {"version": "3.11.2", "implementation": "CPython", "platform": f"linux-{machine}"}
    return json.dumps(document | ({"python": of_python} if python else {}))


def snapshot(tmp_path: Path, files: dict[str, str]) -> Snapshot:
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n")
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    return read_snapshot(tmp_path)


def apt(*architectures: str) -> str:
    return "".join(f"lib{name}/stable,now 1 {name} [installed]\n" for name in architectures)


@pytest.mark.parametrize(
    ("files", "platform"),
    [
        ({}, "linux/amd64"),
        ({"apt-packages.txt": apt("amd64", "all")}, "linux/amd64"),
        ({"apt-packages.txt": apt("arm64", "all")}, "linux/arm64"),
        ({"apt-packages.txt": apt("arm64", "amd64")}, "linux/amd64"),
        ({"apt-packages.txt": apt("arm64", "amd64"), "capture.json": capture("aarch64")}, "linux/arm64"),
        ({"rpm-packages.txt": "glibc 2.34-1.el9 aarch64\ntzdata 2024a-1.el9 noarch\n"}, "linux/arm64"),
        ({"rpm-packages.txt": "glibc 2.34-1.el9 x86_64\nglibc 2.34-1.el9 i686\n"}, "linux/amd64"),
        ({"rpm-packages.txt": "gpg-pubkey 1-2 (none)\n"}, "linux/amd64"),
        ({"conda-explicit.txt": EXPLICIT.format("linux-aarch64")}, "linux/arm64"),
        ({"capture.json": capture("aarch64")}, "linux/arm64"),
        ({"capture.json": capture("aarch64", python=False)}, "linux/arm64"),
        ({"collect-env.txt": REPORT.format("aarch64")}, "linux/arm64"),
        ({"collect-env.txt": REPORT.format("x86_64"), "capture.json": capture("x86_64")}, "linux/amd64"),
        ({"collect-env.txt": "PyTorch version: 2\nPython platform: macOS-14.5-arm64-arm-64bit\n"}, "linux/amd64"),
    ],
)  # fmt: skip
def test_what_shows_the_architecture(files: dict[str, str], platform: str, tmp_path: Path) -> None:
    assert captured_platform(snapshot(tmp_path, files)) == platform


def test_two_architectures(tmp_path: Path) -> None:
    given = snapshot(
        tmp_path, {"rpm-packages.txt": "glibc 2.34-1.el9 aarch64\n", "capture.json": capture("x86_64")}
    )
    with pytest.raises(LockError) as caught:
        captured_platform(given)
    assert str(caught.value) == (
        "the snapshot shows two architectures: linux/arm64 (rpm-packages.txt:1) and linux/amd64 (capture.json)"
    )
    assert (
        caught.value.hint == "say which one the job ran on: --platform linux/amd64 or --platform linux/arm64"
    )


@pytest.mark.parametrize(
    "files",
    [{"rpm-packages.txt": "glibc 2.34-1.el9 ppc64le\n"}, {"capture.json": capture("ppc64le")},
     {"apt-packages.txt": apt("ppc64le")}],
)  # fmt: skip
def test_an_architecture_of_which_no_image_is_made(files: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(LockError, match="the platform linux/ppc64le is not known") as caught:
        captured_platform(snapshot(tmp_path, files))
    assert caught.value.hint == "use one of linux/amd64, linux/arm64"


def test_what_was_taken_for_granted_is_not_in_the_digest(tmp_path: Path) -> None:
    """So that snapshots keep theirs, which were read before reports told the machine."""
    found = {}
    for machine in ("x86_64", "aarch64", "?"):
        (tmp_path / "capture.json").write_text(capture(machine))
        found[machine] = snapshot_digest(read_snapshot(tmp_path))
    assert found["x86_64"] == found["?"] != found["aarch64"]
