"""What comes out of a back end in one form: wheels, editables of plain wheels, and what a build adds to its source."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.python import Interpreter
from reprobuild.realise.build_outputs import keep_parts, paths_below
from reprobuild.realise.canonical import canonical_wheel
from reprobuild.realise.editable import make_editable_wheel
from reprobuild.realise.prefix import make_prefix
from tests.image.made import Made, make_wheel

NAME = "p-1.0-py3-none-any.whl"


def wheel(folder: Path, files: dict[str, bytes], **more: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return make_wheel(folder / NAME, files, **more)  # type: ignore[arg-type]  # more is the test's own


def test_order_times_and_rights_of_members_do_not_matter(tmp_path: Path) -> None:
    files = {"p/b.py": b"b", "p/a.sh": b"a"}
    one = wheel(tmp_path / "1", files, executable=["p/a.sh"])
    other = tmp_path / "2" / NAME
    other.parent.mkdir()
    with zipfile.ZipFile(one) as source, zipfile.ZipFile(other, "w") as target:
        for name in reversed(source.namelist()):
            info = zipfile.ZipInfo(name, (2020, 1, 2, 3, 4, 6))
            info.external_attr = (0o100775 if name.endswith(".sh") else 0o100600) << 16
            target.writestr(info, source.read(name), zipfile.ZIP_STORED)
    outs = [tmp_path / "out1", tmp_path / "out2"]
    assert [canonical_wheel(found, out, "P") for found, out in zip((one, other), outs, strict=True)] == [
        "1.0",
        "1.0",
    ]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    with zipfile.ZipFile(outs[0]) as archive:
        names = archive.namelist()
        assert names == ["p/a.sh", "p/b.py", "p-1.0.dist-info/METADATA", "p-1.0.dist-info/WHEEL",
                         "p-1.0.dist-info/RECORD"]  # fmt: skip
        record = archive.read("p-1.0.dist-info/RECORD").decode().splitlines()
        assert [line.partition(",")[0] for line in record] == names
        assert [oct(info.external_attr >> 16) for info in archive.infolist()][:2] == ["0o100755", "0o100644"]


def test_record_is_made_right(tmp_path: Path) -> None:
    """Of what a back end got wrong the next installer would say that it is damaged."""
    wrong = wheel(tmp_path, {"p.py": b"x"}, rows={"p.py": "p.py,sha256=AAAA,9\n"})
    canonical_wheel(wrong, tmp_path / "out", "p")
    right = make_wheel(tmp_path / "p-1.0-py3-none-any.whl", {"p.py": b"x"})
    canonical_wheel(right, tmp_path / "again", "p")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_wheel_that_does_not_tell_its_name(tmp_path: Path) -> None:
    found = wheel(tmp_path, {}).rename(tmp_path / "p.whl")
    with pytest.raises(
        BuildError, match=r"the wheel that was built of p, p\.whl, does not state its name"
    ) as caught:
        canonical_wheel(found, tmp_path / "out", "p")
    assert caught.value.hint == (
        "build it by hand with `python -m build --wheel`, and look at what its back end says"
    )


def make_stored(folder: Path, files: dict[str, bytes]) -> Path:
    """Return a wheel in its canonical form, whose content stands in it as it is."""
    canonical_wheel(wheel(folder / "plain", files), folder / NAME, "p")
    return folder / NAME


def test_a_damaged_wheel(tmp_path: Path) -> None:
    found = make_stored(tmp_path, {"p.py": b"x" * 1000})
    content = bytearray(found.read_bytes())
    content[content.index(b"x" * 9)] ^= 0xFF
    found.write_bytes(content)
    with pytest.raises(BuildError, match="the wheel that was built of p cannot be read") as caught:
        canonical_wheel(found, tmp_path / "out", "p")
    assert caught.value.hint == HOSTILE


@pytest.mark.parametrize("root", ["", "src"])
def test_an_editable_of_a_plain_wheel(tmp_path: Path, root: str) -> None:
    made = Made(tmp_path / "made")
    source = made.source("p", [], subdirectory="sub")
    source = made.sources[-1]
    project = tmp_path / "tree" / "sub" / root
    (project / "p").mkdir(parents=True)
    (project / "p/__init__.py").write_bytes(b"code")
    plain = wheel(tmp_path / "plain", {"p/__init__.py": b"code", "p/_c.so": b"ELF", "p/_version.py": b"1"})
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found, brought = make_editable_wheel(plain, tmp_path / "tree", source, scratch)
    inside = f"sub/{root}".rstrip("/")
    assert brought == {f"{inside}/p/{name}" for name in ("__init__.py", "_c.so", "_version.py")}
    assert (project / "p/_c.so").read_bytes() == b"ELF"
    assert (project / "p/_version.py").read_bytes() == b"1"
    assert canonical_wheel(found, tmp_path / "out", "p") == "1.0"
    with zipfile.ZipFile(tmp_path / "out") as archive:
        assert archive.read("__editable__.p.pth").decode() == f"/src/p/sub/{root}".rstrip("/") + "\n"
        assert not [name for name in archive.namelist() if name.startswith("p/")]


@pytest.mark.parametrize(
    ("there", "words", "hint"),
    [
        ({"p/__init__.py": "other"}, "has its packages in no one directory of the source",
         "install p from its repository without `-e`, and capture again"),
        ({"p/__init__.py": "code", "p/_c.so": None}, "has p/_c.so, in whose place the source has something else",
         "leave a clean work tree behind before the capture: `git clean -xd` lists what is in the way"),
    ],
)  # fmt: skip
def test_an_editable_that_cannot_be(
    tmp_path: Path, there: dict[str, str | None], words: str, hint: str
) -> None:
    made = Made(tmp_path / "made")
    tree = tmp_path / "tree"
    for name, content in there.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to("/etc/passwd") if content is None else (tree / name).write_text(content)
    plain = wheel(tmp_path / "plain", {"p/__init__.py": b"code", "p/_c.so": b"ELF"})
    (tmp_path / "scratch").mkdir()
    with pytest.raises(BuildError) as caught:
        make_editable_wheel(plain, tree, made.source("p", []), tmp_path / "scratch")
    assert words in str(caught.value)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("link", "subdirectory", "module"),
    [
        ("sub", "sub", ".config/autostart/x.desktop"),  # the build has replaced the project's own directory
        ("p", "", "p/deep/er/_c.so"),
        ("sub/p", "sub", "p/_c.so"),
    ],
)
def test_nothing_is_written_through_a_link_that_a_build_left(
    tmp_path: Path, link: str, subdirectory: str, module: str
) -> None:
    made, tree, outside = Made(tmp_path / "made"), tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    (tree / link).parent.mkdir(parents=True)
    (tree / link).symlink_to(outside)
    (tmp_path / "scratch").mkdir()
    plain = wheel(tmp_path / "plain", {module: b"ELF"})
    source = msgspec.structs.replace(made.source("p", []), subdirectory=subdirectory)
    with pytest.raises(BuildError, match="in whose place the source has something else"):
        make_editable_wheel(plain, tree, source, tmp_path / "scratch")
    assert not list(outside.iterdir())


def test_a_module_of_another_machine_is_not_read_through_a_link(tmp_path: Path) -> None:
    """What stands outside would decide which directory of the source the packages lie in."""
    made, tree, outside = Made(tmp_path / "made"), tmp_path / "tree", tmp_path / "outside"
    outside.mkdir()
    tree.mkdir()
    (outside / "p.py").write_bytes(b"code")
    (tree / "sub").symlink_to(outside)
    (tmp_path / "scratch").mkdir()
    plain = wheel(tmp_path / "plain", {"p.py": b"code"})
    source = msgspec.structs.replace(made.source("p", []), subdirectory="sub")
    with pytest.raises(BuildError, match="has its packages in no one directory of the source"):
        make_editable_wheel(plain, tree, source, tmp_path / "scratch")


def test_an_editable_of_a_damaged_wheel(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    for folder in ("tree", "scratch"):
        (tmp_path / folder).mkdir()
    found = make_stored(tmp_path, {"p/_c.so": b"x" * 1000})
    content = bytearray(found.read_bytes())
    content[content.index(b"x" * 9)] ^= 0xFF
    found.write_bytes(content)
    with pytest.raises(BuildError, match="the wheel that was built of p cannot be read") as caught:
        make_editable_wheel(found, tmp_path / "tree", made.source("p", []), tmp_path / "scratch")
    assert caught.value.hint == HOSTILE


def test_links_within_a_source_are_its_own(tmp_path: Path) -> None:
    made, tree = Made(tmp_path / "made"), tmp_path / "tree"
    (tree / "code/deep").mkdir(parents=True)
    (tree / "code/__init__.py").write_bytes(b"code")
    (tree / "LICENSE").write_bytes(b"free")
    (tree / "code/LICENSE").symlink_to("../LICENSE")
    (tree / "p").symlink_to("code")
    (tmp_path / "scratch").mkdir()
    plain = wheel(
        tmp_path / "plain", {"p/__init__.py": b"code", "p/LICENSE": b"free", "p/deep/_c.so": b"ELF"}
    )
    _, brought = make_editable_wheel(plain, tree, made.source("p", []), tmp_path / "scratch")
    assert brought == {"code/__init__.py", "LICENSE", "code/deep/_c.so"}  # by which the image has them
    assert (tree / "code/deep/_c.so").read_bytes() == b"ELF"
    assert paths_below(tree) == {"code/__init__.py", "LICENSE", "code/deep/_c.so"}


def test_what_a_build_adds(tmp_path: Path) -> None:
    made, tree = Made(tmp_path / "made"), tmp_path / "tree"
    before = {"p/__init__.py", "p/old.so"}
    after = {
        "p/_c.cpython-311.so", "p/_version.py", "build/lib/p/x.so", "p.egg-info/PKG-INFO", "p/_c.c", "p/_c.o",
        "target/release/lib.so", "p/__pycache__/x.pyc", "p/data/table.bin",
    }  # fmt: skip
    for name in before | after:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("changed")
    (tree / "p/run").write_text("#!")
    (tree / "p/run").chmod(0o700)
    (tree / "p/link.so").symlink_to("/etc/passwd")
    os.mkfifo(tree / "p/pipe.so")
    assert "p/link.so" not in paths_below(tree)
    digest, files = keep_parts(tree, before, "", (), "the build", made.store)
    assert files == ("p/_c.cpython-311.so", "p/_version.py", "p/data/table.bin", "p/run")
    with made.store.blob(digest).open("rb") as stream:
        entries = {entry.path: entry for entry, _ in read_tar(stream)}
    assert [entries[name].mode for name in files] == [0o644, 0o644, 0o644, 0o755]
    assert keep_parts(tree, paths_below(tree), "", (), "the build", made.store) == ("", ())


def test_a_package_may_have_a_folder_that_is_named_like_those_of_builds(tmp_path: Path) -> None:
    """Only at the project's top, and above it, are they those of builds; and cargo marks its own."""
    made, tree = Made(tmp_path / "made"), tmp_path / "tree"
    left = {
        "target/x.so", "py/build/lib/x.so", "py/lib/dist/x.so", "py/lib/target/x.so", "py/lib/rust/target/CACHEDIR.TAG",
        "py/lib/rust/target/release/x.so", "py/lib/mypkg/gen.c",
    }  # fmt: skip
    parts = {
        "py/lib/mypkg/target/_c.so", "py/lib/mypkg/build/_native.so", "py/lib/mypkg/dist/_ops.so", "other/build/x.so",
        "py/mytarget/CACHEDIR.TAG",
    }  # fmt: skip
    for name in left | parts:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("x")
    _, files = keep_parts(tree, (), "py/lib", (), "the build", made.store)
    assert files == tuple(sorted(parts))
    _, files = keep_parts(tree, (), "py/lib", left, "the build", made.store)
    assert files == tuple(sorted(left | parts))


