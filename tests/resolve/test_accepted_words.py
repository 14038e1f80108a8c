"""A word of `accept` that accepts nothing is an error, unless another machine or another day may need it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions, merge_decisions, read_decisions
from reprobuild.errors import UsageError
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve.accepted_words import (
    MACHINE_CLASSES,
    SNAPSHOT_CLASSES,
    check_accepted_classes,
    check_accepted_words,
    check_words_early,
    describe_unknown_word,
    find_unknown_words,
)
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from tests.conftest import ROOT
from tests.resolve.small import around, snapshot, use_debian
from tests.resolve.test_classes import documented

BASE = "debian/bookworm"


def ruling(subject: str, outcome: Outcome, kind: str, *, accepted: bool = False) -> Resolution:
    return Resolution(
        file="requirements.txt", line=2, subject=subject, outcome=outcome, reason="because", kind=kind,
        accepted=accepted,
    )  # fmt: skip


GONE = [ruling(f"lib{number}", "replaced", "withdrawn", accepted=True) for number in range(5)]
RULINGS = [ruling("torch", "pinned", ""), ruling("HOME", "excluded", "session"), *GONE]


def check(*words: str, rulings: list[Resolution] = RULINGS, **overrides: object) -> None:
    decisions = Decisions(accept=words, **overrides)  # type: ignore[arg-type]  # a case names some fields
    check_accepted_words(decisions, Snapshot(digest=""), rulings)


@pytest.mark.parametrize(
    "word", ["withdrawn", "unknown-version", "torch", "lib3", "requirements.txt:2", "python"]
)
def test_a_class_of_machines_a_name_and_a_line_are_no_errors(word: str) -> None:
    check(word)


def test_a_file_of_a_captured_source_may_lose_its_secret() -> None:
    check("torch/.env")
    with pytest.raises(UsageError, match=r"^--accept job/\.env is no class"):
        check("job/.env")


def test_all_wrong_words_are_in_one_error_that_lists_what_occurs() -> None:
    with pytest.raises(UsageError) as caught:
        check("withdrwan", "session", "requirements.txt:9", "unread-line", "withdrawn")
    assert str(caught.value).splitlines() == [
        "--accept unread-line has no effect: no line of this snapshot has this class",
        "--accept withdrwan is no class, and no name or line of this snapshot; did you mean `withdrawn`?",
        "--accept session is no class, and no name or line of this snapshot",
        "--accept requirements.txt:9 is no class, and no name or line of this snapshot; did you mean "
        "`requirements.txt:2`?",
    ]
    assert caught.value.hint == (
        "leave it out; the deviations of this snapshot are: withdrawn (lib0, lib1, lib2 and 2 more)"
    )


def test_a_snapshot_without_deviations_says_so() -> None:
    with pytest.raises(UsageError) as caught:
        check("other-pip", rulings=RULINGS[:2])
    assert caught.value.hint == "leave it out: this snapshot has no deviation on this machine"


@pytest.mark.parametrize(
    ("word", "overrides"),
    [
        ("python-guess", {"python": "3.11"}), ("stray-diff", {"sources": {"job": "/job@HEAD"}}),
        ("solved", {"as_of": "2024-01-15"}), ("suspect-value", {"drop": ("FOO",)}),
    ],
)  # fmt: skip
def test_another_override_may_answer_the_same_question(word: str, overrides: dict[str, object]) -> None:
    """The word of a file waits for the run without that option."""
    check(word, **overrides)
    with pytest.raises(UsageError):
        check(word)


def test_a_line_without_a_version_may_have_one_by_date() -> None:
    lines = Snapshot(digest="", requirements=pip_freeze.parse(b"click\n")[0])
    solved = [ruling("click", "solved", "solved", accepted=True)]
    check_accepted_words(Decisions(accept=("index-line",), as_of="2024-01-15"), lines, solved)
    with pytest.raises(UsageError, match="--accept index-line has no effect") as caught:
        check("index-line", rulings=solved)
    assert caught.value.hint == "leave it out; the deviations of this snapshot are: solved (click)"


def test_the_two_tables_have_every_documented_class() -> None:
    assert MACHINE_CLASSES.isdisjoint(SNAPSHOT_CLASSES)
    assert documented() == MACHINE_CLASSES | SNAPSHOT_CLASSES.keys()
    assert {field for fields in SNAPSHOT_CLASSES.values() for field in fields} <= {
        *Decisions.__struct_fields__
    }


def test_the_page_names_the_classes_that_must_occur() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text()
    rule = text.partition("The snapshot and the overrides decide the classes")[2].partition("Such a class")[0]
    assert re.findall(r"`([a-z-]+)`", rule) == sorted(SNAPSHOT_CLASSES)


def test_the_classes_alone_are_checked_before_wheels_are_fetched() -> None:
    """A name may be that of a library, which only a wheel shows."""
    check_accepted_classes(Decisions(accept=("libfoo1",)), Snapshot(digest=""), RULINGS)
    with pytest.raises(UsageError, match="--accept other-pip has no effect"):
        check_accepted_classes(Decisions(accept=("other-pip",)), Snapshot(digest=""), RULINGS)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("wihtdrawn", "--accept wihtdrawn is no class; did you mean `withdrawn`?"),
        ("unkown-version", "--accept unkown-version is no class; did you mean `unknown-version`?"),
        ("requirements.txt:9", "--accept requirements.txt:9 names no captured line"),
        ("other-pip", "--accept other-pip has no effect: no line of this snapshot has this class"),
        ("unread-line", "--accept unread-line has no effect: no line of this snapshot has this class"),
        ("no-apt-list", "--accept no-apt-list has no effect: no line of this snapshot has this class"),
    ],
)
def test_a_wrong_word_is_refused_before_any_index_is_asked(
    word: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways of the hint are followed: without the word, and with the corrected one."""
    held = snapshot(tmp_path / "snapshot", requirements="click==8.1.7\n")
    monkeypatch.setattr("reprobuild.resolve.resolver._resolve", lambda *_: pytest.fail("an index was asked"))
    with pytest.raises(UsageError) as caught:
        resolve_snapshot(held, Decisions(accept=("withdrawn", word)), around(tmp_path))
    assert str(caught.value) == text
    assert caught.value.hint == "correct it, or leave it out; docs/decisions.md has all classes"
    right = re.findall("did you mean `(.*)`", text) or ["requirements.txt:1"]
    check_words_early(Decisions(accept=("withdrawn", *right)), held)


