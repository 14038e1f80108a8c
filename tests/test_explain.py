"""Two images that should be equal and are not: what differs, of which kind, and which input brought it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprobuild.builders.native import build_image
from reprobuild.cli import main as cli
from reprobuild.compare.images import diffoscope
from reprobuild.compare.images import tree as difference
from reprobuild.compare.images.attribute import list_causes, read_origins
from reprobuild.compare.images.explain import ImageDiff, compare_images
from reprobuild.compare.images.tree import LEVELS, FileChange, compare_trees, describe_entry, format_time
from reprobuild.errors import EngineError, UsageError
from reprobuild.image.layering.merge import merge
from reprobuild.image.oci.read import layout_tree, open_layer, read_layout
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, encode
from reprobuild.output.directory import IMAGE, LOCK
from reprobuild.report.difference import _cause_headline, render_image_diff, safe_text
from tests.image.images import RUNTIME, Entries, archived, finish, make_layout, saved, tar_of
from tests.image.made import BASE, SITE, Made, file, folder, symlink

GIVE = "give an output directory, an OCI layout, an archive of `docker save` or OCI, a SIF, or an image of the engine"
DEVICE = (TarEntry(path="dev/null", type="char", mode=0o666, device=(1, 3)), b"")
ENTRIES = [*BASE, DEVICE, file("opt/a.txt", b"one\ntwo\n"), file("opt/bin", b"\0\1\2\3")]
NO_ENGINE = {"DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": os.defpath}


def explained(one: Path, other: Path, env: Mapping[str, str] = NO_ENGINE) -> ImageDiff:
    return compare_images(str(one), str(other), env, lambda text: None)


def between(tmp_path: Path, one: Entries, other: Entries, **more: Any) -> ImageDiff:
    return explained(make_layout(tmp_path / "one", one), make_layout(tmp_path / "other", other, **more))


def replaced(entry: TarEntry | None, content: bytes = b"", path: str = "") -> list[tuple[TarEntry, bytes]]:
    """The entries with one instead of another of the same path, or without it."""
    path = entry.path if entry else path
    kept = [item for item in ENTRIES if item[0].path != path]
    return [*kept, *([(entry, content)] if entry else [])]


# --- equal -----------------------------------------------------------------------------------


def test_an_image_is_equal_to_itself_in_every_form(tmp_path: Path) -> None:
    layout = make_layout(tmp_path / "layout", ENTRIES)
    repacked = make_layout(tmp_path / "gzip", ENTRIES, packing="gzip")
    levels = {
        layout: "manifest",
        archived(layout, tmp_path / "oci.tar"): "manifest",
        archived(layout, tmp_path / "oci.tar.gz", "gzip"): "manifest",
        saved(layout, tmp_path / "saved.tar"): "config",
        repacked: "config",
        make_layout(tmp_path / "times", ENTRIES, epoch=5): "tree",
        make_layout(tmp_path / "other", replaced(file("opt/a.txt", b"?")[0], b"?")): "different",
    }
    for path, level in levels.items():
        found = explained(layout, path)
        assert found.level == level
        assert bool(found.files) == (level == "different")
        assert bool(found.changes) == (level != "manifest")
        assert found.one.tree == explained(path, layout).other.tree


def test_the_packing_alone_differs(tmp_path: Path) -> None:
    one = make_layout(tmp_path / "one", ENTRIES, [file("b", b""), file("c", b"")])
    other = make_layout(
        tmp_path / "other", ENTRIES, [file("c", b""), file("b", b"")], epoch=5, packing="gzip"
    )
    found = explained(one, other)
    assert (found.level, found.files) == ("tree", ())
    kinds = {change.kind for change in found.changes}
    assert kinds == {"times", "order", "config", "manifest", "index"}
    by_kind = {change.kind: change for change in found.changes}
    assert by_kind["order"].name == "layer 2, from member 1"
    assert (by_kind["order"].one, by_kind["order"].other) == ("b", "c")
    assert by_kind["times"].name.endswith(" paths, the first /b")
    assert (by_kind["times"].one, by_kind["times"].other) == ("1970-01-01T00:00:00Z", "1970-01-01T00:00:05Z")
    same = explained(
        one, make_layout(tmp_path / "again", ENTRIES, [file("b", b""), file("c", b"")], packing="none")
    )
    assert same.level == "config"
    (first, _) = [change for change in same.changes if change.kind == "compression"]
    assert re.fullmatch(r"zstd, \d+ bytes", first.one or "")
    assert re.fullmatch(r"none, \d+ bytes", first.other or "")


def test_the_split_into_layers(tmp_path: Path) -> None:
    one = make_layout(tmp_path / "one", ENTRIES, [file("b", b"")])
    found = explained(one, make_layout(tmp_path / "other", [*ENTRIES, file("b", b"")]))
    assert found.level == "tree"
    rows = [(c.kind, c.name, c.one, c.other) for c in found.changes if c.kind == "layers"]
    assert rows[0] == ("layers", "number", "2 layers", "1 layers")
    assert rows[1][1] == "layer 1, other paths"


def named(name: str, form: int = tarfile.USTAR_FORMAT) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=form) as tar:
        info = tarfile.TarInfo("f")
        info.uname, info.gname = name, name
        tar.addfile(info)
    return stream.getvalue()


def test_names_of_owners_and_the_format_of_the_tar(tmp_path: Path) -> None:
    one = make_layout(tmp_path / "one", named("root"))
    found = explained(one, make_layout(tmp_path / "other", named("me")))
    (change,) = [change for change in found.changes if change.kind == "owners"]
    assert (found.level, change.one, change.other) == ("tree", "root:root", "me:me")
    found = explained(one, make_layout(tmp_path / "gnu", named("root", tarfile.GNU_FORMAT)))
    (change,) = [change for change in found.changes if change.kind == "header"]
    assert (found.level, change.name) == ("tree", "layer 1")
    found = explained(one, make_layout(tmp_path / "tail", named("root") + bytes(10240)))
    assert [change.kind for change in found.changes if change.kind == "header"] == ["header"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(range(len(ENTRIES))), unique=True, min_size=1))
def test_any_tree_is_equal_to_itself(chosen: list[int]) -> None:
    paths = {ENTRIES[index][0].path for index in chosen}
    entries = [e for e, _ in ENTRIES if e.path in paths and (e.type != "hardlink" or e.target in paths)]
    tree = merge([entries])
    assert compare_trees(tree, merge([list(entries)])) == []
    for path in tree:
        if path:
            without = {other: entry for other, entry in tree.items() if other != path}
            (change,) = compare_trees(tree, without)
            assert (change.path, change.kind, change.one) == (path, "removed", describe_entry(tree[path]))


# --- one planted change in each field --------------------------------------------------------

SHADOW = next(entry for entry, _ in BASE if entry.path == "etc/shadow")
CHANGES: list[tuple[str, TarEntry, bytes, str, str, str]] = [
    ("mode", msgspec.structs.replace(SHADOW, mode=0o644), b"root:*::\n", "etc/shadow", "0640", "0644"),
    ("owner", msgspec.structs.replace(SHADOW, uid=7), b"root:*::\n", "etc/shadow", "0:42", "7:42"),
    ("owner", msgspec.structs.replace(SHADOW, gid=7), b"root:*::\n", "etc/shadow", "0:42", "0:7"),
    (
        "attributes", msgspec.structs.replace(SHADOW, xattrs=(("user.a", "00ff"),)), b"root:*::\n", "etc/shadow",
        "", "user.a=00ff",
    ),
    ("link", symlink("bin", "/usr/bin")[0], b"", "bin", "usr/bin", "/usr/bin"),
    ("device", msgspec.structs.replace(DEVICE[0], device=(1, 5)), b"", "dev/null", "1:3", "1:5"),
    ("mode", folder("tmp", 0o755)[0], b"", "tmp", "1777", "0755"),
    (
        "type", TarEntry(path="bin", type="fifo", mode=0o777), b"", "bin",
        "symlink to usr/bin, 0777", "fifo, 0777",
    ),
    ("added", folder("new")[0], b"", "new", "", "directory, 0755"),
    ("added", msgspec.structs.replace(folder("new", 0o700)[0], uid=3), b"", "new", "", "directory, 0700 of 3:0"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "entry", "content", "path", "one", "other"), CHANGES)
def test_a_planted_change_is_found_and_named(
    kind: str, entry: TarEntry, content: bytes, path: str, one: str, other: str, tmp_path: Path
) -> None:
    found = between(tmp_path, ENTRIES, replaced(entry, content))
    (change,) = found.files
    assert (change.kind, change.path, change.one, change.other) == (kind, path, one, other)
    assert found.level == "different"
    text = render_image_diff(found)
    assert f"1 path differ: 1 {kind}" in text
    assert f"/{path}: {one or 'nothing'} -> {other or 'nothing'}" in text


def test_a_removed_file_and_two_changes_of_one(tmp_path: Path) -> None:
    entry, _ = file("opt/a.txt", b"one\n2\n", 0o600)
    found = between(
        tmp_path, ENTRIES, [item for item in replaced(entry, b"one\n2\n") if item[0].path != "opt/bin"]
    )
    assert [(change.kind, change.path) for change in found.files] == [
        ("content", "opt/a.txt"), ("removed", "opt/bin"), ("mode", "opt/a.txt"),
    ]  # fmt: skip
    assert "2 paths differ: 1 content, 1 removed, 1 mode" in render_image_diff(found)


@pytest.mark.parametrize(
    ("path", "one", "other", "detail"),
    [
        ("opt/a.txt", b"one\ntwo\n", b"one\n2\n", "line 2: 'two' and '2'"),
        ("opt/a.txt", b"one\n", b"one\ntwo\n", "line 2: '' and 'two'"),
        ("opt/a.txt", b"a" * 5000, b"b" + b"a" * 4999, "from byte 0 of 5000 and 5000"),
        ("opt/a.txt", b"\xff1\n", b"\xff2\n", "from byte 1 of 3 and 3"),
        ("opt/bin", b"\0" * 9, b"\0" * 8 + b"1", "from byte 8 of 9 and 9"),
        ("opt/a.txt", b"x" * 300 + b"1", b"x" * 300 + b"2", f"line 1: '…{'x' * 33}1' and '…{'x' * 33}2'"),
        ("opt/a.txt", b"1" + b"x" * 300, b"2" + b"x" * 300, f"line 1: '1{'x' * 99}…' and '2{'x' * 99}…'"),
        ("opt/a.txt", b"TOKEN=abc1\n", b"TOKEN=abc2\n", "line 1 differs in what looks like a secret or in its end"),
        (
            "opt/a.txt", b"-----BEGIN RSA PRIVATE KEY-----\nabc\n", b"-----BEGIN RSA PRIVATE KEY-----\nabd\n",
            "from line 2; not quoted: it holds what looks like a secret (private-key)",
        ),
        (
            "root/.netrc", b"password one\n", b"password two\n",
            "from line 1; not quoted: files of this name hold secrets",
        ),
        ("var/log/x", b"a\n", b"b\n", "line 1: 'a' and 'b'"),
    ],
)  # fmt: skip
def test_the_first_difference_is_quoted(
    path: str, one: bytes, other: bytes, detail: str, tmp_path: Path
) -> None:
    found = between(tmp_path, [file(path, one)], [file(path, other)])
    (change,) = found.files
    assert change.detail == detail


def test_what_not_everybody_may_read_is_not_quoted(tmp_path: Path) -> None:
    found = between(tmp_path, [file("f", b"a\n", 0o640)], [file("f", b"b\n", 0o640)])
    assert found.files[0].detail == "from line 1; not quoted: not everybody may read it"


# --- what runs, labels, the rest of the configuration -----------------------------------------

MEANS_THE_SAME = ("the same", "in another order or form")
TWO_SECRETS = ("(secret)", "(secret)")
TOKEN = "hf_" + "Ab1" * 12


@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        ({"Env": ["A=1"]}, {"Env": ["A=2"]}, [("runtime", "Env A", "1", "2")]),
        ({"Env": ["A=1"]}, {"Env": []}, [("runtime", "Env A", "1", None)]),
        ({"Env": ["A=1", "B=2"]}, {"Env": ["B=2", "A=1"]}, [("config", "/config/Env", *MEANS_THE_SAME)]),
        ({"Env": ["A=1", "A=2"]}, {"Env": ["A=2", "A=1"]}, [("runtime", "Env A", "2", "1")]),
        ({"Env": ["A=1", "A=1"]}, {"Env": ["A=1"]}, [("runtime", "Env A, repeated", "2 settings", "1 setting")]),
        ({"Env": ["A=1", "A=1", "A=2"]}, {"Env": ["A=1", "A=2", "A=2"]}, [
            ("runtime", "Env A, repeated", "3 settings", "3 settings: other values before the last one"),
        ]),
        ({"Env": ["A", "B=1"]}, {"Env": ["A=", "B=1"]}, [("runtime", "Env A", "without =", "with = and no value")]),
        ({"Env": ["A", "B=1"]}, {"Env": ["A=", "B=2"]}, [
            ("runtime", "Env B", "1", "2"), ("runtime", "Env A", "without =", "with = and no value"),
        ]),
        ({"Env": ["A=", "A"]}, {"Env": ["A", "A="]}, [("runtime", "Env A", "without =", "with = and no value")]),
        ({"Env": [f"HF_TOKEN={TOKEN}"]}, {"Env": ["HF_TOKEN=x"]}, [("runtime", "Env HF_TOKEN", *TWO_SECRETS)]),
        ({"Cmd": ["a"]}, {"Cmd": ["b"]}, [("runtime", "Cmd", '["a"]', '["b"]')]),
        ({"User": ""}, {"User": "me"}, [("runtime", "User", "", "me")]),
        ({"Labels": {"a": "1"}}, {"Labels": {"a": "2"}}, [("label", "a", "1", "2")]),
        ({"Labels": {"my.token": "1"}}, {"Labels": {}}, [("label", "my.token", "(secret)", None)]),
        ({"Healthcheck": {"Test": ["NONE"]}}, {}, [
            ("config", "/config", None, "{}"), ("config", "/config/Healthcheck/Test/0", "NONE", None),
        ]),
        ({"Healthcheck": {"Test": ["CMD", "a"]}}, {"Healthcheck": {"Test": ["CMD", "b"]}}, [
            ("runtime", "Healthcheck", '{"Test": ["CMD", "a"]}', '{"Test": ["CMD", "b"]}'),
        ]),
        ({"Healthcheck": {"Test": ["CMD", "a"]}}, {}, [
            ("runtime", "Healthcheck", '{"Test": ["CMD", "a"]}', None),
        ]),
        ({"Shell": ["sh"]}, {"Shell": ["bash"]}, [("config", "/config/Shell/0", "sh", "bash")]),
        ({"WorkingDir": "/"}, {"WorkingDir": ""}, [("config", "/config/WorkingDir", *MEANS_THE_SAME)]),
    ],
)  # fmt: skip
def test_configurations(one: Any, other: Any, rows: Any, tmp_path: Path) -> None:
    layouts = [
        make_layout(tmp_path / name, ENTRIES, config=c) for name, c in (("one", one), ("other", other))
    ]
    found = explained(*layouts)
    here = [(c.kind, c.name, c.one, c.other) for c in found.changes if c.kind not in ("manifest", "index")]
    assert here == rows
    runs = any(kind == "runtime" for kind, *_ in rows)
    assert found.level == ("different" if runs else "tree")
    text = render_image_diff(found, everything=True) + json.dumps(msgspec.to_builtins(found))
    assert TOKEN not in text
    assert all(name in text for _, name, *_ in rows)


@pytest.mark.parametrize(
    ("one", "other", "rows"),
    [
        ({"x/y": "v"}, {"x": {"y": "v"}}, [("/x/y", None, "v"), ("/x~1y", "v", None)]),
        ({"x~1y": "v"}, {"x/y": "v"}, [("/x~01y", "v", None), ("/x~1y", None, "v")]),
        ({"x": False}, {"x": "false"}, [("/x", "false", '"false"')]),
        ({"x": [1]}, {"x": ["1"]}, [("/x/0", "1", '"1"')]),
        ({"x": True}, {"x": 1}, [("/x", "true", "1")]),
        ({"x": {}}, {"x": "{}"}, [("/x", "{}", '"{}"')]),
        ({"x": ["a"]}, {"x": {"0": "a"}}, [("/x", "a list", "an object")]),
    ],
)
def test_values_of_other_places_and_types(one: Any, other: Any, rows: Any, tmp_path: Path) -> None:
    layouts = [
        make_layout(tmp_path / name, ENTRIES, **more) for name, more in (("one", one), ("other", other))
    ]
    found = explained(*layouts)
    assert [(c.name, c.one, c.other) for c in found.changes if c.kind == "config"] == rows


def test_a_number_and_a_text_in_a_manifest(tmp_path: Path) -> None:
    layouts = []
    for name, value in (("one", 1), ("other", "1")):
        layout = make_layout(tmp_path / name, ENTRIES)
        digest = explained(layout, layout).one.manifest[7:]
        manifest = json.loads((layout / "blobs/sha256" / digest).read_bytes())
        image = (layout / "blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes()
        finish(layout, image, [row | {"kept": value} for row in manifest["layers"]])
        layouts.append(layout)
    found = explained(*layouts)
    rows = [(c.name, c.one, c.other) for c in found.changes if c.kind == "manifest"]
    assert rows == [("/layers/0/kept", "1", '"1"')]


def test_history_platform_and_spelling(tmp_path: Path) -> None:
    one = make_layout(tmp_path / "one", ENTRIES, history=[{"created_by": f"ENV HF_TOKEN={TOKEN}"}])
    other = make_layout(
        tmp_path / "other", ENTRIES, history=[{"created_by": "RUN true"}], architecture="arm64"
    )
    found = explained(one, other)
    rows = {(c.name, c.one, c.other) for c in found.changes if c.kind == "config"}
    assert rows == {
        ("/architecture", "amd64", "arm64"),
        ("/history/0/created_by", "ENV HF_TOKEN=***", "RUN true"),
    }
    assert TOKEN not in render_image_diff(found)
    spelled = make_layout(tmp_path / "spelled", ENTRIES, history=[{"created_by": "RUN true"}])
    again = tmp_path / "again"
    make_layout(again, ENTRIES)
    manifest = json.loads(
        (spelled / "blobs/sha256" / explained(spelled, spelled).one.manifest[7:]).read_bytes()
    )
    raw = json.dumps(
        json.loads((spelled / "blobs/sha256" / manifest["config"]["digest"][7:]).read_bytes()), indent=3
    )
    (again / "blobs").joinpath("sha256").mkdir(parents=True, exist_ok=True)
    finish(again, raw.encode(), manifest["layers"])
    found = explained(spelled, again)
    assert found.level == "tree"
    assert [c.name for c in found.changes if c.kind == "config"] == ["bytes"]


# --- which input -----------------------------------------------------------------------------


def results(made: Made, out: Path, lock: Lock | None = None) -> Path:
    """An output directory, with the image that the native builder makes of the lock."""
    lock = lock or made.lock()
    own = {"opt/reprobuild/lib/x.py": b"run\n", f"{SITE}/reprobuild.pth": b"import x\n"}
    image = build_image(lock, made.store, out, files=own, reference="demo:1")
    write_lock(lock, out / LOCK)
    (out / IMAGE).write_bytes(msgspec.json.encode(image))
    return out


def full(
    root: Path,
    *,
    data: bytes = b"1",
    version: str = "1.0",
    shell: bytes = b"sh",
    source: bytes = b"x",
    more: Sequence[Any] = (),
) -> Made:
    made = Made(root)
    status = b"Package: dash\nStatus: install ok installed\nVersion: 0.5\n\nPackage: other\nVersion: 1\n"
    made.base = made.store.add(
        tar_of(
            [
                *BASE, file("usr/bin/sh", shell, 0o755), file("etc/made", shell), file("var/lib/dpkg/status", status),
                file("var/lib/dpkg/info/dash.list", b"/.\n/bin\n/bin/sh\n/usr/share/dash/x\n"),
                file("var/lib/dpkg/info/dash.md5sums", shell), folder("usr/share/dash"), file("usr/share/dash/x", b""),
                *more,
            ]
        )
    )  # fmt: skip
    wheel = made.wheel(
        "pkg", {"pkg/a.py": b"a = 1\n", "pkg/data": data}, scripts="[console_scripts]\npkg = pkg.a:m\n"
    )
    made.wheels = [msgspec.structs.replace(wheel, version=version)]
    made.compiled(wheel.file.sha256, {f"{SITE}/pkg/__pycache__/a.cpython-311.pyc": b"code" + data})
    made.source("proj", [file("proj.py", source)], tree=hashlib.sha1(source).hexdigest())
    return made


def blamed(found: ImageDiff) -> dict[tuple[str, str], tuple[str, set[str]]]:
    return {
        (c.kind, c.name): (c.explains, {f.path for f in found.files if f.culprit == (c.kind, c.name)})
        for c in found.culprits
    }


def test_two_builds_of_one_lock(tmp_path: Path) -> None:
    made = full(tmp_path / "made")
    found = explained(results(made, tmp_path / "one"), results(made, tmp_path / "other"))
    assert (found.level, found.files, found.culprits, found.changes) == ("manifest", (), (), ())
    assert found.one.lock == f"sha256:{made.lock().digest}"
    assert "the same manifest" in render_image_diff(found)


def test_a_wheel_that_differs_explains_its_files(tmp_path: Path) -> None:
    one = results(full(tmp_path / "a"), tmp_path / "one")
    other = results(full(tmp_path / "b", data=b"2", version="1.1"), tmp_path / "other")
    found = explained(one, other)
    (culprit,) = found.culprits
    assert (culprit.kind, culprit.name, culprit.explains) == ("python", "pkg", "yes")
    assert culprit.one.startswith("1.0 pkg-1.0")
    assert culprit.other.startswith("1.1 pkg-1.0")
    assert {f.path for f in found.files} == {
        f"{SITE}/pkg/data", f"{SITE}/pkg/__pycache__/a.cpython-311.pyc", f"{SITE}/pkg-1.0.dist-info/RECORD",
    }  # fmt: skip
    assert re.search(
        r"^python pkg: 1\.0 .* -> 1\.1 .* explains 3 paths$", render_image_diff(found), re.MULTILINE
    )


def test_files_of_a_foreign_package_are_its_own() -> None:
    stanza = "Package: {}\nStatus: install ok installed\nVersion: {}\nArchitecture: {}\n"
    status = "\n".join(
        stanza.format(*each)
        for each in (
            ("dpkg", "1", "amd64"),
            ("libz", "2", "amd64"),
            ("libz", "2", "i386"),
            ("wine32", "3", "i386"),
        )
    )
    info = "var/lib/dpkg/info"
    contents = {
        "var/lib/dpkg/status": status, f"{info}/libz:amd64.list": "/usr/lib/x86_64/libz.so\n",
        f"{info}/libz:i386.list": "/usr/lib/i386/libz.so\n", f"{info}/wine32.list": "/usr/bin/wine\n",
        f"{info}/libz:i386.md5sums": "", f"{info}/dpkg.list": "/usr/bin/dpkg\n",
    }  # fmt: skip
    tree = {path: file(path, text.encode())[0] for path, text in contents.items()}
    for path in ("usr/lib/x86_64", "usr/lib/i386", "usr/bin"):
        tree[path] = TarEntry(path=path, type="directory", mode=0o755)
    found = read_origins(tree, lambda entry: contents[entry.path].encode(), None)
    assert found.versions["system", "wine32:i386"] == "3"
    assert {path: found.paths[path][1] for path in found.paths if not path.endswith(".list")} == {
        "usr/lib/x86_64/libz.so": "libz", "usr/lib/i386/libz.so": "libz:i386", "usr/bin/wine": "wine32:i386",
        "usr/bin/dpkg": "dpkg", f"{info}/libz:i386.md5sums": "libz:i386",
    }  # fmt: skip


def test_other_inputs(tmp_path: Path) -> None:
    one = results(full(tmp_path / "a"), tmp_path / "one")
    other = results(full(tmp_path / "b", source=b"y", shell=b"bash"), tmp_path / "other")
    assert blamed(explained(one, other)) == {
        ("source", "proj"): ("yes", {"src/proj/proj.py", "opt/reprobuild/sources/src-proj.json"}),
        ("realised", "base tree"): ("yes", {"usr/bin/sh", "etc/made", "var/lib/dpkg/info/dash.md5sums"}),
    }


def test_bytecode_made_anew(tmp_path: Path) -> None:
    made = full(tmp_path / "a")
    one = results(made, tmp_path / "one")
    made.bytecode.clear()
    made.compiled(made.wheels[0].file.sha256, {f"{SITE}/pkg/__pycache__/a.cpython-311.pyc": b"other"})
    found = explained(one, results(made, tmp_path / "other"))
    path = f"{SITE}/pkg/__pycache__/a.cpython-311.pyc"
    assert blamed(found) == {("realised", "bytecode of pkg"): ("yes", {path})}
    assert found.files[0].detail == "line 1: 'code1' and 'other'"


@pytest.mark.parametrize(("locked", "explains", "line"), [
    (True, "no", "realised runtime package is the same in both, and does not explain 3 paths"),
    (False, "unknown", "realised runtime package: 3 paths; no lock names its two versions"),
])  # fmt: skip
def test_an_input_that_no_lock_names_is_not_called_the_same(locked: bool, explains: str, line: str) -> None:
    """Two layouts without their locks: the runtime package may be of any version."""
    causes = list_causes({("realised", "runtime package"): 3}, {}, {}, locked=locked)
    assert [cause.explains for cause in causes] == [explains]
    assert _cause_headline(causes[0]) == line


def test_what_no_input_explains_comes_first(tmp_path: Path) -> None:
    made = full(tmp_path / "made")
    one = results(made, tmp_path / "one")
    layout = tmp_path / "other"
    extra = [
        file(f"{SITE}/pkg/planted.so", b"x"), file(f"{SITE}/pkg/data", b"planted"),
        file("usr/bin/sh", b"planted", 0o755),
        folder("usr/share/dash", 0o700), file("etc/made", b"planted"), file("opt/env/pyvenv.cfg", b"planted"),
    ]  # fmt: skip
    add_layer(one / "image", layout, extra)
    found = explained(one, layout)
    assert found.other.lock == found.one.lock  # the label says which it is
    assert blamed(found) == {
        ("", ""): ("unknown", {f"{SITE}/pkg/planted.so"}),
        ("system", "dash"): ("no", {"usr/bin/sh", "usr/share/dash"}),
        ("python", "pkg"): ("no", {f"{SITE}/pkg/data"}),
        ("realised", "base tree"): ("no", {"etc/made"}),
        ("interpreter", "python"): ("no", {"opt/env/pyvenv.cfg"}),
    }
    text = render_image_diff(found)
    same = "python pkg is the same in both (1.0), and does not explain 1 path"
    assert text.index("of no known input: 1 path") < text.index(same)
    assert found.culprits[0].explains == "unknown"


def add_layer(layout: Path, copy: Path, entries: Entries) -> None:
    """Copy a layout with one layer more."""
    found = read_layout(layout)
    tars = []
    for index in range(len(found.layers)):
        with open_layer(found, index) as stream:
            tars.append(stream.read())
    make_layout(copy, *tars, entries, config=found.config["config"])
    assert layout_tree(read_layout(copy))


def test_without_locks_the_versions_in_the_images_count(tmp_path: Path) -> None:
    def image(name: str, version: str, content: bytes) -> Path:
        info = f"{SITE}/numpy-{version}.dist-info"
        record = (
            f"numpy/a.py,,\n../../../bin/f2py,,\n/absolute,,\n\n{info.rpartition('/')[2]}/RECORD,,\n".encode()
        )
        return make_layout(
            tmp_path / name,
            [
                file(f"{SITE}/numpy/a.py", content), file(f"{info}/RECORD", record), file("opt/env/bin/f2py", content),
                file("etc/other", content),
            ],
        )  # fmt: skip

    found = explained(image("one", "2.1.2", b"1"), image("other", "2.1.3", b"2"))
    assert [(c.kind, c.name, c.one, c.other, c.explains, c.files) for c in found.culprits] == [
        ("", "", "", "", "unknown", 1),
        ("python", "numpy", "2.1.2", "2.1.3", "yes", 6),
    ]
    assert "python numpy: 2.1.2 -> 2.1.3 explains 6 paths" in render_image_diff(found)


def test_a_lock_of_another_image_is_not_used(tmp_path: Path) -> None:
    made = full(tmp_path / "made")
    one, other = results(made, tmp_path / "one"), results(made, tmp_path / "other")
    write_lock(made.lock(seed=7), other / LOCK)
    found = explained(one, other)
    assert f"{other}/{LOCK} is not the lock of the image beside it, and was not used for it" in found.notes
    assert found.other.lock == found.one.lock == f"sha256:{made.lock().digest}"
    assert encode(made.lock(seed=7)) != encode(made.lock())


# --- limits, and what is not shown -----------------------------------------------------------


def test_large_files_are_not_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.compare.images.explain.LARGEST", 100)
    monkeypatch.setattr("reprobuild.compare.images.explain.MOST", 150)
    sides = [
        [
            file("large", word * 101),
            file("small", word),
            file("b1", word * 90),
            file("var/log/large", word * 102),
        ]
        for word in (b"1", b"2")
    ]
    found = between(tmp_path, *sides)
    details = {change.path: (change.kind, change.detail) for change in found.files}
    assert details == {
        "small": ("content", "line 1: '1' and '2'"),
        "b1": ("content", "not looked into: 150 bytes of other files were"),
        "large": ("content", "too large to be looked into: 101 and 101 bytes"),
        "var/log/large": ("content", "too large to be looked into: 102 and 102 bytes"),
    }
    assert "3 files were not looked into, as each says" in found.notes


def test_names_made_to_harm_are_escaped(tmp_path: Path) -> None:
    names = [
        "a\x1b[31mred\x1b]0;t\x07",
        "b\nline",
        "c\u202etxt",
        "d\x9b31m",
        "latin-\udce9",
        "e" * 200 + "/" + "f" * 200,
    ]
    found = between(
        tmp_path, [file(name, b"1\x1b[31m") for name in names], [file(name, b"2\x1b[0m") for name in names]
    )
    text = render_image_diff(found, everything=True)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert text.encode()
    assert r"a\x1b[31mred\x1b]0;t\x07" in text
    assert r"/b\nline" in text
    assert "(202 more)" in text or "more)..." in text
    assert max(map(len, text.splitlines())) < 1000


def test_long_lists_are_cut(tmp_path: Path) -> None:
    sides = [[file(f"f{n:03}", word) for n in range(40)] for word in (b"1", b"2")]
    found = between(tmp_path, *sides)
    assert "  ... and 28 more: -v or --json lists them" in render_image_diff(found)
    assert "f039" not in render_image_diff(found)
    assert "f039" in render_image_diff(found, everything=True)


def test_safe() -> None:
    assert safe_text("plain ü") == "plain ü"
    assert safe_text("x" * 300, 100) == "x" * 50 + "...(200 more)..." + "x" * 50


def test_moments() -> None:
    assert format_time(1_700_000_000_500_000_000) == "2023-11-14T22:13:20.5Z"
    assert format_time(-1_000_000_000) == "1969-12-31T23:59:59Z"
    assert format_time(10**21) == f"{10**12} s"


def test_the_words_are_all_in_one_order() -> None:
    assert LEVELS[0] == "different"
    assert len(set(difference.KINDS)) == len(difference.KINDS)


# --- diffoscope ------------------------------------------------------------------------------


def program(folder: Path, script: str) -> dict[str, str]:
    """A program of the name on PATH that takes diffoscope's options."""
    folder.mkdir()
    path = folder / "diffoscope"
    path.write_text(f"#!{sys.executable} -IS\nimport os, resource, socket, sys, time\n{script}\n")
    path.chmod(0o755)
    return {**NO_ENGINE, "PATH": str(folder), "TOKEN": "x"}


