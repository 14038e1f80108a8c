"""A diff that states gigabytes in a few bytes is refused before git holds them."""

from __future__ import annotations

import base64
import random
import re
import zlib
from pathlib import Path

import pytest

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.errors import LockError
from reprobuild.infra.untrusted import names
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.resolve.sources.large_trees import list_tree_blobs
from reprobuild.resolve.sources.patch_sizes import measure_unpacked_size
from reprobuild.resolve.sources.patching import apply_patch
from reprobuild.snapshot.model import Patch, PatchedFile
from reprobuild.store.store import Store
from tests.resolve.repositories import ENV, Project, patch
from tests.resolve.test_sources import line, resolve

BASE = (1 << 24) - 1  # the most that one instruction of a delta copies


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "proj")


def size_of(number: int) -> bytes:
    """Return a size as deltas have it."""
    found = b""
    while number > 127:
        found, number = found + bytes([number & 127 | 128]), number >> 7
    return found + bytes([number])


def lines(packed: bytes) -> bytes:
    found = b""
    for at in range(0, len(packed), 52):
        part = packed[at : at + 52]
        sign = chr(64 + len(part) if len(part) <= 26 else 70 + len(part)).encode()
        found += sign + base64.b85encode(part + bytes(-len(part) % 4)) + b"\n"
    return found


def delta_bomb(project: Project, times: int) -> bytes:
    """Return a diff by which a file of zeros becomes so many times as large."""
    project.write("zeros", bytes(BASE))
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message=zeros")
    old = project.ask("rev-parse", "HEAD:zeros").encode()
    delta = size_of(BASE) + size_of(BASE * times) + b"\xf0\xff\xff\xff" * times
    return (
        b"diff --git a/zeros b/zeros\nindex %s..%s 100644\nGIT binary patch\ndelta %d\n%s\ndelta 0\nHcmV?d00001\n\n"
        % (old, b"1" * 40, len(delta), lines(zlib.compress(delta, 9)))
    )


def stated(header: bytes) -> Patch:
    """Return a diff with this header of its only packed part, which has no content to speak of."""
    text = b"diff --git a/b b/b\nnew file mode 100644\nindex %s..%s\nGIT binary patch\n%s\nHcmV?d00001\n\n"
    file = PatchedFile(line=1, old_path=None, new_path="b")
    return Patch(file="proj.diff", name="proj", content=text % (b"0" * 40, b"1" * 40, header), files=(file,))


def refused(project: Project, captured: Patch, tmp_path: Path) -> str:
    with pytest.raises(LockError) as caught:
        resolve(
            Store(tmp_path / "store"),
            line(project.head),
            patches=(captured,),
            origins={"proj": str(project.path)},
        )
    assert caught.value.hint == HOSTILE
    return str(caught.value)


def test_a_delta_that_states_gigabytes(project: Project, tmp_path: Path) -> None:
    captured = patch(delta_bomb(project, 110))
    assert len(captured.content) < 300
    said = refused(project, captured, tmp_path)
    total = 110 * BASE + len(size_of(BASE) + size_of(110 * BASE)) + 4 * 110
    assert re.fullmatch(
        rf"proj\.diff has {len(captured.content)} bytes, the repository of proj has \d+, and the files of the diff "
        rf"unpack to {total} bytes",
        said,
    )


@pytest.mark.parametrize(
    "header",
    [b"literal 1000000000", b"literal +1000000000", b"literal -1", b"literal  %d9" % 10**30],
)
def test_a_size_is_read_as_git_reads_it(header: bytes, project: Project, tmp_path: Path) -> None:
    assert "and the files of the diff unpack to " in refused(project, stated(header), tmp_path)


def test_the_way_back_is_unpacked_too(project: Project, tmp_path: Path) -> None:
    header = b"literal 0\nHcmV?d00001\n\nliteral 1000000000"
    assert "unpack to 1000000000 bytes" in refused(project, stated(header), tmp_path)


@pytest.mark.parametrize("packed", [b"HcmV?d00001", b"D~~~~~", b"A00000", b"HcmV"])
def test_a_delta_without_sizes(packed: bytes, project: Project, tmp_path: Path) -> None:
    captured = stated(b"delta 4\n" + packed)
    assert refused(project, captured, tmp_path) == "proj.diff:5: a damaged delta of a binary file"


def test_copies_of_a_large_file_are_counted(project: Project, tmp_path: Path) -> None:
    delta_bomb(project, 1)  # for the file
    entries = b"".join(
        b"diff --git a/zeros b/copy%d\nsimilarity index 100%%\ncopy from zeros\ncopy to copy%d\n" % (n, n)
        for n in range(40)
    )
    assert f"unpack to {40 * BASE} bytes" in refused(project, patch(entries), tmp_path)


def test_what_honest_diffs_unpack_to(project: Project, tmp_path: Path) -> None:
    old = random.Random(1).randbytes(200_000)
    project.write("weights", old)
    project.git("add", "--all")
    project.git("commit", "--quiet", "--message=weights")
    project.write("weights", old[:1000] + b"changed" + old[1000:])
    project.write("new", bytes(range(256)))
    project.git("add", "--intent-to-add", "new")
    captured = patch(project.diff("HEAD", "--binary", "--full-index"))
    parts = [int(size) for size in re.findall(rb"^(?:literal|delta) (\d+)$", captured.content, re.MULTILINE)]
    assert captured.content.count(b"\ndelta ") == 2
    assert measure_unpacked_size(captured, {"weights": 200_000}) == 200_007 + sum(parts)
    ((source,), _) = resolve(
        Store(tmp_path / "store"),
        line(project.head),
        patches=(captured,),
        origins={"proj": str(project.path)},
    )
    assert source.tree == project.worktree_id()


def test_a_text_is_as_large_as_it_was(project: Project) -> None:
    captured = stated(b"literal 7")
    text = PatchedFile(line=9, old_path="a", new_path="a")
    gone = PatchedFile(line=15, old_path="c", new_path=None)
    both = Patch(file="x.diff", name="x", content=captured.content, files=(*captured.files, text, gone))
    assert measure_unpacked_size(both, {"a": 5000, "b": 300, "c": 20}) == 5007


def test_what_a_diff_unpacks_to_allows_no_more(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The objects that git makes of a diff are not counted for the repository."""
    (tmp_path / "scratch").mkdir()
    repository = GitRepository(tmp_path / "scratch", ENV)
    repository.fetch_local(project.path)
    before = repository.packed()
    monkeypatch.setattr(names, "ALLOWANCE", 0)
    project.write("noise", random.Random(1).randbytes(before * 300))
    project.git("add", "--intent-to-add", "noise")
    captured = patch(project.diff("HEAD", "--binary", "--full-index"))
    tree = apply_patch(repository, project.head, captured)
    list_tree_blobs(repository, tree, "proj")  # as it was: what came of the diff counts
    with pytest.raises(LockError, match=rf"the repository of proj has {before} bytes, and its tree"):
        list_tree_blobs(repository, tree, "proj", before)
