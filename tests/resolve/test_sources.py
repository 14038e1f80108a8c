"""Commit plus captured changes: real repositories, and git's own ids as the judge."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from reprobuild.config.override_text import describe_decisions
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.errors import LockError, ReproError, SnapshotError, UsageError
from reprobuild.infra.git.addresses import RepositoryAddress, local_origin_lines, read_origin
from reprobuild.infra.git.command import OPTIONS
from reprobuild.infra.http.client import Net
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import read_tar
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.source_lines import lock_sources, name_repositories
from reprobuild.resolve.sources.trees import SourceInputs, resolve_sources
from reprobuild.snapshot.model import Patch
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.resolve.repositories import (
    DATE,
    ENV,
    FILES,
    Project,
    binary,
    edit,
    patch,
    requirement,
    unreachable,
)
from tests.resolve.small import around
from tests.snapshot.samples import SECRETS


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "proj")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def resolve(
    store: Store, *lines: str, patches: tuple[Patch, ...] = (), origins: Mapping[str, str] | None = None,
    folder: Path = Path("/nonexistent"), env: Mapping[str, str] = ENV, accept: Collection[str] = (),
) -> tuple[tuple[Source, ...], tuple[Resolution, ...]]:  # fmt: skip
    found: dict[str, RepositoryAddress] = {
        name: read_origin(place, folder) for name, place in (origins or {}).items()
    }
    given = SourceInputs(patches=patches, origins=found, store=store, env=env, accept=accept)
    return resolve_sources(tuple(map(requirement, lines)), given)


def line(commit: str) -> str:
    return f"-e git+https://example.invalid/org/proj.git@{commit}#egg=proj"


def content(store: Store, source: Source) -> dict[str, tuple[TarEntry, bytes]]:
    with store.verified(source.file.sha256, source.name).open("rb") as stream:
        return {e.path: (e, read() if e.type == "file" else b"") for e, read in read_tar(stream)}


def test_a_commit_becomes_exactly_its_tree(project: Project, store: Store) -> None:
    (source,), (ruling,) = resolve(store, line(project.head), origins={"proj": str(project.path)})
    assert (source.commit, source.tree) == (project.head, project.ask("rev-parse", "HEAD^{tree}"))
    assert (source.name, source.path, source.editable, source.patch) == ("proj", "/src/proj", True, None)
    assert source.epoch == DATE
    found = content(store, source)
    assert {path: data for path, (entry, data) in found.items() if entry.type == "file"} == FILES
    assert found["pkg"][0].type == "directory"
    assert (found["pkg/link"][0].type, found["pkg/link"][0].target) == ("symlink", "../mod.py")
    assert [found[p][0].mode for p in ("pkg/tool.sh", "mod.py", "pkg")] == [0o755, 0o644, 0o755]
    assert source.file.size == store.blob(source.file.sha256).stat().st_size
    assert (ruling.outcome, ruling.subject, ruling.line) == ("pinned", "proj", 1)
    assert ruling.captured == line(project.head)


@pytest.mark.parametrize(
    "committer",
    [
        "", "committer a\n", "committer a <a> now +0000\n", "committer a <a> 253402300800 +0000\n",
        f"committer a <a> {2**64 - 1} +0000\n", f"committer a <a> {10**30} +0000\n",
        f"committer a <a> {'9' * 5000} +0000\n",
    ],
)  # fmt: skip
def test_a_commit_without_a_valid_date_is_refused(committer: str, project: Project, store: Store) -> None:
    text = f"tree {project.ask('rev-parse', 'HEAD^{tree}')}\nauthor a <a> 1 +0000\n{committer}\nx\n"
    made = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin"], input=text.encode(),
        cwd=project.path, env=ENV, check=True, capture_output=True,
    )  # fmt: skip
    commit = made.stdout.decode().strip()
    (project.path / ".git" / "refs" / "heads" / "odd").write_text(f"{commit}\n")
    with pytest.raises(LockError) as err:
        resolve(store, line(commit), origins={"proj": str(project.path)})
    assert str(err.value) == f"commit {commit[:12]} of proj has no date from 1970 to 9999"
    assert err.value.hint == "take another commit, or leave it out with --drop proj"


def modes(project: Project) -> None:
    (project.path / "mod.py").chmod(0o755)
    (project.path / "pkg/tool.sh").chmod(0o644)


def links(project: Project) -> None:
    (project.path / "pkg/link").unlink()
    (project.path / "pkg/link").symlink_to("tool.sh")
    (project.path / "mod.py").unlink()
    (project.path / "mod.py").symlink_to("elsewhere")


def added(project: Project) -> None:
    project.write("new/file.py", b"new\n")
    project.write("new/empty", b"")
    project.git("add", "--intent-to-add", "--all")


def removed(project: Project) -> None:
    (project.path / "crlf.txt").unlink()
    (project.path / "pkg/data.bin").unlink()


def odd_texts(project: Project) -> None:
    project.write("crlf.txt", b"one\r\nthree\r\n")
    project.write("gr\u00fc\u00dfe \u4e2d.txt", b"no newline")


@pytest.mark.parametrize(
    ("change", "options"),
    [
        *((change, ("--binary",)) for change in (edit, binary, modes, links, added, removed, odd_texts)),
        *((change, ("--binary", "--no-prefix")) for change in (edit, links, added)),
        (edit, ("--full-index",)),
    ],
)
def test_captured_changes_are_in_the_tree(
    project: Project, store: Store, change: Callable[[Project], None], options: tuple[str, ...]
) -> None:
    change(project)
    captured = patch(project.diff(*options))
    (source,), rulings = resolve(
        store, line(project.head), patches=(captured,), origins={"proj": str(project.path)}
    )
    assert source.tree == project.worktree_id()
    assert source.tree != project.ask("rev-parse", "HEAD^{tree}")
    assert source.patch is not None
    assert [(r.file, r.outcome) for r in rulings] == [("requirements.txt", "pinned"), ("proj.diff", "pinned")]
    files = {path: data for path, (entry, data) in content(store, source).items() if entry.type == "file"}
    assert files == {
        str(path.relative_to(project.path)): path.read_bytes()
        for path in project.path.rglob("*")
        if path.is_file() and not path.is_symlink() and ".git" not in path.relative_to(project.path).parts
    }


def test_a_diff_is_matched_by_what_it_was_made_on(project: Project, store: Store) -> None:
    edit(project)
    fits, stray = patch(project.diff(), "x.whl.diff"), patch(project.diff(), "work.diff")
    other = Project(project.path.parent / "other", {"a.py": b"1\n"})
    other.write("a.py", b"2\n")
    stray = patch(other.diff(), "work.diff")
    (source,), rulings = resolve(
        store, line(project.head), patches=(stray, fits), origins={"proj": str(project.path)}
    )
    assert source.tree == project.worktree_id()
    assert [(r.file, r.outcome, r.kind) for r in rulings[1:]] == [
        ("x.whl.diff", "pinned", ""), ("work.diff", "unresolved", "stray-diff"),
    ]  # fmt: skip


def test_two_projects_of_one_repository_share_its_diff(project: Project, store: Store) -> None:
    edit(project)
    lines = [f"-e git+https://example.invalid/mono.git@{project.head}#egg={n}&subdirectory={n}" for n in "ab"]
    origins = dict.fromkeys("ab", str(project.path))
    sources, rulings = resolve(store, *lines, patches=(patch(project.diff(), "mono.diff"),), origins=origins)
    assert [(s.name, s.subdirectory, s.tree) for s in sources] == [
        (name, name, project.worktree_id()) for name in "ab"
    ]
    assert {ruling.outcome for ruling in rulings} == {"pinned"}


def test_a_bundle_and_an_address_give_the_same_source(project: Project, store: Store, tmp_path: Path) -> None:
    bundle = project.bundle(tmp_path / "proj.bundle")
    places = [str(bundle), "proj.bundle", str(project.path), f"file://{project.path}"]
    found = {
        resolve(store, line(project.head), origins={"proj": place}, folder=tmp_path)[0] for place in places
    }
    assert len(found) == 1


def test_the_captured_address_is_fetched(project: Project, store: Store, tmp_path: Path) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "file://{project.path}"]\n\tinsteadOf = https://example.invalid/proj.git\n')
    for text in (
        f"proj @ git+https://example.invalid/proj.git@{project.head}",
        f"-e git+https://example.invalid/proj.git@{project.head}#egg=proj",
    ):
        (source,), _ = resolve(store, text, env={**ENV, "GIT_CONFIG_GLOBAL": str(config)})
        assert source.tree == project.ask("rev-parse", "HEAD^{tree}")
        assert source.editable == text.startswith("-e")


def test_a_line_opens_no_repository_of_this_machine(project: Project, store: Store) -> None:
    """The user's word is asked for, and is enough."""
    place = f"file://{project.path}"
    for text in (f"proj @ git+{place}@{project.head}", f"-e git+{place}@{project.head[:9]}#egg=proj"):
        sources, (ruling,) = resolve(store, text)
        assert (sources, ruling.outcome, ruling.kind) == ((), "unresolved", "no-source")
        assert ruling.reason == (
            f"the repository of proj is {place}, and a snapshot opens no repository of this machine; "
            f"name it with --source proj={place}"
        )
        (source,), _ = resolve(store, text, origins={"proj": ruling.reason.rpartition("proj=")[2]})
        assert source.commit == project.head


