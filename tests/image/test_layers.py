from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from reprobuild.errors import BuildError, FetchError
from reprobuild.image.layering.merge import merge
from reprobuild.image.layers import layers as layers_module
from reprobuild.image.layers.blobs import Layer, LayerWriter, read_listing
from reprobuild.image.layers.layers import (
    layer_listing,
    layers_ahead,
    make_layer,
    make_layers,
    resolve_overlaps,
)
from reprobuild.image.layers.plan import LayerPlan, TarPart, WheelPart, files_layer, plan, plan_large_wheels
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.lock.model import encode
from reprobuild.recipe.layer_order import LARGE, MOST, order_wheels
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT
from tests.image.made import EPOCH, SITE, Made, file, folder, make_tar, symlink

BOTH = "no image can hold both: leave one out with `--drop NAME`, or pin versions that do not overlap"
HOSTILE = (
    "the file is damaged or made to harm; get it from where it was published, or leave it out with `--drop`"
)


def unpacked(layer: Layer, store: Store) -> bytes:
    with store.blob(layer.blob).open("rb") as stream:
        return zstandard.ZstdDecompressor().stream_reader(stream).read()


def by_title(made: Made, **more: object) -> dict[str, LayerPlan]:
    return {layer_plan.title: layer_plan for layer_plan in plan(made.lock(**more), made.store)}


def paths(layer: Layer, store: Store) -> list[str]:
    return [entry.path for entry in read_listing(layer, store)]


def test_a_blob_is_what_its_digests_say_and_its_listing_is_what_is_in_it(made: Made) -> None:
    made.wheel("pkg", {"pkg/a.py": b"x", "pkg/run": b"y"}, executable=["pkg/run"])
    tar = b""
    for layer_plan in plan(made.lock(), made.store):
        layer = make_layer(layer_plan, made.store)
        tar = unpacked(layer, made.store)
        assert hash_file(made.store.blob(layer.blob)) == layer.blob
        assert made.store.blob(layer.blob).stat().st_size == layer.size
        assert made.store.blob(layer.blob).stat().st_mode & 0o222 == 0
        assert layer.diff_id == made.store.add(tar)
        assert read_listing(layer, made.store) == list(list_tar(io.BytesIO(tar)))
    with tarfile.open(fileobj=io.BytesIO(tar)) as opened:
        members = list(opened)
    assert {member.mtime for member in members} == {EPOCH}
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}


def test_the_base_stays_as_it_is(made: Made) -> None:
    layer = make_layer(plan(made.lock(), made.store)[0], made.store)
    assert layer.diff_id == made.base
    assert unpacked(layer, made.store) == made.store.blob(made.base).read_bytes()


def test_this_wheel_makes_these_bytes(made: Made) -> None:
    """The tar of a layer is the same on every machine and Python; a new digest here needs a new RECIPE."""
    wheel = made.wheel(
        "pkg", {"pkg/a.py": b"x = 1\n", "pkg/é.txt": b""}, scripts="[console_scripts]\np = pkg:a\n"
    )
    made.compiled(wheel.file.sha256, {f"{SITE}/pkg/__pycache__/a.cpython-311.pyc": b"code"})
    layer = make_layer(by_title(made)["1 wheels"], made.store)
    assert layer.diff_id == "8dc3599b7f1c2dc3a7bd2e1f191dcccb3bbe6f885463a27e9a772ad54eb86c14"


def test_the_largest_stand_alone_up_to_what_engines_take() -> None:
    sizes = {f"wheel{number:03}": LARGE + number for number in range(MOST + 5)} | {"small": LARGE - 1}
    order = order_wheels(sizes)
    assert order.alone == tuple(f"wheel{number:03}" for number in range(5, MOST + 5))
    assert order.together == ("small", *(f"wheel{number:03}" for number in range(5)))
    assert order.names == order.alone + order.together
    assert order_wheels(dict(reversed(sizes.items()))) == order
    assert len(order.alone) < 128 - 30


