"""Bundles of an honest lock and image, in which what a person executes is another's."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.distribute.unbundle import unbundle
from reprobuild.errors import DistributionError
from reprobuild.store.store import Store
from tests.distribute.conftest import Results
from tests.distribute.test_bundle import alone, take
from tests.distribute.test_hostile import remade

Files = dict[str, bytes]
SAID = r"does not follow from its lock|is not the one that its image\.json"
EVIL = b"#!/bin/sh\ntouch evil\n"


def named(files: Files, start: str, end: str = "") -> str:
    """Return the one path that begins and ends so."""
    (path,) = (path for path in files if path.startswith(start) and path.endswith(end))
    return path


def changed(start: str, end: str = "") -> Callable[[Files], None]:
    def harm(files: Files) -> None:
        files[named(files, start, end)] = EVIL

    return harm


def added(path: str) -> Callable[[Files], None]:
    def harm(files: Files) -> None:
        files[path] = EVIL

    return harm


def other_sif(files: Files) -> None:
    files["image.sif"] = EVIL
    files["image.json"] = files["image.json"].replace(b'"sif": ""', b'"sif": "sha256:%s"' % (b"0" * 64))


def told_sif(files: Files) -> None:
    other_sif(files)
    digest = hashlib.sha256(EVIL).hexdigest().encode()
    files["image.json"] = files["image.json"].replace(b"0" * 64, digest)


BLOB = f"store/blobs/{hashlib.sha256(EVIL).hexdigest()[:2]}/{hashlib.sha256(EVIL).hexdigest()}"
LAYER = f"image/blobs/sha256/{hashlib.sha256(EVIL).hexdigest()}"


@pytest.mark.parametrize(
    "harm",
    [changed("context/base-"), changed("context/wheels/", ".whl"), changed("context/bytecode/"),
     changed("context/sources/"), changed("sources/"), added("context/evil.sh"), added("context/wheels/.bashrc"),
     added("context/lock-0123456789ab/install.py"), added("context/base-0123456789ab.tar"), added("sources/evil.tar"),
     added("image/evil.sh"), added(LAYER), added(BLOB), other_sif],
)  # fmt: skip
def test_what_does_not_follow_from_the_lock_is_refused(
    harm: Callable[[Files], None], results: Results, tmp_path: Path
) -> None:
    remade(results, tmp_path, harm)
    with pytest.raises(DistributionError, match=SAID) as caught:
        take(tmp_path / "bad.tar", tmp_path / "bad", tmp_path / "new")
    assert (
        caught.value.hint
        == "ask for a bundle of the lock alone, and build from that: `reprobuild build LOCK -o OUT`"
    )
    assert not (tmp_path / "bad").exists()
    assert not (tmp_path / "new" / "blobs" / BLOB[-67:]).exists()
    said = alone(tmp_path / "bad.tar", "-o", tmp_path / "bad")
    if "is no file of an image" in said.stderr:  # of an image the other program takes known files alone
        assert (said.returncode, (tmp_path / "bad").exists()) == (11, False)
        return
    assert said.returncode == 0
    assert (
        "of the image's layers, recipe, context, sources, README.md and programs only the bytes were compared"
        in said.stderr
    )
    with pytest.raises(DistributionError, match=SAID):  # nor where the other program unpacked it
        take(tmp_path / "bad.tar", tmp_path / "bad", tmp_path / "new")


@pytest.mark.parametrize(
    ("start", "end"),
    [("README.md", ""), ("unbundle.py", ""), ("Dockerfile", ""), ("context/lock-", "/install.py"),
     ("context/lock-", "/install.json"), ("context/lock-", "/requirements.txt"), ("context/lock-", "/payload.tar")],
)  # fmt: skip
def test_another_version_could_have_made_it_so_it_is_named(
    start: str, end: str, results: Results, tmp_path: Path
) -> None:
    remade(results, tmp_path, changed(start, end))
    said: list[str] = []
    store = Store(tmp_path / "store")  # the runtime package is there
    file, out = tmp_path / "bad.tar", tmp_path / "bad"
    done = unbundle(file, out, store, os.environ, signers=None, say=said.append)
    assert done.doubted == (named(dict.fromkeys(paths(out), b""), start, end),)
    assert (
        f"of another reprobuild, or made up, as they do not follow from the lock: {done.doubted[0]}" in said
    )
    again = f"`reprobuild build {out}/reprobuild.lock -o {out}`"
    assert f"do not run or follow those: {again} writes the recipe and its context anew" in said


def paths(out: Path) -> list[str]:
    return [path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()]


def test_what_nobody_looks_into_is_named(results: Results, tmp_path: Path) -> None:
    def harm(files: Files) -> None:
        told_sif(files)
        files["reprobuild/evil-1-py3-none-any.whl"] = EVIL

    remade(results, tmp_path, harm)
    said: list[str] = []
    out = tmp_path / "bad"
    done = unbundle(
        tmp_path / "bad.tar", out, Store(tmp_path / "new"), os.environ, signers=None, say=said.append
    )
    assert {"image.sif", "reprobuild/"} <= set(done.doubted)
    again = f"`reprobuild build {out}/reprobuild.lock -o {out} --format sif`"
    assert f"image.sif was not looked into: {again} writes it anew from the layers, which were" in said
    assert (
        "the wheels in reprobuild/ are the sender's, and were not looked into: install reprobuild from elsewhere"
        in said
    )


def test_more_in_a_folder_that_is_there_is_refused(results: Results, tmp_path: Path) -> None:
    """Somebody handed over the directory, unpacked."""
    results.bundle(tmp_path / "b.tar")
    for prepare in (
        lambda out: (out / "context" / "evil.sh").write_bytes(EVIL),
        lambda out: (out / "context" / "evil").symlink_to("/bin"),
        lambda out: (out / "sources" / "evil.tar").symlink_to("/bin/sh"),
    ):
        out = tmp_path / "out"
        take(tmp_path / "b.tar", out, tmp_path / "store")
        prepare(out)
        with pytest.raises(DistributionError, match="evil"):
            take(tmp_path / "b.tar", out, tmp_path / "store")
        shutil.rmtree(out)


def test_the_other_program_takes_layers_that_are_refused_here_and_says_so(
    results: Results, tmp_path: Path
) -> None:
    """Engines disagree on a file beside its whiteout; the one that `--load` names would take it."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name in ("etc/evil", "etc/.wh.evil"):
            tar.addfile(tarfile.TarInfo(name))
    stated: dict[str, str] = {}

    def replaced(files: Files, former: str, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        del files[f"image/blobs/sha256/{former.removeprefix('sha256:')}"]
        files[f"image/blobs/sha256/{digest}"] = content
        return f"sha256:{digest}"

    def harm(files: Files) -> None:
        own = json.loads(files["image.json"])
        form = json.loads(files[f"image/blobs/sha256/{own['manifest'][7:]}"])
        config = json.loads(files[f"image/blobs/sha256/{own['config'][7:]}"])
        layer = form["layers"][-1]
        former = layer["digest"]
        layer |= {
            "digest": replaced(files, former, stream.getvalue()), "size": len(stream.getvalue()),
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
        }  # fmt: skip
        config["rootfs"]["diff_ids"][-1] = layer["digest"]
        form["config"]["digest"] = replaced(files, own["config"], content := json.dumps(config).encode())
        form["config"]["size"] = len(content)
        stated["config"] = form["config"]["digest"]
        stated["manifest"] = replaced(files, own["manifest"], whole := json.dumps(form).encode())
        index = json.loads(files["image/index.json"])
        index["manifests"][0] |= {"digest": stated["manifest"], "size": len(whole)}
        files["image/index.json"] = json.dumps(index, sort_keys=True, separators=(",", ":")).encode()
        for old, new in ((former, layer["digest"]), (own["config"], stated["config"])):
            told = files["image/manifest.json"].replace(old[7:].encode(), new[7:].encode())
            files["image/manifest.json"] = told
        files["image.json"] = json.dumps({**own, **stated}).encode()
        del files["verdict.json"]

    remade(results, tmp_path, harm, image=stated)
    with pytest.raises(DistributionError, match=r"holds /etc/\.wh\.evil behind an entry that engines delete"):
        take(tmp_path / "bad.tar", tmp_path / "bad", tmp_path / "new")
    said = alone(tmp_path / "bad.tar", "-o", tmp_path / "theirs")
    assert said.returncode == 0
    assert (
        "of the image's layers, recipe, context, sources, README.md and programs only the bytes"
        in said.stderr
    )


@pytest.mark.parametrize("top", ["context", "sources", "image", "image/blobs/sha256"])
def test_folders_deeper_than_the_stack_are_refused(
    top: str, results: Results, deep: Callable[[Path], Path], tmp_path: Path
) -> None:
    """Somebody handed over the directory, unpacked: a walk that recurses ended with a traceback."""
    results.bundle(tmp_path / "b.tar")
    out = tmp_path / "out"
    take(tmp_path / "b.tar", out, tmp_path / "store")
    deep(out / top / "e")
    if not top.startswith("image"):
        with pytest.raises(
            DistributionError, match=f"{top}/e/d/.* of the bundle does not follow from its lock"
        ):
            take(tmp_path / "b.tar", out, tmp_path / "store")
        return
    said = alone(tmp_path / "b.tar", "-o", out)
    assert (said.returncode, said.stderr) == (
        11, f"error: {top}/e is no file of an image\n\nhint: is it a file that `reprobuild bundle` wrote?\n",
    )  # fmt: skip


def test_an_honest_bundle_of_less_has_no_doubts(results: Results, tmp_path: Path) -> None:
    for number, parts in enumerate(({"context"}, {"wheels", "context"}, {"debs"}, set())):
        file, out = tmp_path / f"{number}.tar", tmp_path / str(number)
        results.bundle(file, parts=frozenset(parts))
        assert take(file, out, tmp_path / f"store {number}").doubted == ()
        assert json.loads((out / "bundle.json").read_bytes())["parts"] == sorted(parts)


def test_a_linked_context_that_the_bundle_does_not_have_is_refused(results: Results, tmp_path: Path) -> None:
    """What it leads to can be filled later."""
    results.bundle(tmp_path / "b.tar", parts=frozenset())
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "o" / "context").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DistributionError, match="'context' of the bundle does not follow from its lock"):
        take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
