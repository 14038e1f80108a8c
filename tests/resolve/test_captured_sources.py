"""Repositories of `reprobuild capture` as sources: what cannot be had, what was lost, and where they stand.

That every file is as it lay on the disk, in every state of a repository, is shown in tests/capture.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.git import repository as reading
from reprobuild.ecosystems.git import tree_listing
from reprobuild.ecosystems.git.restore import remote_bounds
from reprobuild.ecosystems.git.restore.remote_bounds import RemoteAllowance
from reprobuild.errors import BuildError, LockError, ReproError, SnapshotError
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.recipe.render import quote_workdir
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.resolver import _choose_workdir
from reprobuild.resolve.sources import captured_sources
from reprobuild.resolve.sources.captured_sources import rule_losses
from reprobuild.resolve.sources.fetch_commit import NotFetchedError
from reprobuild.snapshot.capture_model import CaptureFacts, LargeFile, Remote
from reprobuild.snapshot.parsers.capture_json import DAMAGED, MOST_REPOSITORIES, parse
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.capture.repositories import git, locked, new_origin, own, take, write
from tests.capture.test_reading import captured, dirty
from tests.resolve.repositories import unreachable


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_an_unpushed_commit_needs_no_remote_beyond_what_it_had(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    out = captured(tmp_path, top, top, cwd=top)
    shutil.rmtree(top)
    (source,), rulings = locked(out, store, own(out))  # of the remote
    found = read_snapshot(out)
    assert found.captured
    (repository,) = found.captured.repositories
    assert source.tree == repository.worktree
    assert (source.name, source.editable, source.installed, source.patch) == (
        "my-lib", True, True, repository.bundle and repository.bundle.sha256,
    )  # fmt: skip
    assert [(r.file, r.outcome) for r in rulings] == [
        ("requirements.txt", "pinned"),
        ("my_lib.diff", "pinned"),
    ]


def test_a_commit_that_is_nowhere(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    git(top, "remote", "set-url", "origin", "http://127.0.0.1:1/origin.git")
    dirty(top)
    take(top, tmp_path / "out")
    shutil.rmtree(top)
    reason = unreachable(locked(tmp_path / "out", store, {}))
    assert re.match(r"commit \w{12} of clone is not in the snapshot \(a remote had it\)", reason)
    assert "http://127.0.0.1:1/origin.git: could not fetch" in reason
    assert reason.endswith("; name a clone, a bundle or an address that has it: --source clone=PATH|URL")
    (tmp_path / "other").mkdir()
    elsewhere = {"clone": str(tmp_path / "elsewhere.bundle")}
    reason = unreachable(locked(tmp_path / "out", store, elsewhere))
    assert "elsewhere.bundle: " in reason
    assert "origin.git" not in reason  # the user's word stands alone


@pytest.mark.parametrize("address", ["fd::0", "ext::sh -c touch% MARK"])
def test_a_remote_that_would_start_a_program_is_not_asked(tmp_path: Path, store: Store, address: str) -> None:
    """Git would read from a descriptor, for as long as a fetch may take, or start the program."""
    top = new_origin(tmp_path)
    git(top, "remote", "set-url", "origin", "http://127.0.0.1:1/origin.git")
    dirty(top)
    take(top, tmp_path / "out")
    path = tmp_path / "out" / "capture.json"
    text = path.read_text()
    assert "http://127.0.0.1:1/origin.git" in text
    path.write_text(text.replace("http://127.0.0.1:1/origin.git", address))
    shutil.rmtree(top)
    begin = time.monotonic()
    assert "git is not given the address" in unreachable(locked(tmp_path / "out", store, {}))
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("more", [0, 30])
def test_remotes_are_not_asked_without_end(
    more: int, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one may be silent for minutes; the repositories inside a repository have remotes of their own."""
    top = new_origin(tmp_path)
    dirty(top)
    take(top, tmp_path / "out")
    path = tmp_path / "out" / "capture.json"
    document = json.loads(path.read_text())
    many = [{"name": f"o{number}", "url": f"http://127.0.0.1:9/{number}"} for number in range(40)]
    document["repositories"][0]["remotes"] = many
    path.write_text(json.dumps(document))
    shutil.rmtree(top)
    clock = iter(range(0, 100_000, 10))
    monkeypatch.setattr(remote_bounds, "MOST_SECONDS", 100)
    monkeypatch.setattr(captured_sources, "monotonic", lambda: next(clock))
    asked: list[str] = []

    def refuse(self: object, url: str, revision: str, *, configured: bool) -> None:
        asked.append(url)
        raise LockError("could not fetch", hint="not in this test")

    monkeypatch.setattr(reading.GitRepository, "fetch_remote", refuse)
    inputs = {"requests": RemoteAllowance()}
    inputs["requests"].spend(more)
    reason = unreachable(locked(tmp_path / "out", store, {}, **inputs))
    assert f"{29 + more // 10} more were not asked after 100 s" in reason
    assert len(asked) == 11 - more // 10
    asked.clear()
    unreachable(locked(tmp_path / "out", store, {"clone": "https://example.org/named"}, **inputs))
    assert asked == ["https://example.org/named"]  # the user's word is always asked


