from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.errors import BuildError
from reprobuild.image.layers.blobs import read_listing, write_layer
from reprobuild.image.layers.layers import make_layers, resolve_overlaps
from reprobuild.image.layers.plan import plan
from reprobuild.image.layers.wheel import script_text, wheel_entries
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.names import HOSTILE, check_path
from reprobuild.store.store import Store
from tests.image.made import SITE, Made, make_wheel, record_row

INFO = f"{SITE}/pkg-1.0.dist-info"


def wheel(folder: Path, files: dict[str, bytes], **more: object) -> Path:
    return make_wheel(folder / "pkg-1.0-py3-none-any.whl", files, **more)


def installed(path: Path, **more: object) -> dict[str, tuple[int, bytes]]:
    """Return {path: (mode, content)} of the files of a wheel."""
    found = {}
    with wheel_entries(path, path.name, "3.11", **more) as items:
        assert [item.entry.path for item in items] == sorted({item.entry.path for item in items})
        for item in items:
            assert (item.entry.uid, item.entry.gid) == (0, 0)
            if item.open is None:
                assert (item.entry.type, item.entry.mode) == ("directory", 0o755)
            else:
                with item.open() as stream:
                    found[item.entry.path] = (item.entry.mode, stream.read())
    return found


def refused(folder: Path, path: Path, *words: str) -> None:
    """Install into a layer; it must fail, naming the wheel and the words."""
    store = Store(folder / "store")
    with pytest.raises(BuildError) as caught, wheel_entries(path, path.name, "3.11") as items:
        write_layer(items, "wheel", 0, store)
    assert caught.value.hint == HOSTILE
    for word in (path.name, *words):
        assert word in str(caught.value)
    assert not (folder / "store" / "blobs").exists()
    assert not (folder / "store" / "tmp").exists() or not list((folder / "store" / "tmp").iterdir())


def test_files_go_to_the_places_of_a_virtual_environment(tmp_path: Path) -> None:
    data = "pkg-1.0.data"
    path = wheel(
        tmp_path,
        {
            "pkg/__init__.py": b"x = 1\n",
            "pkg/tool": b"binary",
            f"{data}/purelib/pure.py": b"",
            f"{data}/platlib/plat.py": b"",
            f"{data}/scripts/run": b"#!python -E\nprint(1)\n",
            f"{data}/scripts/native": b"\x7fELF",
            f"{data}/headers/pkg.h": b"",
            f"{data}/data/share/man/man1/pkg.1": b"",
        },
        scripts="[console_scripts]\npkg = pkg.cli:main.run [extra]\n[gui_scripts]\npkg-gui = pkg:gui\n[other]\na = b\n",
        executable=["pkg/tool"],
    )
    found = installed(path)
    assert found[f"{SITE}/pkg/__init__.py"] == (0o644, b"x = 1\n")
    assert found[f"{SITE}/pkg/tool"] == (0o755, b"binary")
    assert {f"{SITE}/pure.py", f"{SITE}/plat.py"} < set(found)
    assert found["opt/env/bin/run"] == (0o755, b"#!/opt/env/bin/python\nprint(1)\n")
    assert found["opt/env/bin/native"] == (0o755, b"\x7fELF")
    assert found["opt/env/bin/pkg"] == (0o755, script_text("pkg.cli", "main.run"))
    assert found["opt/env/bin/pkg-gui"] == (0o755, script_text("pkg", "gui"))
    assert "opt/env/include/site/python3.11/pkg/pkg.h" in found
    assert "opt/env/share/man/man1/pkg.1" in found
    assert found[f"{INFO}/INSTALLER"] == (0o644, b"reprobuild\n")


def test_the_script_of_an_entry_point_is_this_text() -> None:
    assert script_text("a.b", "main.run").decode() == (
        "#!/opt/env/bin/python\nimport sys\n\nfrom a.b import main\n\n"
        'if __name__ == "__main__":\n    sys.exit(main.run())\n'
    )


