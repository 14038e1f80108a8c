"""The built-in engine beside what all engines promise: its cache, hostile layers, users, networks, errors, escapes."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprobuild.engines import builtin, builtin_images, builtin_job
from reprobuild.engines.builtin_images import UnpackedImages, layer_name
from reprobuild.engines.cdi import Description, find_edits
from reprobuild.engines.model import DEFAULT_NETWORK, Finished, Limit, Port, Task
from reprobuild.errors import BuildError, EngineError, ReproError
from reprobuild.image.layers.blobs import Layer
from reprobuild.image.model import ImageDigests
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.image.oci.write import image_json, write_layout
from reprobuild.infra.sandbox import container, launch
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild.store.store import Store
from tests.conftest import PROGRAM, Built
from tests.engines.builtin_client import answer
from tests.engines.conftest import CREATED, Tiny, make_layer, make_tiny, programs
from tests.system.conftest import shared_tmp
from tests.system.samples import ORDINARY_USER
from tests.system.test_probes import PROBES, broken, outside

__all__ = ["outside", "shared_tmp"]  # fixtures
ANOTHER = "choose another engine with --engine, or ask `reprobuild doctor`"
AGAIN = "choose another engine with --engine, or build the image again from its lock"


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="module")
def loaded(env: Mapping[str, str], tiny: Tiny) -> Tiny:
    builtin.load(tiny.layout, tiny.reference, tiny.digests, env)
    return tiny


def sh(image: Tiny, env: Mapping[str, str], script: str, **more: Any) -> Finished:
    return builtin.run(image.reference, Task(arguments=("sh", "-c", script), **more), env)


def layers_of(env: Mapping[str, str]) -> set[str]:
    return {path.name for path in (UnpackedImages.open_user_cache(env).folder / "layers").iterdir()}


# --- the cache ----------------------------------------------------------------------------------------


def test_images_share_layers(loaded: Tiny, env: Mapping[str, str], tmp_path: Path) -> None:
    """A second image adds the layer that it alone has, and loses it with its name."""
    before = layers_of(env)
    name = "reprobuild-test/second:1"
    for word in ("one", "two"):
        second = make_tiny(tmp_path / word, name, {"etc/word": word.encode()})
        assert builtin.load(second.layout, name, second.digests, env)
        assert len(layers_of(env) - before) == 1
        assert sh(second, env, "cat /etc/word").stdout == word.encode()
    answer(env, "rmi", name)
    assert layers_of(env) == before
    assert sh(loaded, env, "cat /etc/hello").stdout == b"hello\n"


def _age(images: UnpackedImages) -> None:
    for note in (images.folder / "entries").iterdir():
        os.utime(note, (0, 0))


def _purge(images: UnpackedImages, reference: str) -> None:
    """Delete a file of an image, as a purge of old files does, or an interrupted `rm -r`."""
    for layer in images.directories(images.find(reference)):
        (layer / "etc" / "hello").unlink(missing_ok=True)


def test_a_layer_that_has_lost_files_is_unpacked_again(loaded: Tiny, env: Mapping[str, str]) -> None:
    images, before = UnpackedImages.open_user_cache(env), layers_of(env)
    _age(images)
    assert not builtin.load(loaded.layout, loaded.reference, loaded.digests, env)
    for layer in images.directories(images.find(loaded.reference)):
        assert (images.folder / "entries" / layer.name).stat().st_mtime > 1
    _purge(images, loaded.reference)
    assert builtin.load(loaded.layout, loaded.reference, loaded.digests, env)
    assert sh(loaded, env, "cat /etc/hello").stdout == b"hello\n"
    assert layers_of(env) == before


def test_an_image_that_has_lost_a_layer_is_no_image(loaded: Tiny, env: Mapping[str, str]) -> None:
    images = UnpackedImages.open_user_cache(env)
    shutil.rmtree(images.directories(images.find(loaded.reference))[0])
    with pytest.raises(EngineError, match="the engine has no image") as lost:
        sh(loaded, env, "true")
    assert lost.value.hint == "`reprobuild verify OUT` loads it"
    assert builtin.load(loaded.layout, loaded.reference, loaded.digests, env)
    assert sh(loaded, env, "cat /etc/hello").stdout == b"hello\n"


def test_a_damaged_layer_stays_below_a_container_that_runs(loaded: Tiny, env: Mapping[str, str]) -> None:
    images, before = UnpackedImages.open_user_cache(env), layers_of(env)
    for layer in images.directories(images.find(loaded.reference)):
        (images.folder / "entries" / layer.name).unlink()
    with images.container():
        assert builtin.load(loaded.layout, loaded.reference, loaded.digests, env)
        aside = layers_of(env) - before
        assert len(aside) == len(images.find(loaded.reference).layers)
        assert all(
            name.endswith(".part") and any((images.folder / "layers" / name).iterdir()) for name in aside
        )
    _purge(images, loaded.reference)
    assert builtin.load(loaded.layout, loaded.reference, loaded.digests, env)
    assert layers_of(env) == before


def test_a_container_changes_no_layer(loaded: Tiny, env: Mapping[str, str]) -> None:
    done = sh(loaded, env, "echo x >/etc/hello; echo y >/bin/new; cat /etc/hello /bin/new")
    assert done.stdout == b"x\ny\n"
    assert sh(loaded, env, "cat /etc/hello; test ! -e /bin/new").stdout == b"hello\n"


def attach(image: Tiny, env: Mapping[str, str], script: str, **more: Any) -> tuple[int, str]:
    said: list[bytes] = []
    task = Task(arguments=("sh", "-c", script), **more)
    code = builtin.attach(
        image.reference, task, env, lambda stream, data: said.append(data) if stream == 2 else None
    )
    return code, b"".join(said).decode()


def test_files_that_end_with_the_container_are_named(
    loaded: Tiny, env: Mapping[str, str], tmp_path: Path
) -> None:
    script = "cd /bin; echo x >a; echo x >'b\tc'; echo x >c; echo x >d; : >empty; exit 3"
    code, said = attach(loaded, env, script)
    assert code == 3
    assert said == (
        "reprobuild: /bin/a, /bin/b\\tc, /bin/c and 1 more (8 bytes) ended with the container; a file below a "
        "directory that -v mounts is kept\n"
    )
    volumes = ((str(tmp_path), "/data"),)
    assert attach(loaded, env, "echo x >/data/a; echo x >/etc/b", volumes=volumes) == (0, "")


def test_a_lost_layer_is_unpacked_again(loaded: Tiny, env: Mapping[str, str], tmp_path: Path) -> None:
    name = "reprobuild-test/lost:1"
    image = make_tiny(tmp_path, name, {"etc/word": b"lost"})
    builtin.load(image.layout, name, image.digests, env)
    images = UnpackedImages.open_user_cache(env)
    images.directories(images.find(name))[-1].rename(tmp_path / "moved")
    with pytest.raises(EngineError, match=f"the engine has no image {name}"):
        sh(image, env, "true")
    assert builtin.load(image.layout, name, image.digests, env)
    assert sh(image, env, "cat /etc/word").stdout == b"lost"


RUNNER = """
import os, sys
from reprobuild.engines import builtin
from reprobuild.engines.model import Task
task = Task(arguments=("sh", "-c", "echo begun; exec sleep 98765"), timeout=0)
builtin.attach(sys.argv[1], task, os.environ, lambda stream, data: os.write(1, data))
"""


def test_a_killed_program_leaves_nothing(loaded: Tiny, env: Mapping[str, str]) -> None:
    """SIGKILL ends the container, and the next one removes its directory."""
    containers = UnpackedImages.open_user_cache(env).folder / "containers"
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER, loaded.reference], env=dict(env), stdout=subprocess.PIPE
    ) as runner:
        assert runner.stdout
        assert runner.stdout.readline() == b"begun\n"
        (scratch,) = containers.iterdir()
        assert sh(loaded, env, "true").code == 0
        assert list(containers.iterdir()) == [scratch]  # it runs
        runner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(b"98765" in line for line in command_lines()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(b"98765" in line for line in command_lines())
    assert sh(loaded, env, "true").code == 0
    assert list(containers.iterdir()) == []


def command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            yield path.read_bytes()


# --- layers of others ---------------------------------------------------------------------------------

Member = tuple[str, bytes, str]  # name, type, target or content


def make_image(folder: Path, name: str, *layers: list[Member], **config: Any) -> Tiny:
    """Write a layout with the programs of `tiny`, and layers of any members above them."""
    store = Store(folder / "store")
    made = [make_layer(store, "programs", {path: source.read_bytes() for path, source in programs().items()})]
    for members in layers:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, kind, text in members:
                info = tarfile.TarInfo(path)
                info.type, info.mode = kind, 0o755
                if kind == tarfile.REGTYPE:
                    info.size = len(text)
                else:
                    info.linkname = text
                    info.devmajor, info.devminor = 1, 3
                tar.addfile(info, io.BytesIO(text.encode()) if kind == tarfile.REGTYPE else None)
        packed = zstandard.compress(stream.getvalue())
        made.append(
            Layer(
                title="made",
                diff_id=store.add(stream.getvalue()),
                blob=store.add(packed),
                size=len(packed),
                listing="",
            )
        )
    runtime = RuntimeConfig(env=("PATH=/bin",), cmd=("/bin/sh",), **config)
    written = write_layout(
        folder / "image", store, made, image_json(made, runtime, "linux/amd64", CREATED), "linux/amd64", name
    )
    return Tiny(
        layout=folder / "image", reference=name, digests=ImageDigests(written.config, written.manifest)
    )


FILE, LINK, HARD, FOLDER, DEVICE = (
    tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE,
)  # fmt: skip


def test_whiteouts(env: Mapping[str, str], tmp_path: Path) -> None:
    """A file and a directory that an upper layer deletes, and a directory whose lower contents it hides."""
    lower: list[Member] = [
        ("a", FILE, "a"), ("b", FOLDER, ""), ("b/x", FILE, "x"), ("c", FOLDER, ""), ("c/x", FILE, "x"),
        ("d", FILE, "d"),
    ]  # fmt: skip
    upper: list[Member] = [
        (".wh.a", FILE, ""), (".wh.b", FILE, ""), ("c", FOLDER, ""), ("c/.wh..wh..opq", FILE, ""), ("c/y", FILE, "y"),
    ]  # fmt: skip
    image = make_image(tmp_path, "reprobuild-test/whiteouts:1", lower, upper)
    builtin.load(image.layout, image.reference, image.digests, env)
    script = "test ! -e /a && test ! -e /b && echo /c/* && cat /d && echo new >/a && cat /a"
    assert sh(image, env, script).stdout == b"/c/y\ndnew\n"


def test_no_overlay_and_whiteouts(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path, "reprobuild-test/no-overlay:1", [("a", FILE, "a")], [(".wh.a", FILE, "")])
    builtin.load(image.layout, image.reference, image.digests, env)
    monkeypatch.setattr(builtin, "can_mount_overlay", lambda: False)
    with pytest.raises(
        EngineError, match="mounts no overlay, and a layer of the image deletes files"
    ) as failed:
        sh(image, env, "true")
    assert failed.value.hint == ANOTHER


@pytest.mark.parametrize(
    "members",
    [
        [("out", LINK, "{outside}"), ("out/planted", FILE, "x")],
        [("../planted", FILE, "x")],
        [("{outside}/planted", FILE, "x")],
        [("a", LINK, "b"), ("b", LINK, "{outside}"), ("a/planted", FILE, "x")],
        [("hard", HARD, "{outside}/secret"), ("hard", FILE, "overwritten")],
        [("out", FOLDER, ""), ("out", LINK, "{outside}"), ("out/planted", FILE, "x")],
        [("x", LINK, "{outside}/planted"), ("x", FILE, "x")],
    ],
    ids=["link", "dots", "absolute", "links", "hard", "replaced", "file"],
)
def test_a_layer_writes_below_its_directory(
    members: list[Member], env: Mapping[str, str], tmp_path: Path
) -> None:
    """Whether or not tar takes it, no file of the machine is written or linked."""
    place = tmp_path / "outside"
    place.mkdir()
    (place / "secret").write_text("secret")
    layer = [(path.format(outside=place), kind, text.format(outside=place)) for path, kind, text in members]
    image = make_image(tmp_path, "reprobuild-test/hostile:1", layer)
    with contextlib.suppress(ReproError):
        builtin.load(image.layout, image.reference, image.digests, env)
        sh(image, env, "cat /hard; echo more >/hard; echo more >/x; true")
    assert [path.name for path in place.iterdir()] == ["secret"]
    assert (place / "secret").read_text() == "secret"
    assert (place / "secret").stat().st_nlink == 1
    assert not (tmp_path / "planted").exists()


def test_device_nodes_are_left_out(env: Mapping[str, str], tmp_path: Path) -> None:
    image = make_image(tmp_path, "reprobuild-test/devices:1", [("node", DEVICE, ""), ("file", FILE, "x")])
    builtin.load(image.layout, image.reference, image.digests, env)
    assert sh(image, env, "test ! -e /node && cat /file").stdout == b"x"


def test_a_layer_that_holds_what_it_deletes(env: Mapping[str, str], tmp_path: Path) -> None:
    image = make_image(tmp_path, "reprobuild-test/both:1", [("a", FILE, "a"), (".wh.a", FILE, "")])
    with pytest.raises(EngineError, match="holds and deletes 'a'") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == AGAIN


def test_a_layer_that_cannot_be_unpacked(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path, "reprobuild-test/full:1", [("a", FILE, "unpacked here alone")])

    def refuse(top: Path) -> None:
        raise OSError(errno.EMLINK, "Too many links")

    monkeypatch.setattr("reprobuild.engines.builtin_unpack._convert_whiteouts", refuse)
    with pytest.raises(EngineError, match=r"a layer cannot be unpacked in .*: Too many links") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == AGAIN
    monkeypatch.setattr("reprobuild.infra.sandbox.namespaces.PATH", "/nonexistent")
    with pytest.raises(EngineError, match="is not on PATH, and is needed to unpack a layer") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == "install GNU tar, or choose another engine with --engine"
    assert not any(name.endswith(".part") for name in layers_of(env))


@pytest.mark.parametrize(
    ("options", "count"),
    [("size=1m", 80), ("size=64m,nr_inodes=60", 80), ("size=4096k", 1), ("size=4100k", 1), ("size=4104k", 1)],
)
def test_a_full_disk_has_a_hint_that_is_followed(
    options: str, count: int, env: Mapping[str, str], tmp_path: Path
) -> None:
    """The cache has no room for the files, or no inodes; another cache has both.

    The last block of a single file fits in part, where the number of free pages is no multiple of 5.
    """
    files: list[Member] = [(f"f{number}", FILE, "x" * (3_200_000 // count)) for number in range(count)]
    image = make_image(tmp_path, "reprobuild-test/full:2", files)
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(small)], check=True)
    try:
        with pytest.raises(EngineError) as failed:
            builtin.load(image.layout, image.reference, image.digests, {**env, "XDG_CACHE_HOME": str(small)})
        layers = small / "reprobuild-images" / "layers"
        assert str(failed.value) == f"a layer cannot be unpacked in {layers}: No space left on device"
        assert failed.value.hint == (
            f"make room or free inodes there (`df -h {layers}`, and with -i), or let XDG_CACHE_HOME "
            "name a directory with more; the layers that are complete stay"
        )
        # The layer of programs may be complete; nothing is left of the other one.
        complete = [path.name for path in layers.iterdir()]
        assert len(complete) <= 1
        assert not any(name.startswith(".") for name in complete)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    builtin.load(
        image.layout, image.reference, image.digests, {**env, "XDG_CACHE_HOME": str(tmp_path / "more")}
    )


@pytest.mark.parametrize("place", ["/data", "/link/data", "/up/data"])
def test_links_of_an_image_lead_no_mount_out(place: str, env: Mapping[str, str], tmp_path: Path) -> None:
    """A mount point below a link is made inside the root, wherever the link leads."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "volume").mkdir()
    members: list[Member] = [("link", LINK, str(target)), ("up", LINK, "../../../.." + str(target))]
    image = make_image(tmp_path, "reprobuild-test/links:1", members)
    builtin.load(image.layout, image.reference, image.digests, env)
    done = sh(image, env, f"echo x >{place}/made", volumes=((str(tmp_path / "volume"), place),))
    assert done.code == 0, done.stderr
    assert (tmp_path / "volume" / "made").read_text() == "x\n"
    assert list(target.iterdir()) == []