@pytest.mark.parametrize(("count", "fetches"), [(20, 20), (200, 21)])
def test_commits_are_not_asked_without_end(count: int, fetches: int, tmp_path: Path) -> None:
    """Each one that a remote does not have takes a fetch of its own."""
    invented = tuple(f"{number:040x}" for number in range(count))
    asked: list[str] = []

    class Empty:
        def has(self, oid: str) -> bool:
            return False

        def lacking(self, oids: Sequence[str]) -> list[str]:
            return list(oids)

        def fetch_remote(self, url: str, revision: str, *, configured: bool) -> None:
            asked.append(revision)

    (taken,) = take(new_origin(tmp_path), tmp_path / "out")
    remotes = (Remote(name="origin", url="https://example.org/x"),)
    repository = msgspec.structs.replace(taken, remotes=remotes, prerequisites=invented)
    with pytest.raises(NotFetchedError, match="it does not have the commit"):
        captured_sources._fetch_commits(repository, invented, None, Empty(), RemoteAllowance())
    assert asked == [*invented[:20], *[""] * (fetches - 20)]


@pytest.mark.parametrize("bundled", [True, False])
@pytest.mark.parametrize("address", ["{}", "file://{}", "FILE://{}"])
def test_a_capture_opens_no_repository_of_this_machine(
    tmp_path: Path, store: Store, address: str, bundled: bool
) -> None:
    """A capture.json of others may name any directory; the user's word is asked for, and is enough."""
    top = new_origin(tmp_path)
    git(top, "remote", "set-url", "origin", address.format(tmp_path / "origin.git"))
    if bundled:
        dirty(top)
    take(top, tmp_path / "out")
    reason = unreachable(locked(tmp_path / "out", store, {}))
    assert "a snapshot opens no repository of this machine" in reason
    assert reason.endswith(f"; name a clone, a bundle or an address that has it: --source clone={top}")
    (source,), _ = locked(tmp_path / "out", store, {"clone": str(top)})
    assert source.name == "clone"
    shutil.rmtree(top)
    reason = unreachable(locked(tmp_path / "out", store, {}))
    assert "a snapshot opens no repository of this machine" in reason
    assert reason.endswith(f"--source clone={address.format(tmp_path / 'origin.git')}")
    assert not any((tmp_path / "store").rglob("*.pack"))


