"""`rebuild`: the image again from its lock, what is brought by the directory itself, and why another came out."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.errors import UsageError
from reprobuild.image.formats.single_file import KINDS
from reprobuild.image.formats.squashfs_read import compressor_of
from reprobuild.image.layers.blobs import LEVEL, write_layer
from reprobuild.image.layers.content import arrange_items, text_item
from reprobuild.image.layers.layers import layer_items
from reprobuild.image.layers.plan import WheelPart, plan
from reprobuild.image.model import Image
from reprobuild.image.oci.read import read_layout
from reprobuild.infra import writers
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.diff import Change
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import unseal
from reprobuild.lock.system import EPOCH
from reprobuild.output.directory import read_image, remember_built
from reprobuild.pipeline.rebuild import resume
from reprobuild.pipeline.rebuild.causes import explain_differences
from reprobuild.realise.base import _key as base_key
from reprobuild.realise.bytecode import bytecode_key, compiled_key
from reprobuild.realise.runtime import PLACE
from reprobuild.recipe.payload import pack_runtime, payload_files
from reprobuild.store import salvage
from reprobuild.store.salvage import take_context, take_runtime
from reprobuild.store.store import Store
from reprobuild.store.tar_listing import keep_listing, recall_listing
from tests.conftest import PROGRAM, Built, reprobuild
from tests.image.made import Made
from tests.store.sealing import built, sealed


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


@pytest.fixture
def out(made: Made, tmp_path: Path) -> Path:
    """An output directory of a small lock."""
    built(sealed(made, "alpha", "beta"), tmp_path / "given.lock", made.store, tmp_path / "out")
    return tmp_path / "out"


def rebuilt(
    out: Path, store: Path, *more: str | Path, code: int = 0, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Rebuild without network, and return the document."""
    done = reprobuild("rebuild", out, "--store", store, "--offline", "--json", *more, env=env)
    assert done.returncode == code, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_same_from_the_store(out: Path, made: Made) -> None:
    done = reprobuild("rebuild", out, "--store", made.store.root, "--offline")
    assert done.returncode == 0, done.stderr
    assert "every input is here: no network is needed" in done.stderr
    new = out.with_name("out-rebuilt")
    assert f"rebuilt in {new}: the same image" in done.stdout
    assert f"reprobuild verify {new} --against {out}" in done.stdout
    assert read_image(new) == read_image(out)


def test_a_layer_that_is_remembered_wrongly_is_seen(made: Made, tmp_path: Path) -> None:
    """Each layer is made again in the store that built the image, too: what it remembers is not asked."""
    lock = sealed(made, "alpha")
    recipe = next(
        one for one in plan(lock, made.store) if any(isinstance(part, WheelPart) for part in one.parts)
    )
    with layer_items(recipe, made.store) as items:
        more = arrange_items([*items, text_item("opt/env/planted", b"by nobody's recipe", "nobody")])
        layer = write_layer(more, recipe.title, recipe.epoch, made.store)
    made.store.remember(recipe.key(LEVEL), msgspec.to_builtins(layer))
    built(lock, tmp_path / "given.lock", made.store, tmp_path / "out")
    found = rebuilt(tmp_path / "out", made.store.root, code=1)
    assert [file["path"] for file in found["explanation"]["files"]] == ["opt/env/planted"]
    assert any("the lock is the same and the tree is not" in reason for reason in found["reasons"])


def test_a_base_that_is_listed_wrongly_is_seen(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "alpha")
    kept = keep_listing(made.base, [TarEntry(path="etc", type="directory", mode=0o700)], made.store)
    assert recall_listing(made.base, made.store) == kept
    built(lock, tmp_path / "given.lock", made.store, tmp_path / "out")
    found = rebuilt(tmp_path / "out", made.store.root, code=1)
    assert [row["name"] for row in found["rows"] if row["then"] != row["now"]] == ["tree"]


