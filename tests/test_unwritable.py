"""A home, a store or an output directory that cannot be written: the hint names the option, and is followed."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.cli.remedies import find_remedy

ROOT = Path(__file__).parent.parent
# No user may make a directory there, root neither.
READ_ONLY = "/sys"
VARIABLE = "let XDG_CACHE_HOME name a directory of yours (`export XDG_CACHE_HOME=DIR`)"
CACHE = f"{VARIABLE}, or name the store alone with --store DIR"
GENERAL = "check the path, its permissions and the space left"


def run(folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": READ_ONLY, **variables}
    return subprocess.run(
        [sys.executable, "-m", "reprobuild.cli", *shlex.split(line)],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "typed").mkdir()
    (tmp_path / "typed" / "requirements.txt").write_text("")
    return tmp_path


OPTIONS = "typed --python 3.11 --base debian/bookworm --accept no-apt-list"


def test_a_home_that_cannot_be_written(folder: Path) -> None:
    done = run(folder, f"lock {OPTIONS}")
    assert done.returncode == 2
    cause, _, hint = done.stderr.partition("error: ")[2].partition("\n\nhint: ")
    assert cause.startswith("/sys/.cache: ")
    assert hint in (f"you may not write there: {CACHE}\n", f"it is mounted read-only: {CACHE}\n")
    assert "/sys/" not in run(folder, f"lock {OPTIONS} --store {folder}/store").stderr.partition("error: ")[2]
    there = run(folder, f"lock {OPTIONS}", XDG_CACHE_HOME=str(folder / "cache"))
    assert "/sys/" not in there.stderr.partition("error: ")[2]
    assert (folder / "cache" / "reprobuild").is_dir()


def test_a_store_and_an_output_directory_that_cannot_be_written(folder: Path) -> None:
    done = run(folder, f"lock {OPTIONS} --store /sys/store")
    assert done.stderr.endswith(": name another store with --store DIR\n")
    for line in (
        "import typed/requirements.txt -o /sys/i",
        f"from-snapshot {OPTIONS} --store st --output=/sys/o",
    ):
        done = run(folder, line)
        assert done.returncode == 2, done.stderr
        assert done.stderr.endswith(": name another place with -o PATH\n")
    assert run(folder, "import typed/requirements.txt -o taken").returncode == 0


@pytest.mark.parametrize(
    ("path", "line", "hint"),
    [
        ("/h/.cache", "verify out", CACHE),
        ("/h/.cache/reprobuild/blobs", "verify out", CACHE),
        ("/h/.cache/reprobuild-images", "verify out --store /s", VARIABLE),
        ("/s/tmp", "verify out --store=/s", "name another store with --store DIR"),
        ("/o/.x.bundling.abc", "bundle out -o /o/x", "name another place with -o PATH"),
        ("frozen/image", "from-snapshot s", "name another place with -o PATH"),
        ("/h/.netrc", "from-snapshot s -o /h/out", GENERAL),
        ("/s/tmp", "run out -- sh --store /s", GENERAL),
        (None, "verify out", GENERAL),
    ],
)
@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
def test_the_option_that_names_another_place(path: str | None, line: str, hint: str, number: int) -> None:
    found = find_remedy(OSError(number, "no", path), line.split(), {"HOME": "/h"})
    assert found == (hint if hint == GENERAL else f"you may not write there: {hint}")


def test_a_full_cache() -> None:
    err = OSError(errno.ENOSPC, "no", "/h/.cache/reprobuild-images/containers/x")
    assert find_remedy(err, ["run", "out", "--", "true"], {"HOME": "/h"}) == (
        f"make room there, or {CACHE}; what was complete is kept, the next run goes on"
    )


def test_a_variable_of_the_cache() -> None:
    err = OSError(errno.EROFS, "no", "/c/reprobuild")
    assert (
        find_remedy(err, ["verify"], {"HOME": "/h", "XDG_CACHE_HOME": "/c"})
        == f"it is mounted read-only: {CACHE}"
    )
