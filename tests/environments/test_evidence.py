"""Two captures that state one tree: the bytes of their diffs and bundles are compared, too."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.environments.difference import Comparison
from reprobuild.environments.evidence import BUNDLES, STARTS
from reprobuild.store import hash_file
from tests.conftest import ROOT, reprobuild
from tests.environments.samples import compared

CAPTURE = ROOT / "examples" / "cpu-capture" / "snapshot"
OTHER = "B has a bundle that is not the one of its capture.json"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two copies of one capture; the other one is for others to change."""
    return shutil.copytree(CAPTURE, tmp_path / "one"), shutil.copytree(CAPTURE, tmp_path / "other")


def doubts(found: Comparison) -> dict[str, tuple[str, ...]]:
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
    assert (doubts(found), difference.other) == ({OTHER: ("tinytrain",)}, "bundle absent")
    assert difference.note == "its bundle differs, and capture.json states one tree for both"