@pytest.mark.parametrize("revision", ["1", "5975", "123456", "main", "deadbeef"])
def test_a_line_names_a_commit_by_its_id_alone(project: Project, store: Store, revision: str) -> None:
    project.git("tag", "-f", revision) if revision != "main" else None
    place = f"file://{project.path}"
    text = f"-e git+{place}@{revision}#egg=proj"
    sources, (ruling,) = resolve(store, text)
    assert (sources, ruling.kind) == ((), "no-source")
    if revision != "deadbeef":
        assert ruling.reason.startswith(
            f"the line tells no commit of proj, but the branch or tag {revision};"
        )
    else:  # seven digits may begin an id; what is called so is none
        for origin in (place, str(project.path)):
            reason = unreachable(resolve(store, text, origins={"proj": origin}))
            assert reason.startswith("commit deadbeef of proj is not in")


def test_a_commit_that_only_a_tag_or_an_old_branch_holds(project: Project, store: Store) -> None:
    project.git("checkout", "--quiet", "-b", "side")
    project.write("mod.py", b"side\n")
    side = project.commit()
    project.git("tag", "kept")
    project.git("checkout", "--quiet", "main")
    project.git("branch", "-D", "side")
    for place in (str(project.path), f"file://{project.path}"):
        (source,), _ = resolve(store, line(side[:10]), origins={"proj": place})
        assert source.commit == side


