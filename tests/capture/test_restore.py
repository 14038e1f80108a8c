"""Captures that are damaged or made to harm are refused by name, before a byte is written where it must not be."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from reprobuild.ecosystems.git.restore.restore import restore_repository
from reprobuild.errors import ReproError, SnapshotError
from reprobuild.infra import proc
from reprobuild.snapshot.parsers.capture_json import DAMAGED, load_capture, unquote_path
from reprobuild_runtime import capture
from tests.capture.repositories import ENV, document, git, new_origin, take, write
from tests.untrusted.fuzz import resident

Change = Callable[[dict[str, Any]], None]


def again(snapshot: Path, **more: Any) -> None:
    folder = snapshot.parent
    origins = {"clone": str(folder / "origin.git")}
    restore_repository(
        load_capture(snapshot).repositories,
        "clone",
        snapshot,
        folder / "again",
        ENV,
        more.get("origins", origins),
    )


def change(snapshot: Path, how: Change) -> None:
    found = document(snapshot)
    how(found["repositories"][0])
    (snapshot / "capture.json").write_text(json.dumps(found))


def refused(snapshot: Path, match: str, hint: str = DAMAGED, **more: Any) -> None:
    before = {path for path in snapshot.parent.rglob("*") if "again" not in path.parts}
    with pytest.raises(SnapshotError, match=match) as caught:
        again(snapshot, **more)
    assert hint in caught.value.hint
    assert {path for path in snapshot.parent.rglob("*") if "again" not in path.parts} == before


def test_the_hint_on_damage() -> None:
    assert (
        DAMAGED == "the snapshot is damaged or made to harm: take it again, or get it from where it was taken"
    )


def test_the_good_one_is_restored(snapshot: Path) -> None:
    again(snapshot)
    assert (snapshot.parent / "again" / "kept.py").read_bytes() == b"changed\n"


def test_remotes_are_restored_by_few_runs_of_git(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`git config` writes the whole file for each value."""
    urls = {f"r{number}": f"https://example.org/{number}" for number in range(995)}
    urls |= {"x.y": "", "q": 'C:\\a "b"\\', "c": " /a;b #c = [d] ", "u\xe9": "https://example.org/\xe9"}
    rows = [{"name": name, "url": url} for name, url in [("q", "former"), *urls.items()]]
    change(snapshot, lambda found: found.update(remotes=rows))
    runs: list[list[str]] = []
    run = proc.run

    def count(argv: list[str], **options: Any) -> bytes:
        runs.append(argv)
        return run(argv, **options)

    monkeypatch.setattr(proc, "run", count)
    again(snapshot)
    assert len(runs) < 40
    top = snapshot.parent / "again"
    for name, value in (
        ("url", dict(urls)),
        ("fetch", {n: f"+refs/heads/*:refs/remotes/{n}/*" for n in urls}),
    ):
        listed = git(top, "config", "--local", "-z", "--get-regexp", rf"^remote\..*\.{name}$").decode()
        assert dict(row.split("\n", 1) for row in listed.split("\0")[:-1]) == {
            f"remote.{remote}.{name}": text for remote, text in value.items()
        }
        assert listed.count("\0") == len(urls)


@given(st.binary(min_size=1).filter(lambda name: b"\0" not in name))
def test_names_are_quoted_and_unquoted(name: bytes) -> None:
    assert unquote_path(capture.quote(name)) == name
    assert capture.quote(name).isprintable()