WRITES = """
assert sys.argv[1:5] == ["--text", "-", "--text-color", "never"]
print(f"--- {sys.argv[-2]}\\n+++ {sys.argv[-1]}\\n" + open(sys.argv[-2]).read())
print("password = 'aB3dE5fG7hI9jK1lM3'\\n" + "more\\n" * 100)
sys.exit(1)
"""


def different(
    tmp_path: Path, env: Mapping[str, str], say: Callable[[str], None] = print, diffoscope: bool = True
) -> ImageDiff:
    sides = [
        make_layout(tmp_path / name, [file("a.txt", name.encode()), file("secret", name.encode(), 0o600)])
        for name in ("one", "other")
    ]
    return compare_images(str(sides[0]), str(sides[1]), env, say, diffoscope=diffoscope)


def test_diffoscope_is_not_started_unless_the_user_asks(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    env = program(tmp_path / "bin", f"open({str(mark)!r}, 'w')")
    subprocess.run([tmp_path / "bin/diffoscope"], check=True)
    mark.unlink()
    found = different(tmp_path, env, diffoscope=False)
    assert (found.diffoscope, found.notes) == ((), ())
    argv = [sys.executable, "-m", "reprobuild.cli", "diff", tmp_path / "one", tmp_path / "other"]
    path = {**os.environ, **env, "PATH": f"{env['PATH']}:{os.environ['PATH']}"}
    done = subprocess.run([*argv, "-v"], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "diffoscope on" not in done.stderr
    assert not mark.exists()
    done = subprocess.run([*argv, "--diffoscope"], env=path, capture_output=True, text=True, check=False)
    assert "diffoscope said nothing of 'a.txt'" in done.stdout
    assert not mark.exists()  # it was started, in the sandbox


def test_diffoscope_is_asked_if_the_user_wants_it(tmp_path: Path) -> None:
    said: list[str] = []
    found = different(tmp_path, program(tmp_path / "bin", WRITES), said.append)
    (answer,) = found.diffoscope
    assert answer.path == "a.txt"
    assert answer.text.startswith("--- one\n+++ other\none")
    assert "aB3dE5" not in answer.text
    assert answer.text.endswith("... and 45 lines more")
    assert "diffoscope on '/a.txt', at most 60 s" in said
    assert "diffoscope of /a.txt:\n  --- one" in render_image_diff(found)


CONFINED = """
print(sorted(os.environ), os.environ["HOME"], os.environ["TMPDIR"], os.getcwd())
for place in PLACES:
    try:
        print(os.path.exists(place), open(place, "r+"))
    except OSError as err:
        print(place == sys.argv[0], err.strerror)
try:
    print(socket.create_connection(("127.0.0.1", PORT), 5))
except OSError as err:
    print(err.strerror)
print([resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)])
print(sorted(os.listdir("/input")), os.path.exists("/etc/passwd"))
open("/tmp/x", "w").write("x")
"""


def test_diffoscope_is_confined(tmp_path: Path) -> None:
    secret = tmp_path / "of the user"
    secret.write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server:
        values = f"PORT = {server.getsockname()[1]}\nPLACES = [{str(secret)!r}, sys.argv[0], sys.argv[-1]]\n"
        (answer,) = different(tmp_path, program(tmp_path / "bin", values + CONFINED)).diffoscope
    assert answer.text.splitlines() == [
        "['HOME', 'LC_ALL', 'PATH', 'PWD', 'SOURCE_DATE_EPOCH', 'TMPDIR', 'TZ'] /tmp /tmp /tmp",
        "False No such file or directory", "True Read-only file system", "False Read-only file system",
        "Network is unreachable",
        f"[{4 << 30}, {1 << 30}, 60]",
        "['one', 'other'] False",
    ]  # fmt: skip
    assert secret.read_text() == "x"


@pytest.mark.parametrize(
    ("script", "note"),
    [
        ("sys.exit('broken')", "diffoscope said nothing of 'a.txt'"),
        ("print(1); sys.exit(2)", "diffoscope on 'a.txt': could not look into a file: `/bin/sh` exited 1"),
        ("time.sleep(30)", "diffoscope on 'a.txt' did not end within 2 s"),
    ],
)
def test_diffoscope_that_fails_is_noted(
    script: str, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diffoscope, "SECONDS", 2)
    found = different(tmp_path, program(tmp_path / "bin", script))
    assert (found.diffoscope, found.notes) == ((), (note,))
    assert note in render_image_diff(found)


def test_without_diffoscope(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="diffoscope is not on PATH") as caught:
        different(tmp_path, NO_ENGINE)
    assert (
        caught.value.hint == "install it with `pip install 'reprobuild[diff]'`, or leave out `--diffoscope`"
    )


# --- the verb --------------------------------------------------------------------------------


def test_the_verb(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    one = make_layout(tmp_path / "one", ENTRIES)
    repacked = make_layout(tmp_path / "two", ENTRIES, packing="gzip")
    later = make_layout(tmp_path / "later", ENTRIES, epoch=9)
    other = make_layout(
        tmp_path / "other", replaced(file("opt/a.txt", b"?")[0], b"?"), config={**RUNTIME, "User": "me"}
    )
    codes = {
        (one, one, "manifest"): 0, (one, repacked, "manifest"): 1, (one, repacked, "config"): 0,
        (one, later, "config"): 1, (one, later, "tree"): 0, (one, other, "tree"): 1,
    }  # fmt: skip
    for (a, b, level), code in codes.items():
        assert cli.run_line(["diff", str(a), str(b), "--level", level]) == code
    assert cli.run_line(["diff", str(one), str(later)]) == 0
    capfd.readouterr()
    assert cli.run_line(["diff", str(one), str(other), "--json"]) == 1
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert set(document) == {"version", *ImageDiff.__struct_fields__}
    assert document["files"][0]["path"] == "opt/a.txt"
    assert document["level"] == "different"
    assert msgspec.convert(document, ImageDiff).files[0] == FileChange(
        **document["files"][0] | {"culprit": ("", "")}
    )
    assert "reading" in err
    assert "2 layers" not in err
    assert cli.run_line(["diff", str(one), str(other)]) == 1
    out, _ = capfd.readouterr()
    assert "different trees" in out
    assert "runtime: User: " in out


def test_an_error_that_names_a_hostile_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entries = [file("a\x1b]0;t\x07\udcff", b""), file("a\x1b]0;t\x07\udcff/b", b"")]
    layout = make_layout(tmp_path / "layout", entries)
    assert cli.run_line(["diff", str(layout), str(layout)]) == 7
    out, err = capfd.readouterr()
    assert out == ""
    assert "error: a layer writes below /a\\x1b]0;t\\x07\\udcff, which is a file\n\nhint: " in err


def test_no_file() -> None:
    for name in ("/gone", "./gone", "", "~/gone"):
        with pytest.raises(UsageError, match="there is no image at") as failed:
            compare_images(name, name, NO_ENGINE, print)
        assert failed.value.hint == GIVE


def test_packed_archives_of_any_name(tmp_path: Path) -> None:
    layout = make_layout(tmp_path / "layout", ENTRIES)
    path = archived(layout, tmp_path / "a", "zstd")
    (tmp_path / "b").write_bytes(gzip.compress((archived(layout, tmp_path / "c")).read_bytes()))
    assert explained(path, tmp_path / "b").level == "manifest"
