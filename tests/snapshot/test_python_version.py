"""`python.txt`: what real interpreters print, and what other implementations are known to print."""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from msgspec import UNSET

from reprobuild.resolve.interpreter.choice import resolve_interpreter
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.snapshot.parsers import python_version
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import ROOT

RECIPE = "import sysconfig; print(sysconfig.get_platform())"


def test_what_this_interpreter_prints(tmp_path: Path) -> None:
    """The two commands of the recipe, as docs/snapshots.md has them."""
    words = [[sys.executable, "-VV"], [sys.executable, "-c", RECIPE]]
    data = b"".join(subprocess.run(argv, check=True, capture_output=True).stdout for argv in words)
    (tmp_path / "python.txt").write_bytes(data)
    snapshot = read_snapshot(tmp_path)
    (report,) = snapshot.reports
    assert report.python == platform.python_version()
    assert report.machine == sysconfig.get_platform().removeprefix("linux-")
    assert [remark for remark in snapshot.remarks if not remark.understood] == []
    assert resolve_interpreter(gather_evidence(snapshot), None).version == platform.python_version()


def test_the_recipe_takes_the_python() -> None:
    (recipe,) = [
        part
        for part in (ROOT / "docs" / "snapshots.md").read_text().split("```")
        if part.startswith("bash\nREPRO_DIR=")
    ]
    lines = recipe.splitlines()
    assert "python -VV > $REPRO_DIR/python.txt" in lines
    assert f"python -c '{RECIPE}' >> $REPRO_DIR/python.txt" in lines
    assert "pip freeze --all > $REPRO_DIR/requirements.txt" in lines


@pytest.mark.parametrize(
    ("text", "version", "free"),
    [
        ("Python 3.12.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n", "3.12.1", False),
        ("Python 3.9.7 | packaged by conda-forge | (default, Sep 29 2021, 19:20:46) \n[GCC 9.4.0]\n", "3.9.7", False),
        ("Python 3.13.1 experimental free-threading build (main, Jan 14 2025) [Clang 19.1.6 ]\n", "3.13.1", True),
        ("Python 3.14.0 free-threading build (main, Oct 10 2025) [Clang 20.1.4 ]\nlinux-aarch64\n", "3.14.0", True),
        ("Python 3.11.2+ (heads/3.11:1, Jan 1 2024) [GCC 12.2.0]\n", "3.11.2", False),
        ("Python 3.10.13 (f1607341da97, Sep 28 2023, 05:42:54)\n[PyPy 7.3.13 with GCC 10.2.1]\n", "", False),
    ],
)  # fmt: skip
def test_what_other_builds_print(text: str, version: str, free: bool) -> None:
    (report,), remarks = python_version.parse(text.encode())
    assert (report.python, report.free_threaded) == (version, True if free else UNSET)
    assert all(remark.understood for remark in remarks)


@pytest.mark.parametrize(
    "text", ["Python 3.13.0rc1 (main)\n", "bash: python: command not found\n", "Python 2.7.18\n"]
)
def test_what_is_no_release_of_python_3_is_shown(text: str) -> None:
    reports, remarks = python_version.parse(text.encode())
    assert reports == ()
    assert [remark.understood for remark in remarks] == [False]


def test_it_outweighs_the_systems_list(tmp_path: Path) -> None:
    (tmp_path / "apt-packages.txt").write_text("python3.11/stable,now 3.11.2-6 amd64 [installed]\n")
    (tmp_path / "python.txt").write_text(
        "Python 3.12.1 (main, Dec  8 2023, 05:40:51) [GCC 12.2.0]\nlinux-x86_64\n"
    )
    chosen = resolve_interpreter(gather_evidence(read_snapshot(tmp_path)), None)
    assert (chosen.version, chosen.evidence, chosen.kind) == ("3.12.1", "python, python.txt:1", "standalone")
