"""Copies that were cut, parts that are missing, bytes that changed: each is noticed, and said by name."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild.distribute import bundle_writer
from reprobuild.distribute.bundle_contents import BundleFile
from reprobuild.distribute.bundle_writer import manifest_of, write_bundle
from reprobuild.distribute.standalone import unbundle as form
from reprobuild.errors import DistributionError
from reprobuild_portable.hashing import hash_file
from tests.distribute.conftest import Results, make_results
from tests.distribute.test_bundle import ALONE, alone, check_bundle, take

X = hashlib.sha256(b"x").hexdigest()
# What a manifest says beside its files.
STATED: dict[str, Any] = {
    "made_by": "reprobuild 0", "lock": X, "parts": [],
    "image": {"reference": "localhost/x", **dict.fromkeys(("tree", "config", "manifest"), f"sha256:{X}")},
}  # fmt: skip

CHANCE = random.Random(11)


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, which no test changes."""
    folder = tmp_path_factory.mktemp("sent")
    make_results(folder / "from").bundle(folder / "b.tar")
    return folder / "b.tar"


def refused(file: Path, out: Path) -> tuple[str, str]:
    """Return what both programs say of a bundle that neither takes, and the hint; nothing may come of it."""
    with pytest.raises(DistributionError) as caught:
        take(file, out, out.parent / "store")
    said = alone(file, "-o", out)
    assert (said.returncode, said.stdout) == (11, "")
    assert said.stderr == f"error: {caught.value}\n\nhint: {caught.value.hint}\n"
    assert not out.exists()
    return str(caught.value), caught.value.hint


def places(file: Path) -> list[tuple[int, int, str]]:
    """Return of every piece of a bundle where it begins and ends, and the name that damage to it must be told by."""
    found = []
    with form.open_bundle(str(file)) as bundle:
        for member, offset, head in bundle.placed():
            begin = offset + len(head)
            found.append((offset, begin, f"the header of {member.path} is not what it must be"))
            if not member.link:
                found.append((begin, begin + member.size, f"{member.path} is damaged: sha256 "))
                found.append(
                    (
                        begin + member.size,
                        begin + form._stored_size(member),
                        f"what follows {member.path} is not",
                    )
                )
        found.append((found[-1][1], bundle.end, "its end is not empty"))
    return [place for place in found if place[0] < place[1]]


def test_one_changed_byte_is_refused_by_name(sent: Path, tmp_path: Path) -> None:
    copy = tmp_path / "b.tar"
    shutil.copy(sent, copy)
    known = places(sent)
    first, manifest = known[0][0], 512 + len(form_manifest(sent))
    with copy.open("r+b") as stream:
        for begin, end, name in [
            *known,
            (0, 512, "no bundle, or damaged"),
            (512, manifest, "its bundle.json is damaged"),
            (manifest, first, "what follows bundle.json is not empty"),
        ]:
            at = CHANCE.randrange(begin, end)
            stream.seek(at)
            was = stream.read(1)
            stream.seek(at)
            stream.write(bytes([was[0] ^ 1 << CHANCE.randrange(8)]))
            stream.flush()
            with pytest.raises(form.RefusedError) as caught:
                check_bundle(copy)
            assert name in str(caught.value), (begin, at)
            stream.seek(at)
            stream.write(was)
            stream.flush()
    assert check_bundle(copy) == len(json.loads(form_manifest(copy))["members"])
    assert len(known) > 40


def form_manifest(file: Path) -> bytes:
    with form.open_bundle(str(file)) as bundle:
        return bundle.manifest


def test_damage_is_told_of_each_member_and_mended_by_another_copy(sent: Path, tmp_path: Path) -> None:
    """What was right of the damaged copy is not unpacked again."""
    copy = tmp_path / "b.tar"
    shutil.copy(sent, copy)
    damaged = [place for place in places(sent) if "is damaged" in place[2] and "/blobs/" in place[2]][:2]
    with copy.open("r+b") as stream:
        for begin, _, _ in damaged:
            stream.seek(begin)
            stream.write(b"other")
    said, hint = refused(copy, tmp_path / "out")
    for begin, end, name in damaged:
        assert name in said
        assert f"bytes {begin + 1} to {end} of {copy}" in said
    assert hint == "copy it again, or make it again with `reprobuild bundle`; what is whole already is kept"
    kept = {path: path.stat().st_ino for path in (tmp_path / ".out.unbundling").rglob("*") if path.is_file()}
    assert len(kept) > 15
    assert take(sent, tmp_path / "out", tmp_path / "store").new
    numbers = {path.stat().st_ino for path in tmp_path.rglob("*") if path.is_file()}
    assert len(set(kept.values()) & numbers) > 12
    assert not (tmp_path / ".out.unbundling").exists()


