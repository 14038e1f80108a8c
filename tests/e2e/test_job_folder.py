"""A job without torch in a repository of its own: its files are in the image, and it is its own check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.repositories import git, new_origin, take, write
from tests.conftest import reprobuild


@pytest.mark.long
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
    # Without torch there is no determinism test, and the lock has no workload; the round trip has its own answer.
    assert done.returncode == 9, done.stderr + done.stdout
    assert "let `reprobuild verify OUT --workload CMD --output-file PATH` run your own work" in done.stdout
    assert "round trip: explained" in done.stdout
    ran = reprobuild("run", out, "--", "sh", "-c", "pwd; cat new/x.txt; python3 kept.py well")
    assert ran.stdout == "/src/clone\nuntracked\nran well\n", ran.stderr
    assert ", changed, the directory of the job" in (out / "Dockerfile").read_text()
    check_own_work(out, test_store)


def check_own_work(out: Path, store: Path) -> None:
    """Follow the hint of an image without torch: the job itself is the check, and decides."""
    verify = ("verify", out, "--store", store, "--runs", "3", "--output-file", "{out}/said.txt", "--workload")
    same = reprobuild(*verify, "python3 kept.py well >{out}/said.txt")
    assert same.returncode == 0, same.stderr + same.stdout
    alone = "determinism: cpu identical (your work, 3 runs), gpu not-applicable, collectives not-applicable"
    assert alone in same.stdout
    assert "N = 3, too few to bound the share of runs that drift; --runs 30 bounds it by 10%" in same.stdout
    other = reprobuild(*verify, "head -c 9 /dev/urandom | od >{out}/said.txt")
    assert other.returncode == 8, other.stderr + other.stdout
    assert "runs 2, 3 of 3 beside the first" in other.stdout
