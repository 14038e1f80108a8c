"""What is put aside after a command: each file once, links told, nothing confused; run here, without a container."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.artefacts import written
from tests.conftest import ROOT

PROGRAM = ROOT / "reprobuild_runtime" / "artefacts" / "collect.py"


def collected(tmp_path: Path, command: str, *patterns: str, code: int = 0) -> tuple[Path, dict[str, Any]]:
    """Run a line of shell in a working directory, and return the directory with what it left, and its index."""
    out, work = tmp_path / "out", tmp_path / "work"
    out.mkdir(exist_ok=True)
    work.mkdir(exist_ok=True)
    argv = [sys.executable, "-I", "-S", str(PROGRAM), str(out), *patterns, "--", "/bin/sh", "-c", command]
    done = subprocess.run(argv, cwd=work, timeout=60, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return out, json.loads((out / "index.json").read_text())


def test_a_file_of_several_names_is_put_aside_once(tmp_path: Path) -> None:
    """A tar has the second name of a file as a link, which no engine brings out."""
    line = "echo 1 >step-1.pt; echo 2 >step-2.pt; ln -s step-2.pt latest.pt; ln step-1.pt best.pt"
    out, index = collected(tmp_path, line, "*.pt", "latest.pt")
    stored = {entry["path"]: entry["stored"] for entry in index["files"]}
    assert len(index["files"]) == 5
    assert stored["latest.pt"] == stored["step-2.pt"] != stored["step-1.pt"] == stored["best.pt"]
    assert sorted(path.name for path in out.iterdir()) == ["0", "1", "index.json"]
    assert [entry["link"] for entry in index["files"] if entry["path"] == "latest.pt"] == ["step-2.pt"] * 2
    assert all(entry["written"] for entry in index["files"])
    assert (out / stored["latest.pt"]).read_text() == "2\n"


def test_links_to_folders_are_told(tmp_path: Path) -> None:
    line = "mkdir -p runs/a; echo 1 >runs/a/x; ln -s a runs/latest; ln -s runs top"
    _, index = collected(tmp_path, line, "runs", "top", "runs/*")
    links = [(entry["pattern"], entry["path"], entry["kind"], entry["link"]) for entry in index["files"]]
    assert ("runs", "runs/latest", "folder", "a") in links
    assert ("top", "top", "folder", "runs") in links
    assert ("runs/*", "runs/latest", "folder", "a") in links
    assert ("runs", "runs/a/x", "file", "") in links


def test_what_was_there_before(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for name in ("old", "new", "same"):
        (tmp_path / "work" / name).write_text("1")
    _, index = collected(tmp_path, "echo 2 >new; printf 1 >same; ln -s old alias", "*")
    written = {entry["path"]: entry["written"] for entry in index["files"]}
    assert written == {"old": False, "alias": False, "new": True, "same": True}


def test_no_two_names_are_shown_alike(tmp_path: Path) -> None:
    line = r"""printf 1 >"$(printf 'a\033')"; printf 2 >'a\x1b'"""
    _, index = collected(tmp_path, line, "a*")
    paths = [entry["path"] for entry in index["files"]]
    assert sorted(paths) == ["a\\\\x1b", "a\\x1b"]
    assert all(path.isprintable() for path in paths)


def test_a_file_that_needs_more_than_is_free_is_not_copied(tmp_path: Path) -> None:
    """On another file system a file is copied, and one of holes would take all of its length."""
    (tmp_path / "out").mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path / "out")]
    subprocess.run(argv, check=True)
    try:
        _, index = collected(tmp_path, "truncate -s 1T holes", "holes")
    finally:
        subprocess.run(["umount", str(tmp_path / "out")], check=True)
    assert (index["failed"], index["files"]) == ("ValueError: holes is larger than what is free", [])


def test_a_command_that_is_killed_and_one_that_leaves_a_child(tmp_path: Path) -> None:
    for number, (line, code) in enumerate(
        (("echo 1 >x; kill -9 $$", 137), ("sleep 30 >/dev/null 2>&1 & echo 1 >x; exit 3", 3))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, index = collected(folder, line, "x", code=code)
        assert (index["code"], [entry["path"] for entry in index["files"]]) == (code, ["x"])


def test_the_number_of_the_commands_own_process_is_known(tmp_path: Path) -> None:
    _, index = collected(tmp_path, "echo $$ >pid; date +%z >zone", "pid")
    assert (tmp_path / "work" / "pid").read_text().strip() == str(index["pid"])
    assert index["last"] >= index["pid"]
    sign, hours, minutes = (
        (tmp_path / "work" / "zone").read_text()[:1],
        *(int((tmp_path / "work" / "zone").read_text()[at : at + 2]) for at in (1, 3)),
    )
    assert index["zone"] == (hours * 3600 + minutes * 60) * (-1 if sign == "-" else 1)


def test_processes_that_the_command_starts_are_of_the_run(tmp_path: Path) -> None:
    """`sh -c` starts the program in a process of its own, and launchers start theirs later still."""
    inner = "sh -c 'echo $$ >inner' && sh -c 'echo $$ >later'; true"
    _, index = collected(tmp_path, inner, "inner")
    numbers = [int((tmp_path / "work" / name).read_text()) for name in ("inner", "later")]
    assert index["pid"] < numbers[0] < numbers[1] <= index["last"]


def test_files_without_a_pattern_are_listed(tmp_path: Path) -> None:
    """Outside of an image the rest of the machine is not searched: its other programs write files, too."""
    line = f"echo 1 >model.pt; echo 22 >{tmp_path}/out/log; mkdir {tmp_path}/out/a; echo >{tmp_path}/out/a/b"
    out, index = collected(tmp_path, line, "*.pt")
    assert [Path(each["path"]).relative_to(out).as_posix() for each in index["written"]] == ["a/b", "log"]
    assert index["written"][1]["size"] == 3
    assert index["written"][1]["digest"] == hashlib.sha256(b"22\n").hexdigest()
    assert index["written_count"] == 2
    assert sorted(path.name for path in out.iterdir()) == ["0", "index.json"]


def search(
    folder: Path, since: int, named: Collection[tuple[int, int]] = ()
) -> tuple[list[dict[str, Any]], int]:
    found = written.list_written(str(folder), since, named, str(folder / "skipped"))
    assert found["written_whole"]
    return found["written"], found["written_count"]


def test_what_counts_as_written(tmp_path: Path) -> None:
    for name in ("kept", "changed", "touched", "renamed"):
        (tmp_path / name).write_text(name)
    since = written.mark(str(tmp_path))
    (tmp_path / "changed").write_text("other")
    os.utime(tmp_path / "touched", (0, 0))  # a time in the past hides no file
    (tmp_path / "renamed").rename(tmp_path / "name")
    (tmp_path / "named").write_text("compared")
    for folder in ("skipped", "__pycache__"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("1")
    (tmp_path / "link").symlink_to("kept")
    os.mkfifo(tmp_path / "pipe")
    status = (tmp_path / "named").stat()
    files, count = search(tmp_path, since, {(status.st_dev, status.st_ino)})
    assert [Path(each["path"]).name for each in files] == ["changed", "name", "touched"]
    assert count == 3


def test_no_change_after_the_mark_is_missed(tmp_path: Path) -> None:
    """The clock of files has steps: a file that is written at once has the time of the mark, or a later one."""
    for number in range(50):
        before = tmp_path / f"before-{number}"
        before.write_text("1")
        since = written.mark(str(tmp_path))
        (tmp_path / f"after-{number}").write_text("1")
        files, _ = search(tmp_path, since)
        assert [Path(each["path"]).name for each in files] == [f"after-{number}"]


def test_many_and_large_files_are_bounded(tmp_path: Path) -> None:
    since = written.mark(str(tmp_path))
    for number in range(written.MOST_FILES + 5):
        (tmp_path / f"{number:04}").write_text("1")
    with (tmp_path / "0000").open("wb") as file:
        file.truncate(written.MOST_HASHED + 1)
    files, count = search(tmp_path, since)
    assert (len(files), count) == (written.MOST_FILES, written.MOST_FILES + 5)
    assert [bool(each["digest"]) for each in files[:2]] == [False, True]
    assert files[0]["size"] == written.MOST_HASHED + 1


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    since = written.mark(str(tmp_path))
    (tmp_path / "private").write_text("123")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(written.os, "open", refuse)
    assert search(tmp_path, since)[0] == [{"path": str(tmp_path / "private"), "size": 3, "digest": ""}]


def test_a_search_that_takes_too_long_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    since = written.mark(str(tmp_path))
    (tmp_path / "a" / "file").write_text("1")
    monkeypatch.setattr(written, "SECONDS", 0)
    found = written.list_written(str(tmp_path), since, (), "")
    assert found == {"written": [], "written_count": 0, "written_whole": False}