@pytest.mark.parametrize("part", [0.0, 0.001, 0.02, 0.5, 0.9, 0.9999])
def test_a_copy_that_was_cut_is_gone_on_with(sent: Path, tmp_path: Path, part: float) -> None:
    data = sent.read_bytes()
    size = int(part * len(data))
    copy = tmp_path / "b.tar"
    copy.write_bytes(data[:size])
    said, hint = refused(copy, tmp_path / "out")
    if size < 512:
        assert "is no bundle, or damaged at its beginning" in said
        assert hint == "is it a file that `reprobuild bundle` wrote?"
    else:
        assert "its copy was cut" in said
        assert (
            f"go on with the copy, as `rsync --append-verify` does: b.tar lacks `tail -c +{size + 1}`" in hint
        )
    with copy.open("ab") as stream:
        stream.write(data[size:])
    assert take(copy, tmp_path / "out", tmp_path / "store").new


def test_more_than_there_was_is_refused(sent: Path, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(sent.read_bytes() + b"more")
    assert "4 bytes follow its end" in refused(tmp_path / "b.tar", tmp_path / "out")[0]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle in parts of a megabyte, which no test changes."""
    folder = tmp_path_factory.mktemp("parts")
    done = make_results(folder / "from", 1_800_000).bundle(folder / "to" / "b.tar", split=1 << 20)
    assert [Path(file).name for file in done.files] == [f"b.tar.{number:03d}" for number in range(1, 7)]
    return folder / "to"


def test_parts_are_the_pieces_of_one_file(parts: Path, tmp_path: Path) -> None:
    names = sorted(parts.glob("b.tar.*"))
    (tmp_path / "b.tar").write_bytes(b"".join(path.read_bytes() for path in names))
    assert {path.stat().st_size for path in names[:-1]} == {1 << 20}
    assert take(tmp_path / "b.tar", tmp_path / "joined", tmp_path / "s").new
    assert take(parts / "b.tar", tmp_path / "apart", tmp_path / "s").new
    assert alone(parts / "b.tar.003", "-o", tmp_path / "third").returncode == 0


def test_files_with_like_names_are_no_parts(parts: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(parts, copy)
    for name in ("b.tar.0001", "b.tar.000007", "b.tar.\u0660\u0660\u0662"):
        (copy / name).write_bytes(b"somebody's")
    assert take(copy / "b.tar", tmp_path / "out", tmp_path / "s").new


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1000])


def other(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


@pytest.mark.parametrize(
    ("harm", "names", "said"),
    [
        (Path.unlink, [2], "missing: {0}/b.tar.002"),
        (Path.unlink, [1], "missing: {0}/b.tar.001"),
        (Path.unlink, [2, 4], "missing: {0}/b.tar.002, {0}/b.tar.004"),
        (Path.unlink, [5, 6], "missing: {0}/b.tar.005, {0}/b.tar.006"),
        (Path.unlink, [6], "missing: {0}/b.tar.006"),
        (Path.unlink, [1, 2, 3, 4, 5, 6], "there is no file {0}/b.tar, and no {0}/b.tar.001"),
        (cut, [3], "{0}/b.tar.003 has 1000 bytes of 1048576: its copy was cut"),
        (cut, [6], "{0}/b.tar.006: "),
        (other, [4], "(bytes "),
    ],
)  # fmt: skip
def test_a_part_that_is_missing_or_cut_is_named(
    parts: Path, tmp_path: Path, harm: Callable[[Path], None], names: list[int], said: str
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(parts, copy)
    for number in names:
        harm(copy / f"b.tar.{number:03d}")
    what, hint = refused(copy / "b.tar", tmp_path / "out")
    assert said.format(copy) in what
    if what.startswith("missing"):
        assert hint == "copy what is missing; the other parts can stay"
    for number in names:
        shutil.copy(parts / f"b.tar.{number:03d}", copy)
    assert take(copy / "b.tar", tmp_path / "out", tmp_path / "store").new


def test_more_parts_than_a_shell_puts_in_order_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cat FILE.*` takes .1000 before .101."""
    files = [BundleFile(path="context/x", content=b"x" * 1_000_000)]
    manifest = manifest_of(files, STATED)
    with pytest.raises(
        DistributionError, match=r"the bundle has \d+ bytes: more than 999 parts of 1000"
    ) as caught:
        write_bundle(tmp_path / "b.tar", files, manifest, b"", 0, split=1000)
    assert caught.value.hint == "make larger parts: --split 1M, or more"
    assert list(tmp_path.iterdir()) == []
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 40)  # a terabyte that is not there
    monkeypatch.setattr(bundle_writer, "is_huge_hole", lambda *_: False)
    many = [BundleFile(path="context/x", content=huge, sha256="0" * 64)]
    with pytest.raises(DistributionError) as caught:
        write_bundle(tmp_path / "b.tar", many, manifest_of(many, STATED), b"", 0, split=1 << 30)
    assert caught.value.hint == "make larger parts: --split 1050M, or more"
    huge.unlink()
    done = write_bundle(tmp_path / "b.tar", files, manifest, b"", 0, split=1020)
    assert len(done.paths) > 980
    (tmp_path / "whole").write_bytes(b"".join(path.read_bytes() for path in sorted(tmp_path.glob("b.tar.*"))))
    assert hash_file(tmp_path / "whole") == done.sha256


