"""Two captures that state one id: the bytes of diffs, bundles and packed interpreters are compared, too."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.compare.environments import evidence
from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.compare.environments.evidence import BUNDLES, STARTS
from reprobuild.lock.file import write_lock
from reprobuild.lock.system import Artefact
from reprobuild_portable.hashing import hash_file
from tests.compare.samples import compared, make_snapshot
from tests.conftest import ROOT, reprobuild
from tests.verify.samples import make_lock

CAPTURE = ROOT / "examples" / "cpu-capture" / "snapshot"
OTHER = "B has a bundle that is not the one of its capture.json"
PYTHON = {"version": "3.11.7", "implementation": "CPython"}
ARCHIVE = "interpreter.tar.gz"
OTHER_ARCHIVE = "{} has an archive of the interpreter that is not the one of its capture.json"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of one capture; the other one is for others to change."""
    return shutil.copytree(CAPTURE, tmp_path / "one"), shutil.copytree(CAPTURE, tmp_path / "other")


def doubts(found: EnvironmentComparison) -> dict[str, tuple[str, ...]]:
    return {one.reason: one.names for one in found.not_compared if one.grave}


def restated(folder: Path, change: Callable[[dict[str, dict[str, str]]], object]) -> None:
    """Change what capture.json says of the repository."""
    document = json.loads((folder / "capture.json").read_text())
    change(document["repositories"][0])
    (folder / "capture.json").write_text(json.dumps(document))


def test_two_copies_are_the_same(pair: tuple[Path, Path]) -> None:
    found = compared(*pair)
    assert (found.differences, doubts(found)) == ([], {})


def test_another_diff_is_a_difference(pair: tuple[Path, Path]) -> None:
    path = pair[1] / "tinytrain.diff"
    path.write_text(path.read_text().replace("dropout=0.2", "dropout=0.9"))
    (difference,) = compared(*pair).differences
    assert (difference.kind, difference.name) == ("source", "tinytrain")
    assert difference.note == "its diff differs, and capture.json states one tree for both"
    assert (difference.one or "").startswith("diff sha256:")
    done = reprobuild("compare", *pair)
    assert done.returncode == 1
    assert "its diff differs, and capture.json states one tree for both" in done.stdout


def test_a_diff_that_is_gone_is_a_difference(pair: tuple[Path, Path]) -> None:
    (pair[1] / "tinytrain.diff").unlink()
    (difference,) = compared(*pair).differences
    assert difference.other == "diff absent"


@pytest.mark.parametrize("name", ["README", "c.patch"])
def test_two_linked_diffs_are_not_the_same(pair: tuple[Path, Path], name: str) -> None:
    """A link is followed to show the diff; as a proof it counts for nothing."""
    for folder, word in zip(pair, ("0.2", "0.9"), strict=True):
        diff = folder / "tinytrain.diff"
        (folder / name).write_text(diff.read_text().replace("0.2", word))
        diff.unlink()
        diff.symlink_to(name)
    (difference,) = compared(*pair).differences
    assert (difference.one, difference.other) == ("diff not read", "diff not read")
    assert reprobuild("compare", *pair).returncode == 1


def test_only_the_diffs_of_repositories_are_read_within_a_bound(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "_LARGEST_DIFFS", (CAPTURE / "tinytrain.diff").stat().st_size)
    for folder in pair:
        (folder / "other.patch").write_text("no repository names it\n")
    assert compared(*pair).differences == []
    monkeypatch.setattr(evidence, "_LARGEST_DIFFS", 5)
    (difference,) = compared(*pair).differences
    assert difference.one == difference.other == "diff not read: more than 5 bytes"


def test_another_start_of_the_diff_is_a_difference(pair: tuple[Path, Path]) -> None:
    """A capture.json that lied about the start, too, had exit code 0 with a doubt."""
    restated(pair[1], lambda one: one["diff"].update({"from": "d" * 40}))
    (pair[1] / "tinytrain.diff").write_text((CAPTURE / "tinytrain.diff").read_text().replace("0.2", "0.9"))
    (difference,) = compared(*pair).differences
    assert (difference.note, difference.other) == (STARTS, f"diff from {'d' * 40}")
    done = reprobuild("compare", *pair)
    assert (done.returncode, STARTS in done.stdout) == (1, True)


@pytest.mark.parametrize("stated", [True, False])
def test_another_bundle_is_a_difference(stated: bool, pair: tuple[Path, Path]) -> None:
    """A capture.json that stated the hash of the other bundle, too, had exit code 0 with a doubt."""
    bundle = pair[1] / "tinytrain.bundle"
    bundle.write_bytes(bytes(bundle.stat().st_size))
    if stated:
        restated(pair[1], lambda one: one["bundle"].update({"sha256": hash_file(bundle)}))
    found, done = compared(*pair), reprobuild("compare", *pair)
    assert doubts(found) == ({} if stated else {OTHER: ("tinytrain",)})
    (difference,) = found.differences
    assert difference.note == (
        BUNDLES if stated else "its bundle differs, and capture.json states one tree for both"
    )
    assert done.returncode == 1
    assert done.stdout.startswith("likeliest: tinytrain: bundle sha256:")


@pytest.mark.parametrize("kind", ["gone", "link", "folder"])
def test_a_bundle_that_is_no_file_is_a_difference(kind: str, pair: tuple[Path, Path]) -> None:
    bundle = pair[1] / "tinytrain.bundle"
    bundle.unlink()
    if kind == "link":
        bundle.symlink_to(pair[0] / "tinytrain.bundle")
    elif kind == "folder":
        bundle.mkdir()
    found = compared(*pair)
    (difference,) = found.differences
    shown = "bundle absent" if kind == "gone" else "bundle not read"
    assert (doubts(found), difference.other) == ({OTHER: ("tinytrain",)}, shown)
    assert difference.note == "its bundle differs, and capture.json states one tree for both"


