"""Files that a workload writes and that no output names: each has its size, and whether it differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.output_index import OutputIndex, WrittenFile
from reprobuild.verify.workload.uncompared import SHOWN, add_uncompared, keep_written
from tests.conftest import Built, reprobuild

ONE, TWO = "1" * 64, "2" * 64
FIRST = WorkComparison(name="artefact a", verdict="identical", details=("a: note",), warnings=("w",))


def index(*files: tuple[str, str], count: int = 0, **facts: Any) -> OutputIndex:
    written = tuple(WrittenFile(path=path, size=1234, digest=digest) for path, digest in files)
    return OutputIndex(
        code=0, began=1.0, ended=2.0, host="h", files=(), there={}, failed="", written=written,
        written_count=count or len(files), **facts,
    )  # fmt: skip


def lines(*indexes: OutputIndex) -> tuple[str, ...]:
    first, second = add_uncompared([FIRST, FIRST], indexes)
    assert second == FIRST
    assert first.details[0] == "a: note"
    return (*first.warnings[1:], *first.details[1:])


def test_no_file() -> None:
    assert add_uncompared([FIRST], [index(), index()]) == [FIRST]
    assert add_uncompared([FIRST], []) == [FIRST]  # of an image without the program


def test_a_search_that_ended_early() -> None:
    (note,) = lines(index(), index(written_whole=False))
    assert note.startswith("the search for files that the work wrote")


def test_each_file_has_an_answer() -> None:
    one = index(("/w/same", ONE), ("/w/late", ONE), ("/w/big", ""), ("/w/lost", ONE))
    two = index(("/w/same", ONE), ("/w/late", ONE), ("/w/big", ""), ("/w/new", ONE))
    three = index(("/w/same", ONE), ("/w/late", TWO), ("/w/big", ""), ("/w/lost", ONE))
    assert lines(one, two, three) == (
        "5 files not compared, as no --output-file names them",
        "not compared: /w/late (1,234 bytes): differs",
        "not compared: /w/lost (1,234 bytes): not in every run",
        "not compared: /w/new (1,234 bytes): not in every run",
        "not compared: /w/big (1,234 bytes): not read",
        "not compared: /w/same (1,234 bytes): the same in each run",
    )


def test_files_with_drawn_names_share_an_answer() -> None:
    one = index(("/tmp/tmpabcd1234/x", ONE), ("/tmp/tmpefgh5678/x", TWO))
    two = index(("/tmp/tmpzzzz1234/x", TWO), ("/tmp/tmpyyyy5678/x", ONE))
    assert lines(one, two) == (
        "2 files not compared, as no --output-file names them",
        "not compared: /tmp/tmpabcd1234/x (1,234 bytes): the same in each run",
    )


def test_many_files_are_counted() -> None:
    files = [(f"/w/{number:03}", ONE) for number in range(SHOWN + 5)]
    told = lines(index(*files, count=70), index(*files, count=71))
    assert told[0] == "71 files not compared, as no --output-file names them"
    assert len(told) == 1 + SHOWN


def test_names_of_an_older_image_are_few() -> None:
    names = tuple(f"{number} {'x' * 300}" for number in range(20_000))
    told = lines(index(others=names, other=20_000), index(others=names, other=20_000))
    assert told[0] == "20,000 files not compared, as no --output-file names them"
    assert len(told) == 1 + SHOWN


def test_later_runs_keep_little_of_their_indexes() -> None:
    path = "/w/" + "x" * 9000
    one, two = (index((path + end, ONE), ("/w/a", digest)) for end, digest in (("1", ONE), ("2", TWO)))
    there = {"P": ("x" * 9000,)}
    both = [keep_written(msgspec.structs.replace(run, there=there)) for run in (one, two)]
    assert all(len(msgspec.json.encode(run)) < 1500 for run in both)
    note, differs, first, second = lines(*both)  # names that differ at their ends are two
    assert note.startswith("3 files not compared")
    assert differs == "not compared: /w/a (1,234 bytes): differs"
    assert first.startswith("not compared: /w/xxx")
    assert second.startswith("not compared: /w/xxx")


def test_names_are_shown_without_secrets() -> None:
    (_, shown) = lines(index(("/w/password=hunter2hunter2", ONE)), index(("/w/password=hunter2hunter2", ONE)))
    assert "hunter2" not in shown


def test_files_anywhere_in_a_container(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    (out / "verdict.json").unlink()  # a part of a check leaves the verdict of a whole one
    line = (
        "echo 1 >{out}/a; echo 2 >{out}/b; echo 3 >here; cat /proc/sys/kernel/random/uuid >/tmp/drawn; "
        "echo 4 >>/etc/hostname.old; python -c 'import tinytrain'"
    )
    words = ("--store", built_example.store, "--only", "workload", "--runs", "2", "--output-file", "{out}/a")
    done = reprobuild("verify", out, *words, "--workload", line)
    assert done.returncode == 0, done.stderr
    assert "  warning: 4 files not compared, as no --output-file names them\n" in done.stdout
    (answer,) = json.loads((out / "verdict.json").read_text())["comparisons"]
    first, *others = answer["details"]
    assert first == "not compared: /tmp/drawn (37 bytes): differs"
    assert [line.split()[2].rpartition("/")[2] for line in others] == ["hostname.old", "b", "here"]
    assert "not compared: /tmp/drawn (37 bytes): differs" in done.stdout