@pytest.mark.parametrize(
    ("how", "match"),
    [
        (lambda r: r["bundle"].update(file="../origin.git"), r"capture\.json.*bundle\.file"),
        (lambda r: r["bundle"].update(file="no.bundle"), r"no\.bundle is missing"),
        (lambda r: r["bundle"].update(sha256="0" * 64), r"clone\.bundle is not the file that was written"),
        (lambda r: r["bundle"]["refs"].update(head="1" * 40), "other refs or prerequisites"),
        (lambda r: r["bundle"]["refs"].pop("index"), "other refs or prerequisites"),
        (lambda r: r["bundle"]["refs"].update(main="1" * 40), r"refs"),
        (lambda r: r.update(head="--upload-pack=evil"), r"capture\.json.*head"),
        (lambda r: r.update(prerequisites=["HEAD"]), r"capture\.json.*prerequisites"),
        (lambda r: r.update(index="1" * 40), "its index is another one"),
        (lambda r: r.update(worktree="1" * 40), "its worktree is another one"),
        (lambda r: r.update(branch="refs/heads/../../config"), "is no name of a branch"),
        (lambda r: r.update(branch="refs/tags/x"), "is no name of a branch"),
        (lambda r: r.update(branch=None, head=None, bundle=None), "neither a commit nor a branch|is missing"),
        (lambda r: r["settings"].update({"core.fsmonitor": "evil"}), r"the setting core\.fsmonitor=evil"),
        (lambda r: r["settings"].update({"core.autocrlf": "!evil"}), r"the setting core\.autocrlf=!evil"),
        (lambda r: r["flags"].update({"skip-worktree": ["../x"]}), r"\$\.repositories.*flags"),
        (lambda r: r.update(unmerged=[["100644", "1" * 40, "2", ".git/hooks/x"]]), "inside a git directory"),
        (lambda r: r.update(object_format="md5"), "object_format"),
        (lambda r: r.update(name="../clone"), "name"),
        (
            lambda r: r.update(remotes=[{"name": f"r{n}", "url": "https://example.org/r"} for n in range(1001)]),
            r"capture\.json: Expected `array` of length <= 1000 - at `\$\.repositories\[0\]\.remotes`",
        ),
    ],
)  # fmt: skip
def test_what_capture_json_must_not_say(how: Change, match: str, snapshot: Path) -> None:
    change(snapshot, how)
    refused(snapshot, match)


def pack_of(folder: Path, entries: list[tuple[bytes, bytes, bytes]]) -> tuple[str, str, bytes]:
    """Return (commit, tree, pack) of a tree of exactly these (mode, path, content or subtree id)."""
    store = folder / "evil.git"
    if not store.exists():
        git(folder, "init", "-q", "--bare", store)
    tree = tree_of(store, entries)
    commit = git(store, "commit-tree", "-m", "evil", tree).decode().strip()
    words = ("pack-objects", "--revs", "--stdout", "-q")
    return commit, tree, git(store, *words, stdin=commit.encode() + b"\n")


def tree_of(store: Path, entries: list[tuple[bytes, bytes, bytes]]) -> str:
    raw = b""
    known: dict[bytes, bytes] = {}  # many names may have one content
    for mode, name, content in entries:
        if mode != b"40000" and content not in known:
            known[content] = git(store, "hash-object", "-w", "--stdin", stdin=content).strip()
        oid = content if mode == b"40000" else known[content]
        raw += mode + b" " + name + b"\0" + bytes.fromhex(oid.decode())
    return git(store, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=raw).decode().strip()


def plant(snapshot: Path, commit: str, tree: str, pack: bytes, ref: str = "worktree") -> None:
    """Let the snapshot's bundle hold a hostile tree, with every hash as it must be."""
    good = pack_of(snapshot.parent, [(b"100644", b"good", b"good\n")])
    rows = {"head": good[0], "index": good[0], "worktree": good[0], ref: commit}
    store = snapshot.parent / "evil.git"
    both = git(store, "pack-objects", "--revs", "--stdout", "-q", stdin=f"{good[0]}\n{commit}\n".encode())
    header = "# v2 git bundle\n" + "".join(
        f"{oid} refs/reprobuild/{name}\n" for name, oid in sorted(rows.items())
    )
    data = header.encode() + b"\n" + both
    (snapshot / "clone.bundle").write_bytes(data)

    def how(r: dict[str, Any]) -> None:
        r["bundle"].update(sha256=hashlib.sha256(data).hexdigest(), refs=rows)
        r.update(prerequisites=[], head=good[0], index=good[1], worktree=good[1])
        r[ref] = tree

    change(snapshot, how)