def test_large_wheels_stand_alone_and_small_ones_together(made: Made) -> None:
    made.wheel("big", {"big/data": os.urandom(LARGE)})
    wheel = made.wheel("one", {"one.py": b""})
    made.wheel("two", {"two.py": b""})
    made.wheels = [
        msgspec.structs.replace(w, file=msgspec.structs.replace(w.file, size=0)) for w in made.wheels
    ]
    made.wheel("here", {"here.py": b""}, built=True)
    made.compiled(wheel.file.sha256, {f"{SITE}/__pycache__/one.cpython-311.pyc": b"code"})
    made.source("proj", [file("a.py", b"")], patch="1" * 64)
    layer_plans = plan(made.lock(), made.store)
    assert [layer_plan.title for layer_plan in layer_plans] == [
        "debian bookworm, 0 packages",
        "/opt/env: Python 3.11",
        "big-1.0-py3-none-any.whl",
        "3 wheels",
        "/src/proj: cccccccccccc with changes",
    ]
    found = paths(make_layer(layer_plans[3], made.store), made.store)
    assert {f"{SITE}/{name}" for name in ("one.py", "two.py", "here.py")} < set(found)
    assert f"{SITE}/__pycache__/one.cpython-311.pyc" in found


def test_a_large_wheel_is_one_layer_for_every_base(made: Made) -> None:
    wheel = made.wheel("big", {"big.py": b"", "big/data": os.urandom(LARGE)})
    made.wheel("here", {"here/data": os.urandom(LARGE)}, built=True)
    (ahead,) = plan_large_wheels(made.lock(), made.store)
    made.compiled(wheel.file.sha256, {f"{SITE}/__pycache__/big.cpython-311.pyc": b"code"})
    layer_plans = by_title(made)
    assert list(layer_plans)[2:] == [
        "big-1.0-py3-none-any.whl",
        "here-1.0-py3-none-any.whl",
        "the bytecode of 1 wheels",
    ]
    assert layer_plans["big-1.0-py3-none-any.whl"] == ahead
    found = paths(make_layer(layer_plans["the bytecode of 1 wheels"], made.store), made.store)
    assert f"{SITE}/__pycache__/big.cpython-311.pyc" in found
    assert f"{SITE}/big.py" not in found


def test_layers_are_made_ahead_and_failures_are_left_for_later(made: Made) -> None:
    made.wheel("big", {"big/data": os.urandom(LARGE)})
    lost = made.wheel("lost", {"lost/data": os.urandom(LARGE + 1000)})
    layer_plans = plan_large_wheels(made.lock(), made.store)
    assert [layer_plan.title for layer_plan in layer_plans] == [
        "lost-1.0-py3-none-any.whl",
        "big-1.0-py3-none-any.whl",
    ]
    made.store.blob(lost.file.sha256).unlink()
    deadline = time.monotonic() + 60
    with layers_ahead(layer_plans, made.store):
        while layer_listing(layer_plans[1], made.store) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    with pytest.raises(BuildError, match="the wheel lost"):
        make_layer(layer_plans[0], made.store)
    with pytest.raises(BuildError, match="dpkg"), layers_ahead(layer_plans, made.store):
        raise BuildError("dpkg failed", hint="")


def test_build_wheels_are_no_part_of_the_image(made: Made) -> None:
    wheel = made.wheel("tool", {"tool.py": b""})
    made.wheels = [msgspec.structs.replace(wheel, role="build")]
    assert len(plan(made.lock(), made.store)) == 2


def test_the_skeleton_is_a_virtual_environment(made: Made) -> None:
    layer = make_layer(plan(made.lock(), made.store)[1], made.store)
    found = {entry.path: entry for entry in read_listing(layer, made.store)}
    assert {path: entry.target for path, entry in found.items() if entry.type == "symlink"} == {
        "opt/env/bin/python": "/usr/bin/python3.11",
        "opt/env/bin/python3": "python",
        "opt/env/bin/python3.11": "python",
    }
    assert found[SITE].type == "directory"
    with tarfile.open(fileobj=io.BytesIO(unpacked(layer, made.store))) as tar:
        text = tar.extractfile("opt/env/pyvenv.cfg").read()
    assert text == b"home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n"