@pytest.mark.parametrize(
    "word", ["libfoo1", "torch/.env", "requirements.txt:0", "note.txt:7", "env.txt:99", "a:b"]
)
def test_a_word_that_a_later_step_may_know_is_not_refused_early(word: str, tmp_path: Path) -> None:
    held = snapshot(tmp_path / "snapshot", requirements="click==8.1.7\n-e /home/user/job\nnot a line\n")
    check_words_early(Decisions(accept=(word, "requirements.txt:3", "unread-line")), held)


def test_a_word_is_unknown_at_a_refusal_where_it_is_no_class_name_or_line(tmp_path: Path) -> None:
    held = snapshot(tmp_path / "snapshot", requirements="click==8.1.7\n")
    refused = [{"file": "env.txt", "line": 2, "subject": "LATE", "class": "suspect-value"}]
    known = ("withdrawn", "click", "click/.env", "requirements.txt:1", "LATE", "env.txt:2", "python")
    decisions = Decisions(accept=(*known, "everything", "libfoo1", "other.txt:1", ""))
    unknown = find_unknown_words(decisions, held, refused)
    assert unknown == ["everything", "libfoo1", "other.txt:1", ""]
    assert describe_unknown_word("a b") == (
        "leave out --accept 'a b': it is no class, and so far no name or line of this snapshot"
    )


@pytest.mark.parametrize("place", ["option", "file"])
def test_a_lock_refuses_it_from_an_option_and_from_a_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_debian(monkeypatch)
    held = snapshot(tmp_path / "snapshot")
    decisions = Decisions(base=BASE)

    def accept(*words: str) -> Decisions:
        if place == "option":
            return merge_decisions(decisions, Decisions(accept=words))
        path = tmp_path / "reprobuild.yaml"
        path.write_text(f"base: {BASE}\naccept: [{', '.join(words)}]\n")
        return read_decisions(path)

    for word in ("no-apt-list", "no-such-class"):
        with pytest.raises(UsageError, match=f"^--accept {word} "):
            resolve_snapshot(held, accept(word), around(tmp_path))
    lock = resolve_snapshot(held, accept("withdrawn", "libc6", "apt-packages.txt:1"), around(tmp_path))
    assert lock.decisions.as_dict()["accept"] == ["withdrawn", "libc6", "apt-packages.txt:1"]
