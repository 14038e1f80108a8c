"""Bundles that were made to harm: nothing leaves its directory, fills the disk, or passes for what it is not."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.distribute import bundle as bundling
from reprobuild.distribute import bundle_contents
from reprobuild.distribute.bundle_contents import BundleFile
from reprobuild.distribute.bundle_writer import write_bundle
from reprobuild.distribute.standalone import unbundle as form
from reprobuild.distribute.unbundle import unbundle
from reprobuild.errors import DistributionError
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, read_image
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.distribute.conftest import Results, make_results
from tests.distribute.test_bundle import ALONE, alone, check_bundle, take
from tests.distribute.test_damage import STATED, refused

X = hashlib.sha256(b"x").hexdigest()
OF_WINDOWS = ("C:train.py", "C:", "a.txt:Zone.Identifier", "NUL", "aux.py", "com1 .x", "LPT\xb2", "x.", "x ")


def item(path: Any, sha256: Any = X, size: Any = 1) -> dict[str, Any]:
    return {"path": path, "sha256": sha256, "size": size}


def write(path: Path, manifest: bytes, content: bytes = b"x" * 4096) -> Path:
    """Write a file that begins with a manifest, whatever is in it."""
    head = form.header("bundle.json", len(manifest), 0)
    path.write_bytes(head + manifest + bytes(form.padding_size(len(manifest))) + content)
    return path


def refused_by_us(file: Path, out: Path) -> tuple[str, str]:
    """Return what is said of a bundle that is not taken, and the hint; the other program has the same lines."""
    with pytest.raises(DistributionError) as caught:
        take(file, out, out.parent / "store")
    assert not out.exists()
    return str(caught.value), caught.value.hint


def manifest(*members: Any, **more: Any) -> bytes:
    return form.encode({"form": 1, "members": list(members), **STATED, **more})


@pytest.mark.parametrize(
    "member",
    [
        item("/etc/passwd"), item("../x"), item("a/../../x"), item("a//x"), item("./x"), item("a/."), item(""),
        item("a\\x"), item("a\x00x"), item("a\nx"), item("a\x1b[2Jx"), item("a/"), item("x" * 256), item("a/" * 600),
        item("\ud800"), item("a\u202ex"), *(item(f"context/{name}/x") for name in OF_WINDOWS),
        item(7), item(None), item(["x"]),
        item("x", size=-1), item("x", size=1 << 60), item("x", size=1.0), item("x", size=True), item("x", size="1"),
        item("x", sha256="X"), item("x", sha256=X.upper()), item("x", sha256=7), item("x", sha256="../" + X[3:]),
        item("image/blobs/sha256/" + "0" * 64), item("store/blobs/00/" + X[:-1] + "0"),
        item("bundle.json"), item("bundle.json.sig"), item("bundle.json/x"), {}, [], "x", 7, None,
    ],
    ids=lambda member: ascii(member)[:60],
)  # fmt: skip
def test_what_no_member_can_be(member: Any, tmp_path: Path) -> None:
    try:
        raw = manifest(member)
    except UnicodeEncodeError:  # half of a character cannot be written so; but it can be escaped
        document = {"digest": "", "form": 1, **STATED, "members": [member]}
        raw = json.dumps(document, indent=1, sort_keys=True).encode() + b"\n"
    said, hint = refused_by_us(write(tmp_path / "b.tar", raw), tmp_path / "out")
    assert "its bundle.json is damaged or hostile: " in said
    assert hint == "is it a file that `reprobuild bundle` wrote?"
    assert all(character.isprintable() for character in said)
    assert {path.name for path in tmp_path.iterdir()} <= {"b.tar", "store"}


@pytest.mark.parametrize(
    "members",
    [
        [item("x"), item("x")], [item("a"), item("a/b", "0" * 64)], [item("a/b"), item("a", "0" * 64)],
        [item("a/b/c"), item("a/b", "0" * 64)], [item("a"), item("b", size=2)],
    ],
)  # fmt: skip
def test_members_that_contradict_each_other(members: list[Any], tmp_path: Path) -> None:
    assert "hostile" in refused_by_us(write(tmp_path / "b.tar", manifest(*members)), tmp_path / "out")[0]


def test_folders_without_end_are_refused() -> None:
    """A path names all directories above it: a short manifest would fill the memory."""
    with pytest.raises(form.RefusedError, match="has more than 32 parts"):
        form.members_of(manifest(item("/".join("a" * 33))))
    paths = [f"context/{number}/" + "/".join(["b" * 30] * 30) for number in range(2000)]
    assert len(form.members_of(manifest(*map(item, paths[:500])))) == 500
    with pytest.raises(form.RefusedError, match="it names too many directories"):
        form.members_of(manifest(*map(item, paths)))


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"form": 1, "form": 1}',
        b'{"form": 1, "members": ' + b"9" * 5000 + b"}", b'{"members": NaN}', b'{"form":1,"members":[]}',
        manifest().replace(b"\n", b"\n "), manifest(item("a"))[:-1], form.encode({"members": [], "form": True}),
        form.encode({"form": 1, "members": 7}), form.encode({"form": 1, "members": {"path": "x"}}),
        form.encode({"form": 1}),
    ],
    ids=lambda raw: ascii(raw)[:40],
)  # fmt: skip
def test_what_no_manifest_can_be(raw: bytes, tmp_path: Path) -> None:
    said, _ = refused_by_us(write(tmp_path / "b.tar", raw), tmp_path / "out")
    assert "hostile" in said or "is no bundle" in said or "its copy was cut" in said or "bytes follow" in said


def _fill(value: bytes, count: int, document: bytes) -> bytes:
    """Put many values where a document has "@": to encode them takes ten seconds."""
    return document.replace(b'"@"', b",".join([value] * count))


_BOMBS: dict[str, Callable[[], bytes]] = {
    "a list of numbers": lambda: _fill(b"1", 1_900_000, b'{"form":1,"digest":"","x":["@"]}'),
    "lists beside all keys": lambda: _fill(b"[]", 1_000_000, manifest(x=["@"])),
    "lists in the image": lambda: _fill(b"1", 1_000_000, manifest(image={**STATED["image"], "tree": ["@"]})),
    "lists in a member": lambda: _fill(b"1", 1_000_000, manifest({**item("a"), "size": ["@"]})),
    "keys of a member": lambda: _fill(b"1", 1_000_000, manifest({**item("a"), "x": ["@"]})),
    "parts": lambda: _fill(b"1", 1_000_000, manifest(parts=[["@"]])),
}


@pytest.mark.parametrize("kind", _BOMBS)
def test_a_manifest_of_other_keys_is_refused_before_it_is_encoded(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of numbers took 45 times its size in memory, and a second for each MiB."""
    raw = _BOMBS[kind]()
    assert len(raw) < form.LARGEST_MANIFEST
    encoded: list[object] = []
    monkeypatch.setattr(form, "encode", encoded.append)
    with pytest.raises(form.RefusedError, match="damaged or hostile"):
        form.members_of(raw)
    assert encoded == []


