"""Packages of conda on one line of an environment.yml: each has a file, a resolution, and its own facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.lock.system import EPOCH
from reprobuild.resolve.conda.packages import Conda, resolve_conda
from reprobuild.resolve.context import ResolveContext
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.conda_packages import Spec, index_channel, write_package

SITE = "lib/python3.11/site-packages"


def _distribution(name: str, version: str) -> dict[str, bytes]:
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    return {f"{SITE}/{name}-{version}.dist-info/METADATA": metadata}


PACKAGES = (
    Spec(name="python", version="3.11.8", files={"bin/python3.11": b""}),
    Spec(name="libzed", depends=("__glibc >=2.30",),
         files={"etc/conda/activate.d/libzed.sh": b'export ZED_DATA="$CONDA_PREFIX/zed"\n'}),
    Spec(name="nala", files=_distribution("nala", "1.0")),
    Spec(name="newer", depends=("__glibc >=2.99",), files={"n": b""}),
    Spec(name="six", version="1.15.0", files=_distribution("six", "1.15.0")),
)  # fmt: skip
NAMES = ["libzed", "nala", "newer", "python", "six"]
PINS = ["python=3.11.8=0", "libzed=1.0=0", "nala=1.0=0", "newer=1.0=0", "six=1.15.0=0"]
BLOCK = "".join(f"\n  - {pin}" for pin in PINS)
FORMS = {
    "block": f"dependencies:{BLOCK}\n", "flow": f"dependencies: [{', '.join(PINS)}]\n",
    "CR": f"dependencies:{BLOCK}\n".replace("\n", "\r"),
}  # fmt: skip


@pytest.fixture
def around(tmp_path: Path) -> ResolveContext:
    for package in PACKAGES:
        write_package(package, tmp_path / "conda-forge")
    index_channel(tmp_path / "conda-forge")
    return ResolveContext(
        store=Store(tmp_path / "store"), net=Net(), folder=tmp_path, now=EPOCH, say=lambda text: None,
        indexes=PackageIndexes(find_links=(), simple=(), credentials={}), env={"HOME": str(tmp_path / "home")},
    )  # fmt: skip


def resolve(text: str, around: ResolveContext, freeze: str = "") -> Conda:
    """Resolve an environment.yml; each package of it has one resolution."""
    folder = around.folder / "snapshot"
    folder.mkdir()
    text += f"{text[-1]}channels: [conda-forge]{text[-1]}"
    (folder / "environment.yml").write_bytes(text.encode())
    if freeze:
        (folder / "requirements.txt").write_text(freeze)
    snapshot = read_snapshot(folder)
    channels = ((around.folder / "conda-forge").as_uri(),)
    found = resolve_conda(
        snapshot, Decisions(channels=channels), "linux/amd64", snapshot.requirements, around
    )
    assert found is not None
    subjects = sorted(one.subject for one in found.rulings if one.file == "environment.yml")
    assert subjects == sorted(package.name for package in snapshot.conda)
    return found


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_no_package_of_a_line_is_lost(text: str, around: ResolveContext) -> None:
    found = resolve(text, around)
    assert sorted(package.name for package in found.packages) == NAMES
    reasons = {one.subject: one.reason.split(" ")[0] for one in found.rulings}
    files = {pin.split("=")[0]: f"{pin.replace('=', '-')}.conda" for pin in PINS}
    assert {name: reasons[name] for name in NAMES} == files
    assert found.interpreter.version == "3.11.8"
    assert sorted(need.name for need in found.needs) == ["libzed", "newer"]
    assert [one.subject for one in found.too_new((2, 36))] == ["newer"]
    assert found.activated == {"ZED_DATA": "libzed-1.0-0.conda"}
    assert found.distributions == {"nala": "1.0", "six": "1.15.0"}


@pytest.mark.parametrize("form", FORMS)
def test_a_line_of_pip_replaces_one_package_only(form: str, around: ResolveContext) -> None:
    found = resolve(FORMS[form], around, freeze="nala==1.0\nsix==1.16.0\n")
    outcomes = {one.subject: one.outcome for one in found.rulings if one.file == "environment.yml"}
    assert outcomes == dict.fromkeys(NAMES, "pinned") | {"six": "excluded"}
    covered = [one.reason for one in found.rulings if one.file == "requirements.txt"]
    assert [reason.partition(" (")[0] for reason in covered] == ["of conda: nala-1.0-0.conda"]
    assert [(line.name, line.version) for line in found.lines] == [("six", "1.16.0")]


def test_each_refused_package_of_a_line_is_unresolved(around: ResolveContext) -> None:
    found = resolve("dependencies: [python=3.11.8=0, gone=1=0, nala=9=0, six=1.15.0=0]\n", around)
    assert sorted(package.name for package in found.packages) == ["python", "six"]
    unresolved = [one.subject for one in found.rulings if one.outcome == "unresolved"]
    assert sorted(unresolved) == ["gone", "nala"]
