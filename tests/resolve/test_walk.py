"""No line of a freeze comes to a stage of `resolve` twice: its rules stand in one place."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from reprobuild.config.overrides import Decisions
from reprobuild.lock.model import Lock
from reprobuild.resolve.resolver import resolve_snapshot
from tests.resolve.small import around, snapshot, use_debian, write_wheel
from tests.resolve.walk import follow_line, stages

VENV = "PATH=/home/a/v/bin:/usr/bin\nVIRTUAL_ENV=/home/a/v\n"
ORDER = ["interpreter", "environment", "conda", "python", "system", "cuda", "builds", "sources"]


@pytest.fixture(autouse=True)
def debian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let apt have a small release."""
    use_debian(monkeypatch)
    monkeypatch.setattr("reprobuild.resolve.base_and_python.configured_releases", lambda *_: ["bookworm"])


def write_source(folder: Path, name: str) -> None:
    """Write a source distribution that builds without requirements."""
    folder.mkdir(exist_ok=True)
    files = {"PKG-INFO": b"", "pyproject.toml": b"[build-system]\nrequires = []\nbuild-backend = 'x'\n"}
    with tarfile.open(folder / f"{name}-1.0.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(f"{name}-1.0/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))


BASE = Decisions(base="debian/bookworm")
WITHOUT_LIST = {"apt_packages": "", "python": "Python 3.11.2"}
DERIVED = Decisions(python="3.11", accept=("no-apt-list",))
MARKED = 'numpy==1.0 ; python_version < "4"\nnumpy==2.0 ; python_version >= "4"\n'


@pytest.mark.parametrize(
    ("name", "files", "decisions", "least"),
    [
        ("numpy", {"requirements": "numpy==1.0\n"}, BASE, {"python", "system", "cuda"}),
        ("numpy", {"requirements": "numpy==1.0\n", **WITHOUT_LIST}, DERIVED, {"system"}),
        ("numpy", {"requirements": MARKED}, BASE, {"python"}),
        ("numpy", {"requirements": "numpy==1.0\nsix==1.0\n", "env": VENV}, BASE, {"interpreter", "python"}),
        ("numpy", {"requirements": "numpy==9.0\n"}, replace(BASE, accept=("unknown-version",)), {"python"}),
        ("numpy", {"requirements": "numpy==1.0\n"}, replace(BASE, drop=("numpy",)), {"interpreter"}),
        ("made", {"requirements": "made==1.0\n"}, BASE, {"python", "builds"}),
    ],
)  # fmt: skip
def test_a_line_visits_each_stage_once(
    name: str, files: dict[str, str], decisions: Decisions, least: set[str], tmp_path: Path
) -> None:
    write_wheel(tmp_path / "wheels", "numpy", tag="cp311-cp311-manylinux_2_17_x86_64")
    write_wheel(tmp_path / "wheels", "six")
    write_source(tmp_path / "wheels", "made")
    held = snapshot(tmp_path / "snapshot", **files)

    def lock() -> Lock:
        return resolve_snapshot(held, decisions, around(tmp_path, tmp_path / "wheels"))

    made, walked, functions = follow_line(name, lock)
    assert any(ruling.subject == name for ruling in made.rulings)
    assert len(walked) == len(set(walked)), walked
    assert walked == sorted(walked, key=ORDER.index)
    assert least <= set(walked)
    assert len(functions) > 5


def test_a_second_visit_is_seen() -> None:
    visits = [
        (3, "python/a.py", "f"),
        (1, "python/b.py", "g"),
        (2, "system/c.py", "h"),
        (4, "resolver.py", "i"),
    ]
    assert list(stages(visits)) == ["python", "system", "python"]
    assert list(stages(visits[:2])) == ["python"]