def test_the_same_from_nothing_but_the_folder(out: Path, tmp_path: Path) -> None:
    found = rebuilt(out, tmp_path / "empty", "-o", tmp_path / "again")
    assert found["same"] is True
    assert [(row["name"], row["then"] == row["now"]) for row in found["rows"]] == [
        ("tree", True),
        ("config", True),
        ("manifest", True),
    ]
    assert found["reasons"] == []
    assert read_image(tmp_path / "again") == read_image(out)


def test_what_is_changed_in_the_folder_is_not_taken(out: Path, tmp_path: Path) -> None:
    wheels = sorted((out / "context" / "wheels").iterdir())
    changed, linked = wheels
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.unlink()
    changed.write_bytes(content)
    aside = tmp_path / "aside.whl"
    linked.rename(aside)
    linked.symlink_to(aside)
    os.mkfifo(out / "context" / "wheels" / "pipe")
    done = reprobuild("rebuild", out, "--store", tmp_path / "empty", "--offline")
    assert done.returncode == 5
    assert "to fetch: 2 files" in done.stderr
    assert changed.name in done.stderr or linked.name in done.stderr


@pytest.mark.parametrize("linked", ["context", "context/wheels"])
def test_nothing_is_taken_through_a_linked_context(linked: str, out: Path, tmp_path: Path) -> None:
    """The link could lead to any directory of the caller; what is behind it is fetched instead."""
    (out / linked).rename(tmp_path / "private")
    (out / linked).symlink_to(tmp_path / "private")
    done = reprobuild("rebuild", out, "--store", tmp_path / "empty", "--offline")
    assert done.returncode != 0
    assert not any(
        (tmp_path / "empty" / "blobs" / file.name[:2] / file.name).exists() for file in stored(out)
    )


def test_a_context_deeper_than_the_stack_is_passed_over(
    out: Path, deep: Callable[[Path], Path], tmp_path: Path
) -> None:
    deep(out / "context" / "aside")
    lock, empty = read_lock(out / "reprobuild.lock"), Store(tmp_path / "empty")
    assert take_context(out, lock, empty) >= len(stored(out))


