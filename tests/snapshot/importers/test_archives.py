"""Archives with names and members that no snapshot has: each is refused, or named as not used."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.importers import source
from reprobuild.snapshot.importers.import_snapshot import import_into

LIST = b"numpy==1.26.4\n"
HINT = "unpack it yourself, and name the directory"


def tar_of(path: Path, *members: tuple[str, bytes, bytes]) -> Path:
    """Return a tar of members: name, type and content, or the target of a link."""
    with tarfile.open(path, "w:gz", encoding="utf-8", errors="surrogateescape") as tar:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(content)
            info.linkname = content.decode() * (kind != tarfile.REGTYPE)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("s/\x1b]0;x\x07.diff", r"s/\x1b]0;x\x07.diff"), ("s/red\nerror: fake.txt", r"s/red\nerror: fake.txt"),
        ("s/\u202egnp.txt", r"s/\u202egnp.txt"), ("s/\udcff.txt", r"s/\udcff.txt"), ("s/a\\b", "s/a\\b"),
    ],
)  # fmt: skip
def test_a_name_with_control_characters_is_refused(name: str, shown: str, tmp_path: Path) -> None:
    kind = tarfile.REGTYPE
    path = tar_of(tmp_path / "s.tar.gz", ("s/requirements.txt", kind, LIST), (name, kind, b"x"))
    with pytest.raises(SnapshotError) as err:
        import_into(path, tmp_path / "out")
    assert str(err.value) == f"`s.tar.gz` cannot be unpacked: s.tar.gz holds the unsafe path {shown}"
    assert err.value.hint == HINT
    assert not (tmp_path / "out").exists()


def test_names_that_people_give_are_read(tmp_path: Path) -> None:
    names = ("s/Screenshot 3.04.05\u202fPM.png", "s/a\u00a0b.txt", "s/\U0001f469\u200d\U0001f52c.md")
    members = [(name, tarfile.REGTYPE, b"x") for name in names]
    path = tar_of(tmp_path / "s.tar.gz", ("s/requirements.txt", tarfile.REGTYPE, LIST), *members)
    assert import_into(path, tmp_path / "out").format == "a snapshot in an archive"


def test_a_name_that_windows_reads_otherwise_is_not_copied(tmp_path: Path) -> None:
    names = ("C:x.bundle", "nul.bundle", "x.bundle")
    members = [(name, tarfile.REGTYPE, b"anything\0") for name in names]
    path = tar_of(tmp_path / "s.tar.gz", ("requirements.txt", tarfile.REGTYPE, LIST), *members)
    facts = import_into(path, tmp_path / "out")
    assert sorted(file.suffix + file.stem for file in (tmp_path / "out").iterdir()) == [
        ".bundlex", ".jsonimport", ".txtrequirements",
    ]  # fmt: skip
    assert [entry.reason for entry in facts.unused] == ["its name has another meaning on Windows"] * 2


def test_a_name_of_a_zip_with_a_mark_of_direction_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "s.zip", "w") as archive:
        archive.writestr("s/requirements.txt", LIST)
        archive.writestr("s/\u202egnp.txt", b"x")
    with pytest.raises(SnapshotError, match=r"holds the unsafe path s/\\u202egnp\.txt"):
        import_into(tmp_path / "s.zip", tmp_path / "out")


@pytest.mark.parametrize("again", ["s/requirements.txt", "./s/requirements.txt"])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE])
def test_a_member_twice_is_refused(again: str, kind: bytes, tmp_path: Path) -> None:
    path = tar_of(
        tmp_path / "s.tar.gz", ("s/requirements.txt", tarfile.REGTYPE, LIST), (again, kind, b"evil==1.0\n")
    )
    with pytest.raises(SnapshotError, match=r"s\.tar\.gz holds s/requirements\.txt twice"):
        import_into(path, tmp_path / "out")


def test_links_are_named_as_not_used(tmp_path: Path) -> None:
    path = tar_of(
        tmp_path / "s.tar.gz", ("env.txt", tarfile.REGTYPE, b"A=b\n"), ("d", tarfile.DIRTYPE, b""),
        ("requirements.txt", tarfile.SYMTYPE, b"/etc/passwd"), ("apt-packages.txt", tarfile.LNKTYPE, b"env.txt"),
    )  # fmt: skip
    facts = import_into(path, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["env.txt", "import.json"]
    assert [(entry.source, entry.reason) for entry in facts.unused] == [
        (name, "a link, or no file: an import follows none")
        for name in ("requirements.txt", "apt-packages.txt")
    ]


def test_a_member_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LIMIT", 50)
    kind = tarfile.REGTYPE
    path = tar_of(tmp_path / "s.tar.gz", ("requirements.txt", kind, LIST), ("model.bin", kind, b"x" * 51))
    facts = import_into(path, tmp_path / "out")
    assert [(entry.source, entry.reason) for entry in facts.unused] == [
        ("model.bin", "it has more than 64 MiB")
    ]


@pytest.mark.parametrize("name", ["s.tar.gz", "s.zip"])
def test_very_many_members_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_FILES", 3)
    names = ["requirements.txt", "a", "b", "c"]
    if name == "s.zip":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for member in names:
                archive.writestr(member, LIST)
    else:
        tar_of(tmp_path / name, *((member, tarfile.REGTYPE, LIST) for member in names))
    with pytest.raises(SnapshotError, match="holds more than 3 members") as err:
        import_into(tmp_path / name, tmp_path / "out")
    assert err.value.hint == HINT


def test_a_diff_of_a_directory_with_a_hostile_name_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "requirements.txt").write_bytes(LIST)
    (folder / "\x1b[2J.diff").write_bytes(b"x")
    facts = import_into(folder, tmp_path / "out")
    assert "its name has control characters or backslashes" in [entry.reason for entry in facts.unused]


@pytest.mark.parametrize(
    "names", [("a/requirements.txt", "b/requirements.txt"), ("x/a/env.txt", "x/b/env.txt")]
)
def test_of_several_snapshots_none_is_chosen(names: tuple[str, ...], tmp_path: Path) -> None:
    path = tar_of(tmp_path / "s.tar.gz", *((name, tarfile.REGTYPE, LIST) for name in names))
    with pytest.raises(SnapshotError) as err:
        import_into(path, tmp_path / "out")
    assert str(err.value) == "`s.tar.gz` has 2 snapshots, and one is needed"
    assert err.value.hint == "unpack it, and name the directory of one"
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True)
        (tmp_path / "in" / name).write_bytes(LIST)
    with pytest.raises(SnapshotError, match="nothing captured in") as err:
        import_into(tmp_path / "in", tmp_path / "out")
    assert import_into(tmp_path / "in" / Path(names[0]).parent, tmp_path / "out").format.endswith("directory")


def test_the_hint_names_the_only_snapshot_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "in" / "x").mkdir(parents=True)
    (tmp_path / "in" / "x" / "requirements.txt").write_bytes(LIST)
    with pytest.raises(SnapshotError) as err:
        import_into(tmp_path / "in", tmp_path / "out")
    assert err.value.hint == f"did you mean `{tmp_path}/in/x`?"