def test_record_lists_all_that_is_installed_and_nothing_else(tmp_path: Path) -> None:
    path = wheel(
        tmp_path,
        {"pkg/b.py": b"b", "pkg/a,b.py": b"a", "pkg-1.0.data/scripts/run": b"#!python\n"},
        scripts="[console_scripts]\npkg = pkg:main\n",
    )
    found = installed(path, direct_url={"url": "file:///src/pkg", "dir_info": {"editable": True}})
    record = found[f"{INFO}/RECORD"][1].decode()
    rows = [
        record_row(os.path.relpath(name, SITE), content)
        for name, (_, content) in found.items()
        if not name.endswith("RECORD")
    ]
    assert sorted(record.splitlines(keepends=True)) == sorted([*rows, "pkg-1.0.dist-info/RECORD,,\n"])
    names = [line.rsplit(",", 2)[0].strip('"') for line in record.splitlines()]
    assert names == sorted(names)
    assert json.loads(found[f"{INFO}/direct_url.json"][1]) == {
        "url": "file:///src/pkg",
        "dir_info": {"editable": True},
    }


def test_what_installers_leave_and_shipped_bytecode_is_dropped(tmp_path: Path) -> None:
    info = "pkg-1.0.dist-info"
    dropped = {
        "pkg/__pycache__/a.cpython-311.pyc": b"",
        "pkg/a.pyc": b"",
        f"{info}/REQUESTED": b"",
        f"{info}/direct_url.json": b"{}",
        f"{info}/uv_cache.json": b"{}",
        f"{info}/provenance_url.json": b"{}",
        f"{info}/INSTALLER": b"pip\n",
    }
    kept = {"pkg/a.py": b"", "pkg/only.pyc": b"module", "setuptools/_vendor/x.dist-info/INSTALLER": b"pip"}
    found = installed(wheel(tmp_path, {**kept, **dropped}))
    assert set(found) == {
        *(f"{SITE}/{name}" for name in kept),
        *(f"{INFO}/{name}" for name in ("INSTALLER", "METADATA", "RECORD", "WHEEL")),
    }
    assert b".pyc" not in found[f"{INFO}/RECORD"][1].replace(b"pkg/only.pyc", b"")


def test_a_row_without_sha256_is_filled_in(tmp_path: Path) -> None:
    rows = {"pkg/a.py": "pkg/a.py,,\n", "pkg/c.py": "pkg/c.py,md5=DMF1ucDxtqgxw5niaXcmYQ,1\n"}
    found = installed(wheel(tmp_path, {"pkg/a.py": b"a", "pkg/c.py": b"a"}, rows=rows))
    record = found[f"{INFO}/RECORD"][1].decode()
    for name, content in (("pkg/a.py", b"a"), ("pkg/c.py", b"a")):
        assert record_row(name, content) in record


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "pkg/../../evil",
        "pkg//evil",
        "./evil",
        "pkg\\evil",
        "pkg/.wh.evil",
        ".wh.x/evil",
    ],
)
def test_unsafe_names_are_refused(tmp_path: Path, name: str) -> None:
    refused(tmp_path, wheel(tmp_path, {name: b""}), repr(name))


@given(st.lists(st.text(alphabet="ab.\\/w h", min_size=1, max_size=6), min_size=1, max_size=4).map("/".join))
def test_a_path_that_is_let_through_stays_in_its_folder(path: str) -> None:
    try:
        check_path(path, "the test")
    except BuildError:
        return
    assert os.path.normpath(f"/root/{path}") == f"/root/{path}"
    assert not any(part.startswith(".wh.") for part in path.split("/"))


def test_links_and_devices_are_refused(tmp_path: Path) -> None:
    for kind in (stat.S_IFLNK, stat.S_IFIFO):
        refused(tmp_path, wheel(tmp_path, {"pkg/x": b"/etc"}, modes={"pkg/x": kind | 0o777}), "pkg/x")


