"""The name of an image that others made cannot hide another image, by whichever way the image comes into an engine."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.distribute.standalone import unbundle as form
from reprobuild.distribute.unbundle import unbundle
from reprobuild.engines import docker, podman
from reprobuild.errors import DistributionError
from reprobuild.image.engine_name import encode_named_index, local_name, own_name, received_name
from reprobuild.image.oci.read import read_layout
from reprobuild.image.oci.write import name_annotations
from reprobuild.output.directory import IMAGE, LOCK, engine_name, read_image, remember_built
from reprobuild.store.roots import gc_root, record_lock
from reprobuild.store.store import Store
from tests.distribute.conftest import Results
from tests.distribute.test_bundle import alone, take
from tests.distribute.test_hostile import remade

FOREIGN = "docker.io/library/python:3.11"
LOCAL = "localhost/myapp:latest"  # as `podman build -t myapp` names the user's own image
LOCK_DIGEST = "0123456789ab" + "c" * 52
MANIFEST_DIGEST = "sha256:" + "8" * 64


def renamed(out: Path, reference: str) -> None:
    """Give the image of a directory of results another name, wherever it stands."""
    _, image = read_image(out)
    index = json.loads((out / "image" / "index.json").read_bytes())
    index["manifests"][0]["annotations"] = name_annotations(reference)
    (out / "image" / "index.json").write_text(json.dumps(index))
    (out / IMAGE).write_bytes(msgspec.json.encode(msgspec.structs.replace(image, reference=reference)))


def in_files(reference: str) -> Callable[[dict[str, bytes]], None]:
    """Return what gives the image of a bundle a name in all of its files."""

    def harm(files: dict[str, bytes]) -> None:
        told = json.loads(files["image.json"])
        files["image.json"] = json.dumps({**told, "reference": reference}).encode()
        index = json.loads(files["image/index.json"])
        index["manifests"][0]["annotations"] = name_annotations(reference)
        files["image/index.json"] = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
        legacy = json.loads(files["image/manifest.json"])
        legacy[0]["RepoTags"] = [reference]
        files["image/manifest.json"] = json.dumps(legacy, sort_keys=True).encode()

    return harm


def second_key(files: dict[str, bytes]) -> None:
    """Go's JSON reads `Annotations` as `annotations`, and the last one counts."""
    foreign = json.dumps(name_annotations(FOREIGN)).encode()
    files["image/index.json"] = files["image/index.json"].replace(
        b'"digest":', b'"Annotations":' + foreign + b',"digest":'
    )


def second_image(files: dict[str, bytes]) -> None:
    index = json.loads(files["image/index.json"])
    other = {**index["manifests"][0], "mediaType": "application/x", "annotations": name_annotations(FOREIGN)}
    index["manifests"].append(other)
    files["image/index.json"] = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()


def second_tag(files: dict[str, bytes]) -> None:
    legacy = json.loads(files["image/manifest.json"])
    legacy[0]["RepoTags"].append(FOREIGN)
    files["image/manifest.json"] = json.dumps(legacy, sort_keys=True).encode()


@pytest.mark.parametrize(
    ("reference", "own"),
    [
        (own_name(LOCK_DIGEST), True), (received_name(LOCK_DIGEST, MANIFEST_DIGEST), True),
        (LOCAL, False), ("localhost/x", False), ("localhost/team/x:1.2_3", False),
        (FOREIGN, False), ("python:3.11", False), ("python", False), ("reprobuild:ffffffffffff", False),
        ("reprobuild:latest", False), (f"localhost/{own_name(LOCK_DIGEST)}", False), ("", False), ("x\n", False),
    ],
)  # fmt: skip
def test_which_names_can_hide_no_other(reference: str, own: bool) -> None:
    said: list[str] = []
    name = received_name(LOCK_DIGEST, MANIFEST_DIGEST)
    assert local_name(reference, LOCK_DIGEST, MANIFEST_DIGEST, said.append) == name
    assert name == f"reprobuild:0123456789ab-{'8' * 32}"
    assert bool(said) != own
    assert all(f"could hide another image: it is loaded as {name}" in line for line in said)
    assert all(line.isprintable() for line in said)