def test_a_bundle_of_very_many_files_has_a_manifest_that_is_read() -> None:
    many = [item(f"context/wheels/{number:05}-{'n' * 60}.whl", f"{number:064x}") for number in range(20_000)]
    assert len(form.members_of(manifest(*many))) == 20_000
    with pytest.raises(form.RefusedError, match="it has more than 8388608 bytes"):
        form.members_of(b" " * (8 << 20) + manifest())


def test_another_form_is_said_to_be_one(tmp_path: Path) -> None:
    said, hint = refused(write(tmp_path / "b.tar", form.encode({"form": 2, "members": []})), tmp_path / "out")
    assert "it is a bundle of the form 2, and this program reads form 1" in said
    assert hint == "use the unbundle.py that came with it"


@pytest.mark.parametrize("size", [1 << 33, (1 << 23) + 1])
def test_a_manifest_that_says_to_be_huge_is_not_read(size: int, tmp_path: Path) -> None:
    (tmp_path / "b.tar").write_bytes(form.header("bundle.json", size, 0) + b"{}" * 600)
    assert "no bundle, or damaged at its beginning" in refused(tmp_path / "b.tar", tmp_path / "out")[0]


def test_a_bomb_is_refused_before_a_byte_is_written(results: Results, tmp_path: Path) -> None:
    """A sparse file holds the eight terabytes that its manifest names."""
    huge = item("context/huge", "0" * 64, 1 << 43)
    image = [item("image.json"), item("image/index.json")]
    raw = manifest(huge, item("reprobuild.lock"), *image)
    file = write(tmp_path / "b.tar", raw, form.header("context/huge", 1 << 43, 0))
    with form.open_bundle(str(sparse(file, raw))) as bundle:
        assert bundle.end > 1 << 43
    said, hint = refused_by_us(file, tmp_path / "out")
    assert f"{(1 << 43) + 1} bytes are to be unpacked, and " in said
    assert hint == "make room, or name another directory with -o; what is unpacked already is kept"
    assert not [path for path in (tmp_path / ".out.unbundling").rglob("*") if path.is_file()]
    for absent in (item("reprobuild.lock"), *image):
        members = [member for member in (huge, item("reprobuild.lock"), *image) if member != absent]
        raw = manifest(*members)
        sparse(write(tmp_path / "b.tar", raw, form.header("context/huge", 1 << 43, 0)), raw)
        said, _ = refused(tmp_path / "b.tar", tmp_path / "lacking")
        assert f"the bundle holds no {'lock' if absent['path'] == LOCK else absent['path']}, so " in said
        assert not (tmp_path / ".lacking.unbundling").exists()
    many = manifest(*(item(f"context/copy {number}") for number in range(20_000)))
    links = write(tmp_path / "links.tar", many, b"")
    assert "its copy was cut" in refused(links, tmp_path / "out")[0]


