"""The page of a bisection: its order, its text, its size, and commands that repeat each trial."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.bisect.atoms import Atom
from reprobuild.bisect.explanation import explain_bisection, prepare_page
from reprobuild.bisect.metric import Metric
from reprobuild.bisect.result import BisectionResult, TrialRecord
from reprobuild.bisect.search import Answer, search
from reprobuild.bisect.trial import TrialCommand
from reprobuild.compare.environments.comparison import EnvironmentDifference
from reprobuild.errors import UsageError
from reprobuild.lock.file import write_lock
from reprobuild.report.html.explanation import render_explanation
from reprobuild.run.options import RunOptions
from tests.bisecting.small import PROLOGUE, Bench
from tests.browser import Browser
from tests.conftest import reprobuild
from tests.report.commands import read_commands
from tests.report.samples import HOSTILE, Page
from tests.report.test_page import DANGEROUS, TAGS

COMMAND = TrialCommand(arguments=("python", "t.py"), options=RunOptions())
PLANTED = "hf_" + "aB3dE5gH7jK9mN1p" * 2 + "Q7"


def atom(name: str, value: str = "1") -> Atom:
    return Atom(
        kind="variable",
        name=name,
        first=value,
        second=None,
        rank=1,
        reason=value,
        slots=(),
        names=(name, value),
    )


def explained(
    count: int = 14, guilty: frozenset[int] = frozenset({3}), value: str = "1", **more: Any
) -> BisectionResult:
    """Return the result of a search with a planted cause."""

    def test(chosen: frozenset[int]) -> Answer:
        return "B" if guilty <= chosen else "A"

    outcome = search(count, test)
    fields: dict[str, Any] = {
        "first": "a.lock", "second": "b.lock", "command": ("python", "t.py"), "oracle": "exit code",
        "engine": "builtin", "differences": tuple(atom(f"V{number}", value) for number in range(count)),
        "guilty": tuple(sorted(outcome.guilty)),
        "groups": tuple(tuple(sorted(group)) for group in outcome.groups), "forward": outcome.forward,
        "backward": outcome.backward, "removed": tuple(sorted(outcome.removed)),
        "sides": (
            TrialRecord(differences=(), answer="A", runs=2, lock="why.trials/aa.lock"),
            TrialRecord(differences=tuple(range(count)), answer="B", runs=2, remembered=2, lock="why.trials/bb.lock"),
        ),
        "trials": tuple(
            TrialRecord(
                differences=tuple(sorted(trial.chosen)), answer=trial.answer, seed=7, lock=f"why.trials/{number}.lock",
                why=value if number == 0 else "", result=value,
            )
            for number, trial in enumerate(outcome.trials)
        ), **more,
    }  # fmt: skip
    return BisectionResult(**fields)


def render(result: BisectionResult, command: TrialCommand = COMMAND, store: Path | None = None) -> str:
    return render_explanation(explain_bisection(result, command, store))


def machine(value: str = "A100") -> EnvironmentDifference:
    return EnvironmentDifference(
        rank=1, group="GPU", reason="", kind="gpu", name="GPU", one=value, other="H100"
    )


def test_the_answer_comes_first_and_the_machines_before_it() -> None:
    text = Page(render(explained(untestable=(machine(),)))).text
    places = [
        text.index(part)
        for part in (
            "1 difference of the machines cannot be mixed", "A100", "Which difference does it?", "1 of 14",
            "A with it gives the result of B?", "proved", "B without it gives the result of A?", "(guilty)",
            "remembered", "reprobuild build",
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert "machines" not in Page(render(explained())).text


def test_a_proof_that_failed_and_a_search_without_an_answer() -> None:
    text = Page(render(explained(backward="other", removed=(3, 5), forward="untestable"))).text
    assert text.count("NOT proved") == 2
    assert "B without it and what needs it (V5): another result." in text
    blank = explained(trials=(), reason="A differs from itself", hint="fix its seeds")
    text = Page(render(msgspec.structs.replace(blank, guilty=(), groups=()))).text
    assert "no answer" in text
    assert "fix its seeds" in text
    assert "No difference is accused." in text


def test_each_row_has_the_side_of_each_column() -> None:
    facts = explain_bisection(explained(), COMMAND)
    assert [line.name for line in facts.trials[:3]] == ["A", "B", "1"]
    assert set(facts.trials[0].sides) == {"A"}
    assert set(facts.trials[1].sides) == {"B"}
    assert facts.columns[0].guilty
    for line in facts.trials:
        assert (line.sides[0] == "B") == (line.answer == "the result of B")
    assert [line.origin for line in facts.trials[:3]] == ["run", "remembered", "run"]


def test_a_thousand_differences_are_few_columns() -> None:
    """Those that always had the same side are one column, and each of them stands on the page once."""
    result = explained(1000, frozenset({12, 700}))
    facts = explain_bisection(result, COMMAND)
    names = [difference.name for column in facts.columns for difference in column.differences]
    assert sorted(names) == sorted(f"V{number}" for number in range(1000))
    assert [column.name for column in facts.columns[:2]] == ["V12", "V700"]
    assert len(facts.columns) <= len(result.trials) + 2
    assert len(facts.columns) < 40
    content = render(result)
    assert len(content) < 500_000
    assert re.search(r"and \d+ more", content)


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_values_stay_text(bad: str) -> None:
    more = {"first": bad, "second": bad, "command": ("echo", bad), "untestable": (machine(bad),)}
    command = msgspec.structs.replace(COMMAND, arguments=("echo", bad))
    content = render(explained(value=bad, **more), command)
    parsed = Page(content)
    assert parsed.tags <= TAGS | {"br"}
    names = {name for name, _ in parsed.attributes}
    assert not names & DANGEROUS
    assert not [name for name in names if name.startswith("on")]
    assert content.count("<td") == render(explained(**{**more, "first": "x"})).count("<td")
    links = {value for name, value in parsed.attributes if name == "href"}
    ids = {f"#{value}" for name, value in parsed.attributes if name == "id"}
    assert links <= {"data:,"} | ids


def test_a_secret_is_on_no_page() -> None:
    options = RunOptions(variables=(f"HF_TOKEN={PLANTED}", "PLAIN=1"), hidden=("OTHER",))
    command = TrialCommand(arguments=("train", f"--token={PLANTED}"), options=options)
    content = render(explained(value=PLANTED, command=command.arguments, first=PLANTED), command)
    assert PLANTED not in content
    commands = read_commands(content, "trial 1")
    assert commands.startswith("# It has secrets or unprintable characters")
    assert "--secret HF_TOKEN -e PLAIN=1 --secret OTHER" in commands
    assert "\x1b" not in render(explained(value="\x1b[1m"))


def test_the_conditions_of_a_trial_are_in_its_commands(tmp_path: Path) -> None:
    options = RunOptions(volumes=("data:/data", "log:/log:rw"), workdir="/src", shm_size="8g", gpus="none")
    command = TrialCommand(
        arguments=("python", "t.py", "{out}/x"), options=options, metric=Metric(pattern="k", file="{out}/x")
    )
    commands = read_commands(render(explained(), command, tmp_path), "trial 1")
    here = Path.cwd()
    assert commands.splitlines() == [
        f"reprobuild build why.trials/0.lock -o why.trials/0 --store {tmp_path}",
        "mkdir -p why.trials/0.out",
        "reprobuild run why.trials/0 --engine builtin --seed 7 --gpu none "
        f"-v {here}/data:/data:ro -v {here}/log:/log:rw -w /src --shm-size 8g "
        "-e REPROBUILD_RECORD=0 -v why.trials/0.out:/reprobuild-out -- \\",
        "    python t.py /reprobuild-out/x",
    ]
    unwritten = explained(trials=(TrialRecord(differences=(1,), answer="A"),))
    assert "1: its lock looks as if it held a secret, and is not written." in Page(render(unwritten)).text


def test_a_page_has_a_name_of_its_own(tmp_path: Path) -> None:
    for name in ("why", "why.trials", "is"):
        with pytest.raises(UsageError, match="not the name of a page") as error:
            prepare_page(tmp_path / name)
        assert error.value.hint == "for example --explain why.html"
    (tmp_path / "is.html").mkdir()
    with pytest.raises(UsageError):
        prepare_page(tmp_path / "is.html")
    assert prepare_page(tmp_path / "new" / "why.html").is_dir()


@pytest.mark.parametrize("exists", [True, False])
def test_locks_of_trials_are_not_written_through_a_link(exists: bool, tmp_path: Path) -> None:
    if exists:
        (tmp_path / "elsewhere").mkdir()
    (tmp_path / "why.trials").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="is a link, and the locks of trials are not written") as error:
        prepare_page(tmp_path / "why.html")
    assert error.value.hint == "remove the link, and run this again"
    (tmp_path / "why.trials").unlink()
    assert prepare_page(tmp_path / "why.html") == tmp_path / "why.trials"


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
def test_a_trial_is_repeated_by_its_commands(bench: Bench, tmp_path: Path) -> None:
    """The lines of the page are followed as they are."""
    for name, lock in (("a.lock", bench.first), ("b.lock", bench.second)):
        write_lock(lock, tmp_path / name)
    script = PROLOGUE + (
        "hunk = 'early' in open('/src/tool/code.py').read()\n"
        "print(omp, hunk, e('GIVEN'), e('REPROBUILD_SEED'))\n"
        "sys.exit(5 + 3 * (omp == '4' and hunk) + 0 * len(e('SOME_TOKEN')))\n"
    )
    page = tmp_path / "it's.html"
    env = {**os.environ, "SOME_TOKEN": "planted"}
    done = reprobuild(
        "bisect", tmp_path / "a.lock", tmp_path / "b.lock", "--json", "--store", bench.store, "--offline",
        "--engine", "builtin", "-e", "GIVEN=a b", "--secret", "SOME_TOKEN", "--explain", page, "--",
        "python", "-c", script, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    content = page.read_text()
    assert "planted" not in content
    programs = {**env, "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"}
    # The mixture of the guilty set has a tree of a source that neither side has.
    number = next(
        n for n, trial in enumerate(document["trials"]) if trial["differences"] == document["guilty"]
    )
    assert document["trials"][number]["result"] == "exit code 8"
    commands = read_commands(content, f"trial {number + 1}")
    repeated = subprocess.run(
        ["sh", "-c", commands], cwd=tmp_path, env=programs, capture_output=True, text=True, check=False
    )
    assert repeated.returncode == 8, commands + repeated.stderr
    assert repeated.stdout.endswith("\n4 True a b 42\n")


@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
def test_in_a_browser(browser: Browser, theme: str, width: int) -> None:
    many = explained(200, frozenset({12, 70}), value=HOSTILE[1], untestable=(machine(),))
    browser.open(render(many), width=width, features={"prefers-color-scheme": theme})
    browser.open_all()
    assert browser.overflow() == 0
    assert browser.violations() == []
    assert browser.complaints() == []
    assert browser.requests() == set()