@pytest.mark.parametrize("whole", [True, False])
def test_only_files_that_can_be_missing_are_read(
    out: Path, tmp_path: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of many terabytes has one block on the disk, and another can have many names."""
    lock, wheels = read_lock(out / "reprobuild.lock"), out / "context" / "wheels"
    first, other = sorted(wheels.iterdir())
    for place, size in ((out / "context" / "0-hole", 1 << 43), (wheels / "0-hole", first.stat().st_size)):
        place.touch()
        os.truncate(place, size)
    (out / "context" / "0-other").write_bytes(b"x" * 9)
    for number in range(3):
        (out / "context" / f"1-{number}").hardlink_to(out / "context" / "0-other")
    read = []

    def copy(source: Any, target: Any, size: int) -> str:
        read.append(size)
        return real(source, target, size)

    real = salvage._copy
    monkeypatch.setattr(salvage, "_copy", copy)
    taken = take_context(out, lock if whole else unseal(lock), Store(tmp_path / "empty"))
    assert taken >= len((first, other))
    assert read.count(9) == whole  # a sealed lock does not state the sizes of trees
    assert max(read) <= max(
        path.stat().st_size for path in (out / "context").rglob("*") if path.stat().st_blocks
    )


def test_a_payload_of_many_names_is_read_a_few_times(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reading can take seconds, and a name costs nothing."""
    lock = read_lock(out / "reprobuild.lock")
    (real,) = (out / "context").glob("lock-*/payload.tar")
    for number in range(20):
        (out / "context" / f"z{number}").mkdir()
        (out / "context" / f"z{number}" / "payload.tar").hardlink_to(real)
    read = []
    monkeypatch.setattr(salvage, "_runtime", lambda *arguments: read.append(arguments) or "")
    take_context(out, lock, Store(tmp_path / "empty"))
    assert len(read) == 4
    assert not take_runtime(out, lock, Store(tmp_path / "empty"))
    assert len(read) == 8


def stored(out: Path) -> list[Path]:
    """Return the names that the wheels of a context have in a store."""
    wheels = (out / "context" / "wheels").iterdir()
    return [Path(hashlib.sha256(path.read_bytes()).hexdigest()) for path in wheels]


def test_a_damaged_payload_is_no_runtime_package(out: Path, made: Made, tmp_path: Path) -> None:
    lock = read_lock(out / "reprobuild.lock")
    (place,) = (out / "context").glob("lock-*/payload.tar")
    place.unlink()
    place.write_bytes(b"no tar" * 1000)
    made.store.blob(lock.realised.runtime).unlink()
    done = reprobuild("rebuild", out, "--store", made.store.root, "--offline")
    # The made-up base has no Python that could compile it again.
    assert done.returncode == 7, done.stderr
    assert "outputs of what was run once are not kept here: they are made again" in done.stderr


def test_the_program_that_is_in_the_image_is_known_without_its_store(out: Path, tmp_path: Path) -> None:
    """Months later, elsewhere: what the image's own probes answer must be expected, not those of another version."""
    lock, empty = read_lock(out / "reprobuild.lock"), Store(tmp_path / "empty")
    assert take_runtime(out, lock, empty)
    assert empty.verified(lock.realised.runtime, "it").is_file()
    assert take_runtime(tmp_path / "nothing", lock, empty)
    assert not take_runtime(tmp_path / "nothing", lock, Store(tmp_path / "other"))


def test_a_fresh_folder(out: Path, made: Made, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    for target in (tmp_path / "taken", tmp_path / "taken" / "file"):
        done = reprobuild("rebuild", out, "-o", target, "--store", made.store.root)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"error: {target} is there already, and a rebuild needs a fresh directory" in done.stderr
        assert "hint: name another directory with -o, or remove that one if nobody needs it" in done.stderr
    (tmp_path / "empty").mkdir()
    rebuilt(out, made.store.root, "-o", tmp_path / "empty")


def test_a_link_beside_the_folder_is_not_followed(out: Path, made: Made, tmp_path: Path) -> None:
    """Somebody handed it over with the directory; a link that the user names is followed."""
    victim, link = tmp_path / "victim", out.with_name(f"{out.name}-rebuilt")
    victim.mkdir()
    link.symlink_to(victim)
    done = reprobuild("rebuild", out, "--store", made.store.root)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {link} is a link, which may lead anywhere" in done.stderr
    assert "hint: name another directory with -o, or remove that one if nobody needs it" in done.stderr
    assert not list(victim.iterdir())
    rebuilt(out, made.store.root, "-o", link)
    assert (victim / "image.json").is_file()


def small_files(bytes_: int) -> None:
    """Let a process write no file that is larger, as on a disk that gets full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))


def test_a_rebuild_that_was_cut_off_goes_on(out: Path, made: Made, tmp_path: Path) -> None:
    new = tmp_path / "new"
    command = [*PROGRAM, "rebuild", str(out), "-o", str(new), "--store", str(made.store.root), "--offline"]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=lambda: small_files(8000))
    assert done.returncode != 0
    assert {"unfinished-rebuild", "reprobuild.lock"} <= {path.name for path in new.iterdir()}, done.stderr
    assert not (new / "image.json").exists()
    (new / "note").write_text("of the user")
    write_lock(msgspec.structs.replace(read_lock(out / "reprobuild.lock"), seed=7), tmp_path / "other.lock")
    built(read_lock(tmp_path / "other.lock"), tmp_path / "other.lock", made.store, tmp_path / "other")
    done = reprobuild("rebuild", tmp_path / "other", "-o", new, "--store", made.store.root, "--offline")
    assert done.returncode == 2, done.stderr
    assert "is there already, and a rebuild needs a fresh directory" in done.stderr
    with (new / "unfinished-rebuild").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 2
        assert f"error: another rebuild is at work in {new}, or its disk has no locks to tell" in done.stderr
    assert rebuilt(out, made.store.root, "-o", new)["same"] is True
    assert not (new / "unfinished-rebuild").exists()
    assert (new / "note").read_text() == "of the user"
    assert (
        subprocess.run(command, capture_output=True).returncode == 2
    )  # a finished one is no fresh directory


@pytest.mark.parametrize("exchanged", ["marker", "directory"])
def test_the_marker_is_not_written_through_a_link_of_another_user(
    exchanged: str, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user of the directory above exchanges the file between its opening and its writing."""
    new, private = tmp_path / "new", tmp_path / "private"
    private.mkdir()
    victim = private / "unfinished-rebuild"
    victim.write_text("of the user")

    def exchange(*arguments: Any) -> bool:
        if exchanged == "marker":
            (new / victim.name).rename(tmp_path / "aside")
            (new / victim.name).symlink_to(victim)
        else:
            new.rename(tmp_path / "aside")
            new.symlink_to(private)
        return True

    monkeypatch.setattr(resume, "locked", exchange)
    with resume.prepare_directory(new, read_lock(out / "reprobuild.lock"), links=False):
        assert victim.read_text() == "of the user"
    assert victim.read_text() == "of the user"


def test_a_directory_that_others_may_write_to_is_refused(out: Path, made: Made, tmp_path: Path) -> None:
    open_one = tmp_path / "open to others"
    open_one.mkdir()
    open_one.chmod(0o777)
    command = ("rebuild", out, "-o", open_one, "--store", made.store.root, "--offline")
    done = reprobuild(*command)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {open_one} can be written to by all users, who could exchange its files" in done.stderr
    hint = f"hint: name another directory with -o, or close that one: `chmod go-w '{open_one}'`"
    assert hint in done.stderr
    assert not list(open_one.iterdir())
    subprocess.run(["sh", "-c", hint.split("`")[1]], check=True)
    assert reprobuild(*command).returncode == 0


def test_a_directory_of_another_user_is_refused(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    number = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: number + 2)
    os.chown(tmp_path / "theirs", number or 4242, -1)
    lock = read_lock(out / "reprobuild.lock")
    with pytest.raises(UsageError) as refused, resume.prepare_directory(tmp_path / "theirs", lock):
        pass
    assert str(refused.value) == (
        f"{tmp_path / 'theirs'} belongs to the user number {number or 4242}, who could exchange its files"
    )
    assert refused.value.hint == "name another directory with -o, or remove that one if nobody needs it"


def test_a_rebuild_of_a_group_goes_on(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the umask 002, a new directory would be one that the group may write to."""
    monkeypatch.setattr(writers, "_is_private", lambda facts: False)
    before = os.umask(0o002)
    try:
        lock = read_lock(out / "reprobuild.lock")
        with contextlib.suppress(KeyboardInterrupt), resume.prepare_directory(tmp_path / "new", lock):
            (tmp_path / "new" / "reprobuild.lock").touch()
            raise KeyboardInterrupt
        assert (tmp_path / "new" / "unfinished-rebuild").exists()
        with resume.prepare_directory(tmp_path / "new", lock):
            pass
    finally:
        os.umask(before)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["reprobuild.lock"]


def test_a_rebuild_that_made_nothing_leaves_nothing(out: Path, made: Made, tmp_path: Path) -> None:
    shutil.rmtree(out / "context")
    done = reprobuild("rebuild", out, "-o", tmp_path / "new", "--store", tmp_path / "empty", "--offline")
    assert done.returncode == 5, done.stderr
    assert not (tmp_path / "new").exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "unfinished-rebuild").touch()  # killed before it had written a word
    rebuilt(out, made.store.root, "-o", tmp_path / "new")


def test_another_packing_and_another_tree(out: Path, made: Made, tmp_path: Path) -> None:
    document = json.loads((out / "image.json").read_bytes())
    shutil.rmtree(out / "image")  # so that the directory's word is all that there is
    (out / "image.json").write_text(json.dumps({**document, "manifest": "sha256:" + "0" * 64}))
    found = rebuilt(out, made.store.root, "-o", tmp_path / "one", code=1)
    assert any("the same tree, packed otherwise" in reason for reason in found["reasons"])
    assert any("which files differ is not known" in reason for reason in found["reasons"])
    assert rebuilt(out, made.store.root, "-o", tmp_path / "two", "--level", "tree")["same"] is True
    (out / "image.json").write_text(json.dumps({**document, "tree": "sha256:" + "0" * 64}))
    found = rebuilt(out, made.store.root, "-o", tmp_path / "three", "--level", "tree", code=1)
    assert any("the lock is the same and the tree is not" in reason for reason in found["reasons"])


def damage(path: Path) -> None:
    """Change four bytes of a file, and nothing that it is linked to."""
    content = bytearray(path.read_bytes())
    content[-8:-4] = bytes(byte ^ 0xFF for byte in content[-8:-4])
    path.unlink()
    path.write_bytes(content)


def test_a_damaged_layer_is_never_called_the_same(out: Path, made: Made, tmp_path: Path) -> None:
    layers = read_layout(out / "image").layers
    blob = out / "image" / "blobs" / "sha256" / layers[-1][1]
    damage(blob)
    done = reprobuild("rebuild", out, "-o", tmp_path / "new", "--store", made.store.root, "--offline")
    assert done.returncode == 1, done.stderr
    assert "DAMAGED, its bytes are others" in done.stdout
    assert f"{blob} is damaged: it has the sha256 " in done.stdout
    assert f"which files differ is not known: the image in {out} is damaged" in done.stdout
    assert f"rebuilt in {tmp_path / 'new'}: {out} does not hold the image that it states" in done.stdout
    assert "the same image" not in done.stdout
    blob.unlink()
    os.mkfifo(blob)
    found = rebuilt(out, made.store.root, "-o", tmp_path / "pipe", "--level", "tree", code=1)
    assert found["same"] is False
    assert "cannot be read" in found["rows"][0]["damage"]


def test_a_tree_and_a_configuration_that_are_stated_wrongly(out: Path, made: Made, tmp_path: Path) -> None:
    """Another image, which claims the tree of this lock: its layers are read, and its image.json is not believed."""
    lock = read_lock(out / "reprobuild.lock")
    stated = json.loads((out / "image.json").read_bytes())
    other = sealed(made, "gamma")
    theirs = built(other, tmp_path / "theirs.lock", made.store, tmp_path / "theirs")
    shutil.rmtree(out / "image")
    shutil.copytree(tmp_path / "theirs" / "image", out / "image")
    lie = {**stated, "manifest": theirs.manifest, "reference": theirs.reference, "lock": lock.digest}
    (out / "image.json").write_text(json.dumps(lie))
    found = rebuilt(out, made.store.root, "-o", tmp_path / "new", "--level", "tree", code=1)
    damage = {row["name"]: row["damage"] for row in found["rows"]}
    assert "the configuration in" in damage["config"]
    (out / "image.json").write_text(json.dumps({**lie, "config": theirs.config}))
    found = rebuilt(out, made.store.root, "-o", tmp_path / "again", "--level", "tree", code=1)
    damage = {row["name"]: row["damage"] for row in found["rows"]}
    assert damage["tree"] == f"the layers hold the tree {theirs.tree}, and image.json states another"


def test_digests_without_bytes_are_said(out: Path, made: Made, tmp_path: Path) -> None:
    shutil.rmtree(out / "image")
    done = reprobuild("rebuild", out, "-o", tmp_path / "new", "--store", made.store.root, "--offline")
    assert done.returncode == 0, done.stderr
    assert f"tree, config, manifest: {out} has the digest and no bytes of it" in done.stdout
    assert f"rebuilt in {tmp_path / 'new'}: the digests that {out} states" in done.stdout
    assert "the same image" not in done.stdout


def test_single_files(out: Path, made: Made, tmp_path: Path, squashfs: dict[str, str]) -> None:
    write_lock(read_lock(out / "reprobuild.lock"), tmp_path / "again.lock")
    first = tmp_path / "single"
    done = reprobuild(
        "build", tmp_path / "again.lock", "-o", first, "--store", made.store.root, "--format", "sif",
        "--format", "squashfs", "--compression", "gzip", env=squashfs,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [compressor_of(first / f"image.{kind}") for kind in KINDS] == ["gzip", "gzip"]
    found = rebuilt(first, made.store.root, "-o", tmp_path / "again", env=squashfs)
    assert [row["name"] for row in found["rows"]] == ["tree", "config", "manifest", "sif", "sqsh"]
    damage(first / "image.sif")
    found = rebuilt(first, made.store.root, "-o", tmp_path / "damaged", code=1, env=squashfs)
    assert [row["name"] for row in found["rows"] if row["damage"]] == ["sif"]
    assert rebuilt(first, made.store.root, "-o", tmp_path / "level", "--level", "manifest", env=squashfs)[
        "same"
    ]
    (first / "image.sif").unlink()
    assert rebuilt(first, made.store.root, "-o", tmp_path / "gone", env=squashfs)["absent"] == ["sif"]
    bare = {**os.environ, "PATH": "/nonexistent"}
    found = rebuilt(first, made.store.root, "-o", tmp_path / "bare", code=9, env=bare)
    assert [row["now"] for row in found["rows"]][3:] == ["", ""]
    assert found["not_made"][0].startswith("image.sif was not made: ")
    assert rebuilt(first, made.store.root, "-o", tmp_path / "bare2", "--level", "manifest", env=bare)["same"]


def test_what_compressed_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_bytes(b"hsqs")
    assert compressor_of(tmp_path / "image.sif") is None
    (tmp_path / "image.sif").write_bytes(b"nothing")
    assert compressor_of(tmp_path / "image.sif") is None


@pytest.fixture
def apptainer(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A program that has the name of a builder and fails: its environment, and a file that shows its start."""
    program, started = tmp_path / "programs" / "apptainer", tmp_path / "started"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo 1.4.5 && exit\ntouch {started}\nexit 1\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}, started


def state_builder(out: Path, name: str) -> Image:
    """Let an image.json state a builder."""
    image = msgspec.structs.replace(read_image(out)[1], builder=name)
    (out / "image.json").write_bytes(msgspec.json.encode(image))
    return image


def test_the_builder_that_a_foreign_directory_states_is_not_started(
    out: Path, made: Made, tmp_path: Path, apptainer: tuple[dict[str, str], Path]
) -> None:
    """It would run the Python of the lock outside the sandbox."""
    env, started = apptainer
    state_builder(out, "apptainer")
    for store in (made.store.root, tmp_path / "empty"):  # the first one built it, by the native builder
        new = tmp_path / f"new-{store.name}"
        done = reprobuild("rebuild", out, "-o", new, "--store", store, "--offline", env=env)
        assert done.returncode == 0, done.stderr
        assert not started.exists()
        assert read_image(new)[1].builder == "native"
        assert (
            f"{out} states the builder 'apptainer' and was not built here: the native builder makes the image; "
            "`--builder apptainer` uses that builder, which runs code of the lock outside the sandbox\n"
        ) in done.stderr
    command = ("rebuild", out, "-o", tmp_path / "chosen", "--store", tmp_path / "empty", "--offline")
    assert reprobuild(*command, "--builder", "apptainer", env=env).returncode != 0
    assert started.exists()
    state_builder(out, "other")
    done = reprobuild("rebuild", out, "--store", made.store.root, "--offline", env=env)
    assert done.returncode == 0, done.stderr
    assert "'other' and was not built here: the native builder makes the image\n" in done.stderr


def test_the_builder_of_an_own_image_is_used_again(
    out: Path, made: Made, apptainer: tuple[dict[str, str], Path]
) -> None:
    env, started = apptainer
    remember_built(state_builder(out, "apptainer"), out, made.store)
    done = reprobuild("rebuild", out, "--store", made.store.root, "--offline", env=env)
    assert done.returncode == 7, done.stderr
    assert "was not built here" not in done.stderr
    assert started.exists()


def test_an_image_of_another_builder_has_the_same_tree(made: Made, tmp_path: Path) -> None:
    lock, out = sealed(made, "alpha"), tmp_path / "out"
    name = built(lock, tmp_path / "given.lock", made.store, out).reference
    image = build_image(
        lock, made.store, out, files=payload_files(lock, made.store), reference=name, level=LEVEL + 1
    )
    record = msgspec.structs.replace(image, lock=lock.digest, builder="docker")
    (out / "image.json").write_bytes(msgspec.json.encode(record))
    done = reprobuild("rebuild", out, "-o", tmp_path / "new", "--store", made.store.root, "--offline")
    assert done.returncode == 1, done.stderr
    assert (
        "the first image states the builder 'docker', and 'native' made this one: builders divide a tree into other "
        "layers, so only the trees can be equal, which `--level tree` compares\n"
    ) in done.stdout
    assert f"rebuilt in {tmp_path / 'new'}: the tree that {out} holds, packed otherwise\n" in done.stdout
    found = rebuilt(out, made.store.root, "-o", tmp_path / "tree", "--level", "tree")
    assert (found["same"], found["builders"]) == (True, ["docker", "native"])


def test_outputs_that_are_taken_and_not_made_again_are_counted(out: Path, tmp_path: Path) -> None:
    """Bytecode of another party need not be that of the modules beside it."""
    new = tmp_path / "new"
    taken = ["base tree", "runtime package", "bytecode of alpha", "bytecode of beta"]
    for _ in range(2):  # the second time, the store has them from the first one
        done = reprobuild("rebuild", out, "-o", new, "--store", tmp_path / "empty", "--offline")
        assert done.returncode == 0, done.stderr
        assert (
            f"4 outputs of steps were taken as {out} states them, and not made again: {', '.join(taken)}\n"
            f"this command makes them again: reprobuild rebuild {out} -o {new}-afresh --afresh\n"
            f"rebuilt in {new}: the same image, if the outputs above come out of their steps\n"
        ) in done.stdout
        shutil.rmtree(new)
    assert rebuilt(out, tmp_path / "empty", "-o", new)["taken"] == taken


def test_outputs_that_the_store_did_not_make_are_made_afresh(made: Made, tmp_path: Path) -> None:
    """The store made all outputs of the honest lock; the bytecode of another lock of the same wheel is planted."""
    honest, store, out = sealed(made, "alpha"), made.store, tmp_path / "out"
    (code,), (wheel,) = honest.realised.bytecode, honest.wheels
    store.remember(base_key(honest.base, honest.epoch), {"tree": honest.realised.base})
    store.remember(
        compiled_key(pack_runtime(store), PLACE, honest.base, honest.interpreter, ""), honest.realised.runtime
    )
    store.remember(bytecode_key(wheel, honest.base, honest.interpreter, ""), code.tar)
    built(honest, tmp_path / "honest.lock", store, tmp_path / "honest")
    for more in ((), ("--afresh",)):
        assert rebuilt(tmp_path / "honest", store.root, "-o", tmp_path / f"own{more}", *more)["taken"] == []
    made.bytecode = []
    made.compiled(wheel.file.sha256, {"opt/env/lib/python3.11/site-packages/alpha.pyc": b"not of alpha.py"})
    planted = msgspec.structs.replace(honest.realised, bytecode=tuple(made.bytecode))
    built(made.lock(realised=planted), tmp_path / "planted.lock", store, out)
    assert rebuilt(out, store.root, "-o", tmp_path / "new")["taken"] == ["bytecode of alpha"]
    done = reprobuild("rebuild", out, "-o", tmp_path / "text", "--store", store.root, "--offline")
    (command,) = [line for line in done.stdout.splitlines() if line.endswith(" --afresh")]
    words = shlex.split(command.partition(": reprobuild ")[2])
    found = json.loads(reprobuild(*words, "--store", store.root, "--offline", "--json").stdout)
    assert (found["same"], found["taken"]) == (False, [])
    assert [change["name"] for change in found["inputs"]] == ["bytecode of alpha"]
    assert any("the lock's output is not that of its inputs" in reason for reason in found["reasons"])


@pytest.mark.long
def test_outputs_of_the_own_store_are_not_taken(built_example: Built, tmp_path: Path) -> None:
    for more in ((), ("--afresh",)):
        found = rebuilt(built_example.out, built_example.store, "-o", tmp_path / f"new{more}", *more)
        assert (found["same"], found["taken"]) == (True, [])


@pytest.mark.long
def test_a_runtime_package_that_is_kept_nowhere(built_example: Built, tmp_path: Path) -> None:
    """Sealed by a reprobuild whose own part is gone: what is made instead, and every file of it, is named."""
    store = Store(built_example.store)
    realised = built_example.lock.realised
    lock = msgspec.structs.replace(
        built_example.lock, realised=msgspec.structs.replace(realised, runtime=_older(store, realised.runtime))
    )  # fmt: skip
    first = tmp_path / "first"
    built(lock, tmp_path / "older.lock", store, first)
    shutil.rmtree(first / "context")
    store.blob(lock.realised.runtime).unlink()
    found = rebuilt(first, built_example.store, code=1)
    assert [(change["kind"], change["name"]) for change in found["inputs"]] == [
        ("realised", "runtime package")
    ]
    assert any(
        reason.startswith("runtime package: ") and "another version of it" in reason
        for reason in found["reasons"]
    )
    files = [file["path"] for file in found["explanation"]["files"]]
    assert "opt/reprobuild/lib/reprobuild_runtime/older.py" in files
    assert not [path for path in files if not path.startswith("opt/reprobuild/")]


def _older(store: Store, runtime: str) -> str:
    """Return the runtime package with a file that this reprobuild does not have."""
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    with store.blob(runtime).open("rb") as tar:
        files = {entry.path: content() for entry, content in read_tar(tar)} | {"older.py": b"# older\n"}
    for name, content in sorted(files.items()):
        writer.file(name, content)
    writer.close()
    return store.add(stream.getvalue())


@pytest.mark.parametrize(
    ("differing", "name", "recipe", "said"),
    [
        (["tree", "config", "manifest"], "base tree", (), "base tree: the lock says 111111111111, and 222222222222"),
        (["tree", "config", "manifest"], "wheel of fast", (), "and its step was run again: by another kernel"),
        (["sif"], "", ("Apptainer.def",), "Apptainer.def: this reprobuild writes them otherwise"),
        (["sif", "sqsh"], "", (), "sif and sqsh: of the same tree, by another mksquashfs"),
    ],
)  # fmt: skip
def test_reasons(differing: list[str], name: str, recipe: tuple[str, ...], said: str) -> None:
    change = Change(kind="realised", name=name, one="1" * 64, other="2" * 64)
    assert any(
        said in reason for reason in explain_differences(differing, [change] if name else [], recipe, "")
    )
    assert explain_differences([], [], (), "") == ()


@pytest.mark.parametrize(
    "differing", [["manifest"], ["config", "manifest"], ["sif", "sqsh"], ["manifest", "sqsh"]]
)
def test_nothing_is_called_the_same_that_was_not_read(differing: list[str]) -> None:
    said = " ".join(explain_differences(differing, [], (), "layer 1 is not what the image states"))
    assert "which files differ is not known: layer 1" in said
    assert "both" in said
    assert "was not read" in said
    for claim in (
        "is the same:",
        "the same tree, packed otherwise: another",
        "sees is the same",
        "of the same tree",
    ):
        assert claim not in said