def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"pkg/a.py": b""})
    with (
        zipfile.ZipFile(path, "a") as archive,
        pytest.warns(UserWarning, match="Duplicate name"),
    ):
        archive.writestr("pkg/a.py", b"other")
    refused(tmp_path, path, "pkg/a.py twice")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (record_row("pkg/a.py", b"other"), "stated as"),
        ("pkg/a.py,md5=DMF1ucDxtqgxw5niaXcmYQ,5\n", "md5="),
        ("pkg/a.py,sha256=***,5\n", "which is none"),
        ("pkg/a.py,rot13=x,5\n", "unknown kind"),
        ("pkg/a.py,,6\n", "6 bytes"),
        ("pkg/a.py,x\n", "expected 3 elements"),
        ("", "holds pkg/a.py, which its RECORD does not list"),
        (record_row("pkg/a.py", b"right") + record_row("pkg/gone.py", b""), "lacks 'pkg/gone.py'"),
    ],
)
def test_a_row_of_record_that_is_wrong_is_refused(tmp_path: Path, row: str, words: str) -> None:
    path = wheel(tmp_path, {"pkg/a.py": b"right"}, rows={"pkg/a.py": row})
    refused(tmp_path, path, *([words] if "3 elements" in words else ["pkg/", words]))


def _patched(path: Path, old: bytes, new: bytes) -> Path:
    content = path.read_bytes()
    assert content.count(old) >= 1
    path.write_bytes(content.replace(old, new))
    return path


def test_a_bomb_ends_at_its_stated_size(tmp_path: Path) -> None:
    """The central directory states 5 bytes for a member that inflates to 1 MB."""
    size, stated = 1_000_003, 5
    path = wheel(tmp_path, {"pkg/bomb": bytes(size)}, rows={"pkg/bomb": "pkg/bomb,,5\n"})
    refused(tmp_path, _patched(path, size.to_bytes(4, "little"), stated.to_bytes(4, "little")), "pkg/bomb")


def test_overlapping_members_are_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"pkg/a": os.urandom(30_011), "pkg/b": b""})
    with zipfile.ZipFile(path) as archive:
        packed = archive.getinfo("pkg/a").compress_size
    refused(tmp_path, _patched(path, packed.to_bytes(4, "little"), (10**9).to_bytes(4, "little")), "overlap")


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"pkg/a": b"x"})
    with zipfile.ZipFile(path) as archive:
        start = archive.start_dir
    content = bytearray(path.read_bytes())
    content[start + 8] |= 1
    path.write_bytes(content)
    refused(tmp_path, path, "pkg/a", "encrypted")


def test_a_changed_byte_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"pkg/a": os.urandom(5000)})
    content = bytearray(path.read_bytes())
    content[2000] ^= 1
    path.write_bytes(content)
    refused(tmp_path, path, "pkg/a")


@pytest.mark.parametrize(
    ("files", "scripts", "words"),
    [
        ({"other-1.0.dist-info/METADATA": b""}, "", "one .dist-info directory"),
        ({"pkg-1.0.data": b""}, "", "no scheme"),
        ({"pkg-1.0.data/scripts": b""}, "", "no scheme"),
        ({"pkg-1.0.data/nowhere/x": b""}, "", "valid .data subdirectory"),
        ({}, "[console_scripts]\n../../evil = a:b\n", "evil"),
        ({}, "[console_scripts]\nsub/evil = a:b\n", "unsafe script name"),
        ({}, "[console_scripts]\nevil = a\n", "entry_points.txt"),
        ({}, "no section\n", "no section headers"),
        ({"pkg-1.0.data/scripts/x": b"other"}, "[console_scripts]\nx = a:b\n", "both write"),
        ({"pkg/a": b"", "pkg/a/b": b""}, "", "as a file and as a directory"),
    ],
)
def test_wheels_that_cannot_be_installed(
    tmp_path: Path, files: dict[str, bytes], scripts: str, words: str
) -> None:
    path = wheel(tmp_path, files, scripts=scripts)
    with pytest.raises(BuildError, match=path.name) as caught, wheel_entries(path, path.name, "3.11"):
        pass
    assert words in str(caught.value)
    assert caught.value.hint


def test_what_is_no_wheel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pkg-1.0-py3-none-any.whl"
    path.write_bytes(b"no zip")
    refused(tmp_path, path, "not a zip archive")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pkg-1.0.dist-info/METADATA", b"")
    refused(tmp_path, path, "cannot be installed")
    refused(tmp_path, wheel(tmp_path, {}).rename(tmp_path / "noname.whl"), "cannot be installed")


