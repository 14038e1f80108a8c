"""A mistyped name is answered with the name that was meant, and that name works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from reprobuild.cli import main as cli
from reprobuild.config.overrides import Decisions, read_decisions
from reprobuild.errors import LockError, UsageError
from reprobuild.infra.suggest import did_you_mean
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.python.classify import Lookup
from reprobuild.resolve.python.rulings import rule_unknown_version
from reprobuild.resolve.unused_overrides import describe_misspelt_words
from reprobuild.snapshot.parsers import pip_freeze
from tests.resolve.test_environment import decide, variable
from tests.test_cli import Said as Said
from tests.test_cli import said as said

MEANT = re.compile(r"did you mean `([^`]+)`\?")


def meant(text: str) -> str:
    """Return the name that a message suggests."""
    found = MEANT.search(text)
    assert found, text
    return found[1]


def ruling(subject: str, outcome: Outcome, kind: str) -> Resolution:
    return Resolution(
        file="requirements.txt", line=7, subject=subject, outcome=outcome, reason="because", kind=kind
    )


@pytest.mark.parametrize(
    ("words", "wrong", "right"),
    [
        (["verfy"], "verfy", "verify"),
        (["from-snapshto"], "from-snapshto", "from-snapshot"),
        (["store", "chek"], "chek", "check"),
        (["cluster", "gater"], "gater", "gather"),
    ],
)
def test_a_command(words: list[str], wrong: str, right: str, said: Said) -> None:
    code, what, hint = said.failed(*words)
    parent = " ".join(["reprobuild", *words[:-1]])
    assert (code, what) == (2, f"No such command '{wrong}'.")
    assert hint == f"did you mean `{right}`? Otherwise see `{parent} --help`"
    assert said(*words[:-1], meant(hint), "--help") == 0


@pytest.mark.parametrize(
    ("words", "right", "value"),
    [
        (["verify", "--engin"], "--engine", ["docker"]),
        (["cluster", "run", "--time-limt"], "--time-limit", ["10"]),
        (["verify", "--no-contrl"], "--no-controls", []),
        (["--versio"], "--version", []),
    ],
)
def test_an_option(words: list[str], right: str, value: list[str], said: Said) -> None:
    code, what, hint = said.failed(*words)
    parent = " ".join(["reprobuild", *words[:-1]])
    assert (code, what) == (2, f"No such option '{words[-1]}'.")
    assert hint == f"did you mean `{right}`? Otherwise see `{parent} --help`"
    assert said(*words[:-1], meant(hint), *value, "--help") == 0


def test_a_choice(said: Said) -> None:
    code, what, hint = said.failed("verify", "--only", "roundtrip")
    assert code == 2
    assert what == "Invalid value for '--only': 'roundtrip' is not one of 'round-trip', 'probes', 'workload'."
    assert hint == "did you mean `round-trip`? Otherwise see `reprobuild verify --help`"
    assert said("verify", "--only", meant(hint), "--help") == 0


def test_an_option_of_run(said: Said) -> None:
    code, _, hint = said.failed("run", "frozen", "--sed", "7", "--", "true")
    assert code == cli.OWN_FAILURE
    assert meant(hint) == "--seed"


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("pyton: '3.11'\n", "python"),
        ("source: {mylib: /x}\n", "sources"),
        ("build: {mylib: {require: [x]}}\n", "requires"),
        ("archives: [{url: 'https://x.example', keys: ''}]\n", "key"),
    ],
)
def test_a_key_of_the_yaml_file(text: str, right: str, tmp_path: Path) -> None:
    path = tmp_path / "reprobuild.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_decisions(path)
    assert meant(caught.value.hint) == right
    wrong = re.findall("unknown field `(.*?)`", str(caught.value))[0]
    path.write_text(text.replace(f"{wrong}:", f"{right}:"))
    assert read_decisions(path) != Decisions()


@pytest.mark.parametrize(("wrong", "right"), [("torhc", "torch"), ("withdrwan", "withdrawn")])
def test_a_word_of_accept_when_a_line_is_refused(wrong: str, right: str) -> None:
    rulings = [ruling("torch", "replaced", "withdrawn"), ruling("numpy", "pinned", "")]
    with pytest.raises(LockError) as caught:
        accept_deviations(rulings, [wrong, "numpy"])
    hint = f"--accept {wrong} names no captured line: did you mean `{right}`?"
    assert caught.value.hint.splitlines()[0] == hint
    assert "numpy" not in caught.value.hint
    assert [found.accepted for found in accept_deviations(rulings, [meant(hint)])] == [True, False]


def test_a_misspelt_project_is_corrected_before_it_is_left_out() -> None:
    lookup = Lookup(where="indexes")
    (line,), _ = pip_freeze.parse(b"scikit-lern==1.3.2\n")
    with pytest.raises(LockError) as caught:
        accept_deviations([rule_unknown_version(line, (), lookup, "")], [])
    assert caught.value.hint.splitlines() == [
        "if it is scikit-learn, write that in place of scikit-lern in requirements.txt:1",
        "to go on without exactly these: --accept scikit-lern",
        "with --accept scikit-lern the image will NOT have scikit-lern",
    ]


def test_words_of_drop_and_index_that_name_nothing() -> None:
    rulings = [ruling("torch", "pinned", ""), ruling("OMP_NUM_THREADS", "excluded", "job")]
    wrong = Decisions(drop=("torhc", "OMP_NUM_THREAD"), indexes={"Torche": "https://x.example"})
    said = list(describe_misspelt_words(wrong, rulings))
    assert said == [
        "--drop torhc names no captured line; did you mean `torch`?",
        "--drop OMP_NUM_THREAD names no captured line; did you mean `OMP_NUM_THREADS`?",
        "--index torche names no captured line; did you mean `torch`?",
    ]
    right = Decisions(drop=(meant(said[0]), meant(said[1])), indexes={meant(said[2]): "https://x.example"})
    assert list(describe_misspelt_words(right, rulings)) == []


def test_a_variable_of_bake() -> None:
    with pytest.raises(UsageError) as caught:
        decide(variable("OMP_PLACES", "cores"), bake={"OMP_PLACE": None})
    assert caught.value.hint == "did you mean `OMP_PLACES`?\ngive its value: --bake OMP_PLACE=VALUE"
    settings, _ = decide(variable("OMP_PLACES", "cores"), bake={meant(caught.value.hint): None})
    assert settings == {"OMP_PLACES": "cores"}


def test_words_that_are_not_close_to_a_line_are_not_mentioned() -> None:
    """One file of overrides may serve many snapshots."""
    rulings = [ruling("torch", "pinned", "")]
    fine = Decisions(drop=("SLURM_*", "tor*", "scipy"), indexes={"scipy": "x"})
    assert list(describe_misspelt_words(fine, rulings)) == []


def test_a_word_that_is_close_to_no_name() -> None:
    assert did_you_mean("zzz", ["torch"]) == ""
    assert did_you_mean("torch", ["torch"]) == ""


def test_an_error_that_suggests_nothing_has_its_own_hint(said: Said) -> None:
    assert said.failed("zzzzz")[2] == "see `reprobuild --help`"


def test_a_suggested_name_is_one_word_of_a_shell() -> None:
    """A name can come from a snapshot or an image of others."""
    assert did_you_mean("train.pyid", ["train.py;id"]) == "did you mean `'train.py;id'`?"