def test_a_link_in_the_place_of_settings(env: Mapping[str, str], tmp_path: Path) -> None:
    name = "etc"
    target = tmp_path / "target"
    target.mkdir()
    image = make_image(tmp_path, f"reprobuild-test/{name}:1", [(name, LINK, str(target))])
    builtin.load(image.layout, image.reference, image.digests, env)
    done = sh(image, env, "echo x >/dev/null; cat /etc/hostname; echo done")
    assert done.stdout.endswith(b"done\n")
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
def test_a_link_in_the_place_of_the_kernels_files(name: str, env: Mapping[str, str], tmp_path: Path) -> None:
    """A mask of a file there would not be at its place."""
    (tmp_path / "target").mkdir()
    image = make_image(tmp_path, f"reprobuild-test/{name}:1", [(name, LINK, str(tmp_path / "target"))])
    builtin.load(image.layout, image.reference, image.digests, env)
    with pytest.raises(EngineError, match=f"could not make the mount point /{name}"):
        sh(image, env, "true")
    assert list((tmp_path / "target").iterdir()) == []


@pytest.mark.parametrize(
    "members",
    [
        [("x", LINK, "/anything"), ("x", FILE, "of the file")],
        [("x", LINK, "../a"), ("x", LINK, "../b")],
        [("x", FILE, "1"), ("./x", FILE, "2")],
    ],
)
def test_a_name_twice_in_a_layer(members: list[Member], env: Mapping[str, str], tmp_path: Path) -> None:
    """tar may take another one than the checks of an image."""
    image = make_image(tmp_path, "reprobuild-test/twice:1", members)
    with pytest.raises(EngineError, match="has 'x' twice, of which engines may take either") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == AGAIN