@pytest.mark.parametrize("harm", [in_files(FOREIGN), in_files(LOCAL), second_key, second_image, second_tag])
def test_a_bundle_whose_image_takes_a_foreign_name_is_refused(
    harm: Callable[[dict[str, bytes]], None], results: Results, tmp_path: Path
) -> None:
    remade(results, tmp_path, harm)
    with pytest.raises(DistributionError) as caught:
        take(tmp_path / "bad.tar", tmp_path / "ours", tmp_path / "store")
    assert caught.value.hint
    done = alone(tmp_path / "bad.tar", "-o", tmp_path / "theirs")
    assert done.returncode == 11, done.stderr
    assert not (tmp_path / "ours").exists()
    assert not (tmp_path / "theirs").exists()


OLDEST = "ab" * 32


def oldest_form(files: dict[str, bytes]) -> None:
    """A Docker without manifest.json and blobs reads `repositories`, and gives its names to the directories."""
    for name in [name for name in files if name.startswith("image/blobs/")]:
        del files[name]
    del files["image/manifest.json"]
    files["image/repositories"] = json.dumps({"python": {"3.11": OLDEST}}).encode()
    files[f"image/{OLDEST}/VERSION"] = b"1.0"
    files[f"image/{OLDEST}/json"] = json.dumps({"id": OLDEST, "os": "linux"}).encode()
    files[f"image/{OLDEST}/layer.tar"] = bytes(10240)


def further_file(files: dict[str, bytes]) -> None:
    files["image/repositories"] = json.dumps({"python": {"3.11": OLDEST}}).encode()


def further_folder(files: dict[str, bytes]) -> None:
    files[f"image/{OLDEST}/json"] = b"{}"


def no_manifest(files: dict[str, bytes]) -> None:
    index = json.loads(files["image/index.json"])
    del files[f"image/blobs/sha256/{index['manifests'][0]['digest'][7:]}"]


def no_layout_file(files: dict[str, bytes]) -> None:
    del files["image/oci-layout"]


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (oldest_form, "image/repositories is no file of an image"),
        (further_file, "image/repositories is no file of an image"),
        (further_folder, f"image/{OLDEST} is no file of an image"),
        (no_manifest, "its image lacks blobs/sha256/"),
        (no_layout_file, "its image lacks oci-layout"),
    ],
)
def test_a_bundle_whose_image_docker_reads_in_its_oldest_form(
    harm: Callable[[dict[str, bytes]], None], words: str, results: Results, tmp_path: Path
) -> None:
    remade(results, tmp_path, harm)
    if harm is not no_layout_file:  # which names nothing
        with pytest.raises(DistributionError):
            take(tmp_path / "bad.tar", tmp_path / "ours", tmp_path / "store")
    done = alone(tmp_path / "bad.tar", "-o", tmp_path / "theirs", "--load", "docker")
    assert (done.returncode, words in done.stderr) == (11, True), done.stderr
    assert f"hint: {form.NO_BUNDLE}" in done.stderr
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("foreign", [FOREIGN, LOCAL])
def test_a_bundle_that_states_the_foreign_name_itself(foreign: str, results: Results, tmp_path: Path) -> None:
    """All of its files agree: both programs name the image, and the name that it is to have."""
    lock, _ = read_image(results.out)

    remade(results, tmp_path, in_files(foreign), foreign)
    said = f"the image of the bundle names itself {foreign}, which could hide another image"
    with pytest.raises(DistributionError) as caught:
        take(tmp_path / "bad.tar", tmp_path / "ours", tmp_path / "store")
    assert str(caught.value) == said.replace(foreign, repr(foreign))
    assert (
        caught.value.hint
        == f"ask for a bundle of this reprobuild: in it the image is {own_name(lock.digest)}"
    )
    done = alone(tmp_path / "bad.tar", "-o", tmp_path / "theirs", "--load", "docker")
    assert (done.returncode, done.stderr.splitlines()[0]) == (11, f"error: {said}")
    assert (
        f"hint: ask for a bundle of this reprobuild: in it the image is {own_name(lock.digest)}"
        in done.stderr
    )


