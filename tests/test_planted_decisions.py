"""A `reprobuild.yaml` beside a foreign snapshot: what it hides in long lists, and the time that it takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.config.override_text import list_unconfirmed, shorten_decision
from reprobuild.config.overrides import BuildDecision, Decisions, is_named, read_decisions
from reprobuild.errors import UsageError
from reprobuild.infra.suggest import did_you_mean, find_close
from reprobuild.resolve.unused_overrides import describe_misspelt_words, describe_unused_overrides
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import reprobuild

MANY = [f"zz{number:05}" for number in range(2600)]


def make_snapshot(folder: Path, decisions: str) -> Path:
    (folder / "snapshot").mkdir()
    (folder / "snapshot" / "requirements.txt").write_text("click==8.1.7\nidna==3.7\n")
    (folder / "reprobuild.yaml").write_text(decisions)
    return folder / "snapshot"


@pytest.mark.parametrize(
    ("decisions", "name"),
    [
        (f"drop: [click, {', '.join(MANY)}]", "drop = click, zz00000"),
        (f"workload: {{command: [run, {'x' * 3000}], outputs: [a]}}", "workload.command = run, xxx"),
        (f"build: {{click: {{variables: {{A: {'x' * 3000}}}}}}}", "build.click.variables.A = xxx"),
    ],
)
def test_a_long_decision_is_named_and_needs_the_user(decisions: str, name: str, tmp_path: Path) -> None:
    snapshot = make_snapshot(tmp_path, decisions)
    words = ("--python", "3.11", "--accept", "no-apt-list", "--store", tmp_path / "store")
    done = reprobuild("lock", snapshot, "-o", tmp_path / "lock", *words)
    assert done.returncode == 2, done.stderr
    assert f"decides what only you can: {name}" in done.stderr
    assert "too long to show" not in done.stderr
    assert f"--decisions {snapshot.parent / 'reprobuild.yaml'}" in done.stderr
    assert not (tmp_path / "lock").exists()
    shown = reprobuild("show", snapshot, "--python", "3.11")
    assert f"decisions of {snapshot.parent / 'reprobuild.yaml'}: {name}" in shown.stderr
    assert " characters)" in shown.stderr


def test_a_short_decision_is_shown_whole() -> None:
    assert list_unconfirmed(Decisions(drop=("click",))) == ()
    assert shorten_decision("drop = click") == "drop = click"


@pytest.mark.parametrize("field", ["drop", "bake"])
def test_many_patterns_are_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "reprobuild.yaml"
    path.write_text(f"{field}:\n" + "".join(f"- '*{number}*'\n" for number in range(40_000)))
    with pytest.raises(
        UsageError, match=f"{field} has 40000 patterns, and at most 100 are compared"
    ) as failure:
        read_decisions(path)
    assert failure.value.hint == "write names, or one pattern for several of them"
    path.write_text(f"{field}: ['lib*', plain]\n")
    assert is_named("libfoo", getattr(read_decisions(path), field))


def test_close_names_of_few_words_are_looked_for(tmp_path: Path) -> None:
    snapshot = read_snapshot(make_snapshot(tmp_path, ""))
    decisions = Decisions(build={f"clic{number}": BuildDecision() for number in range(100)})
    texts = list(describe_unused_overrides(decisions, snapshot))
    assert (len(texts), sum("did you mean `click`?" in text for text in texts)) == (100, 20)
    dropped = Decisions(drop=tuple(f"clic{number}" for number in range(100)))
    assert list(describe_misspelt_words(dropped, ())) == []


def test_the_names_that_are_compared_with_a_word_are_bounded() -> None:
    taken = 0

    def names() -> Iterator[str]:
        nonlocal taken
        for number in range(1_000_000):
            taken += 1
            yield f"{number:0200}"

    assert find_close("train.py", names()) == ""
    assert taken < 6000
    assert find_close("x" * 1000, ["x" * 1001]) == ""
    assert did_you_mean("a;touch b", ["a;touch c"]) == "did you mean `'a;touch c'`?"