def test_editable_projects_say_where_they_stand(made: Made) -> None:
    for name, editable, sub in (("edit", True, "py"), ("plain", False, "")):
        made.wheel(name, {f"{name}.pth": b""}, built=True)
        made.source(name, [file("a.py", b"")], editable=editable, subdirectory=sub)
    made.wheel("other", {"other.py": b""})
    layer = make_layer(by_title(made)["3 wheels"], made.store)
    with tarfile.open(fileobj=io.BytesIO(unpacked(layer, made.store))) as tar:
        urls = [name for name in tar.getnames() if name.endswith("direct_url.json")]
        assert urls == [f"{SITE}/edit-1.0.dist-info/direct_url.json"]
        text = tar.extractfile(urls[0]).read()
    assert text == b'{"dir_info": {"editable": true}, "url": "file:///src/edit/py"}'


def test_sources_are_normalised_and_stand_at_their_place(made: Made) -> None:
    source = made.source(
        "proj",
        [
            folder("deep", 0o775, uid=1000),
            file("deep/a.py", b"a", 0o664, uid=1000, gid=7),
            file("run.sh", b"#!/bin/sh", 0o775),
            (TarEntry(path="again.py", type="hardlink", mode=0o664, target="deep/a.py"), b""),
            symlink("data", "../../elsewhere"),
            file("bytes-\udcff", b""),
        ],
    )
    made.compiled(source.file.sha256, {"src/proj/deep/__pycache__/a.cpython-311.pyc": b"code"})
    layer = make_layer(plan(made.lock(), made.store)[-1], made.store)
    listing = read_listing(layer, made.store)
    assert [(entry.path, entry.type, oct(entry.mode)) for entry in listing] == [
        ("opt", "directory", "0o755"),
        ("opt/reprobuild", "directory", "0o755"),
        ("opt/reprobuild/sources", "directory", "0o755"),
        ("opt/reprobuild/sources/src-proj.json", "file", "0o644"),
        ("src", "directory", "0o755"),
        ("src/proj", "directory", "0o755"),
        ("src/proj/again.py", "file", "0o644"),
        ("src/proj/bytes-\udcff", "file", "0o644"),
        ("src/proj/data", "symlink", "0o777"),
        ("src/proj/deep", "directory", "0o755"),
        ("src/proj/deep/__pycache__", "directory", "0o755"),
        ("src/proj/deep/__pycache__/a.cpython-311.pyc", "file", "0o644"),
        ("src/proj/deep/a.py", "file", "0o644"),
        ("src/proj/run.sh", "file", "0o755"),
    ]
    assert {(entry.uid, entry.gid) for entry in listing} == {(0, 0)}


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([file("../evil", b"")], "'../evil'"),
        ([file("a/.wh.b", b"")], "deletion"),
        ([symlink("a", "/etc"), file("a/passwd", b"")], "both write /src/proj/a"),
        ([(TarEntry(path="null", type="char", mode=0o666, device=(1, 3)), b"")], "null is a char"),
        ([(TarEntry(path="h", type="hardlink", mode=0o644, target="nowhere"), b"")], "nowhere"),
    ],
)
def test_hostile_sources_are_refused(made: Made, entries: list[tuple[TarEntry, bytes]], words: str) -> None:
    made.source("proj", entries)
    with pytest.raises(BuildError, match="the source proj") as caught:
        make_layer(plan(made.lock(), made.store)[-1], made.store)
    assert words in str(caught.value)
    assert caught.value.hint == (BOTH if "both" in words else HOSTILE)


def test_tars_that_are_none_are_refused(made: Made) -> None:
    part = TarPart("the source x", made.store.add(b"no tar at all" * 100), prefix="src/x")
    with pytest.raises(BuildError, match="the source x is not a tar") as caught:
        make_layer(LayerPlan(title="x", parts=(part,), python="3.11", epoch=0), made.store)
    assert caught.value.hint == HOSTILE
    made.base = made.store.add(b"no tar at all" * 100)
    with pytest.raises(BuildError, match="debian bookworm, 0 packages is not a tar"):
        make_layer(plan(made.lock(), made.store)[0], made.store)


def test_bytecode_stays_below_its_wheel(made: Made) -> None:
    wheel = made.wheel("pkg", {"pkg.py": b""})
    made.compiled(wheel.file.sha256, {"etc/passwd": b"evil"})
    with pytest.raises(BuildError, match="writes /etc/passwd, outside /opt/env") as caught:
        make_layers(plan(made.lock(), made.store), made.store)
    assert caught.value.hint == HOSTILE