def test_bundle_leaves_the_users_own_name_at_home(results: Results, tmp_path: Path) -> None:
    """`--tag registry.example/team/x:1` is a name here; who unpacks the bundle gets one that hides nothing."""
    sent = results.bundle(tmp_path / "plain.tar")
    renamed(results.out, "registry.example/team/x:1")
    again = results.bundle(tmp_path / "b.tar")
    assert again.sha256 == sent.sha256
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    lock, image = read_image(tmp_path / "o")
    assert image.reference == own_name(lock.digest)
    assert b"registry.example" not in b"".join(
        path.read_bytes() for path in (tmp_path / "o").rglob("*") if path.is_file()
    )


def test_a_name_in_localhost_stays_at_home(results: Results, tmp_path: Path) -> None:
    """Podman gives the receiver's own images names in `localhost/`."""
    sent = results.bundle(tmp_path / "plain.tar")
    renamed(results.out, LOCAL)
    (results.out / "image" / "index.json").write_bytes(
        encode_named_index(read_layout(results.out / "image"), LOCAL, read_image(results.out)[0].platform)
    )
    assert results.bundle(tmp_path / "b.tar").sha256 == sent.sha256


@pytest.mark.parametrize("foreign", [FOREIGN, LOCAL])
def test_run_and_verify_load_a_directory_of_others_under_its_own_name(foreign: str, results: Results) -> None:
    """A name that the user gave stays where the store remembers that the image was built here."""
    renamed(results.out, foreign)
    lock, image = read_image(results.out)
    said: list[str] = []
    name = received_name(lock.digest, image.manifest)
    assert engine_name(lock, image, results.out, results.store, said.append) == name
    assert said == [
        f"the image names itself '{foreign}', which could hide another image: it is loaded as {name}"
    ]
    remember_built(image, results.out, results.store)
    assert engine_name(lock, image, results.out, results.store, said.append) == foreign
    assert engine_name(lock, image, results.out, Store(results.out / "other"), said.append) != foreign
    other = results.out.with_name("other")
    results.out.rename(other)
    assert engine_name(lock, image, other, results.store, said.append) == name


def test_the_name_of_another_image_of_the_same_lock_is_not_believed(results: Results) -> None:
    """Another name, tree or manifest in image.json is not what was made in the directory."""
    lock, image = read_image(results.out)
    remember_built(image, results.out, results.store)
    for changed in ({"manifest": f"sha256:{'0' * 64}"}, {"tree": f"sha256:{'0' * 64}"}, {}):
        forged = msgspec.structs.replace(image, reference=LOCAL, **changed)
        name = received_name(lock.digest, forged.manifest)
        assert engine_name(lock, forged, results.out, results.store, [].append) == name


def test_a_record_of_what_is_kept_vouches_for_no_name(results: Results) -> None:
    """The records are not signed: a store that is handed over may bring one, and a build that failed leaves one."""
    renamed(results.out, LOCAL)
    lock, image = read_image(results.out)
    with (
        pytest.raises(IsADirectoryError),
        gc_root(lock, results.out / LOCK, results.store, "build by native"),
    ):
        (results.out / "context").read_bytes()
    assert engine_name(lock, image, results.out, results.store, [].append) == received_name(
        lock.digest, image.manifest
    )
    record_lock(lock, results.out / LOCK, results.store, "build by native")
    assert engine_name(lock, image, results.out, results.store, [].append) == received_name(
        lock.digest, image.manifest
    )


