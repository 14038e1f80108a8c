"""Each failure has its own error, hint and exit code, and the next run recovers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.conftest import EXAMPLE, Built, reprobuild

SNAPSHOT = EXAMPLE / "snapshot"


def build(example: Path, out: Path, built: Built, *options: str) -> tuple[int, str]:
    done = reprobuild(
        "from-snapshot",
        example / "snapshot",
        "--decisions",
        example / "reprobuild.yaml",
        "-o",
        out,
        "--store",
        built.store,
        "--no-verify",
        *options,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_flipped_byte_in_a_stored_wheel_is_refused_and_the_next_run_recovers(
    built_example: Built, tmp_path: Path
) -> None:
    wheel = next(wheel for wheel in built_example.lock.wheels if wheel.name == "einops")
    blob = built_example.store / "blobs" / wheel.file.sha256[:2] / wheel.file.sha256
    content = bytearray(blob.read_bytes())
    content[1000] ^= 1
    blob.unlink()  # the context holds the old one by a hard link
    blob.write_bytes(content)
    code, said = build(EXAMPLE, built_example.out, built_example)
    assert code == 5
    assert f"{wheel.file.filename} in the store is damaged" in said
    assert "hint: the damaged copy was removed; run the command again" in said
    code, said = build(EXAMPLE, built_example.out, built_example)
    assert code == 0, said


@pytest.mark.long
def test_an_unknown_version(built_example: Built, example_copy: Path, tmp_path: Path) -> None:
    freeze = example_copy / "snapshot" / "requirements.txt"
    right = freeze.read_text()
    freeze.write_text(right.replace("einops==0.8.2", "einops==0.8.2000"))
    code, said = build(example_copy, tmp_path / "out", built_example)
    assert code == 4
    assert "requirements.txt:6: einops: unresolved (unknown-version)" in said
    assert "hint: to go on without exactly these: reprobuild from-snapshot " in said
    assert "--no-verify --accept einops\n" in said
    freeze.write_text(right)
    code, said = build(example_copy, tmp_path / "out", built_example)
    assert code == 0, said


def test_a_diff_that_does_not_apply(built_example: Built, example_copy: Path, tmp_path: Path) -> None:
    diff = example_copy / "snapshot" / "tinytrain.diff"
    text = diff.read_text()
    index = next(line for line in text.splitlines() if line.startswith("index "))
    diff.write_text(text.replace(index, "index 1234567..89abcde 100644", 1))
    code, said = build(example_copy, tmp_path / "out", built_example)
    assert code == 4
    assert "tinytrain.diff:" in said
    assert "does not apply: it was made on blob 1234567" in said
    assert (
        "was staged, and is not in the diff\nhint: a plain `git diff` leaves staged changes out"
        in said.replace("\n\n", "\n")
    )


def test_a_stopped_engine(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": "/nonexistent"}
    done = reprobuild("verify", out, "--engine", "docker", env=env)
    assert done.returncode == 6
    assert "no container engine answers (tried docker)" in done.stderr
    assert "hint: start one, point DOCKER_HOST at one" in done.stderr
    assert reprobuild("verify", out, "--no-probes", "--runs", "2").returncode == 0


def test_a_missing_bundle(built_example: Built, example_copy: Path, tmp_path: Path) -> None:
    (example_copy / "tinytrain.bundle").unlink()
    code, said = build(example_copy, tmp_path / "out", built_example)
    assert code == 4
    assert "the source of tinytrain" in said
    assert "hint: name a bundle, a clone or another remote with --source tinytrain=PATH|URL" in said


def test_a_missing_snapshot(tmp_path: Path) -> None:
    done = reprobuild("from-snapshot", tmp_path / "nothing", "-o", tmp_path / "out")
    assert done.returncode == 3
    assert "hint:" in done.stderr
    assert not (tmp_path / "out").exists()


def test_offline_with_an_empty_store(built_example: Built, tmp_path: Path) -> None:
    done = reprobuild(
        "build",
        built_example.out / "reprobuild.lock",
        "-o",
        tmp_path / "out",
        "--store",
        tmp_path / "store",
        "--offline",
    )
    assert done.returncode == 5
    assert "--offline forbids the network" in done.stderr or "not in the store" in done.stderr
    assert "hint:" in done.stderr