def test_a_layer_is_made_once(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.wheel("pkg", {"pkg.py": b""})
    layer_plans = plan(made.lock(), made.store)
    first = make_layers(layer_plans, made.store)
    monkeypatch.delattr(layers_module, "write_layer")
    monkeypatch.delattr(layers_module, "copy_layer")
    assert make_layers(layer_plans, Store(made.store.root)) == first


MAKER = """
import sys, time
from pathlib import Path
import msgspec
from reprobuild.image.layers import layers
from reprobuild.image.layers.plan import LayerPlan
from reprobuild.store.store import Store
made = []
write = layers.write_layer
def counted(*arguments):
    made.append(1)
    time.sleep(0.5)  # so that all others come while it is made
    return write(*arguments)
layers.write_layer = counted
layer_plan = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=LayerPlan)
layer = layers.make_layer(layer_plan, Store(Path(sys.argv[1])))
print(len(made), layer.blob)
"""


def test_processes_that_share_a_store_make_a_layer_once(made: Made, tmp_path: Path) -> None:
    made.wheel("pkg", {"pkg.py": b"x = 1\n"})
    layer_plan = by_title(made)["1 wheels"]
    (tmp_path / "layer_plan").write_bytes(msgspec.json.encode(layer_plan))
    argv = [sys.executable, "-c", MAKER, str(made.store.root), str(tmp_path / "layer_plan")]
    jobs = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(4)]
    said = [job.communicate(timeout=120)[0].split() for job in jobs]
    assert sorted(count for count, _ in said) == ["0", "0", "0", "1"]
    assert len({blob for _, blob in said}) == 1
    assert not list((made.store.root / "making").iterdir())