def test_an_image_of_others_does_not_take_the_name_of_an_own_one(results: Results) -> None:
    """Two images of a lock, as an author may write a second one; each run finds its image by the name."""
    lock, image = read_image(results.out)
    remember_built(image, results.out, results.store)
    copy = results.out.with_name("copy")
    shutil.copytree(results.out, copy)
    other = msgspec.structs.replace(image, manifest=f"sha256:{'7' * 64}")
    assert (image.reference, other.reference) == (own_name(lock.digest),) * 2
    names = [
        engine_name(lock, image, results.out, results.store, [].append),
        engine_name(lock, image, copy, results.store, [].append),
        engine_name(lock, other, copy, results.store, [].append),
        engine_name(lock, other, results.out, results.store, [].append),
    ]
    assert names == [
        own_name(lock.digest), received_name(lock.digest, image.manifest),
        received_name(lock.digest, other.manifest), received_name(lock.digest, other.manifest),
    ]  # fmt: skip


def test_docker_gets_one_name_whatever_the_layout_says(results: Results) -> None:
    """Both forms: the layout for containerd's store, the archive of `docker save` for the classic one."""
    renamed(results.out, FOREIGN)
    for write, name in (
        (docker._write_layout_tar, "./index.json"),
        (docker._write_docker_archive, "manifest.json"),
    ):
        stream = io.BytesIO()
        write(results.out / "image", "reprobuild:1", stream)
        stream.seek(0)
        with tarfile.open(fileobj=stream) as tar:
            found = tar.extractfile(name)
            assert found is not None
            content, members = found.read(), tar.getnames()
        assert b"python" not in content
        assert b"reprobuild:1" in content
        assert len(set(members)) == len(members)
        assert not {"./manifest.json", "repositories"} & set(members)


@pytest.mark.parametrize("reference", [FOREIGN, ""])
def test_podman_gets_one_name_whatever_the_layout_says(
    reference: str, results: Results, tmp_path: Path
) -> None:
    """podman names an image by its path or, since version 5, by what its index states."""
    renamed(results.out, reference or read_image(results.out)[1].reference)
    wanted = own_name(read_image(results.out)[0].digest)
    podman._link_layout(results.out / "image", wanted, "reprobuild-x", tmp_path)
    found = read_layout(tmp_path / "reprobuild-x")
    assert found.reference in (wanted, "localhost/reprobuild-x")
    assert b"python" not in (tmp_path / "reprobuild-x" / "index.json").read_bytes()
    assert [found.blob(digest).is_file() for _, digest, _ in found.layers] == [True] * len(found.layers)


def test_the_other_program_tags_the_name_of_the_lock(results: Results, tmp_path: Path) -> None:
    """A stand-in for podman writes down what it is told; the real one is tried in tests/e2e."""
    tool = tmp_path / "bin" / "podman"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\n')
    tool.chmod(0o755)
    results.bundle(tmp_path / "b.tar")
    argv = [sys.executable, "-I", "-S", form.__file__, str(tmp_path / "b.tar"), "-o", str(tmp_path / "o")]
    env = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    done = subprocess.run([*argv, "--load", "podman"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lock, _ = read_image(tmp_path / "o")
    tagged = [
        line.split()[-1] for line in (tmp_path / "said").read_text().splitlines() if line.startswith("tag ")
    ]
    assert tagged == [own_name(lock.digest)]


@pytest.mark.parametrize("signer", ["", "alice@example.org", "x\x1b[2J"])
def test_who_made_the_lock_is_said(signer: str) -> None:
    said = form.origin("b\x1b.tar", bool(signer), signer)
    assert said.isprintable()
    assert said.startswith("the lock is from b\\x1b.tar, ")
    assert ("not signed" in said) == (not signer)
    assert said.endswith(": a build of it, and a run of its image, executes the packages that it names")


def test_both_programs_say_who_made_the_lock(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    heard: list[str] = []

    done: Any = unbundle(
        tmp_path / "b.tar", tmp_path / "o", Store(tmp_path / "s"), os.environ, signers=None, say=heard.append
    )
    sentence = form.origin("b.tar", False, "")
    assert done.origin == sentence
    assert sentence in heard
    said = alone(tmp_path / "b.tar", "-o", tmp_path / "p").stderr
    assert "not signed: a build of it, and a run of its image, executes the packages that it names" in said
    assert "the lock was not checked: `reprobuild unbundle` checks it, and this program cannot" in said