NAMES = st.text(alphabet="abc_ é", min_size=1, max_size=5)


@given(
    st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=50), max_size=6)
)
def test_every_file_arrives_with_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    files = {f"pkg/{name}.x": content for name, content in files.items()}
    found = installed(wheel(tmp_path_factory.mktemp("wheel"), files))
    for name, content in files.items():
        assert found[f"{SITE}/{name}"] == (0o644, content)
    assert len(found) == len(files) + 4


def test_a_real_wheel_becomes_the_tree_that_pip_makes(tmp_path: Path, real_wheel: Path) -> None:
    """Apart from the normalised files: INSTALLER, REQUESTED, RECORD, direct_url.json and entry points."""
    argv = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    argv += ["--prefix", "/opt/env", "--root", str(tmp_path / "pip"), "--ignore-installed"]
    subprocess.run([*argv, "--no-warn-script-location", str(real_wheel)], check=True)
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    with wheel_entries(real_wheel, real_wheel.name, minor) as items:
        ours = {item.entry.path: item for item in items if item.open is not None}
        theirs = {
            path.relative_to(tmp_path / "pip").as_posix(): path
            for path in (tmp_path / "pip").rglob("*")
            if path.is_file()
        }
        only = {name.rpartition("/")[2] for name in set(ours) ^ set(theirs)}
        assert only <= {"REQUESTED", "direct_url.json"}
        different = set()
        for name in set(ours) & set(theirs):
            with ours[name].open() as stream:
                if stream.read() != theirs[name].read_bytes():
                    different.add(name)
            assert ours[name].entry.mode == theirs[name].stat().st_mode & 0o777
        assert {name.rpartition("/")[2] for name in different} == {"INSTALLER", "RECORD", "pytest", "py.test"}
    assert len(ours) > 50


def test_code_that_runs_when_python_starts_is_a_wheel_s_own_business(tmp_path: Path) -> None:
    """A `.pth` file or `sitecustomize` is part of the captured environment: it is installed as it is, and told by
    RECORD and the lock. What they do runs in the image alone."""
    files = {
        "evil.pth": b"import os; os.system('x')\n",
        "sitecustomize.py": b"1\n",
        "pkg-1.0.data/purelib/b.pth": b"",
    }
    found = installed(wheel(tmp_path, files))
    assert {f"{SITE}/evil.pth", f"{SITE}/sitecustomize.py", f"{SITE}/b.pth"} < set(found)


@pytest.mark.parametrize("name", ["a;b", "$(touch x)", "`x`", "a b", "-rf", "a'b", "*", "a&&b", "é"])
def test_names_of_scripts_are_never_read_by_a_shell(tmp_path: Path, name: str) -> None:
    found = installed(wheel(tmp_path, {}, scripts=f"[console_scripts]\n{name} = pkg:main\n"))
    assert found[f"opt/env/bin/{name}"] == (0o755, script_text("pkg", "main"))


@pytest.mark.parametrize(
    "target", ["os:system('x')", "a;b:c", "a b:c", "a:b\n c", "a:b c", "import os:x", "a/b:c", ":x"]
)
def test_targets_of_scripts_are_names_alone(tmp_path: Path, target: str) -> None:
    refused(
        tmp_path, wheel(tmp_path, {}, scripts=f"[console_scripts]\nx = {target}\n"), "cannot be installed"
    )


def test_a_wheel_does_not_replace_the_interpreter(made: Made) -> None:
    made.wheel("pkg", {"pkg-1.0.data/scripts/python": b"#!/bin/sh\n"})
    recipes = plan(made.lock(), made.store)
    layers = make_layers(recipes, made.store)
    with pytest.raises(BuildError, match=r"both write /opt/env/bin/python, with different content"):
        resolve_overlaps(recipes, [read_listing(layer, made.store) for layer in layers], made.store)


def test_a_script_longer_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "LONGEST_TEXT", 1000)
    path = wheel(tmp_path, {"pkg-1.0.data/scripts/x": b"#!python\n" + bytes(2000)})
    refused(tmp_path, path, "pkg-1.0.data/scripts/x of 2009 bytes")