def test_one_that_was_killed_keeps_nobody_waiting(made: Made) -> None:
    made.wheel("pkg", {"pkg.py": b""})
    layer_plan = by_title(made)["1 wheels"]
    lock = made.store.root / "making" / layer_plan.key(layers_module.LEVEL)
    lock.parent.mkdir(exist_ok=True)
    code = (
        f"import fcntl, os, signal; f = open({str(lock)!r}, 'w'); fcntl.flock(f, 2); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert lock.exists()
    assert make_layer(layer_plan, made.store).diff_id
    assert not lock.exists()


@pytest.mark.parametrize("title", ["1 wheels", "debian bookworm, 0 packages"])
@pytest.mark.parametrize("which", ["blob", "listing"])
@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_a_damaged_layer_is_made_again(made: Made, title: str, which: str, damage: str) -> None:
    made.wheel("pkg", {"pkg.py": b""})
    layer_plan = by_title(made)[title]
    first = make_layer(layer_plan, made.store)
    path = made.store.blob(getattr(first, which))
    content = path.read_bytes()
    path.unlink()
    if damage == "changed":
        path.write_bytes(content[:-1] + b"?")
    assert make_layer(layer_plan, Store(made.store.root)) == first
    assert path.read_bytes() == content


def test_a_memory_that_is_none_is_ignored(made: Made) -> None:
    layer_plan = plan(made.lock(), made.store)[1]
    made.store.remember(layer_plan.key(3), {"blob": "x"})
    assert make_layer(layer_plan, made.store).diff_id


def test_the_key_is_of_all_that_decides_the_bytes_and_of_nothing_else() -> None:
    layer_plan = LayerPlan(
        title="t", parts=(WheelPart("a-1-py3-none-any.whl", "0" * 64),), python="3.11", epoch=1
    )
    others: list[dict[str, Any]] = [
        {"parts": (WheelPart("a-1-py3-none-any.whl", "1" * 64),)},
        {"parts": (WheelPart("a-1-py3-none-any.whl", "0" * 64, "{}"),)},
        {"python": "3.12"},
        {"epoch": 2},
        {"omit": ("x",)},
    ]
    keys = [msgspec.structs.replace(layer_plan, **other).key(3) for other in others]
    assert len({layer_plan.key(3), layer_plan.key(4), *keys}) == len(others) + 2
    assert msgspec.structs.replace(layer_plan, title="other").key(3) == layer_plan.key(3)


def test_a_missing_artefact_is_named(made: Made) -> None:
    made.wheel("pkg", {"pkg.py": b""})
    made.store.blob(made.wheels[0].file.sha256).unlink()
    with pytest.raises(FetchError, match=r"pkg-1\.0-py3-none-any\.whl is not in the store"):
        make_layers(plan(made.lock(), made.store), Store(made.store.root))


def _settle(made: Made) -> list[LayerPlan]:
    layer_plans = plan(made.lock(), made.store)
    made_layers = make_layers(layer_plans, made.store)
    return resolve_overlaps(
        layer_plans, [read_listing(layer, made.store) for layer in made_layers], made.store
    )


def test_wheels_that_overlap_with_equal_content_are_fine(made: Made) -> None:
    for name in ("one", "two"):
        made.wheel(
            name,
            {"shared/__init__.py": b"", f"shared/{name}.py": b"", "Shared/X.py": b"", "shared/x.py": b""},
        )
    made.wheel("big", {"shared/__init__.py": b"", "big/data": os.urandom(LARGE)})
    assert _settle(made) == plan(made.lock(), made.store)


@pytest.mark.parametrize("size", [0, LARGE])
def test_wheels_that_overlap_with_other_content_are_refused_by_name(made: Made, size: int) -> None:
    """In one layer, and in two."""
    made.wheel("one", {"shared.py": b"1", "one/data": os.urandom(size)})
    made.wheel("two", {"shared.py": b"2"})
    with pytest.raises(BuildError, match=f"/{SITE}/shared.py, with different content") as caught:
        _settle(made)
    assert "the wheel one-1.0" in str(caught.value)
    assert "the wheel two-1.0" in str(caught.value)
    assert caught.value.hint == BOTH


def test_a_layer_may_write_over_a_file_of_the_base_but_not_over_its_links(made: Made) -> None:
    made.source("proj", [file("shadow", b"x")], path="/etc")
    assert _settle(made) == plan(made.lock(), made.store)
    made.sources.clear()
    made.source("proj", [file("x", b"")], path="/bin")
    with pytest.raises(BuildError, match=r"the base debian bookworm, 0 packages and .* both write /bin"):
        _settle(made)


def test_the_first_wins_where_only_modes_differ(made: Made) -> None:
    made.wheel("big", {"shared.py": b"", "big/data": os.urandom(LARGE)}, executable=["shared.py"])
    made.wheel("two", {"shared.py": b""})
    settled = _settle(made)
    assert [layer_plan.omit for layer_plan in settled] == [(), (), (), (f"{SITE}/shared.py",)]
    listings = [read_listing(layer, made.store) for layer in make_layers(settled, made.store)]
    assert merge(listings)[f"{SITE}/shared.py"].mode == 0o755


def test_the_working_folder_is_made_where_nothing_brings_it(made: Made) -> None:
    tree = merge([read_listing(make_layer(plan(made.lock(), made.store)[0], made.store), made.store)])
    layer = make_layer(files_layer(made.lock(workdir="/root/a/b"), {"/opt/x": b"x"}, tree), made.store)
    found = [(entry.path, oct(entry.mode)) for entry in read_listing(layer, made.store)]
    assert found == [
        ("opt", "0o755"),
        ("opt/x", "0o644"),
        ("root", "0o700"),
        ("root/a", "0o755"),
        ("root/a/b", "0o755"),
    ]
    for there in ("/tmp", "/"):
        last = make_layer(files_layer(made.lock(workdir=there), {}, tree), made.store)
        assert merge([tree.values(), read_listing(last, made.store)]) == tree


@pytest.mark.parametrize(("workdir", "taken"), [("/etc/shadow", "etc/shadow"), ("/bin/x", "bin")])
def test_a_working_folder_that_cannot_be_is_refused(made: Made, workdir: str, taken: str) -> None:
    tree = merge([read_listing(make_layer(plan(made.lock(), made.store)[0], made.store), made.store)])
    with pytest.raises(BuildError, match=f"the working directory {workdir} cannot be") as caught:
        files_layer(made.lock(workdir=workdir), {}, tree)
    assert caught.value.hint == f"leave out the system package that brings /{taken} with `--drop NAME`"


def test_our_own_files_write_over_nothing(made: Made) -> None:
    tree = merge([read_listing(make_layer(plan(made.lock(), made.store)[0], made.store), made.store)])
    with pytest.raises(BuildError, match="reprobuild itself both write /etc/shadow"):
        files_layer(made.lock(), {"/etc/shadow": b""}, tree)


SCRIPT = """
import os, sys
from pathlib import Path
from reprobuild.image.layers.layers import make_layers
from reprobuild.image.layers.plan import plan
from reprobuild.lock.file import read_lock
from reprobuild.store.store import Store
os.umask(int(sys.argv[3], 8))
store = Store(Path(sys.argv[2]))
for layer in make_layers(plan(read_lock(Path(sys.argv[1])), store), store):
    print(layer)
"""


def test_two_processes_make_equal_layers(made: Made, tmp_path: Path) -> None:
    """With another umask, time zone, locale, hash seed, directory and order of the same lock."""
    made.wheel("pkg", {f"pkg/{n}.py": b"%d" % n for n in range(50)} | {"pkg/é": b""})
    made.wheel("other", {"other.py": b""})
    made.source("proj", [file("b", b""), file("a", b""), folder("c")])
    outputs = []
    for number, (umask, zone, locale) in enumerate(
        (("022", "UTC", "C.UTF-8"), ("077", "Asia/Tokyo", "POSIX"))
    ):
        made.wheels.reverse()
        path, store = tmp_path / f"{number}.lock", tmp_path / f"store{number}"
        path.write_bytes(encode(made.lock()))
        subprocess.run(["cp", "-r", str(made.store.root), str(store)], check=True)
        env = {"TZ": zone, "LC_ALL": locale, "PYTHONHASHSEED": str(number), "PYTHONPATH": str(Path.cwd())}
        argv = [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path), str(store), umask]
        outputs.append(subprocess.run(argv, env=env, cwd=tmp_path, check=True, capture_output=True).stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"diff_id") == 4