def test_what_is_there_is_used_where_the_remote_is_gone(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    dirty(top)
    repositories = take(top, tmp_path / "out")
    shutil.rmtree(tmp_path / "origin.git")
    (source,), _ = locked(tmp_path / "out", store, own(tmp_path / "out"))
    assert source.tree == repositories[0].worktree


def test_a_repository_of_another_hash(tmp_path: Path, store: Store) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "--object-format=sha256", ".")
    write(top, "a", b"a\n")
    take(top, tmp_path / "out")
    with pytest.raises(
        LockError, match="top is a repository of sha256, and a lock names trees by sha1"
    ) as err:
        locked(tmp_path / "out", store, {})
    assert err.value.hint == "leave it out with --drop top"
    assert locked(tmp_path / "out", store, {}, drop=("top",)) == ((), ())


def test_a_diff_that_was_changed_is_not_what_is_built(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    out = captured(tmp_path, top, top, cwd=top)
    diff = out / "my_lib.diff"
    diff.write_bytes(diff.read_bytes().replace(b"+in the work tree", b"+in the tree", 1))
    with pytest.raises(
        SnapshotError, match=r"my_lib\.diff was changed after the capture: it has \d+ bytes"
    ) as err:
        locked(out, store, {})
    assert err.value.hint == (
        "what goes into the image is read from the bundle: make the change in the repository, and capture it again"
    )


@pytest.mark.parametrize("where", ["bundle", "worktree", "head"])
def test_a_damaged_capture_is_refused(tmp_path: Path, store: Store, where: str) -> None:
    top = new_origin(tmp_path)
    dirty(top)
    take(top, tmp_path / "out")
    path = tmp_path / "out" / "capture.json"
    document = json.loads(path.read_text())
    repository = document["repositories"][0]
    if where == "bundle":
        bundle = tmp_path / "out" / repository["bundle"]["file"]
        bundle.write_bytes(bundle.read_bytes()[:-30])
    else:
        repository[where] = repository["index"] if where == "worktree" else "0" * 40
    path.write_text(json.dumps(document))
    with pytest.raises(ReproError) as err:
        locked(tmp_path / "out", store, own(tmp_path / "out"))
    assert err.value.hint == DAMAGED
    assert not (store.root / "blobs").exists()


def test_what_was_lost_is_unresolved(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    write(top, "large.bin", bytes(11 << 20))
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 3\n" % (b"a" * 64)
    write(top, ".gitattributes", b"*.dat filter=lfs\n")
    write(top, "small.dat", pointer)
    git(top, "-c", "filter.lfs.clean=cat", "add", ".gitattributes", "small.dat")
    git(top, "commit", "-qm", "pointer")
    take(top, tmp_path / "out")
    _, rulings = locked(tmp_path / "out", store, own(tmp_path / "out"))
    lost = {(r.subject, r.outcome, r.kind) for r in rulings if r.outcome != "pinned"}
    assert ("clone/large.bin", "unresolved", "file-left-out") in lost
    found = read_snapshot(tmp_path / "out").captured
    assert found
    large = LargeFile(path="small.dat", sha256="a" * 64, size=3)
    one = msgspec.structs.replace(found.repositories[0], lfs=(large,), left_out=(), left_out_count=4)
    assert [(r.subject, r.outcome, r.kind) for r in rule_losses(one, found)] == [
        ("clone/...", "unresolved", "file-left-out"), ("clone/small.dat", "unresolved", "lfs-pointer"),
    ]  # fmt: skip


def test_what_is_said_of_a_file_behind_a_clean_filter(tmp_path: Path, store: Store) -> None:
    """git keeps the encrypted form, which is in the tree; of the file on the disk nothing was taken."""
    top = new_origin(tmp_path, {".gitattributes": b"hidden filter=crypt\n", "hidden": b"ENCRYPTED\n"})
    git(top, "config", "filter.crypt.clean", "cat")
    write(top, "hidden", b"the decrypted text\n")
    take(top, tmp_path / "out")
    _, rulings = locked(tmp_path / "out", store, {"clone": str(top)})
    (left,) = [ruling for ruling in rulings if ruling.kind == "file-left-out"]
    assert (left.subject, left.outcome) == ("clone/hidden", "unresolved")
    assert left.reason == (
        "not captured (filtered); the source tree has git's own form of it, or is without it where git does not "
        "track it"
    )


def test_the_places_of_the_captured_machine(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    out = captured(tmp_path, top, top, cwd=top / "dir")
    places = triage_snapshot(read_snapshot(out), Decisions()).places
    assert [source.path for source in locked(out, store, own(out))[0]] == ["/src/my-lib"]
    assert places.move(f"{top}/dir/x.py") == "/src/my-lib/dir/x.py"
    assert places.move(f"{top}/../clone/") == "/src/my-lib"
    assert places.move(f"{top}-other") is None
    assert places.move("/") is None


def test_a_wheel_of_the_folders_name_changes_no_place(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    take(top, tmp_path / "out")
    (tmp_path / "out" / "requirements.txt").write_text("clone==1.0\n")
    (source,), _ = locked(tmp_path / "out", store, own(tmp_path / "out"))
    places = triage_snapshot(read_snapshot(tmp_path / "out"), Decisions()).places
    assert places.move(str(top)) == source.path == "/src/clone"


def edited(out: Path, **fields: object) -> None:
    """Change fields of the only captured repository, or of the document where they are its."""
    path = out / "capture.json"
    document = json.loads(path.read_text())
    for name, value in fields.items():
        (document if name in ("command", "repositories") else document["repositories"][0])[name] = value
    path.write_text(json.dumps(document))


def test_a_folder_with_a_newline_reaches_no_recipe(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    take(top, tmp_path / "out")
    edited(tmp_path / "out", command={"folder": f'"{top}/x\\nRUN touch /pwned"'})  # in git's quotes
    snapshot = read_snapshot(tmp_path / "out")
    sources, _ = locked(tmp_path / "out", store, own(tmp_path / "out"))
    assert _choose_workdir(snapshot, triage_snapshot(snapshot, Decisions()).places, sources) == "/src/clone"
    with pytest.raises(BuildError, match="cannot stand in a recipe") as err:
        quote_workdir("/src/a\nRUN x")
    assert err.value.hint == "make the lock again with `reprobuild lock DIR`"


def test_a_password_of_the_users_source_is_not_told(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    dirty(top)
    take(top, tmp_path / "out")
    origins = {"clone": "http://ada:s3kr1t-pa55@127.0.0.1:1/x.git"}
    reason = unreachable(locked(tmp_path / "out", store, origins))
    assert "127.0.0.1" in reason
    assert "s3kr1t" not in reason


def test_bytecode_of_the_captured_machine_is_left_to_pythons_cache(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    write(top, "pkg/__pycache__/x.cpython-311.pyc", b"stale")
    write(top, "pkg/x.py", b"x = 1\n")
    take(top, tmp_path / "out")
    (source,), _ = locked(tmp_path / "out", store, own(tmp_path / "out"))
    with store.verified(source.file.sha256, source.name).open("rb") as stream:
        names = [entry.path for entry, _ in read_tar(stream)]
    assert "pkg/x.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_a_freeze_of_another_moment_is_refused(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path, project=True)
    dirty(top)
    out = captured(tmp_path, top, top, cwd=top)
    freeze = (out / "requirements.txt").read_text()
    base = json.loads((out / "capture.json").read_text())["repositories"][0]["base"]
    (out / "requirements.txt").write_text(freeze.replace(base, "0" * 39 + "1"))
    with pytest.raises(
        SnapshotError, match=r"commit 000000000000 of my_lib is none that capture\.json knows"
    ) as err:
        locked(out, store, {})
    assert err.value.hint == "the freeze and the capture are of two moments: capture again"


def test_a_project_inside_a_repository_without_a_remote(tmp_path: Path, store: Store) -> None:
    top = new_origin(tmp_path)
    git(top, "remote", "remove", "origin")
    write(top, "pkgs/a/pyproject.toml", b"[project]\n")
    (source,), _ = locked(captured(tmp_path, top, top / "pkgs" / "a", cwd=tmp_path), store, {})
    assert (source.subdirectory, source.url) == ("pkgs/a", "")


@pytest.mark.parametrize("parent", ["clone", "nobody"])
def test_repositories_that_lie_in_themselves_or_nowhere(tmp_path: Path, parent: str) -> None:
    take(new_origin(tmp_path), tmp_path / "out")
    edited(tmp_path / "out", parent=parent)
    with pytest.raises(SnapshotError, match="lies in none that is there, or in itself") as err:
        read_snapshot(tmp_path / "out")
    assert err.value.hint == DAMAGED
    edited(tmp_path / "out", parent=None)
    one = json.loads((tmp_path / "out" / "capture.json").read_text())["repositories"][0]
    edited(tmp_path / "out", repositories=[one, one])
    with pytest.raises(SnapshotError, match="two repositories have one name"):
        read_snapshot(tmp_path / "out")
    one["diff"]["file"] = "clone.diff"
    edited(tmp_path / "out", repositories=[one, {**one, "name": "other"}])
    with pytest.raises(SnapshotError, match="two repositories have one bundle or one diff"):
        read_snapshot(tmp_path / "out")


def test_a_long_chain_of_repositories_is_read_in_linear_time(tmp_path: Path) -> None:
    """20,000 of them took 26 s, since each looked at all those above it."""
    take(new_origin(tmp_path), tmp_path / "out")
    one = json.loads((tmp_path / "out" / "capture.json").read_text())["repositories"][0]

    def chain(count: int) -> list[dict[str, Any]]:
        alone = {**one, "bundle": None, "diff": {**one["diff"], "file": None}}
        return [{**alone, "name": f"r{n}", "parent": f"r{n - 1}" if n else None} for n in range(count)]

    def read(repositories: list[dict[str, Any]]) -> CaptureFacts:
        return parse(json.dumps({"capture": 1, "repositories": repositories}).encode(), "capture.json")

    long = chain(MOST_REPOSITORIES)
    start = time.process_time()
    assert len(read(long).repositories) == MOST_REPOSITORIES
    assert time.process_time() - start < 1
    with pytest.raises(SnapshotError, match="it has more than 4096 repositories"):
        read(chain(MOST_REPOSITORIES + 1))
    with pytest.raises(SnapshotError, match="the repository r0 lies in none that is there, or in itself"):
        read([{**long[0], "parent": "r4095"}, *long[1:]])


def test_a_dropped_folder_has_its_ruling(tmp_path: Path) -> None:
    take(new_origin(tmp_path), tmp_path / "out")
    rulings = triage_snapshot(read_snapshot(tmp_path / "out"), Decisions(drop=("clone",))).rulings
    assert [(r.subject, r.outcome, r.kind) for r in rulings if r.file == "capture.json"] == [
        ("clone", "excluded", "decision")
    ]


def test_the_folder_of_the_job_beside_an_installed_one(tmp_path: Path, store: Store) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    installed, job = new_origin(tmp_path / "one", project=True), new_origin(tmp_path / "two", project=True)
    job = job.rename(job.with_name("my-lib"))
    out = captured(tmp_path, installed, installed, cwd=job)
    sources, rulings = locked(out, store, own(out))
    assert [(s.name, s.path, s.installed) for s in sources] == [
        ("my-lib", "/src/my-lib", True), ("my-lib-job", "/src/my-lib-job", False),
    ]  # fmt: skip
    assert {ruling.outcome for ruling in rulings} == {"pinned"}
    places = triage_snapshot(read_snapshot(out), Decisions()).places
    assert places.move(str(job)) == "/src/my-lib-job"
    assert places.move(str(installed)) == "/src/my-lib"


NESTED = ("inner", "x/inner", "inner", "inner/y")


def nested(tmp_path: Path) -> Path:
    """Return a snapshot of a repository in which the same three files lie again, four levels deep."""
    take(new_origin(tmp_path, {"a": b"a\n", "d/b": b"b\n", "d/c": b"c\n"}), tmp_path / "out")
    (one,) = json.loads((tmp_path / "out" / "capture.json").read_text())["repositories"]
    repositories, parent = [one], one["name"]
    for number, path in enumerate(NESTED):
        repositories.append({**one, "name": f"r{number}", "parent": parent, "path": path})
        parent = f"r{number}"
    edited(tmp_path / "out", repositories=repositories)
    return tmp_path / "out"


def asked_of_git(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows by the name of each command that git gets."""
    asked: list[str] = []
    real = reading.GitRepository._git

    def git_of(self: reading.GitRepository, *words: str, **more: Any) -> bytes:
        asked.append(words[0])
        return real(self, *words, **more)

    monkeypatch.setattr(reading.GitRepository, "_git", git_of)
    return asked


def test_each_of_nested_repositories_is_read_once(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = nested(tmp_path)
    asked = asked_of_git(monkeypatch)
    (source,), _ = locked(out, store, own(out))
    with store.verified(source.file.sha256, source.name).open("rb") as stream:
        files = {entry.path for entry, _ in read_tar(stream) if entry.type == "file"}
    folders = ["/".join(NESTED[:depth]) for depth in range(len(NESTED) + 1)]
    assert files == {f"{folder}/{name}".lstrip("/") for folder in folders for name in ("a", "d/b", "d/c")}
    assert asked.count("ls-tree") == len(folders) + 1  # and the whole tree
    assert [asked.count(name) for name in ("rev-list", "update-index", "write-tree")] == [1, 1, 1]


def test_the_files_of_nested_repositories_are_counted_together(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One tree of a million names, again and again, took 110 s; each has three files and a directory."""
    out = nested(tmp_path)
    monkeypatch.setattr(tree_listing, "MOST_MEMBERS", 4 * (len(NESTED) + 1))
    locked(out, store, own(out))
    monkeypatch.setattr(tree_listing, "MOST_MEMBERS", 9)
    monkeypatch.setattr(captured_sources, "check_paths", None)
    asked = asked_of_git(monkeypatch)
    with pytest.raises(LockError, match="hold more than 9 files and directories") as err:
        locked(out, store, own(out))
    assert err.value.hint == HOSTILE
    assert asked.count("ls-tree") == 3
    assert "write-tree" not in asked


def test_the_names_of_nested_repositories_are_counted_with_their_folders(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = nested(tmp_path)
    for module in (reading, tree_listing):
        monkeypatch.setattr(module, "LISTING", 1 << 12)
    locked(out, store, own(out))
    for number in range(len(NESTED)):
        path = out / "capture.json"
        document = json.loads(path.read_text())
        document["repositories"][number + 1]["path"] = "n" * 200
        path.write_text(json.dumps(document))
    with pytest.raises(LockError, match="4096 bytes of names"):
        locked(out, store, own(out))


@pytest.mark.parametrize("path", ["d", "e"])
def test_files_of_two_repositories_at_one_path_are_refused(tmp_path: Path, store: Store, path: str) -> None:
    take(new_origin(tmp_path, {"b": b"a\n", "d/b": b"b\n"}), tmp_path / "out")
    (one,) = json.loads((tmp_path / "out" / "capture.json").read_text())["repositories"]
    child = {**one, "name": "r0", "parent": one["name"], "path": path}
    edited(tmp_path / "out", repositories=[one, child, {**child, "name": "r1", "path": "e"}])
    with pytest.raises(SnapshotError, match="a tree holds one path twice") as err:
        locked(tmp_path / "out", store, own(tmp_path / "out"))
    assert err.value.hint == DAMAGED