def evil_entries(store: Path, kind: str) -> list[tuple[bytes, bytes, bytes]]:
    inner = tree_of(store, [(b"100755", b"post-checkout", b"#!/bin/sh\n")]).encode()
    return {
        "dot-git": [(b"40000", b".git", inner)],
        "dot-GIT": [(b"40000", b".GIT", inner)],
        "git-with-dots": [(b"40000", b".git. ", inner)],
        "git-short": [(b"40000", b"GIT~1", inner)],
        "git-unseen": [(b"40000", ".g\u200cit".encode(), inner)],
        "git-stream": [(b"40000", b".git::$INDEX_ALLOCATION", inner)],
        "git-file": [(b"100644", b".git", b"gitdir: /elsewhere\n")],
        "up": [(b"40000", b"..", inner)],
        "here": [(b"40000", b".", inner)],
        "slash": [(b"100644", b"a/../../b", b"x")],
        "absolute": [(b"100644", b"/tmp/b", b"x")],
        "link-and-folder": [(b"120000", b"a", b"/tmp"), (b"40000", b"a", inner)],
        "twice": [(b"100644", b"a", b"x"), (b"100644", b"a", b"y")],
        "link-to-nothing": [(b"120000", b"a", b"")],
    }[kind]


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("dot-git", "inside a git directory"), ("dot-GIT", "inside a git directory"),
        ("git-with-dots", "inside a git directory"), ("git-short", "inside a git directory"),
        ("git-unseen", "inside a git directory"), ("git-stream", "inside a git directory"),
        ("git-file", "inside a git directory"), ("up", "unsafe path|damaged"), ("here", "unsafe path|damaged"),
        ("slash", "unsafe path|damaged"), ("absolute", "unsafe path|damaged"),
        ("link-and-folder", "lies below it|twice"), ("twice", "one path twice"),
        ("link-to-nothing", "a link to the impossible"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ref", ["worktree", "index"])
def test_hostile_trees(kind: str, match: str, ref: str, snapshot: Path) -> None:
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    entries = evil_entries(snapshot.parent / "evil.git", kind)
    plant(snapshot, *pack_of(snapshot.parent, entries), ref=ref)
    if (kind, ref) == ("link-to-nothing", "index"):  # it is not written, and git's own affair
        again(snapshot)
        return
    refused(snapshot, match)


def test_the_way_in_which_hostile_trees_are_planted_works(snapshot: Path) -> None:
    plant(snapshot, *pack_of(snapshot.parent, [(b"100755", b"fine", b"x")]))
    again(snapshot)
    assert (snapshot.parent / "again" / "fine").read_bytes() == b"x"


def test_odd_refs_in_a_bundle(snapshot: Path) -> None:
    bundle = snapshot / "clone.bundle"
    header, mark, pack = bundle.read_bytes().partition(b"\n\nPACK")
    data = header + b"\n" + b"1" * 40 + b" refs/heads/main" + mark + pack
    bundle.write_bytes(data)
    change(snapshot, lambda r: r["bundle"].update(sha256=hashlib.sha256(data).hexdigest()))
    refused(snapshot, r"clone\.bundle holds other refs")


def test_a_bundle_with_another_head(snapshot: Path) -> None:
    change(snapshot, lambda r: r.update(head="1" * 40))
    refused(snapshot, "another HEAD")


def test_a_bundle_that_is_a_link(snapshot: Path) -> None:
    (snapshot / "clone.bundle").rename(snapshot.parent / "moved")
    (snapshot / "clone.bundle").symlink_to(snapshot.parent / "moved")
    refused(snapshot, "missing or no file")


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda data: data[:-30], "its pack is cut short"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "damaged or lacks objects"),
    ],
)
def test_a_damaged_bundle(damage: Callable[[bytes], bytes], match: str, snapshot: Path) -> None:
    data = damage((snapshot / "clone.bundle").read_bytes())
    (snapshot / "clone.bundle").write_bytes(data)
    change(snapshot, lambda r: r["bundle"].update(sha256=hashlib.sha256(data).hexdigest()))
    refused(snapshot, match)


@pytest.mark.parametrize(
    ("path", "match"),
    [
        ("../outside", r"\$\.repositories.*path"),
        ("a/../../b", r"\$\.repositories.*path"),
        (".git/x", "git directory"),
        ("kept.py/x", "lies below it"),
        ("link/x", "lies below it"),
    ],
)
def test_inner_repositories_stay_inside(path: str, match: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    (top / "link").symlink_to("/tmp")
    inner = top / "inner"
    inner.mkdir()
    git(inner, "init", "-q", ".")
    write(inner, "a", b"a\n")
    out = tmp_path / "snapshot"
    take(top, out)
    found = document(out)
    assert found["repositories"][1]["parent"] == "clone"
    found["repositories"][1]["path"] = path
    (out / "capture.json").write_text(json.dumps(found))
    refused(out, match)


def test_no_capture_json(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    refused(tmp_path, "No such file", "only snapshots of `reprobuild capture` hold whole repositories")


def test_a_newer_capture_json(snapshot: Path) -> None:
    (snapshot / "capture.json").write_text('{"capture": 2}')
    refused(snapshot, "version 2", "read it with the reprobuild that took it, or a newer one")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        '{"capture": 1, "repositories": 3}',
        '{"capture": 1, "repositories": [{}]}',
    ],
)
def test_damaged_capture_json(text: str, snapshot: Path) -> None:
    (snapshot / "capture.json").write_text(text)
    refused(snapshot, r"capture\.json")