# --- the packed interpreter ------------------------------------------------------------------


def packed(folder: Path, content: bytes, **facts: Any) -> Path:
    """Write a snapshot that holds an interpreter; `facts` are what capture.json says of it."""
    stated = {
        "file": ARCHIVE, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "version": "3.11.7",
        "build": "3.11.7 (main)", "prefix": "/sw/python", "left_out": [], **facts,
    }  # fmt: skip
    made = make_snapshot(folder, {"python": PYTHON, "interpreter": stated}, env_txt="A=1\n")
    (made / ARCHIVE).write_bytes(content)
    return made


def test_another_packed_interpreter_is_a_difference(tmp_path: Path) -> None:
    """Two archives and two sha256 had exit code 0, and not a word."""
    pair = packed(tmp_path / "one", b"one"), packed(tmp_path / "other", b"other")
    (difference,) = compared(*pair).differences
    assert (difference.kind, difference.name, difference.aspects) == ("interpreter", "python", ("sha256",))
    assert difference.one == f"sha256 {hashlib.sha256(b'one').hexdigest()}"
    assert reprobuild("compare", *pair).returncode == 1


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"build": "3.11.7 (other)"}, "packed build 3.11.7 (other), installed in /sw/python"),
        ({"prefix": "/opt/python"}, "packed build 3.11.7 (main), installed in /opt/python"),
        ({"version": "3.11.8"}, "packed build 3.11.8, 3.11.7 (main), installed in /sw/python"),
        ({"version": "3.11.70"}, "packed build 3.11.70, 3.11.7 (main), installed in /sw/python"),
    ],
)
def test_another_build_or_place_of_one_archive_is_a_difference(
    facts: dict[str, str], shown: str, tmp_path: Path
) -> None:
    found = compared(packed(tmp_path / "one", b"one"), packed(tmp_path / "other", b"one", **facts))
    (difference,) = found.differences
    assert (difference.aspects, difference.other) == (("packed build",), shown)


def test_one_packed_interpreter_in_two_snapshots_is_no_difference(tmp_path: Path) -> None:
    found = compared(packed(tmp_path / "one", b"one"), packed(tmp_path / "other", b"one"))
    assert (found.differences, doubts(found)) == ([], {})


def test_an_interpreter_that_only_one_side_packed_is_told(tmp_path: Path) -> None:
    plain = make_snapshot(tmp_path / "plain", {"python": PYTHON}, env_txt="A=1\n")
    found = compared(packed(tmp_path / "one", b"one"), plain)
    unsaid = {one.reason: one.names for one in found.not_compared if one.kind == "interpreter"}
    assert found.differences == []
    assert unsaid == {
        "only A records the packed build": ("python",),
        "only A records the sha256": ("python",),
    }


@pytest.mark.parametrize("kind", ["other bytes", "gone", "link", "folder", "larger"])
def test_an_archive_that_is_not_the_stated_one_proves_nothing(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = packed(tmp_path / "one", b"one"), packed(tmp_path / "other", b"one")
    archive, shown = pair[1] / ARCHIVE, "archive absent" if kind == "gone" else "archive not read"
    archive.unlink()
    if kind == "other bytes":
        archive.write_bytes(b"two")
        shown = f"archive sha256:{hashlib.sha256(b'two').hexdigest()}"
    elif kind == "link":
        archive.symlink_to(pair[0] / ARCHIVE)
    elif kind == "folder":
        archive.mkdir()
    elif kind == "larger":
        monkeypatch.setattr(evidence, "MOST_PACKED", 3)
        archive.write_bytes(b"four")
        shown = "archive not read: more than 3 bytes"
    found = compared(*pair)
    (difference,) = found.differences
    assert doubts(found) == {OTHER_ARCHIVE.replace("{}", "B"): (ARCHIVE,)}
    assert difference.note == "its archive differs, and capture.json states one sha256 for both"
    assert (difference.kind, difference.other) == ("interpreter", shown)


def test_equal_archives_that_are_not_the_stated_ones_are_in_doubt(tmp_path: Path) -> None:
    one, other = (packed(tmp_path / name, b"one", sha256="0" * 64) for name in ("one", "other"))
    found = compared(one, other)
    assert found.differences == []
    assert doubts(found) == {OTHER_ARCHIVE.replace("{}", called): (ARCHIVE,) for called in "AB"}


def test_files_that_a_packed_interpreter_lacks_are_in_doubt(tmp_path: Path) -> None:
    left = [{"path": "lib/python3.11/key.py", "reason": "secret"}]
    found = compared(packed(tmp_path / "one", b"one", left_out=left), packed(tmp_path / "other", b"one"))
    assert doubts(found) == {"A leaves the content of files out": ("python/lib/python3.11/key.py",)}


@pytest.mark.parametrize(("content", "differ"), [(b"one", []), (b"other", ["python"])])
def test_a_lock_has_the_interpreter_of_its_snapshot_or_another(
    content: bytes, differ: list[str], tmp_path: Path
) -> None:
    sha256 = hashlib.sha256(b"one").hexdigest()
    file = Artefact(filename="python-3.11.7-captured.tar.gz", sha256=sha256, size=3)
    lock = make_lock()
    lock = msgspec.structs.replace(
        lock,
        interpreter=msgspec.structs.replace(lock.interpreter, version="3.11.7", kind="captured", file=file),
    )
    write_lock(lock, tmp_path / "lock")
    found = compared(packed(tmp_path / "one", content), tmp_path / "lock")
    assert [one.name for one in found.differences if one.kind == "interpreter"] == differ