def sparse(file: Path, raw: bytes) -> Path:
    """Make a file as long as its manifest wants it; where the file system cannot, as long as it can."""
    members = form.members_of(raw)
    os.truncate(file, form.bundle_size(512 + len(raw) + form.padding_size(len(raw)), members, 0))
    return file


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, b"L", b"x", b"S"]
)
def test_a_header_of_another_kind_than_the_manifest_implies(
    kind: bytes, results: Results, tmp_path: Path
) -> None:
    """Links, devices and records of tar are never looked at: the header is known beforehand, and compared."""
    file = tmp_path / "b.tar"
    results.bundle(file)
    data = bytearray(file.read_bytes())
    with form.open_bundle(str(file)) as bundle:
        member, offset, _ = next(bundle.placed())
    info = tarfile.TarInfo(member.path)
    info.type, info.linkname, info.size = kind, "/etc/passwd", member.size
    data[offset : offset + 512] = info.tobuf(tarfile.USTAR_FORMAT)[:512]
    file.write_bytes(data)
    assert f"the header of {member.path} is not what it must be" in refused(file, tmp_path / "out")[0]


def test_a_link_that_leads_elsewhere(results: Results, tmp_path: Path) -> None:
    file = tmp_path / "b.tar"
    results.bundle(file)
    with form.open_bundle(str(file)) as bundle:
        member, offset, head = next(
            place for place in bundle.placed() if place[0].link and len(place[0].link) < 100
        )
        wrong = form.header(member.path, 0, bundle.epoch, "../../etc/passwd"[: len(member.link)])
        assert len(wrong) == len(head)
    data = bytearray(file.read_bytes())
    data[offset : offset + len(head)] = wrong
    file.write_bytes(data)
    assert f"the header of {member.path} is not" in refused(file, tmp_path / "out")[0]


