"""pip, setuptools and wheel, which `pip freeze` leaves out: taken from the environment's own directory alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.parsers import capture_json
from reprobuild.snapshot.read import read_snapshot
from reprobuild.snapshot.unlisted import list_unlisted
from tests.conftest import ROOT

SITE = "/home/ada/venv/lib/python3.11/site-packages"


def one(name: str, version: str = "1.0", **more: str) -> dict[str, Any]:
    return {"name": name, "version": version, "installer": "pip", "location": SITE, "origin": None, **more}


def document(*found: dict[str, Any], prefix: str = "/home/ada/venv") -> bytes:
    return json.dumps(
        {
            "capture": 1,
            "python": {"version": "3.11.2", "prefix": prefix},
            "distributions": {"found": found, "broken": []},
        }
    ).encode()


def read(data: bytes, *listed: str) -> list[str]:
    return [
        f"{line.text} {line.kind} {line.place.file}"
        for line in list_unlisted(capture_json.parse(data), listed)
    ]


def test_what_a_freeze_leaves_out_is_a_line() -> None:
    data = document(
        one("pip", "23.0.1"), one("numpy"), one("Setuptools", "84.2.1", installer="uv"), one("wheel")
    )
    assert read(data) == [
        "pip==23.0.1 index capture.json",
        "setuptools==84.2.1 index capture.json",
        "wheel==1.0 index capture.json",
    ]
    assert read(data, "SetupTools", "wheel") == ["pip==23.0.1 index capture.json"]


@pytest.mark.parametrize(
    "other",
    [
        one("setuptools", location="/usr/lib/python3/dist-packages"),
        one("setuptools", location="/home/ada/venv2/lib/python3.11/site-packages"),
        one("setuptools", installer="conda"),
        one("setuptools", installer="debian"),
        one("setuptools", installer=""),
        one("setuptools", version="x y"),
    ],
    ids=str,
)
def test_others_have_their_own_records(other: dict[str, Any]) -> None:
    assert [line for line in read(document(other)) if "evil" in line or "setuptools" in line] == []


def test_captures_without_these_parts() -> None:
    assert read(b'{"capture": 1, "distributions": null}') == []
    assert read(b'{"capture": 1}') == []
    assert read(b'{"capture": 1, "python": null, "distributions": {}}') == []


@pytest.mark.parametrize(
    "data",
    [
        b"[",
        b'{"capture": 1, "distributions": 3}',
        b"\xff",
        b'{"capture": 1, "python": {"version": "3.11.2", "prefix": "a\x00"}}',
        document(one("setuptools", version="1.0\nevil==1")),
    ],
)
def test_a_damaged_document(data: bytes) -> None:
    with pytest.raises(SnapshotError, match=r"capture\.json") as caught:
        capture_json.parse(data)
    assert caught.value.hint


def test_a_real_environment_with_setuptools(tmp_path: Path) -> None:
    """A capture of the environment sees pip and setuptools, and so does `pip freeze --all` alone."""
    # Debian's Python has no ensurepip without python3-venv.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "pip", "setuptools"]
    subprocess.run(install, check=True)
    program = ROOT / "reprobuild_runtime" / "capture.py"
    subprocess.run([python, program, "-o", tmp_path / "out"], check=True, cwd=tmp_path, capture_output=True)
    freeze = subprocess.run(
        [python, "-m", "pip", "freeze", "--all"], check=True, capture_output=True, text=True
    )
    snapshot = read_snapshot(tmp_path / "out")
    assert sorted(line.text for line in snapshot.unlisted) == sorted(freeze.stdout.splitlines())
    assert snapshot.requirements == ()