def in_two(folder: Path, *files: BundleFile) -> tuple[Path, list[int]]:
    """Write a bundle of two parts, and return how long they are."""
    manifest = manifest_of(files, STATED)
    done = write_bundle(folder / "b.tar", files, manifest, b"", 0, split=2_000_000)
    assert len(done.paths) == 2
    return folder / "b.tar", [path.stat().st_size for path in done.paths]


EITHER = (
    "compare their sizes with those of the originals, and go on with the copy that is shorter, as"
    " `rsync --append-verify` does"
)


@pytest.mark.parametrize(
    ("sizes", "size", "part", "name"),
    [
        ([1_000_000, 1_500_000, 100_000], 1_500_000, 1, "{0}.001: "),
        ([1_000_000, 1_500_000, 100_000], 550_000, 2, "{0}.002: "),
        ([1_000_000, 1_500_000, 100_000], 500_000, 1, "{0}.001 has 500000 bytes of at least "),
        ([3_000_000], 1_500_000, 1, "{0}.001 (1500000 bytes) or {0}.002 ("),  # no header stands in the second
        ([3_000_000], 500_000, 2, "{0}.001 (2000000 bytes) or {0}.002 (500000 bytes): "),
    ],
)
def test_of_two_parts_the_one_that_was_cut_is_named(
    tmp_path: Path, sizes: list[int], size: int, part: int, name: str
) -> None:
    """The first one is as long as the other parts are, and there is none."""
    chance = random.Random(7)
    files = [BundleFile(path=f"context/{length}", content=chance.randbytes(length)) for length in sizes]
    file, _ = in_two(tmp_path, *files)
    short = tmp_path / f"b.tar.{part:03d}"
    data = short.read_bytes()
    short.write_bytes(data[:size])
    with pytest.raises(form.RefusedError) as caught:
        check_bundle(file)
    assert str(caught.value).startswith(name.format(file))
    hint = f"b.tar.{part:03d} lacks `tail -c +{size + 1}` of the original"
    assert caught.value.hint == EITHER if " or " in name else caught.value.hint.endswith(hint)
    with short.open("ab") as stream:
        stream.write(data[size:])
    assert check_bundle(file) == len(files)


def test_two_parts_that_are_shorter_than_what_names_the_rest(tmp_path: Path) -> None:
    many = [BundleFile(path=f"context/{number:0240d}", content=b"x") for number in range(1200)]
    file, sizes = in_two(tmp_path, *many)
    for path in (tmp_path / "b.tar.001", tmp_path / "b.tar.002"):
        path.write_bytes(path.read_bytes()[:100_000])
    with pytest.raises(
        form.RefusedError, match=r" 200000 bytes are there of at least \d+: one copy was cut"
    ) as caught:
        check_bundle(file)
    assert caught.value.hint == EITHER, sizes


def test_a_bundle_takes_the_place_of_one_in_more_parts(results: Results, tmp_path: Path) -> None:
    place = tmp_path / "to" / "b.tar"
    results.bundle(place)
    place.replace(place.with_name("b.tar.001"))
    for number in range(2, 12):
        place.with_name(f"b.tar.{number:03d}").write_bytes(b"of an earlier bundle")
    (tmp_path / "to" / "b.tar.2024").write_bytes(b"somebody's")
    results.bundle(place, split=1 << 20)
    assert sorted(path.name for path in place.parent.iterdir()) == ["b.tar.001", "b.tar.2024", "unbundle.py"]


def test_what_is_no_file_is_refused(parts: Path, tmp_path: Path) -> None:
    said, hint = refused(tmp_path, tmp_path / "out")
    assert said.endswith(" is a directory")
    assert hint == "name the file that `reprobuild bundle` wrote"
    for part in parts.glob("b.tar.*"):
        shutil.copy(part, tmp_path)
    (tmp_path / "b.tar.001").unlink()
    os.mkfifo(tmp_path / "b.tar.001")  # nobody writes into it: who reads waits without end
    assert refused(tmp_path / "b.tar", tmp_path / "out")[0].startswith("missing: ")


def test_a_file_that_cannot_be_read(sent: Path, tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    shutil.copy(sent, file)
    file.chmod(0)
    may_all = os.geteuid() == 0
    less = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if may_all else []
    argv = [*less, sys.executable, "-I", "-S", ALONE, file, "-o", tmp_path / "out"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    told = f"error: {file}: Permission denied\n\nhint: check the path, its permissions and the space left\n"
    assert (done.returncode, done.stderr) == (11, told)