@pytest.mark.parametrize("name", ["a//x", "a/./x", "b/../a/x"])
def test_a_name_in_two_forms_in_a_layer(name: str, env: Mapping[str, str], tmp_path: Path) -> None:
    """tar takes both for one file, and the second wins; the digest of an image refuses it, too."""
    members: list[Member] = [("a", FOLDER, ""), ("a/x", FILE, "1"), (name, FILE, "2")]
    image = make_image(tmp_path, "reprobuild-test/forms:1", members)
    with pytest.raises(BuildError, match="holds the unsafe path"):
        layout_digest(read_layout(image.layout))
    with pytest.raises(BuildError, match="holds the unsafe path") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == HOSTILE


@pytest.mark.parametrize("name", [".wh..wh..opq", "./.wh..wh..opq"])
def test_an_opaque_marker_at_the_root_of_a_layer(name: str, env: Mapping[str, str], tmp_path: Path) -> None:
    """The kernel ignores it; the digest of an image refuses it, too."""
    image = make_image(tmp_path, "reprobuild-test/opaque:1", [(name, FILE, ""), ("a", FILE, "a")])
    with pytest.raises(BuildError, match="a layer holds an opaque marker at its root"):
        layout_digest(read_layout(image.layout))
    with pytest.raises(EngineError, match="hides all files of the layers below it") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == AGAIN


