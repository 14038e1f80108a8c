"""Changes of sources: any of them make a tree, and all of them make that of B."""

from __future__ import annotations

import base64
import io
import random
import tarfile
from contextlib import nullcontext
from pathlib import Path

import msgspec

from reprobuild.bisect.mixture import Mixer, make_mixer
from reprobuild.bisect.result import BisectionResult, render_bisection
from reprobuild.bisect.sources import MOST_CHANGES, find_changes
from reprobuild.lock.python import Source
from reprobuild.store.store import Store
from tests.bisecting.small import OTHER_TREE, TREE, add_source
from tests.verify.samples import make_lock


def mixer_of(folder: Path, first: dict[str, bytes], second: dict[str, bytes]) -> tuple[Mixer, list[bytes]]:
    store = Store(folder / "store")
    sources = [add_source(store, tree) for tree in (first, second)]
    locks = [make_lock(sources=(source,)) for source in sources]
    tars = {source.file.sha256: store.blob(source.file.sha256).read_bytes() for source in sources}

    def open_tar(source: Source) -> nullcontext[io.BytesIO]:
        return nullcontext(io.BytesIO(tars[source.file.sha256]))

    return make_mixer(locks[0], locks[1], open_tar), list(tars.values())


def contents(tar: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return {
            member.name: stream.read()
            for member in archive
            if (stream := archive.extractfile(member)) is not None
        }


def test_hunks_and_files_are_atoms(tmp_path: Path) -> None:
    mixer, tars = mixer_of(tmp_path, TREE, OTHER_TREE)
    assert [(atom.kind, atom.name) for atom in mixer.atoms.atoms] == [
        ("hunk", "tool/code.py:4"), ("hunk", "tool/code.py:15"), ("hunk", "tool/code.py:30"),
        ("hunk", "tool/data.txt:1"), ("file", "tool/more.bin"),
    ]  # fmt: skip
    assert [(atom.first, atom.second) for atom in mixer.atoms.atoms[1:2]] == [
        ("line14 = 14\n", "line14 = 41\n")
    ]
    assert mixer.atoms.atoms[4].first is None
    assert (mixer.atoms.atoms[4].second or "").startswith("1 bytes, sha256 6e340b9cffb3")
    assert mixer.mix(range(5)).lock == mixer.second
    assert mixer.mix(()).lock == mixer.first
    mixture = mixer.mix([1, 4])
    (tar,) = mixture.tars
    files = contents(tar)
    assert files["data.txt"] == b"one"
    assert files["more.bin"] == b"\0"
    assert b"line14 = 41" in files["code.py"]
    assert b"early" not in files["code.py"]
    assert mixture.lock.sources[0].tree not in (mixer.first.sources[0].tree, mixer.second.sources[0].tree)
    assert len(tars) == 2


def test_a_guilty_hunk_is_printed_as_diff_prints_it(tmp_path: Path) -> None:
    long = b"".join(b"more %d\n" % number for number in range(12))
    second = b"lr = 0.2\n\x1b[2J\nx\n" + long
    mixer, _ = mixer_of(tmp_path, {"a.py": b"lr = 0.1\nx\n"}, {"a.py": second})
    result = BisectionResult(
        first="a", second="b", command=("x",), oracle="exit code", differences=mixer.atoms.atoms, guilty=(0, 1),
        groups=((0, 1),),
    )  # fmt: skip
    lines = render_bisection(result).splitlines()
    assert lines[:6] == [
        "guilty: 2 of 2 differences, together",
        "  hunk  tool/a.py:1",
        "    - lr = 0.1",
        "    + lr = 0.2",
        "    + \\x1b[2J",
        "  hunk  tool/a.py:3",
    ]
    assert lines[6:9] == ["    + more 0", "    + more 1", "    + more 2"]
    assert lines[16] == "    + ... and 2 more"


def test_no_hunk_of_a_file_with_a_secret_is_printed(tmp_path: Path) -> None:
    """A hunk can begin inside a key, or be cut inside a token."""
    key = b"-----BEGIN RSA PRIVATE KEY-----\n%s\n-----END RSA PRIVATE KEY-----\n"
    body = [base64.b64encode(bytes([number] * 48)) for number in range(30)]
    other = [*body[:10], base64.b64encode(b"x" * 48), *body[11:]]
    mixer, _ = mixer_of(tmp_path, {"k.py": key % b"\n".join(body)}, {"k.py": key % b"\n".join(other)})
    (atom,) = mixer.atoms.atoms
    assert atom.kind == "hunk"
    assert atom.first == atom.second == "(the file has what looks like a secret, and is not quoted)"


def test_random_trees_are_mixed(tmp_path: Path) -> None:
    """All changes make the bytes of B, and none those of A, in the form that the lock has."""
    rng = random.Random(4)

    def text() -> bytes:
        return b"".join(
            rng.choice([b"a\n", b"b\n", b"c", b"\r\n", b"\xff\n"]) for _ in range(rng.randint(0, 30))
        )

    for number in range(60):
        names = ["a", "b/c", "b/d", "e.txt"]
        first, second = ({name: text() for name in names if rng.random() < 0.8} for _ in range(2))
        mixer, tars = mixer_of(tmp_path / str(number), first, second)
        if not mixer.changes:
            continue
        changes = mixer.changes["tool"]
        everything = changes.mix(mixer.first.sources[0], range(len(changes.changes)))
        assert everything[1] == tars[1]
        assert changes.mix(mixer.first.sources[0], ())[1] == tars[0]
        some = [index for index in range(len(changes.changes)) if rng.random() < 0.5]
        assert contents(changes.mix(mixer.first.sources[0], some)[1]).keys() <= {*first, *second}


def test_a_source_with_too_many_changes_or_a_damaged_tar_is_one_atom(tmp_path: Path) -> None:
    many = {f"f{number}": b"x" for number in range(MOST_CHANGES + 1)}
    mixer, tars = mixer_of(tmp_path, {}, many)
    assert [(atom.kind, atom.name) for atom in mixer.atoms.atoms] == [("source", "tool")]
    first, second = mixer.first.sources[0], mixer.second.sources[0]
    assert find_changes(first, second, (io.BytesIO(b"no tar" * 200), io.BytesIO(tars[1]))) is None


def test_two_addresses_of_one_repository_leave_its_hunks(tmp_path: Path) -> None:
    """Colleagues clone by HTTPS and by SSH."""
    mixer, tars = mixer_of(tmp_path, {"a": b"1\n"}, {"a": b"2\n"})
    first, second = mixer.first.sources[0], mixer.second.sources[0]
    other = msgspec.structs.replace(second, url="git@git.example:lab/tool.git")
    changes = find_changes(first, other, (io.BytesIO(tars[0]), io.BytesIO(tars[1])))
    assert changes is not None
    assert [change.name for change in changes.changes] == ["a:1"]


def test_files_that_take_long_to_compare_are_one_change_each(tmp_path: Path) -> None:
    def lines(side: int) -> bytes:
        return b"".join(b"%d%d\n%d\n" % (side, number, number % 50) for number in range(2000))

    names = [f"f{number}" for number in range(30)]
    trees = [
        {name: lines(side) for name in names} | {"same": b"1\n2\n", "few": b"%d\n2\n" % side}
        for side in (1, 2)
    ]
    mixer, _ = mixer_of(tmp_path, *trees)
    assert [(atom.kind, atom.name) for atom in mixer.atoms.atoms if atom.name.startswith(("tool/f7", "tool/few"))] == [
        ("file", "tool/f7"), ("hunk", "tool/few:1"),
    ]  # fmt: skip


def test_distant_changes_of_a_long_file_are_hunks(tmp_path: Path) -> None:
    rows = [b"line %d" % number if number % 5 else b"" for number in range(4000)]
    changed = [b"first", *rows[1:2000], b"second", *rows[2001:-1], b"last"]
    mixer, _ = mixer_of(tmp_path, {"long.py": b"\n".join(rows)}, {"long.py": b"\n".join(changed)})
    assert [atom.name for atom in mixer.atoms.atoms] == [f"tool/long.py:{line}" for line in (1, 2001, 4000)]