def test_a_plain_tar_and_a_bundle_inside_another_tar_are_none(results: Results, tmp_path: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        tar.add(results.out / "Dockerfile", arcname="bundle.json")
    (tmp_path / "b.tar").write_bytes(stream.getvalue())
    assert "is no bundle" in refused(tmp_path / "b.tar", tmp_path / "out")[0]
    (tmp_path / "b.tar").write_bytes(b"")
    assert "is no bundle" in refused(tmp_path / "b.tar", tmp_path / "out")[0]


def other_lock(files: dict[str, bytes]) -> None:
    files["reprobuild.lock"] = files["reprobuild.lock"].replace(b'"mylib"', b'"other"')


def no_lock(files: dict[str, bytes]) -> None:
    del files["reprobuild.lock"]


def layout_elsewhere(files: dict[str, bytes]) -> None:
    files["image.json"] = files["image.json"].replace(b'"layout": "image"', b'"layout": "../../image"')


def other_config(files: dict[str, bytes]) -> None:
    told = json.loads(files["image.json"])
    files["image.json"] = json.dumps({**told, "config": "sha256:" + "0" * 64}).encode()


def no_layer(files: dict[str, bytes]) -> None:
    del files[
        max((name for name in files if name.startswith("image/blobs")), key=lambda name: len(files[name]))
    ]


def other_tree(files: dict[str, bytes]) -> None:
    told = json.loads(files["image.json"])
    files["image.json"] = json.dumps({**told, "tree": "sha256:" + "0" * 64}).encode()


def other_certificate(files: dict[str, bytes]) -> None:
    told = json.loads(files["verdict.json"])
    files["verdict.json"] = json.dumps({**told, "image": "sha256:" + "0" * 64}).encode()


def no_certificate(files: dict[str, bytes]) -> None:
    files["verdict.json"] = b"<script>"


def other_for_docker(files: dict[str, bytes]) -> None:
    files["image/manifest.json"] = files["image/manifest.json"].replace(b'"Layers": [', b'"Layers": ["x", ')


def other_lock_beside(files: dict[str, bytes]) -> None:
    lock = files["reprobuild.lock"].replace(b'"mylib"', b'"other"')
    told = json.loads(files["image.json"])
    files["reprobuild.lock"] = lock
    files["image.json"] = json.dumps({**told, "lock": hashlib.sha256(lock).hexdigest()}).encode()
    del files["verdict.json"]


def deep(files: dict[str, bytes]) -> None:
    files["reprobuild.lock"] = b"[" * 200_000


def remade(
    results: Results,
    tmp_path: Path,
    harm: Callable[[dict[str, bytes]], None],
    reference: str = "",
    image: Mapping[str, str] | None = None,
) -> None:
    """Write `bad.tar`, a bundle that is whole, and in which something was changed before it was made.

    `image` is what its manifest states of the image, filled by `harm`.
    """
    results.bundle(tmp_path / "b.tar")
    take(tmp_path / "b.tar", tmp_path / "good", tmp_path / "store")
    told = json.loads((tmp_path / "good" / "bundle.json").read_bytes())
    names = [member["path"] for member in told["members"] if not member["path"].startswith("store")]
    files = {name: (tmp_path / "good" / name).read_bytes() for name in names}
    harm(files)
    members = [item(name, hashlib.sha256(data).hexdigest(), len(data)) for name, data in files.items()]
    told["image"] |= {**(image or {}), "reference": reference or told["image"]["reference"]}
    raw = form.encode({**told, "members": members})
    given = [BundleFile(path=name, content=data) for name, data in files.items()]
    write_bundle(tmp_path / "bad.tar", given, raw, b"", 0)
    assert check_bundle(tmp_path / "bad.tar") == len(files)


@pytest.mark.parametrize(
    "harm",
    [
        other_lock, no_lock, layout_elsewhere, other_config, no_layer, deep, other_tree, other_certificate,
        no_certificate, other_for_docker, other_lock_beside,
    ],
)  # fmt: skip
def test_files_that_do_not_belong_together(
    harm: Callable[[dict[str, bytes]], None], results: Results, tmp_path: Path
) -> None:
    """Each byte is as its manifest says; what the manifest says is wrong."""
    remade(results, tmp_path, harm)
    with pytest.raises(DistributionError) as caught:
        take(tmp_path / "bad.tar", tmp_path / "bad", tmp_path / "store")
    assert caught.value.hint == (
        "is it a file that `reprobuild bundle` wrote?"
        if harm is no_lock
        else "whoever made this bundle made it wrong, or to harm: ask for another one"
    )
    assert not [path for path in tmp_path.iterdir() if "bad" in path.name and path.is_dir()]
    # The other program compares bytes, and the names of the image.
    named = harm in (other_lock, no_lock, deep, other_for_docker, other_lock_beside)
    assert alone(tmp_path / "bad.tar", "-o", tmp_path / "bad").returncode == (11 if named else 0)
    assert not (tmp_path / ".bad.unbundling").exists()
    with pytest.raises(DistributionError):
        take(tmp_path / "bad.tar", tmp_path / "bad", tmp_path / "store")


def test_a_bundle_of_a_lock_whose_names_lead_out_is_refused(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender's own program labels the image with that lock, so all files agree. To follow it overwrote a file."""
    victim = tmp_path / "home" / ".profile"
    victim.parent.mkdir()
    victim.write_bytes(b"the user's own\n")
    honest = (results.out / LOCK).read_bytes()
    name = json.dumps("../" * 24 + str(victim)[1:]).encode()
    evil = honest.replace(b'"some-1.0-py3-none-any.whl"', name)
    assert evil.count(name) == 1
    digest = hashlib.sha256(evil).hexdigest()
    with monkeypatch.context() as sender:
        sender.setattr(Lock, "digest", property(lambda lock: digest))
        liar = make_results(tmp_path / "liar")
        own = read_image(liar.out)
        sender.setattr(bundling, "read_image", lambda out: own)
        (liar.out / LOCK).write_bytes(evil)
        liar.bundle(tmp_path / "bad.tar", parts=frozenset())
    with pytest.raises(DistributionError, match=r"is not a lock: .*`\$\.wheels\[0\]\.file\.filename`"):
        take(tmp_path / "bad.tar", tmp_path / "out", tmp_path / "store")
    assert not (tmp_path / "out").exists()
    theirs, again = tmp_path / "theirs", tmp_path / "again"
    assert alone(tmp_path / "bad.tar", "-o", theirs).returncode == 0  # the other program compares bytes
    done = reprobuild("build", theirs / LOCK, "-o", again, "--store", results.store.root, "--offline")
    assert (done.returncode, "is not a lock" in done.stderr) == (4, True)
    assert victim.read_bytes() == b"the user's own\n"
    assert not again.exists()


def other_page(files: dict[str, bytes]) -> None:
    files["report.html"] = b"<script>fetch('https://elsewhere.example')</script>"


def page_alone(files: dict[str, bytes]) -> None:
    other_page(files)
    del files["verdict.json"]


@pytest.mark.parametrize(
    "name",
    [
        "cluster.json", "cluster/2026-11-01-x/n1.jsonl", "verdict-x.json", "store/locks/x", "\u212a/x", "json.py",
        "pip/x.py", "reprobuild/__init__.py", "reprobuild/x.whl/__init__.py", "reprobuild/a/x.whl", "reprobuild/.whl",
        "reprobuild/x.so", "reprobuild/x.pth", "reprobuild/x.whl.py", "reprobuild",
    ],
)  # fmt: skip
def test_what_no_bundle_of_ours_has_is_not_unpacked(
    name: str, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a check here would write into an output directory would be believed as of that check."""
    told = f"it holds {form.escape_text(name)}, and no bundle of the form 1 does"
    files = (*form.FILES, name)
    with monkeypatch.context() as careless:
        for place in (f"{form.__name__}.FILES", "reprobuild_portable.unbundle.manifest.FILES"):
            careless.setattr(place, files)
        remade(results, tmp_path, lambda files: files.update({name: b"{}"}))
    said, hint = refused(tmp_path / "bad.tar", tmp_path / "out")
    assert told in said
    assert hint == "ask for one that `reprobuild bundle` wrote; one of a newer reprobuild, unpack with that"


def test_the_page_of_a_stranger_is_written_anew(results: Results, tmp_path: Path) -> None:
    remade(results, tmp_path, other_page)
    file, out = tmp_path / "bad.tar", tmp_path / "out"
    good = (tmp_path / "good" / "report.html").read_bytes()
    assert b"Content-Security-Policy" in good
    said = alone(file, "-o", out)
    assert b"elsewhere.example" in (out / "report.html").read_bytes()  # it cannot make pages
    told = "report.html is the sender's page, and was not looked into: open it if you trust the sender"
    assert told in said.stderr.splitlines()
    readme = " ".join((out / "README.md").read_text().split())
    assert "open it if you trust the sender, or have it written anew, by `reprobuild unbundle`" in readme
    for place in (out, tmp_path / "new"):
        done = take(file, place, tmp_path / "store")
        assert (done.new, done.doubted) == (place != out, ("report.html",))
        assert (place / "report.html").read_bytes() == good
    (out / "report.html").write_text("of anybody")
    assert take(file, out, tmp_path / "store").doubted == ()
    assert (out / "report.html").read_bytes() == good
    assert "the sender's page" not in alone(file, "-o", out).stderr


def test_a_page_without_a_certificate_goes(results: Results, tmp_path: Path) -> None:
    remade(results, tmp_path, page_alone)
    done = take(tmp_path / "bad.tar", tmp_path / "out", tmp_path / "store")
    assert done.doubted == ("README.md", "report.html")  # the text says that there is a certificate
    assert not (tmp_path / "out" / "report.html").exists()


def test_papers_that_do_not_follow_from_the_lock_are_named(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reprobuild, with other templates, made the bundle: this one refuses to."""
    render = bundle_contents.render_recipe
    monkeypatch.setattr(
        bundle_contents, "render_recipe", lambda lock: {**render(lock), "Dockerfile": "FROM elsewhere\n"}
    )
    (results.out / "Dockerfile").write_text("FROM elsewhere\n")
    results.bundle(tmp_path / "b.tar")
    monkeypatch.undo()
    told: list[str] = []
    store = Store(tmp_path / "store")
    done = unbundle(tmp_path / "b.tar", tmp_path / "out", store, os.environ, signers=None, say=told.append)
    assert done.doubted == ("Dockerfile",)
    assert "of another reprobuild, or made up, as they do not follow from the lock: Dockerfile" in told


def test_what_stands_in_the_way_is_never_followed(results: Results, tmp_path: Path) -> None:
    """Somebody made the directory of unfinished work a link, or another process is at it."""
    results.bundle(tmp_path / "b.tar")
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    (tmp_path / ".out.unbundling").symlink_to(victim)
    said, hint = refused(tmp_path / "b.tar", tmp_path / "out")
    assert ".out.unbundling: " in said
    assert hint.startswith("mend that, and run it again: it goes on with what stands in ")
    assert [path.name for path in victim.iterdir()] == ["precious"]
    (tmp_path / ".out.unbundling").unlink()
    with form._lock_work(str(tmp_path / ".out.unbundling")):
        said, hint = refused(tmp_path / "b.tar", tmp_path / "out")
    assert "another process unpacks into" in said
    assert hint == "run it again when that has ended"
    shutil.rmtree(tmp_path / ".out.unbundling")
    assert take(tmp_path / "b.tar", tmp_path / "out", tmp_path / "store").new


def test_a_folder_of_unfinished_work_that_is_open_to_others(results: Results, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    work = tmp_path / ".out.unbundling"
    for mode, owner in ((0o777, os.geteuid()), (0o700, 12345)):
        work.mkdir()
        work.chmod(mode)
        os.chown(work, owner, -1)
        said, hint = refused(tmp_path / "b.tar", tmp_path / "out")
        assert f"{work} was made by somebody else, or is open to others" in said
        assert hint == "remove it, or name a directory with -o where nobody else can write"
        work.rmdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "part").symlink_to(victim)
    number = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(FileExistsError):
        form._Part(number, number, "x", lambda size: None)
    os.close(number)
    assert victim.read_text() == "precious"


def test_mutations_of_a_bundle_give_it_whole_or_a_refusal(results: Results, tmp_path: Path) -> None:
    """Pieces are cut, doubled, exchanged and overwritten; no other exception comes, and nothing but the right files."""
    file = tmp_path / "b.tar"
    results.bundle(file)
    data, chance, taken = file.read_bytes(), random.Random(3), 0
    for _ in range(400):
        one, two = sorted(chance.randrange(len(data)) // 512 * 512 for _ in range(2))
        near = chance.randrange(80_000)
        mutated = chance.choice(
            [
                data[:one] + data[two:],
                data[:two] + data[one:],
                data[:near] + chance.randbytes(chance.randrange(1, 600)) + data[near:],
                data[:near] + chance.randbytes(8) + data[near + 8 :],
                data[:one] + data[two : two + 512] + data[one + 512 :],
                data[:near],
            ]
        )
        file.write_bytes(mutated)
        try:
            check_bundle(file)
            taken += 1
            assert mutated == data
        except form.RefusedError:
            assert mutated != data
    assert taken < 10


@pytest.mark.parametrize("name", [None, 7, "", "--all", "a b", "a\nb", "x" * 502])
def test_a_name_that_is_none_goes_to_no_engine(tmp_path: Path, name: Any) -> None:
    raw = manifest(item("README.md"), image={**STATED["image"], "reference": name})
    said, hint = refused_by_us(write(tmp_path / "b.tar", raw), tmp_path / "o")
    assert "its bundle.json is damaged or hostile: " in said
    assert hint == form.NO_BUNDLE
    assert alone(tmp_path / "b.tar", "-o", tmp_path / "o", "--load", "docker").returncode == 11


def test_an_engine_that_reads_nothing_says_why_itself(results: Results, tmp_path: Path) -> None:
    """The real engines are tried in tests/e2e/test_two_clusters.py."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    results.bundle(tmp_path / "b.tar")
    argv = [
        sys.executable,
        "-I",
        "-S",
        str(ALONE),
        str(tmp_path / "b.tar"),
        "-o",
        str(tmp_path / "o"),
        "--load",
        "docker",
    ]
    for path, words in (
        (str(program.parent), "`docker load --quiet` exited 3"),
        ("/nowhere", "docker cannot be run: "),
    ):
        said = subprocess.run(argv, env={"PATH": path}, capture_output=True, text=True, check=False)
        assert said.returncode == 11, said.stderr
        assert words in said.stderr
        assert "hint: " in said.stderr


ODD = ("\x1b[2J\u202ebundle.tar", "b\n::error::planted.tar", "::warning::b.tar", "##vso[x]b.tar")


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("damage", ["none", "beginning", "cut"])
def test_the_name_of_a_bundle_is_escaped(name: str, damage: str, results: Results, tmp_path: Path) -> None:
    """A terminal or a CI server would act on it; the file came from somebody."""
    results.bundle(tmp_path / "b.tar")
    content = (tmp_path / "b.tar").read_bytes()
    (tmp_path / name).write_bytes({"none": content, "beginning": b"x" * 4096, "cut": content[:-4096]}[damage])
    argv = [sys.executable, "-I", "-S", str(ALONE), name, "--check"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (damage == "none")
    assert "b.tar" in done.stderr or "bundle.tar" in done.stderr or "planted.tar" in done.stderr
    assert "##vso[" not in done.stderr
    assert all(line.isprintable() and not line.startswith("::") for line in done.stderr.splitlines())
