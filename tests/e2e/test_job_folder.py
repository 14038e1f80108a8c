"""A job that ran in a repository from which nothing is installed: its files are in the image, and it starts there."""

from __future__ import annotations

from pathlib import Path

from tests.capture.repositories import git, new_origin, take, write
from tests.conftest import reprobuild


def test_the_folder_of_the_job_is_in_the_image(test_store: Path, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"import sys; print('ran', sys.argv[1])\n")
    git(top, "commit", "-qam", "unpushed")
    write(top, "new/x.txt", b"untracked\n")
    take(top, tmp_path / "snapshot")
    out = tmp_path / "out"
    decisions = (
        "--base",
        "debian/bookworm",
        "--python",
        "3.11",
        "--accept",
        "no-apt-list",
        "--source",
        f"clone={top}",
    )
    done = reprobuild("from-snapshot", tmp_path / "snapshot", "-o", out, "--store", test_store, *decisions)
    # Without torch nothing shows that a drift would be seen; the round trip has its own answer.
    assert done.returncode == 9, done.stderr + done.stdout
    assert "round trip: explained" in done.stdout
    ran = reprobuild("run", out, "--", "sh", "-c", "pwd; cat new/x.txt; python3 kept.py well")
    assert ran.stdout == "/src/clone\nuntracked\nran well\n", ran.stderr
    assert ", changed, the folder of the job" in (out / "Dockerfile").read_text()