def test_how_bytes_arrive_does_not_change_the_blob(tmp_path: Path) -> None:
    content = os.urandom(3_000_000) + bytes(3_000_000)
    found = set()
    for step in (997, 1 << 20, len(content)):
        with (tmp_path / "blob").open("wb") as target, LayerWriter(target) as sink:
            for start in range(0, len(content), step):
                sink.write(content[start : start + step])
            found.add(sink.finish())
        assert (
            zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "blob").read_bytes())
            == content
        )
    assert len(found) == 1


def fill(sink: LayerWriter) -> None:
    with sink:
        for _ in range(64):
            sink.write(os.urandom(1 << 20))
        sink.finish()


def test_a_full_disk_is_no_hang() -> None:
    with Path("/dev/full").open("wb", buffering=0) as target, pytest.raises(OSError, match="No space left"):
        fill(LayerWriter(target))


def test_scratch_is_empty_afterwards(made: Made) -> None:
    make_layers(plan(made.lock(), made.store), made.store)
    assert not list((made.store.root / "tmp").iterdir())
    assert stat.S_IMODE(made.store.blob(made.base).stat().st_mode) == 0o444


def test_progress_names_every_layer(made: Made) -> None:
    made.wheel("pkg", {"pkg.py": b""})
    calls: list[tuple[int, int, str, str]] = []

    def progress(done: int, total: int, detail: str = "", *, unit: str = "") -> None:
        calls.append((done, total, detail, unit))

    make_layers(plan(made.lock(), made.store), made.store, progress=progress)
    assert sorted(title for _, _, title, _ in calls) == sorted(by_title(made))
    assert [(done, total, unit) for done, total, _, unit in calls] == [(n, 3, "layers") for n in (1, 2, 3)]


def test_content_that_is_not_as_long_as_stated_is_refused() -> None:
    for content in (b"12", b"1234"):
        with pytest.raises(ValueError, match=r"f is (shorter|longer) than its 3 bytes"):
            make_tar([(TarEntry(path="f", type="file", mode=0o644, size=3), content)])
