"""Locks of conda's packages that rattler and conda-lock write here.

pixi itself is no package of PyPI. rattler is the library by which pixi writes its lock. conda-lock needs a program of
conda to solve, so its own models are filled by hand, and its own function writes the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from rattler import LockChannel, LockFile, LockPlatform, PackageRecord, RepoDataRecord, Subdir
from rattler.package import BuildString

from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.importers.tools import Tools

CHANNEL = "https://conda.example.org/main"
INDEX = f"https://files.example.org/packages/aa/bb/{'0' * 60}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
MD5 = hashlib.md5(b"x").hexdigest()
SHA256 = hashlib.sha256(b"x").hexdigest()


def imported(path: Path) -> tuple[ImportFacts, Snapshot]:
    facts = import_into(path, path.parent / "out")
    for file in (path.parent / "out").iterdir():
        assert "alice" not in file.read_text(), file.name
    return facts, read_snapshot(path.parent / "out")


def unused(facts: ImportFacts) -> dict[str, str]:
    return {entry.field: entry.reason for entry in facts.unused}


def record(name: str, version: str, subdir: str) -> RepoDataRecord:
    """Return a package of the channel, as a solver gives it."""
    file = f"{name}-{version}-h1_0.conda"
    package = PackageRecord(
        name, version, BuildString("h1_0"), 0, Subdir(subdir), sha256=hashlib.sha256(b"x").digest(),
        md5=hashlib.md5(b"x").digest(), size=1, depends=["libzed"],
    )  # fmt: skip
    return RepoDataRecord(package, file, f"{CHANNEL}/{subdir}/{file}", f"{CHANNEL}/")


def pixi_lock(path: Path, *platforms: LockPlatform) -> Path:
    """Write a lock of two environments by rattler."""
    lock = LockFile(list(platforms))
    for environment in ("default", "test"):
        lock.set_channels(environment, [LockChannel(f"{CHANNEL}/")])
    for number, platform in enumerate(platforms):
        lock.add_conda_package("default", platform, record("python", f"3.11.{number}", str(platform.subdir)))
    first = platforms[0]
    lock.add_pypi_package("default", first, "click", "8.1.7", f"{INDEX}/click-8.1.7-py3-none-any.whl")
    lock.add_pypi_package("default", first, "job", "1", "./job")
    lock.add_pypi_package("default", first, "lib", "1", f"git+https://git.example/lib.git?rev=main#{COMMIT}")
    lock.add_pypi_package("test", first, "pytest", "8.0.0", f"{INDEX}/pytest-8.0.0-py3-none-any.whl")
    lock.to_path(path)
    return path


def test_a_lock_that_rattler_writes(tmp_path: Path) -> None:
    platforms = LockPlatform("linux-64"), LockPlatform("osx-arm64")
    path = pixi_lock(tmp_path / "pixi.lock", *platforms)
    assert path.read_text().startswith("version: 7\n")
    facts, snapshot = imported(path)
    assert [(package.name, package.version, package.build) for package in snapshot.conda] == [
        ("python", "3.11.0", "h1_0")
    ]
    assert {(line.name, line.kind, line.version, line.commit) for line in snapshot.requirements} == {
        ("click", "index", "8.1.7", None), ("job", "directory", None, None), ("lib", "vcs", None, COMMIT),
    }  # fmt: skip
    assert unused(facts) == {
        "version": "the format", "platforms": "what the machine of an environment must have",
        "environments.default.packages.osx-arm64": "the platform linux-64 is imported",
        "environments.test": "the environment default is imported",
    }  # fmt: skip


@pytest.mark.parametrize(("names", "chosen"), [(("gpu",), "gpu"), (("gpu", "linux-64"), "linux-64")])
def test_a_platform_of_rattler_has_a_name_and_a_machine(
    names: tuple[str, ...], chosen: str, tmp_path: Path
) -> None:
    platforms = [
        LockPlatform(name, subdir=Subdir("linux-64"), virtual_packages=["__cuda=12.0=0"]) for name in names
    ]
    facts, snapshot = imported(pixi_lock(tmp_path / "pixi.lock", *platforms))
    assert [package.version for package in snapshot.conda] == [f"3.11.{names.index(chosen)}"]
    others = {f"environments.default.packages.{name}" for name in names if name != chosen}
    assert others <= unused(facts).keys()


# A package that pixi builds: of https://github.com/conda/rattler, crates/rattler_lock, which no API of py-rattler adds.
def test_a_package_that_is_built_from_source_is_asked_for(tmp_path: Path) -> None:
    path = pixi_lock(tmp_path / "pixi.lock", LockPlatform("linux-64"))
    entry = "      - conda_source: own[9f8e7d6c] @ ./own\n"
    path.write_text(path.read_text().replace("      - pypi: ./job\n", f"{entry}      - pypi: ./job\n"))
    _, snapshot = imported(path)
    (remark,) = (remark for remark in snapshot.remarks if not remark.understood)
    assert "is not imported: it is built from source, which no snapshot of conda names" in remark.text


WRITE = f"""\
from pathlib import Path
from conda_lock.lockfile import write_conda_lock_file
from conda_lock.lockfile.v1.models import HashModel, LockMeta
from conda_lock.lockfile.v2prelim.models import LockedDependency, Lockfile

def entry(name, version, manager, url, category="main", platform="linux-64"):
    sums = HashModel(md5="{MD5}" if manager == "conda" else None, sha256="{SHA256}")
    return LockedDependency(name=name, version=version, manager=manager, platform=platform, url=url, hash=sums,
                            dependencies={{}}, categories={{category}})

packages = [
    entry("python", "3.11.7", "conda", "{CHANNEL}/linux-64/python-3.11.7-h1_0.conda"),
    entry("python", "3.11.7", "conda", "{CHANNEL}/osx-arm64/python-3.11.7-h1_0.conda", platform="osx-arm64"),
    entry("click", "8.1.7", "pip", "{INDEX}/click-8.1.7-py3-none-any.whl"),
    entry("pytest", "8.0.0", "pip", "{INDEX}/pytest-8.0.0-py3-none-any.whl", "dev"),
]
hashes = {{"linux-64": "{"c" * 64}", "osx-arm64": "{"d" * 64}"}}
meta = LockMeta(content_hash=hashes, channels=["main"], platforms=list(hashes), sources=["/home/alice/environment.yml"])
write_conda_lock_file(Lockfile(package=packages, metadata=meta), Path("conda-lock.yml"), metadata_choices=None)
"""


def test_a_lock_that_conda_lock_writes(tmp_path: Path) -> None:
    (tmp_path / "write.py").write_text(WRITE)
    Tools(tmp_path).run("conda-lock", "python", "write.py", cwd=tmp_path)
    facts, snapshot = imported(tmp_path / "conda-lock.yml")
    assert [(package.name, package.version, package.sha256) for package in snapshot.conda] == [
        ("python", "3.11.7", SHA256)
    ]
    assert [(line.name, line.version, line.hashes) for line in snapshot.requirements] == [
        ("click", "8.1.7", (SHA256,))
    ]
    assert "it belongs to another category than main" in unused(facts).values()
    assert unused(facts)["metadata"] == "how the lock was made"