def test_compiled_parts_that_are_holes_are_refused(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    tree = tmp_path / "tree"
    tree.mkdir()
    with (tree / "_native.so").open("wb") as stream:
        stream.truncate(1 << 42)
    with pytest.raises(BuildError, match="all else is holes") as caught:
        keep_parts(tree, (), "", (), "the build", made.store)
    assert caught.value.hint == HOSTILE


@pytest.mark.parametrize("name", [b"a\nb.so", b"\xff.so", b"\xff/x.so", b"a\x1b[2J.so"])
def test_compiled_parts_that_no_lock_can_name_are_refused(name: bytes, tmp_path: Path) -> None:
    """The lock, the listing of the image and the record of the source name them."""
    made = Made(tmp_path / "made")
    path = tmp_path / "tree" / os.fsdecode(name)
    path.parent.mkdir(parents=True)
    path.write_text("x")
    with pytest.raises(BuildError, match="a name that no lock can hold") as caught:
        keep_parts(tmp_path / "tree", (), "", (), "the build", made.store)
    assert caught.value.hint == HOSTILE


PYTHON = Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="made")


def test_the_environment_of_a_build(tmp_path: Path) -> None:
    made, folder = Made(tmp_path / "made"), tmp_path / "prefix"
    folder.mkdir()
    tool = made.wheel(
        "tool", {"tool.py": b"", "tool-1.0.data/scripts/run": b"#!python\n1", "tool-1.0.data/headers/t.h": b"h"},
        scripts="[console_scripts]\nwork = tool:main\n", executable=["tool-1.0.data/scripts/run"],
    )  # fmt: skip
    make_prefix(folder, "/opt/build", [tool], PYTHON, made.store)
    assert (folder / "bin/python").readlink() == Path("/usr/bin/python3.11")
    assert (folder / "lib/python3.11/site-packages/tool.py").is_file()
    assert (folder / "include/site/python3.11/tool/t.h").read_bytes() == b"h"
    for name in ("run", "work"):
        assert (folder / "bin" / name).read_bytes().startswith(b"#!/opt/build/bin/python\n")
        assert (folder / "bin" / name).stat().st_mode & 0o111
    assert "home = /usr/bin\n" in (folder / "pyvenv.cfg").read_text()


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("w-1.0.data/scripts/python", "w-1.0-.*whl brings bin/python, which is the environment's own"),
        (
            "w-1.0.data/scripts/python3.11",
            "w-1.0-.*whl brings bin/python3.11, which is the environment's own",
        ),
        ("w-1.0.data/data/pyvenv.cfg", "w-1.0-.*whl brings pyvenv.cfg, which is the environment's own"),
        ("w-1.0.data/data/bin", "w-1.0-.*whl brings bin, which is the environment's own"),
        ("w-1.0.data", "holds w-1.0.data, which is in no scheme"),
    ],
)
def test_a_wheel_that_would_be_the_interpreter(tmp_path: Path, member: str, words: str) -> None:
    """A link of the environment leads to the machine's own Python: nothing may be written through it."""
    made, folder = Made(tmp_path / "made"), tmp_path / "prefix"
    folder.mkdir()
    hostile = made.wheel("w", {member: b"harm"})
    with pytest.raises(BuildError, match=words) as caught:
        make_prefix(folder, "/opt/build", [hostile], PYTHON, made.store)
    assert caught.value.hint == HOSTILE