def test_a_name_that_was_not_captured(snapshot: Path) -> None:
    with pytest.raises(SnapshotError, match="no repository `other`") as caught:
        restore_repository(
            load_capture(snapshot).repositories, "other", snapshot, snapshot.parent / "again", ENV
        )
    assert caught.value.hint == "there are: clone"
    with pytest.raises(SnapshotError) as caught:
        restore_repository((), "other", snapshot, snapshot.parent / "again", ENV)
    assert caught.value.hint == "there are: " + "none"


def test_a_target_that_is_in_use(snapshot: Path) -> None:
    write(snapshot.parent, "again/mine", b"mine")
    refused(snapshot, "is not empty", "name a directory that is not there yet")
    assert [path.name for path in (snapshot.parent / "again").iterdir()] == ["mine"]


def test_without_the_commits_that_a_remote_had(snapshot: Path) -> None:
    place, remote = snapshot.parent / "clone", snapshot.parent / "origin.git"
    hint = f"name a clone or an address that has it: --source clone={place}; the remotes were: {remote}"
    refused(snapshot, "not in the snapshot: a remote had it", hint, origins={})


def test_an_origin_without_the_commit(snapshot: Path) -> None:
    other = snapshot.parent / "other"
    other.mkdir()
    new_origin(other, {"x": b"x"})
    refused(
        snapshot,
        "is not in .*other",
        "name a clone or an address",
        origins={"clone": str(other / "origin.git")},
    )


def test_a_bundle_that_was_too_large(snapshot: Path) -> None:
    change(snapshot, lambda r: r.update(bundle={"file": None, "reason": "too-large"}))
    refused(
        snapshot,
        r"not captured \(too-large\)",
        "capture it again; `capture.json` says which budget was too small",
    )


# --- damage of any kind ------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["../x", ".git", "-x", "0" * 40]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    top = new_origin(folder)
    write(top, "kept.py", b"changed\n" * 50)
    write(top, "new", b"new\n")
    git(top, "add", "-N", "new")
    take(top, folder / "snapshot")
    return folder


def tried(good: Path, found: dict[str, Any], bundle: bytes) -> None:
    """Restore a damaged copy: it works or is refused, and nothing is written beside it."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "snapshot").mkdir()
        (folder / "snapshot" / "capture.json").write_text(json.dumps(found))
        (folder / "snapshot" / "clone.bundle").write_bytes(bundle)
        with contextlib.suppress(ReproError):
            repositories = load_capture(folder / "snapshot").repositories
            origins = {"clone": str(good / "origin.git")}
            restore_repository(repositories, "clone", folder / "snapshot", folder / "again", ENV, origins)
        assert {path.name for path in folder.iterdir()} <= {"snapshot", "again"}
        assert {path.name for path in (folder / "snapshot").iterdir()} == {"capture.json", "clone.bundle"}


@settings(max_examples=60)
@given(st.data())
def test_any_other_value_in_capture_json(good: Path, data: st.DataObject) -> None:
    found = document(good / "snapshot")
    at: Any = found["repositories"][0]
    key = data.draw(st.sampled_from(sorted(at)))
    while isinstance(at[key], dict) and at[key] and data.draw(st.booleans()):
        at = at[key]
        key = data.draw(st.sampled_from(sorted(at)))
    at[key] = data.draw(JSON)
    tried(good, found, (good / "snapshot" / "clone.bundle").read_bytes())


@settings(max_examples=30)
@given(st.integers(min_value=0), st.integers(1, 255))
def test_any_other_byte_in_a_bundle(good: Path, place: int, flip: int) -> None:
    found = document(good / "snapshot")
    bundle = bytearray((good / "snapshot" / "clone.bundle").read_bytes())
    bundle[place % len(bundle)] ^= flip
    found["repositories"][0]["bundle"]["sha256"] = hashlib.sha256(bundle).hexdigest()
    tried(good, found, bytes(bundle))


@pytest.mark.parametrize(
    ("size", "match"),
    [
        (12 << 30, "has 12884901888 bytes, and at most 4294967296 are read"),
        (3 << 30, "not the file that was written"),
    ],
)
def test_a_sparse_bundle_is_not_taken_into_memory(snapshot: Path, size: int, match: str) -> None:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew: proc_pid_clear_refs(5)
    before = resident("VmRSS")
    (path,) = snapshot.glob("*.bundle")
    with path.open("r+b") as stream:
        stream.truncate(0)
        stream.truncate(size)
    refused(snapshot, match)
    assert resident("VmHWM") - before < 300 << 20