def test_a_shallow_clone_is_enough(project: Project, store: Store, tmp_path: Path) -> None:
    project.write("mod.py", b"second\n")
    head = project.commit()
    clone = tmp_path / "clone"
    project.git("clone", "--quiet", "--depth", "1", f"file://{project.path}", str(clone))
    (source,), _ = resolve(store, line(head), origins={"proj": str(clone)})
    assert source.commit == head


def test_a_clone_of_somebody_else_is_read(project: Project, store: Store) -> None:
    head = project.head
    for path in (project.path, *project.path.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    (source,), _ = resolve(store, line(head), origins={"proj": str(project.path)})
    assert source.name == "proj"


@pytest.mark.parametrize("revision", ["v1.0", "main", "side", "HEAD~0"])
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_revision_may_be_named(project: Project, store: Store, revision: str, scheme: str) -> None:
    first = project.head
    project.git("tag", "-a", "-m", "tag", "v1.0")
    project.git("branch", "side")
    project.write("mod.py", b"second\n")
    second = project.commit()
    place = f"{scheme}{project.path}@{revision}"
    if revision == "HEAD~0":
        assert unreachable(resolve(store, "-e /home/user/proj", origins={"proj": place}))
        return
    (source,), _ = resolve(store, "-e /home/user/proj", origins={"proj": place})
    assert source.commit == (second if revision == "main" else first)


def test_a_revision_beside_the_captured_commit_must_be_the_same(project: Project, store: Store) -> None:
    first = project.head
    project.git("tag", "v1.0")
    project.write("mod.py", b"second\n")
    second = project.commit()
    place = f"{project.path}@v1.0"
    (source,), _ = resolve(store, line(first), origins={"proj": place})
    assert source.commit == first
    with pytest.raises(
        LockError, match=rf"the freeze names commit {second[:12]} of proj, and --source names v1\.0"
    ) as e:
        resolve(store, line(second), origins={"proj": place})
    assert e.value.hint == "leave the revision out: the captured commit is taken"


@pytest.mark.parametrize(
    ("text", "place", "local", "revision"),
    [
        ("lib.bundle", "lib.bundle", "/f/lib.bundle", None),
        ("/abs/lib@v1", "/abs/lib", "/abs/lib", "v1"),
        ("https://h/x.git@abc123", "https://h/x.git", None, "abc123"),
        ("https://u:p@h/x.git", "https://u:p@h/x.git", None, None),
        ("git@h:org/x.git", "git@h:org/x.git", None, None),
        ("git@h:org/x.git@v1", "git@h:org/x.git", None, "v1"),
        ("ssh://git@h/x.git", "ssh://git@h/x.git", None, None),
    ],
)
def test_an_origin_is_read(text: str, place: str, local: str | None, revision: str | None) -> None:
    found = read_origin(text, Path("/f"))
    assert found == RepositoryAddress(place=place, local=Path(local) if local else None, revision=revision)


@pytest.mark.parametrize("place", ["git+file:///srv/private", "file:///srv/private", "git@/srv/private"])
def test_a_path_written_as_an_address_is_of_this_machine(place: str) -> None:
    found = read_origin(place, Path("/f"))
    assert (found.address, found.is_remote) == ("", False)
    assert local_origin_lines({"p": found}) == (f"p from this machine: {place}",)


def test_a_tilde_stands_for_a_home_at_the_begin_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert read_origin("~/lib@v1", Path("/f")).local == Path("/home/me/lib")
    assert read_origin("./~/lib@v1", Path("/f")).local == Path("/f/~/lib")
    assert read_origin("./~nosuchuser/lib", Path("/f")).local == Path("/f/~nosuchuser/lib")


@pytest.mark.parametrize("text", ["~nosuchuser/lib@main", "~nosuchuser"])
def test_the_home_of_nobody(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_origin(text, Path("/f"))
    assert str(caught.value) == "the home directory of ~nosuchuser is not known here"
    assert caught.value.hint == "write the whole path, or './~nosuchuser' for a directory of that name"


def test_what_is_taken_from_this_machine_is_said(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A decision for a server is no such place."""
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "requirements.txt").write_text("six==1.16.0\n")
    session = RunContext(
        store=Store(tmp_path / "store"), net=Net(offline=True), env=ENV, folder=tmp_path, say=print, now=0,
        progress=lambda *_, **__: None,
    )  # fmt: skip
    decisions = Decisions(
        sources={"Lib_B": "proj@v1", "a": f"file://{project.path}", "far": "https://example.invalid/x.git"}
    )
    lock_sources(read_snapshot(tmp_path / "snapshot"), decisions, session.resolve_context())
    assert capsys.readouterr().out.splitlines() == [
        f"sources: a from this machine: file://{project.path}",
        f"sources: lib-b from this machine: {tmp_path}/proj",
    ]


@pytest.mark.parametrize(
    ("directory", "subdirectory"),
    [
        ("{proj}", ""),
        ("{proj}/", ""),
        ("{proj}/pkg", "pkg"),
        ("/elsewhere/proj", ""),
        ("{proj}/../other", ""),
    ],
)
def test_an_install_from_a_directory_is_of_the_named_repository(
    directory: str, subdirectory: str, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "snapshot").mkdir()
    line = f"Lib_B @ file://{directory.format(proj=project.path)}"
    (tmp_path / "snapshot" / "requirements.txt").write_text(f"{line}\nother @ file:///srv/other\n")
    snapshot = read_snapshot(tmp_path / "snapshot")
    decisions = Decisions(sources={"lib-b": f"proj@{project.head[:12]}", "six": "proj@main"})
    context = around(tmp_path)
    named = name_repositories(snapshot, decisions, context)
    assert [line.kind for line in named.requirements] == ["vcs", "directory"]
    (source,), (ruling,) = lock_sources(named, decisions, context)
    assert (source.name, source.commit, source.editable, source.installed) == (
        "lib-b", project.head, False, True,
    )  # fmt: skip
    assert (source.subdirectory, source.url) == (subdirectory, "")
    assert (ruling.outcome, ruling.captured) == ("pinned", line)


@pytest.mark.parametrize(
    ("line", "repository", "subdirectory"),
    [
        ("/home/user/mono/libs/b", "/home/alice/mono", "libs/b"),  # as an import writes it
        ("/home/user/mono", "/home/alice/mono", None),
        ("/home/user/other/b", "/home/alice/mono", None),
        ("/home/alice/mono/libs/b", "/home/alice/mono", "libs/b"),
        ("/home/bob/mono/libs/b", "/home/alice/mono", None),
    ],
)
def test_the_name_of_a_person_does_not_hide_a_subdirectory(
    line: str, repository: str, subdirectory: str | None, tmp_path: Path
) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "requirements.txt").write_text(f"lib-b @ file://{line}\n")
    decisions = Decisions(sources={"lib-b": f"{repository}@main"})
    (named,) = name_repositories(
        read_snapshot(tmp_path / "snapshot"), decisions, around(tmp_path)
    ).requirements
    assert (named.kind, named.subdirectory) == ("vcs", subdirectory)


@pytest.mark.parametrize(
    ("text", "place", "revision"),
    [
        ("https://git.example/o/r@feature/x", "https://git.example/o/r", "feature/x"),
        ("https://git.example/r@main", "https://git.example/r", "main"),
        ("https://me@git.example/r", "https://me@git.example/r", None),
        ("https://me@git.example/r@a/b", "https://me@git.example/r", "a/b"),
        ("https://git.example/@scope/r", "https://git.example/@scope/r", None),
        ("ssh://git@git.example/o/r", "ssh://git@git.example/o/r", None),
        ("git@git.example:o/r", "git@git.example:o/r", None),
        ("git@git.example:o/r@a/b", "git@git.example:o/r", "a/b"),
        ("here@feature/x", "here", "feature/x"), ("there@x/y", "there@x/y", None), ("gone@x/y", "gone@x/y", None),
    ],
)  # fmt: skip
def test_a_branch_may_have_slashes(text: str, place: str, revision: str | None, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "there@x" / "y").mkdir(parents=True)
    origin = read_origin(text, tmp_path)
    assert (origin.place, origin.revision) == (place, revision)


@pytest.mark.parametrize("place", ["proj", "proj@HEAD"])
def test_an_install_from_a_directory_is_of_head_without_another_commit(
    place: str, project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """HEAD may be on no branch, and the remote of a clone has another one."""
    project.git("update-ref", "refs/remotes/origin/HEAD", project.head)
    first = project.head
    edit(project)
    project.git("commit", "-q", "-am", "second")
    second = project.ask("rev-parse", "HEAD")
    project.git("checkout", "-q", "--detach")
    project.git("branch", "-q", "-f", "main", first)
    assert first != second
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "requirements.txt").write_text("proj @ file:///srv/proj\n")
    decisions, context = Decisions(sources={"proj": place}), replace(around(tmp_path), say=print)
    named = name_repositories(read_snapshot(tmp_path / "snapshot"), decisions, context)
    (source,), (ruling,) = lock_sources(named, decisions, context)
    assert source.commit == second
    assert ruling.reason.startswith(f"commit {second[:12]}, HEAD of the named repository, tree ")
    said = f"sources: proj is HEAD of the named repository, {second[:12]}: uncommitted changes stay out"
    assert said in capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("revision", ["HEAD", "main", "feature/x", "v1", "SHORT"])
def test_a_revision_of_a_repository_of_this_machine_is_resolved(
    revision: str, project: Project, store: Store
) -> None:
    project.git("tag", "v1")
    project.git("branch", "feature/x")
    hook = project.path / ".git" / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\ntouch " + str(project.path / "ran") + "\n")
    hook.chmod(0o755)
    named = revision.replace("SHORT", project.head[:7])
    (source,), _ = resolve(store, "-e /home/user/proj", origins={"proj": f"{project.path}@{named}"})
    assert source.commit == project.head
    assert not (project.path / "ran").exists()


@pytest.mark.parametrize("revision", ["--upload-pack=touch x", "-x", "nothing", "HEAD@{1}"])
def test_a_revision_that_is_none_is_named(revision: str, project: Project, store: Store) -> None:
    reason = unreachable(resolve(store, "-e /home/user/proj", origins={"proj": f"{project.path}@{revision}"}))
    assert "of proj is not in " in reason or "does not exist" in reason
    assert "pushed" not in reason


def test_a_repository_without_a_commit_has_no_head(tmp_path: Path, store: Store) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "new")], check=True)
    reason = unreachable(resolve(store, "-e /home/user/proj", origins={"proj": str(tmp_path / "new")}))
    assert reason.startswith(f"commit HEAD of proj is not in {tmp_path}/new; name a bundle, a clone or ")


def test_the_first_advice_names_the_repositories(store: Store) -> None:
    _, rulings = resolve(store, "-e /home/user/proj", "lib @ git+https://git.example/lib@main")
    with pytest.raises(LockError) as caught:
        accept_deviations(rulings, ())
    assert caught.value.hint.splitlines() == [
        "name each repository with --source proj=PATH@COMMIT --source lib=https://git.example/lib@COMMIT, or @HEAD "
        "for the commit that a repository of this machine has checked out",
        "to go on without exactly these: --accept lib --accept proj",
        "with --accept lib --accept proj the image will NOT have proj, lib",
    ]


def test_a_password_in_what_is_no_address_is_not_said(project: Project, tmp_path: Path, store: Store) -> None:
    """`user:password@host:path` is a path for git and for us, where somebody meant an address."""
    place = "svc:Zq8LmW2xR7tYpK4v@git.example:o/r.git"
    origins = {"proj": read_origin(f"{place}@main", tmp_path)}
    assert local_origin_lines(origins) == (f"proj from this machine: {tmp_path}/***@git.example:o/r.git",)
    reason = unreachable(resolve(store, line(project.head), origins={"proj": place}, folder=tmp_path))
    assert reason.startswith(f"the source of proj, {tmp_path}/***@git.example:o/r.git, does not exist; ")
    decisions = Decisions(sources={"proj": place}, base="localhost:5000/x:1@sha256:0")
    assert decisions.lock_document()["sources"] == {"proj": "***@git.example:o/r.git"}
    assert describe_decisions(decisions) == (
        "base = localhost:5000/x:1@sha256:0",
        "sources.proj = ***@git.example:o/r.git",
    )
    for honest in ("git@git.example:o/r", "ada@git.example:o/r", "/a/b@c/x.git", "C:/x@y", "a:b/c@v1"):
        assert Decisions(sources={"proj": honest}).lock_document()["sources"] == {"proj": honest}


def test_what_has_no_repository_or_no_commit_is_unresolved(project: Project, store: Store) -> None:
    sources, rulings = resolve(
        store, "-e /home/user/proj", "-e /home/user/lib", origins={"lib": f"file://{project.path}"}
    )
    assert sources == ()
    assert {(r.outcome, r.kind) for r in rulings} == {("unresolved", "no-source")}
    assert rulings[0].reason == (
        "the repository of proj is in no file of the snapshot; name it with --source proj=PATH@COMMIT"
    )
    place = f"file://{project.path}@COMMIT"
    assert rulings[1].reason == f"no commit of lib is known; name it with --source lib={place}"


@pytest.mark.parametrize(
    ("line", "told", "place"),
    [
        ("proj @ git+https://git.example.org/o/r.git@main", ", but the branch or tag main", "https://git.example.org/o/r.git"),
        ("proj @ git+ssh://git@git.example.org/o/r@v1", ", but the branch or tag v1", "ssh://git@git.example.org/o/r"),
        ("proj @ git+ssh://git@git.example.org/o/r", "", "ssh://git@git.example.org/o/r"),
        ("-e git+https://git.example.org/o/r#egg=proj", "", "https://git.example.org/o/r"),
        ("proj @ git+https://git.example.org/o/r@release/1.0", ", but the branch or tag release/1.0",
         "https://git.example.org/o/r"),
    ],
)  # fmt: skip
def test_a_repository_without_a_commit_is_told_as_that(
    line: str, told: str, place: str, store: Store
) -> None:
    sources, (ruling,) = resolve(store, line)
    assert (sources, ruling.kind) == ((), "no-source")
    assert ruling.reason == (
        f"the line tells no commit of proj{told}; its repository is {place}; name it with --source proj={place}@COMMIT"
    )


def test_a_hint_with_an_address_of_a_snapshot_runs_no_command(tmp_path: Path, store: Store) -> None:
    address = "https://git.example/r$(touch${IFS}here)`touch${IFS}here`;touch${IFS}here"
    _, (ruling,) = resolve(store, f"proj @ git+{address}@main")
    words = ruling.reason.partition("; name it with ")[2]
    said = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {words}"], cwd=tmp_path, capture_output=True, text=True
    )
    assert said.stdout.splitlines() == ["--source", f"proj={address}@COMMIT"]
    assert not (tmp_path / "here").exists()


def test_a_commit_that_is_not_there(project: Project, store: Store) -> None:
    for place in (str(project.path), f"file://{project.path}"):
        found = resolve(store, line("0123456789abcdef" * 2 + "01234567"), origins={"proj": place})
        assert unreachable(found) == (
            f"commit 0123456789ab of proj is not in {place}; "
            "was it ever pushed? name a bundle, a clone or another remote with --source proj=PATH|URL"
        )


def test_a_missing_and_a_damaged_bundle(store: Store, tmp_path: Path) -> None:
    hint = "; name a bundle, a clone or another remote with --source proj=PATH|URL"
    absent = unreachable(resolve(store, line("a" * 40), origins={"proj": "p.bundle"}, folder=tmp_path))
    assert absent == f"the source of proj, {tmp_path}/p.bundle, does not exist{hint}"
    (tmp_path / "p.bundle").write_bytes(b"no bundle")
    damaged = unreachable(resolve(store, line("a" * 40), origins={"proj": "p.bundle"}, folder=tmp_path))
    assert damaged.startswith("the repository of proj cannot be had: could not read")
    assert damaged.endswith(hint)


def test_a_password_in_an_address_is_not_told(store: Store) -> None:
    place = "http://alice:s3kr1t-pa55@127.0.0.1:1/proj.git"
    reason = unreachable(resolve(store, line("a" * 40), origins={"proj": place}))
    assert "http://127.0.0.1:1/proj.git" in reason
    assert "s3kr1t" not in reason


def test_only_git_can_be_read(store: Store) -> None:
    reason = unreachable(resolve(store, f"-e hg+https://example.invalid/proj@{'a' * 40}#egg=proj"))
    assert reason.startswith("requirements.txt:1: proj comes from a hg repository")
    assert reason.endswith("; convert it to git, and name the copy with --source proj=PATH@REV")


def test_a_submodule_is_refused(project: Project, store: Store) -> None:
    inner = Project(project.path.parent / "inner", {"a": b"a"})
    project.git("submodule", "--quiet", "add", str(inner.path), "third/inner")
    with pytest.raises(LockError, match="proj has a submodule at third/inner") as caught:
        resolve(store, line(project.commit()), origins={"proj": str(project.path)})
    assert caught.value.hint == (
        "install the submodule's project as an editable of its own, or add its files to the repository"
    )


@pytest.mark.parametrize("rule", ["huggingface", "private-key", "github"])
def test_a_secret_in_a_source_is_refused_and_not_kept(project: Project, store: Store, rule: str) -> None:
    project.write("pkg/conf.py", b"# one\n# two\nX = '" + SECRETS[rule].encode() + b"'\n")
    with pytest.raises(
        SnapshotError, match=rf"proj: pkg/conf\.py:3: this looks like a secret \({rule}\)"
    ) as caught:
        resolve(store, line(project.commit()), origins={"proj": str(project.path)})
    assert caught.value.hint == (
        "remove it from the source and revoke it; a file that may be public stays with --accept proj/pkg/conf.py"
    )
    assert SECRETS[rule] not in str(caught.value)
    assert not (store.root / "blobs").exists()
    assert list((store.root / "tmp").iterdir()) == []


def test_the_users_repository_is_not_touched(project: Project, store: Store) -> None:
    edit(project)
    captured = patch(project.diff())
    before = project.fingerprint()
    for place in (str(project.path), f"file://{project.path}"):
        resolve(store, line(project.head), patches=(captured,), origins={"proj": place})
    assert project.fingerprint() == before


def test_nothing_of_a_hostile_repository_runs(project: Project, store: Store, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    project.write(".gitattributes", b"* text eol=crlf filter=evil ident diff=evil\n")
    project.write("mod.py", b"# $Id$\n" + FILES["mod.py"])
    head = project.commit()
    edit(project)
    captured = patch(project.diff("--no-textconv"))
    evil = f"touch '{trap}'; cat"
    for setting in ("filter.evil.smudge", "filter.evil.clean", "diff.evil.textconv", "diff.evil.command",
                    "core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand", "diff.external"):  # fmt: skip
        project.git("config", setting, evil)
    for hook in ("pre-commit", "post-checkout", "post-index-change", "reference-transaction", "update",
                 "pre-receive", "post-update", "fsmonitor-watchman"):  # fmt: skip
        path = project.path / ".git" / "hooks" / hook
        path.write_text(f"#!/bin/sh\n{evil}\n")
        path.chmod(0o755)
    for place in (str(project.path), f"file://{project.path}"):
        (source,), _ = resolve(store, line(head), patches=(captured,), origins={"proj": place})
        blob = project.path / "mod.py"
        assert content(store, source)["mod.py"][1] == blob.read_bytes()
    assert not trap.exists()


def test_hooks_of_the_users_own_git_do_not_run(project: Project, store: Store, tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text(f"#!/bin/sh\ntouch '{trap}'\n")
    (hooks / "reference-transaction").chmod(0o755)
    config = tmp_path / "gitconfig"
    named = (
        f'[hook "x"]\n\tevent = reference-transaction\n\tcommand = touch {trap}; :\n'  # git 2.54 and newer
    )
    config.write_text(f"[core]\n\thooksPath = {hooks}\n{named}")
    assert "hook.reference-transaction.enabled=false" in OPTIONS
    env = {**ENV, "GIT_CONFIG_GLOBAL": str(config)}
    for place in (str(project.path), f"file://{project.path}"):
        resolve(store, line(project.head), origins={"proj": place}, env=env)
    assert not trap.exists()


def test_the_users_own_git_settings_serve_for_fetching(
    project: Project, store: Store, tmp_path: Path
) -> None:
    config = tmp_path / "gitconfig"
    config.write_text(f'[url "file://{project.path.parent}/"]\n\tinsteadOf = https://example.invalid/org/\n')
    (project.path.parent / "proj.git").symlink_to(project.path / ".git")
    (source,), _ = resolve(store, line(project.head), env={**ENV, "GIT_CONFIG_GLOBAL": str(config)})
    assert source.commit == project.head


@pytest.mark.parametrize(
    "place", ["ext::sh -c touch% {}% ://", "--upload-pack=touch {}", "--upload-pack=touch {} ://"]
)
def test_an_address_is_no_command(store: Store, tmp_path: Path, place: str) -> None:
    trap = tmp_path / "ran"
    config = tmp_path / "gitconfig"
    config.write_text('[protocol "ext"]\n\tallow = always\n')
    env = {**ENV, "GIT_CONFIG_GLOBAL": str(config)}
    with contextlib.suppress(LockError):  # git is not given what is no address
        assert unreachable(resolve(store, line("a" * 40), origins={"proj": place.format(trap)}, env=env))
    assert not trap.exists()


def test_a_tree_that_leads_out_of_its_folder_is_refused(project: Project, store: Store) -> None:
    blob = project.ask("rev-parse", "HEAD:mod.py")
    row = f"100644 blob {blob}\t..\n".encode()
    tree = subprocess.run(
        ["git", "mktree"], input=row, cwd=project.path, env=ENV, check=True, capture_output=True
    ).stdout.decode().strip()  # fmt: skip
    commit = project.ask("commit-tree", "-m", "evil", tree)
    project.git("update-ref", "refs/heads/evil", commit)
    with pytest.raises(ReproError):
        resolve(store, line(commit), origins={"proj": str(project.path)})
    assert not (store.root / "blobs").exists()


def test_the_same_source_has_the_same_bytes(project: Project, tmp_path: Path) -> None:
    found = [
        resolve(Store(tmp_path / name), line(project.head), origins={"proj": str(project.path)})[0]
        for name in ("one", "two")
    ]
    assert found[0] == found[1]


def test_files_that_are_secrets_by_name_are_refused_until_accepted(project: Project, store: Store) -> None:
    """The hint is followed: each file by name, or all by their class."""
    project.write("app/.env", b"MODE=plain\n")
    project.write("tests/data/a key.pem", SECRETS["private-key"].encode() + b"\n")
    commit = line(project.commit())
    origins = {"proj": str(project.path)}
    with pytest.raises(SnapshotError, match=r"proj: app/\.env: files of this name hold secrets") as caught:
        resolve(store, commit, origins=origins)
    assert "tests/data/a key.pem:1: this looks like a secret (private-key)" in str(caught.value)
    words = shlex.split(str(caught.value.hint).rpartition("stays with ")[2])
    assert words == ["--accept", "proj/app/.env", "--accept", "proj/tests/data/a key.pem"]
    for accept in (words[1::2], ["secret-file"]):
        (source,), rulings = resolve(store, commit, origins=origins, accept=accept)
        assert "app/.env" in content(store, source)
        assert [(r.subject, r.outcome, r.kind, r.accepted) for r in rulings[1:]] == [
            (f"proj/{path}", "pinned", "secret-file", True) for path in ("app/.env", "tests/data/a key.pem")
        ]
    with pytest.raises(SnapshotError, match=r"a key\.pem"):
        resolve(store, commit, origins=origins, accept=words[1:2])


def test_a_secret_in_a_path_is_refused_and_never_printed(project: Project, store: Store) -> None:
    token = "ghp_" + "pLIix6MEOLeMa61EqJ" + "omTEI1JEzO3joOj37H"
    project.write(f"cache/{token}/a.txt", b"hi\n")
    commit = line(project.commit())
    origins = {"proj": str(project.path)}
    with pytest.raises(SnapshotError) as caught:
        resolve(store, commit, origins=origins)
    assert str(caught.value) == (
        "proj: cache/***/a.txt: its path looks like a secret (github); it would stay in the image for ever"
    )
    assert caught.value.hint == (
        "remove it from the source and revoke it; a file that may be public stays with --accept secret-file"
    )
    for accept in ("secret-file", f"proj/cache/{token}/a.txt"):
        (source,), rulings = resolve(store, commit, origins=origins, accept=[accept])
        assert f"cache/{token}/a.txt" in content(store, source)
        assert [(r.subject, r.kind) for r in rulings[1:]] == [("proj/cache/***/a.txt", "secret-file")]
        assert token not in repr(rulings[1:])
