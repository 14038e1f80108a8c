"""What an image says of conda's packages, against the lock."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock
from reprobuild.lock.python import CondaPackage
from reprobuild.lock.system import Artefact
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.verify.roundtrip.compare import compare_conda, compare_freeze
from reprobuild.verify.roundtrip.image_freeze import Frozen, FrozenDistribution
from tests.verify.samples import make_lock


def package(name: str, *distributions: str) -> CondaPackage:
    file = Artefact(filename=f"{name}-1-0.conda", sha256=name[0] * 64, size=1)
    return CondaPackage(
        name=name, version="1", build="0", subdir="noarch", channel="main", file=file,
        distributions=tuple(sorted(str(canonicalize_name(one)) for one in distributions)),
    )  # fmt: skip


def lock() -> Lock:
    return make_lock(conda=(package("aa"), package("bb", "bee"), package("cc", "torch")))


def again(folder: Path, *rows: str) -> Snapshot:
    """Return what a capture inside the image wrote."""
    folder.mkdir()
    (folder / "conda-explicit.txt").write_text(
        "@EXPLICIT\n" + "".join(f"https://x.test/noarch/{row}\n" for row in rows)
    )
    return read_snapshot(folder)


def test_records_are_compared_by_build_and_hash(tmp_path: Path) -> None:
    aa, bb = f"aa-1-0.conda#{'a' * 64}", f"bb-1-0.conda#{'b' * 64}"
    assert compare_conda(lock(), again(tmp_path / "0", aa, bb)) == []  # pip's torch lies over conda's cc
    wrong = compare_conda(
        lock(), again(tmp_path / "1", f"aa-1-1.conda#{'a' * 64}", f"dd-1-0.conda#{'d' * 64}")
    )
    assert [(one.captured.partition(" sha")[0], one.image.partition(" sha")[0], one.code) for one in wrong] == [
        ("aa 1 0", "aa 1 1", "unexplained"), ("bb 1 0", "", "unexplained"), ("", "dd 1 0", "unexplained"),
    ]  # fmt: skip
    (changed,) = compare_conda(lock(), again(tmp_path / "2", aa, f"bb-1-0.conda#{'0' * 64}"))
    assert (changed.list, changed.code) == ("conda", "unexplained")


def test_a_distribution_that_conda_brings_and_the_freeze_lacks_is_explained() -> None:
    items = (
        FrozenDistribution(name="Bee", freeze="Bee==1"),
        FrozenDistribution(name="stranger", freeze="stranger==1"),
    )
    found = compare_freeze(lock(), Frozen(python="3.11.2", distributions=items))
    told = {one.image: (one.code, one.reason) for one in found if one.image}
    assert told == {
        "Bee==1": ("base-provided", "conda's bb brings it; the freeze has no such line"),
        "stranger==1": ("unexplained", ""),
    }