def test_more_layers_than_the_kernel_takes(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of all layers stand in one page of options."""
    monkeypatch.setattr(builtin_images, "MOST_LAYERS", 3)
    same: list[Member] = [("same", FILE, "")]
    fits = make_image(tmp_path / "fits", "reprobuild-test/layers:3", [("1", FILE, "")], same, same)
    builtin.load(fits.layout, fits.reference, fits.digests, env)
    image = make_image(
        tmp_path, "reprobuild-test/layers:4", *([(str(number), FILE, "")] for number in range(3))
    )
    with pytest.raises(EngineError, match="has 4 layers, and the built-in engine takes at most 3") as failed:
        builtin.load(image.layout, image.reference, image.digests, env)
    assert failed.value.hint == AGAIN


@pytest.mark.parametrize(
    ("members", "program"),
    [
        ([("bin/own", LINK, "/proc/self/exe")], "/bin/own"),
        ([("bin/own", LINK, "/proc/self/exe")], "own"),
        ([("bin/script", FILE, "#!/proc/self/exe\n")], "script"),
        ([("bin/one", FILE, "#! /bin/two\n"), ("bin/two", FILE, "#!/proc/self/exe -x\n")], "one"),
        ([("bin/cr", FILE, "#!/bin/sh\r\n"), ("bin/sh\r", LINK, "/proc/self/exe")], "cr"),
        ([("bin/vt", FILE, "#!/bin/sh\x0b\n"), ("bin/sh\x0b", LINK, "/proc/self/exe")], "vt"),
        ([("bin/ff", FILE, "#!\x0c\n"), ("\x0c", LINK, "/proc/self/exe")], "/bin/ff"),
        ([("bin/nul", FILE, "#!\t/bin/two\0x\n"), ("bin/two", LINK, "/proc/self/exe")], "nul"),
        ([], "/proc/self/exe"),
        ([], "/proc/thread-self/exe"),
    ],
)
def test_the_command_is_not_the_machines_python(
    members: list[Member], program: str, env: Mapping[str, str], tmp_path: Path
) -> None:
    """The image's code could change its mode, as in CVE-2019-5736."""
    image = make_image(tmp_path, "reprobuild-test/own:1", members)
    builtin.load(image.layout, image.reference, image.digests, env)
    with pytest.raises(EngineError, match="it is the machine's own Python"):
        builtin.run(image.reference, Task(arguments=(program,), bypass=True), env)


def test_a_copy_writes_through_no_link(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    image = make_image(
        tmp_path, "reprobuild-test/copy:1", [("f", LINK, str(victim))], [("f", FILE, "of the image")]
    )
    builtin.load(image.layout, image.reference, image.digests, env)
    monkeypatch.setattr(builtin, "can_mount_overlay", lambda: False)
    assert sh(image, env, "cat /f").stdout == b"of the image"
    assert victim.read_text() == "mine"


def test_a_removal_that_is_cut_short(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "reprobuild-test/removal:1"
    first, second = (make_tiny(tmp_path / word, name, {"etc/word": word.encode()}) for word in ("old", "new"))
    builtin.load(first.layout, name, first.digests, env)

    def interrupt(path: Path) -> None:
        next(path.rglob("word")).unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("reprobuild.engines.builtin_images.remove", interrupt)
        with pytest.raises(KeyboardInterrupt):
            builtin.load(second.layout, name, second.digests, env)
    builtin.load(first.layout, name, first.digests, env)
    assert sh(first, env, "cat /etc/word").stdout == b"old"


def test_nodes_in_a_mount_cannot_be_opened(loaded: Tiny, env: Mapping[str, str]) -> None:
    done = sh(loaded, env, "head -c 1 /nodes/zero", volumes=(("/dev", "/nodes"),))
    assert done.code != 0
    assert b"ermission denied" in done.stderr


def test_links_in_a_circle(env: Mapping[str, str], tmp_path: Path) -> None:
    image = make_image(tmp_path, "reprobuild-test/circle:1", [("a", LINK, "b"), ("b", LINK, "a")])
    builtin.load(image.layout, image.reference, image.digests, env)
    with pytest.raises(EngineError, match="could not make the mount point /a/x: Too many levels") as failed:
        sh(image, env, "true", volumes=((str(tmp_path), "/a/x"),))
    assert failed.value.hint == ANOTHER


# --- what a task asks for -----------------------------------------------------------------------------


def test_users(env: Mapping[str, str], tmp_path: Path) -> None:
    """By number, by the name in the image's own list, and one that the list does not have."""
    members: list[Member] = [("etc/passwd", FILE, "root:x:0:0:::\nada:x:4321:1234:Ada:/home/ada:/bin/sh\n")]
    for user, expected in (("77:88", (77, 88)), ("77", (77, 0)), ("ada", (4321, 1234))):
        image = make_image(
            tmp_path / user, f"reprobuild-test/user-{user.replace(':', '-')}:1", members, user=user
        )
        builtin.load(image.layout, image.reference, image.digests, env)
        done = sh(
            image, env, "while read n v; do case $n in Uid:|Gid:) echo $v;; esac; done </proc/self/status"
        )
        assert done.stdout.split()[::4] == [str(number).encode() for number in expected], done
    image = make_image(tmp_path / "bob", "reprobuild-test/user-bob:1", members, user="bob")
    builtin.load(image.layout, image.reference, image.digests, env)
    with pytest.raises(EngineError, match="the image's user 'bob' has no number") as failed:
        sh(image, env, "true")
    assert failed.value.hint == "name it by number with --user UID:GID"
    assert sh(image, env, "true", user="5:6").code == 0  # as the hint says
    with pytest.raises(EngineError, match="4294967295 is no user of Linux"):
        sh(image, env, "true", user="4294967295")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ("4294967295:0", "4294967295:0 is no user of Linux"), ("0:4294967295", "0:4294967295 is no user of Linux"),
        (f"{'9' * 5000}:0", "the image's user 'ada' has no number"),
        ("\u00b2:0", "the image's user 'ada' has no number"),
    ],
)  # fmt: skip
def test_a_number_of_a_user_that_linux_does_not_have(
    numbers: str, message: str, env: Mapping[str, str], tmp_path: Path
) -> None:
    """4294967295 means no change, and the command would run as root of the container."""
    members: list[Member] = [("etc/passwd", FILE, f"ada:x:{numbers}::/:/bin/sh\n")]
    image = make_image(tmp_path, "reprobuild-test/user-large:1", members, user="ada")
    builtin.load(image.layout, image.reference, image.digests, env)
    with pytest.raises(EngineError, match=message) as failed:
        sh(image, env, "true")
    assert failed.value.hint == "name it by number with --user UID:GID"


def test_the_loopback_answers_and_each_container_has_its_own(loaded: Tiny, env: Mapping[str, str]) -> None:
    names = [
        sh(loaded, env, "cat /etc/hostname /etc/hosts; cat /proc/net/dev").stdout.decode() for _ in range(2)
    ]
    for text in names:
        name, *hosts = text.splitlines()
        assert f"127.0.0.1\t{name}" in hosts
        assert "127.0.0.1\tlocalhost" in hosts
    assert names[0].splitlines()[0] != names[1].splitlines()[0]


def test_the_network_of_the_machine(loaded: Tiny, env: Mapping[str, str]) -> None:
    for network in ("host", DEFAULT_NETWORK):
        done = sh(loaded, env, "cat /proc/net/dev; cat /etc/hostname", network=network)
        interfaces = {line.split(":")[0].strip() for line in done.stdout.decode().splitlines() if ":" in line}
        assert interfaces == {path.name for path in Path("/sys/class/net").iterdir()}
        assert done.stdout.endswith(f"\n{os.uname().nodename}\n".encode())


def test_ports(loaded: Tiny, env: Mapping[str, str]) -> None:
    same, other = (Port(address="127.0.0.1", host=8123, inside=inside) for inside in (8123, 80))
    assert sh(loaded, env, "true", network=DEFAULT_NETWORK, ports=(same,)).code == 0
    with pytest.raises(EngineError, match="cannot publish port 80 as 8123") as failed:
        sh(loaded, env, "true", network=DEFAULT_NETWORK, ports=(other,))
    assert (
        failed.value.hint
        == "let the server listen on port 8123 itself, or choose another engine with --engine"
    )


def test_a_mount_that_is_not_there(loaded: Tiny, env: Mapping[str, str], tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="gone does not exist, and cannot be mounted at /data") as failed:
        sh(loaded, env, "true", volumes=((str(tmp_path / "gone"), "/data"),))
    assert failed.value.hint == "make it, or leave the mount out"


def test_mounts_inside_mounts(loaded: Tiny, env: Mapping[str, str], tmp_path: Path) -> None:
    """In any order: the outer one first, and a file among them."""
    for name in ("outer", "inner"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "word").write_text(name)
    (tmp_path / "file").write_text("file")
    volumes = (
        (f"{tmp_path}/inner", "/data/inner"),
        (f"{tmp_path}/file", "/data/file"),
        (f"{tmp_path}/outer", "/data"),
    )
    done = sh(loaded, env, "cat /data/word /data/inner/word /data/file", volumes=volumes)
    assert done.stdout == b"outerinnerfile"


def test_an_environment_beyond_one_variable(loaded: Tiny, env: Mapping[str, str]) -> None:
    """The kernel bounds a variable at 128 KiB; the job of the launcher has all of them."""
    environment = {f"LARGE_{number}": str(number) * 100_000 for number in range(4)}
    done = sh(loaded, env, "echo ${#LARGE_0} ${#LARGE_3}", environment=environment)
    assert done.stdout == b"100000 100000\n"


def test_an_image_without_a_command(
    env: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = make_image(tmp_path, "reprobuild-test/default:1", working_dir="/made/here")
    builtin.load(image.layout, image.reference, image.digests, env)
    assert (
        builtin.run(image.reference, Task(arguments=("/bin/sh", "-c", "pwd")), env).stdout == b"/made/here\n"
    )
    assert builtin.run(image.reference, Task(arguments=()), env).code == 0  # the shell reads no input
    images = UnpackedImages.open_user_cache(env)
    image_without = type(images.find(image.reference))
    monkeypatch.setattr(image_without, "cmd", ())
    with pytest.raises(EngineError, match="the image has no command") as failed:
        builtin.run(image.reference, Task(arguments=()), env)
    assert failed.value.hint == "name one after `--`"


def test_limits_beyond_the_machine(
    loaded: Tiny, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtin_job, "may_raise", lambda: True)
    with pytest.raises(EngineError, match="error setting rlimit") as failed:
        sh(loaded, env, "true", limits=(Limit(name="nofile", soft=2**31, hard=2**31),))
    assert (
        failed.value.hint
        == "this machine may not raise limits that far: ask for less with --ulimit, or leave it out"
    )


def test_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "can_mount_proc", lambda: False)
    assert builtin.version({}) is None
    assert builtin.find_obstacle() == "a part of this machine's /proc is covered, as in most containers"


# --- devices ------------------------------------------------------------------------------------------


@pytest.fixture
def described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write a description of a GPU, a null device, with other parts."""
    folder = tmp_path / "cdi"
    folder.mkdir()

    def describe(**edits: Any) -> None:
        nodes = [{"path": "/dev/nvidia0", "hostPath": "/dev/null", "type": "c"}]
        device = {"name": "all", "containerEdits": {"deviceNodes": nodes}}
        spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [device], "containerEdits": edits}
        (folder / "nvidia.yaml").write_text(json.dumps(spec))
        monkeypatch.setattr(
            builtin_job, "find_edits", lambda gpus: find_edits(gpus, (tmp_path / "absent", folder))
        )

    return describe


def test_libraries_and_hooks_of_a_device(
    described: Callable[..., None], loaded: Tiny, env: Mapping[str, str], tmp_path: Path
) -> None:
    """A hook gets the state, its own arguments and variables, and may change the root that the bundle names."""
    (tmp_path / "libcuda.so.1").write_text("library")
    program = tmp_path / "hook"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nstate = json.load(sys.stdin)\n"
        "bundle = json.load(open(state['bundle'] + '/config.json'))\n"
        "assert (state['status'], sys.argv[1:], os.environ['MADE']) == ('creating', ['word'], 'yes')\n"
        "open(bundle['root']['path'] + '/hooked', 'w').write('by the hook')\n"
    )
    program.chmod(0o755)
    described(
        mounts=[
            {
                "hostPath": str(tmp_path / "libcuda.so.1"), "containerPath": "/usr/lib/libcuda.so.1",
                "options": ["ro", "bind"],
            }
        ],
        hooks=[{"hookName": "createContainer", "path": str(program), "args": ["hook", "word"], "env": ["MADE=yes"]}],
    )  # fmt: skip
    done = sh(
        loaded,
        env,
        "cat /usr/lib/libcuda.so.1 /hooked; echo x >/dev/nvidia0; echo x >/usr/lib/libcuda.so.1",
        gpus="all",
    )
    assert done.stdout == b"libraryby the hook", done
    assert b"ead-only" in done.stderr


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo broken >&2; exit 3", "broken"),
        ("exit 4", "exit code 4"),
        ("sleep 60", "did not end within 1 s"),
    ],
)
def test_a_hook_that_fails(
    script: str,
    complaint: str,
    described: Callable[..., None],
    loaded: Tiny,
    env: Mapping[str, str],
    tmp_path: Path,
) -> None:
    program = tmp_path / "hook"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    described(hooks=[{"hookName": "createContainer", "path": str(program), "timeout": 1}])
    with pytest.raises(EngineError, match=f"could not run the hook {program}: .*{complaint}"):
        sh(loaded, env, "true", gpus="all")


def test_a_hook_of_another_kind(described: Callable[..., None], loaded: Tiny, env: Mapping[str, str]) -> None:
    described(hooks=[{"hookName": "startContainer", "path": "/bin/true"}])
    with pytest.raises(EngineError, match="has a hook 'startContainer', which the built-in engine") as failed:
        sh(loaded, env, "true", gpus="all")
    assert failed.value.hint == "choose another engine with --engine"


def test_a_description_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "nvidia.yaml").write_text("kind: [")
    with pytest.raises(EngineError, match=r"nvidia\.yaml cannot be read") as failed:
        find_edits("all", (tmp_path,))
    assert failed.value.hint == "make it again: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"
    assert Description(kind="x").devices == ()


# --- escapes ------------------------------------------------------------------------------------------


# What a job has, other than a build.
ALLOWED = {
    "a_core", "a_file_of_a_terabyte", "a_higher_limit", "all_memory_as_files",  # the limits of its user
    "another_user", "groups",  # the users of its image
    "devices_of_the_machine",  # /dev/tty
    "the_devices_of_sysfs", "the_last_to_be_killed", "variables",
}  # fmt: skip


def test_all_is_held(outside: dict[str, Any], built_example: Built, env: Mapping[str, str]) -> None:
    facts = json.dumps(outside | {"input": "/mnt/input", "mounted": "/proc/sys"})
    done = subprocess.run(
        [*PROGRAM, "run", str(built_example.out), "--engine", "builtin", "-v", f"{PROBES}:/mnt/probes.py:ro", "-v",
         f"{outside['input']}:/mnt/input:ro", "--", "python", "-I", "-S", "/mnt/probes.py", facts],
        env=dict(env), capture_output=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(broken(done.stdout.splitlines()[-1])) <= ALLOWED


def test_all_is_held_for_an_ordinary_user(
    outside: dict[str, Any], built_example: Built, shared_tmp: Path
) -> None:
    out = built_example.copy(shared_tmp / "out")
    (shared_tmp / "probes.py").write_bytes(PROBES.read_bytes())
    (shared_tmp / "input").touch()
    facts = json.dumps(outside | {"input": "/mnt/input", "mounted": "/proc/sys"})
    done = subprocess.run(
        [*ORDINARY_USER, *PROGRAM, "run", str(out), "--engine", "builtin",
         "-v", f"{shared_tmp}/probes.py:/mnt/probes.py:ro",
         "-v", f"{shared_tmp}/input:/mnt/input:ro", "--", "python", "-I", "-S", "/mnt/probes.py", facts],
        env={**os.environ, "XDG_CACHE_HOME": str(shared_tmp / "cache")}, capture_output=True, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(broken(done.stdout.splitlines()[-1])) <= ALLOWED


def test_the_memory_of_process_1_is_closed_before_the_command_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command could write into it until then."""
    steps: list[str] = []

    def start(job: object, report: int) -> int:
        steps.append("start")
        return 1

    def end(code: int) -> None:
        raise SystemExit(code)

    for name in ("make_root", "drop_rights", "hand_signals_on"):
        monkeypatch.setattr(container, name, lambda *_: None)
    monkeypatch.setattr(container, "fork_command", start)
    monkeypatch.setattr(launch, "enter", lambda root: None)
    monkeypatch.setattr(launch, "close_memory", lambda: steps.append("close"))
    monkeypatch.setattr(launch, "reap", lambda command: 0)
    monkeypatch.setattr("os._exit", end)
    job = {
        "terminal": False, "isolated": False, "hostname": "", "hooks": [], "root": "/", "cwd": "/", "filter": "",
    }  # fmt: skip
    with Path(os.devnull).open("wb") as codes, pytest.raises(SystemExit):
        container.supervise(job, codes.fileno(), codes.fileno())
    assert steps == ["close", "start"]


def test_layer_names_are_short_and_apart() -> None:
    names = {layer_name(f"{number:064x}"[::-1]) for number in range(2000)}
    assert len(names) == 2000
    assert {len(name) for name in names} == {28}
