"""`dev/check_space.py`, which `make test` runs first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).parent.parent / "dev" / "check_space.py"
CODE = (
    "import runpy, shutil, sys; shutil.disk_usage = lambda path: FREE; "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)


def check(folder: Path, free: int) -> subprocess.CompletedProcess[str]:
    """Run the program in a process that sees `free` GiB of free space."""
    usage = f"shutil._ntuple_diskusage(1 << 50, 0, {free} << 30)"
    code = CODE.replace("FREE", usage)
    env = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code, PROGRAM], env=env, capture_output=True, text=True, check=False
    )


def test_a_full_disk_is_an_error_at_once(tmp_path: Path) -> None:
    done = check(tmp_path, 4)
    assert done.returncode == 1
    assert f"error: {tmp_path} has 4 GiB of free space" in done.stderr
    assert "TMPDIR=DIRECTORY make test" in done.stderr


def test_a_directory_with_room_passes(tmp_path: Path) -> None:
    done = check(tmp_path, 28)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
