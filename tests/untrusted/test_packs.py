"""A pack of which git would hold a huge object in memory is refused before git reads it."""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from reprobuild.infra.untrusted import git_packs
from reprobuild.infra.untrusted.git_packs import ALLOWANCE, LARGEST, check_pack

COMMIT, FILE, BY_OFFSET, BY_NAME = 1, 3, 6, 7


def head(kind: int, size: int) -> bytes:
    rest, found = size >> 4, bytearray([kind << 4 | size & 15])
    while rest:
        found[-1] |= 128
        found.append(rest & 127)
        rest >>= 7
    return bytes(found)


def number(value: int) -> bytes:
    found = bytearray([value & 127])
    while value := value >> 7:
        found[-1] |= 128
        found.append(value & 127)
    return bytes(found)


def pack_of(*objects: bytes) -> bytes:
    body = struct.pack(">4sII", b"PACK", 2, len(objects)) + b"".join(objects)
    return body + hashlib.sha1(body).digest()


def packed(kind: int, content: bytes, between: bytes = b"", size: int | None = None) -> bytes:
    return head(kind, len(content) if size is None else size) + between + zlib.compress(content)


def delta(base: int, result: int) -> bytes:
    return number(base) + number(result) + b"\x90\x01"


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_what_git_packs_is_taken(form: str, tmp_path: Path) -> None:
    def git(*words: str, stdin: bytes = b"") -> bytes:
        argv = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *words]
        return subprocess.run(argv, cwd=tmp_path, input=stdin, capture_output=True, check=True).stdout

    git("init", "--quiet", f"--object-format={form}", ".")
    draw = random.Random(0)
    for turn in range(4):
        (tmp_path / "text").write_text("".join(f"{line} {turn * (line == 70)}\n" for line in range(9000)))
        (tmp_path / "zeros").write_bytes(bytes(3_000_000 + turn))
        (tmp_path / "drawn").write_bytes(draw.randbytes(200_000))
        git("add", "--all")
        git("commit", "--quiet", "-m", str(turn))
    for option in ("--delta-base-offset", "--no-reuse-delta"):
        whole = git("pack-objects", "--all", "--stdout", "--quiet", option)
        check_pack(whole, 20 if form == "sha1" else 32)
        with pytest.raises(ValueError, match="pack is"):
            check_pack(whole[: len(whole) // 2], 20 if form == "sha1" else 32)


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ((packed(BY_NAME, delta(1, LARGEST + 1), b"n" * 20),), f"has {LARGEST + 1} bytes, and git would hold it"),
        ((packed(BY_OFFSET, delta(LARGEST + 1, 1), b"\x81\x01"),), "git would hold it in memory"),
        ((packed(COMMIT, b"x", size=LARGEST + 1),), "git would hold it in memory"),
        ((packed(COMMIT, b"x" * 99, size=9),), "an object of its pack is longer than it says"),
        ((packed(FILE, b"x"), head(FILE, 5) + bytes(9)), "its pack is damaged"),
        ((packed(BY_NAME, b"\xff" * 20, b"n" * 20),), "a number without an end"),
        ((packed(FILE, b"x")[:-9],), "its pack is"),
        ((b"\xff" * 2_000_000 + b"\0",), "an object of its pack states a size without an end"),
    ],
)  # fmt: skip
def test_what_git_would_hold_is_refused(objects: tuple[bytes, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_pack(pack_of(*objects), 20)


def test_a_large_file_is_streamed_by_git_and_is_taken() -> None:
    check_pack(
        pack_of(packed(FILE, b"x", size=LARGEST + 1), packed(BY_OFFSET, delta(9, LARGEST), b"\x01")), 20
    )


def test_many_results_of_a_small_pack_are_refused_together() -> None:
    """Each is below the bound of one object; 30 of 496 MiB took git 84 s."""
    large = 496 << 20
    one = packed(BY_OFFSET, delta(9, large), b"\x01")
    fits = ALLOWANCE // large
    check_pack(pack_of(packed(FILE, b"x" * 9), *[one] * fits), 20)
    with pytest.raises(ValueError, match=rf"its pack has \d+ bytes, and its objects more than {ALLOWANCE}"):
        check_pack(pack_of(packed(FILE, b"x" * 9), *[one] * (fits + 1)), 20)


def test_large_objects_and_deltas_of_a_small_pack_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_packs, "ALLOWANCE", 50_000)
    monkeypatch.setattr(git_packs, "RATIO", 1)
    for one in (packed(FILE, bytes(30_000)), packed(BY_OFFSET, delta(9, 9) + bytes(30_000), b"\x01")):
        check_pack(pack_of(one), 20)
        with pytest.raises(ValueError, match="and its objects more than 50000"):
            check_pack(pack_of(one, one), 20)


def test_a_large_pack_may_have_more_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_packs, "ALLOWANCE", 1000)
    drawn = packed(FILE, random.Random(0).randbytes(10_000))
    fits = packed(BY_OFFSET, delta(10_000, 390 * len(drawn)), b"\x01")
    check_pack(pack_of(drawn, fits), 20)
    with pytest.raises(ValueError, match="and its objects more than"):
        check_pack(pack_of(drawn, fits, fits), 20)
