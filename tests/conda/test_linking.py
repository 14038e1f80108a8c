"""conda's packages in a prefix: the same bytes whatever the order, the cache and the machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.python import CondaPackage
from reprobuild.realise.conda import link_packages
from reprobuild.store.store import Store
from tests.conda_packages import PLACEHOLDER, Link, Spec, locked

PYTHON = Spec(
    name="python", version="3.11.2", build="h1_0", executable=("bin/python3.11",),
    files={"bin/python3.11": b"\x7fELF", "bin/python": Link("python3.11"), "lib/python3.11/os.py": b"x = 1\n"},
)  # fmt: skip
NALA = Spec(
    name="nala", subdir="noarch", noarch="python", build="pyhd8ed1ab_0", depends=("python >=3.8",),
    entry_points=("nala = nala:main",),
    files={
        "site-packages/nala/__init__.py": b"def main():\n    print('nala')\n",
        "site-packages/nala-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: nala\nVersion: 1.0\n",
        "python-scripts/nalascript": b"#!/usr/bin/env python\n",
    },
)  # fmt: skip
BINARY = Spec(
    name="binary", ending=".tar.bz2", executable=("bin/tool",), placeholders={"bin/tool": "text", "lib/b.so": "binary"},
    files={
        "bin/tool": f"#!{PLACEHOLDER}/bin/python\n".encode(), "lib/b.so": f"{PLACEHOLDER}/share\0end".encode(),
        "lib/b.so.1": Link("b.so"),
    },
)  # fmt: skip
ONE = Spec(name="one", files={"share/same": b"one"}, depends=("two",))
TWO = Spec(name="two", files={"share/same": b"two"})
THREE = Spec(name="three", files={"share/same": b"three"})


def never() -> Root:
    """Stand in for the base where nothing may be run."""
    raise AssertionError("something is to be run")


def linked(specs: Sequence[Spec], folder: Path, *, root: Callable[[], Root] = never, order: int = 1) -> Path:
    """Link packages with a store and cache of their own, and return the prefix."""
    store = Store(folder / "store")
    packages: list[CondaPackage] = [locked(spec, folder / "channel", store) for spec in specs][::order]
    link_packages(packages, "3.11", "linux/amd64", folder / "tree", root, store, 1_700_000_000)
    return folder / "tree" / "opt" / "env"


def listing(prefix: Path) -> dict[str, str]:
    """Return {path: what is there} of a directory."""
    found = {}
    for path in sorted(prefix.rglob("*")):
        name = path.relative_to(prefix).as_posix()
        if path.is_symlink():
            found[name] = f"-> {path.readlink()!s}"
        elif path.is_file():
            executable = "x" if path.stat().st_mode & 0o100 else "-"
            found[name] = f"{executable} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


def test_prefixes_links_and_entry_points_are_as_in_the_image(tmp_path: Path) -> None:
    prefix = linked([PYTHON, NALA, BINARY], tmp_path)
    assert (prefix / "bin/tool").read_text() == "#!/opt/env/bin/python\n"
    assert (prefix / "lib/b.so").read_bytes() == b"/opt/env/share".ljust(len(PLACEHOLDER) + 7, b"\0") + b"end"
    assert str((prefix / "lib/b.so.1").readlink()) == "b.so"
    assert (prefix / "bin/nala").read_text().startswith("#!/opt/env/bin/python3.11\n")
    assert (prefix / "bin/nalascript").exists()
    assert (prefix / "lib/python3.11/site-packages/nala/__init__.py").exists()
    assert sorted(path.name for path in prefix.iterdir()) == ["bin", "conda-meta", "lib"]


def test_a_link_is_judged_at_its_place_in_the_prefix(tmp_path: Path) -> None:
    """Modules of a package for every Python stand deeper in the prefix than in the package."""
    files = {"site-packages/foo/data": Link("../../../../share/foo"), "share/foo/x": b"x"}
    prefix = linked([PYTHON, Spec(name="foo", subdir="noarch", noarch="python", files=files)], tmp_path)
    assert (prefix / "lib/python3.11/site-packages/foo/data/x").read_bytes() == b"x"
    assert str((prefix / "lib/python3.11/site-packages/foo/data").readlink()) == "../../../../share/foo"


def test_order_cache_and_clobbered_files_change_nothing(tmp_path: Path) -> None:
    specs = [PYTHON, NALA, BINARY, ONE, TWO, THREE]
    first = listing(linked(specs, tmp_path / "a"))
    for number in range(4):
        assert listing(linked(specs, tmp_path / str(number), order=-1 if number % 2 else 1)) == first
    assert first["share/same"] == f"- {hashlib.sha256(b'one').hexdigest()}"  # it comes after the one it needs


def test_records_name_the_channel_and_no_machine(tmp_path: Path) -> None:
    prefix = linked([PYTHON, NALA, ONE, TWO], tmp_path)
    texts = {path.name: path.read_text() for path in (prefix / "conda-meta").glob("*.json")}
    assert set(texts) == {
        "nala-1.0-pyhd8ed1ab_0.json", "one-1.0-0.json", "python-3.11.2-h1_0.json", "two-1.0-0.json",
    }  # fmt: skip
    assert not [name for name, text in texts.items() if str(tmp_path) in text or "clobber" in text]
    nala = json.loads(texts["nala-1.0-pyhd8ed1ab_0.json"])
    assert nala["url"] == "https://channel.test/main/noarch/nala-1.0-pyhd8ed1ab_0.conda"
    assert (nala["name"], nala["version"], nala["build"], nala["channel"]) == (
        "nala", "1.0", "pyhd8ed1ab_0", "https://channel.test/main",
    )  # fmt: skip
    assert nala["files"] == [
        "bin/nala", "bin/nalascript", "lib/python3.11/site-packages/nala-1.0.dist-info/METADATA",
        "lib/python3.11/site-packages/nala/__init__.py",
    ]  # fmt: skip
    assert (prefix / "conda-meta/history").read_bytes() == b""


def test_a_lock_that_calls_a_package_otherwise_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    package = locked(PYTHON, tmp_path, store)
    for wrong in (
        msgspec.structs.replace(package, name="../python"),
        msgspec.structs.replace(package, build="h2_0"),
    ):
        with pytest.raises(BuildError, match="by the file name"):
            link_packages([wrong], "3.11", "linux/amd64", tmp_path / "tree", never, store, 0)
    with pytest.raises(BuildError, match="twice"):
        link_packages([package, package], "3.11", "linux/amd64", tmp_path / "tree", never, store, 0)
