"""Saved choices of compilers are a difference of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from reprobuild.api.context import open_context
from reprobuild.bisect.atoms import CHOICES_NAME
from reprobuild.bisect.explanation import explain_bisection
from reprobuild.bisect.mixture import make_mixer
from reprobuild.bisect.result import BisectionResult, TrialRecord
from reprobuild.bisect.trial import TrialCommand
from reprobuild.engines.model import Task
from reprobuild.image.choices.platform import find_platform
from reprobuild.lock.file import write_lock
from reprobuild.lock.system import EnvVar
from reprobuild.run.choice_pair import ChoicePair, MixtureChoices, find_choices
from reprobuild.run.choices import ChoiceUse
from reprobuild.run.options import RunOptions
from reprobuild.run.run import image_variables
from reprobuild.store.keyring import keyring
from tests.bisecting.locks import lock
from tests.choices.samples import CACHE, IMAGE, save_choices
from tests.compare.samples import compared
from tests.conftest import Built, another_user, reprobuild

# What a compiler leaves: its cache decides the result of the command.
SAVE = 'cd "$TORCHINDUCTOR_CACHE_DIR"; mkdir -p ab; echo {number} >ab/cab.so'
USE = 'cat "$TORCHINDUCTOR_CACHE_DIR/ab/cab.so"'


@pytest.fixture(scope="module")
def env(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return an environment that leads to the built-in engine, with a record of accepted choices of its own."""
    given = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
    return given | another_user(tmp_path_factory.mktemp("data"), built_example.store)


@pytest.fixture
def sides(built_example: Built, tmp_path: Path, env: Mapping[str, str]) -> tuple[Path, Path]:
    """Return two copies of the example; they have other saved choices."""
    copies = built_example.copy(tmp_path / "a"), built_example.copy(tmp_path / "b")
    for number, out in enumerate(copies):
        script = SAVE.format(number=number)
        done = reprobuild("run", out, "--save-choices", "--", "sh", "-c", script, env=env)
        assert done.returncode == 0, done.stderr
    return copies


def test_other_choices_are_convicted(
    sides: tuple[Path, Path], built_example: Built, env: Mapping[str, str]
) -> None:
    options = "--store", built_example.store, "--offline", "--json", "--metric", "([0-9])"
    done = reprobuild("bisect", *sides, *options, "--", "sh", "-c", USE, env=env)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [atom["name"] for atom in result["differences"]] == [CHOICES_NAME]
    assert result["guilty"] == [0]
    names = [next((side / "choices").glob("*.json")).name[:12] for side in sides]
    (atom,) = result["differences"]
    for value, name in zip((atom["first"], atom["second"]), names, strict=True):
        assert value == f"{name}: inductor (0 measurements, 1 compiled files)"
    done = reprobuild("bisect", *sides, *options, "--choices", "off", "--", "sh", "-c", "echo 1", env=env)
    assert done.returncode == 1
    assert json.loads(done.stdout)["differences"] == []


def test_todays_versions_get_no_choices(
    sides: tuple[Path, Path], built_example: Built, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the choices of the lock of `--since` would be a difference that no update made."""
    monkeypatch.setenv("XDG_DATA_HOME", env["XDG_DATA_HOME"])
    context = open_context(built_example.store, offline=True, caches=False)
    names, options = tuple(map(str, sides)), RunOptions()
    found = find_choices((names[0], names[1]), options, context)
    assert found.first is not None
    assert found.differ
    assert not find_choices((names[0], None), options, context)


def test_choices_of_another_party_are_not_used(
    sides: tuple[Path, Path], built_example: Built, env: Mapping[str, str], tmp_path: Path
) -> None:
    """They are code that this user did not accept; the log says how to accept them."""
    stranger = {**env, **another_user(tmp_path / "data", built_example.store)}
    options = "--store", built_example.store, "--offline", "--json"
    done = reprobuild("bisect", *sides, *options, "--", "sh", "-c", USE, env=stranger)
    assert done.returncode == 1
    for side in sides:
        digest = next((side / "choices").glob("*.json")).stem
        assert f"`reprobuild run {side} --trust-choices {digest} -- CMD` accepts them" in done.stderr
    result = json.loads(done.stdout)
    assert result["differences"] == []
    assert [item["kind"] for item in result["untestable"]] == ["choices"]


def test_a_mixture_has_the_choices_of_one_side(tmp_path: Path) -> None:
    first, second = lock(), lock(environment=(EnvVar(name="OMP_NUM_THREADS", value="4"),))
    other = {**CACHE, "inductor/ab/cab.so": b"other"}
    choices = ChoicePair(first=save_choices(tmp_path / "a"), second=save_choices(tmp_path / "b", other))
    mixer = make_mixer(first, second, choices=choices)
    numbers = {atom.name: number for number, atom in enumerate(mixer.atoms.atoms)}
    chosen = numbers.pop(CHOICES_NAME)
    assert mixer.mix([chosen]).choices.files == (choices.second,)
    assert mixer.mix([chosen]).lock == mixer.mix(()).lock
    assert mixer.mix(numbers.values()).choices.files == (choices.first,)
    assert mixer.mix(range(len(mixer.atoms.atoms))).choices.files == (choices.second,)
    alone = make_mixer(first, second, choices=ChoicePair(second=choices.second))
    assert alone.mix(()).choices.files == ()
    assert [atom.first for atom in alone.atoms.atoms if atom.kind == "choices"] == [None]


def test_equal_caches_of_two_platforms_are_no_difference(tmp_path: Path) -> None:
    """A mixture takes the record that fits it."""
    here = lock()
    platform = find_platform(here, None, image_variables(here))
    other = msgspec.structs.replace(platform, variables={"OMP_NUM_THREADS": "64"})
    choices = ChoicePair(
        first=save_choices(tmp_path / "a", platform=other),
        second=save_choices(tmp_path / "b", platform=platform),
    )
    assert not choices.differ
    assert make_mixer(here, here, choices=choices).atoms.atoms == ()
    both = choices.choose(second=False)
    assert both.files == (choices.first, choices.second)
    task = Task(arguments=("true",))
    assert both.explain_misfit(here, task, os.environ) == ""
    misfit = MixtureChoices(files=both.files[:1])
    reason = misfit.explain_misfit(here, task, os.environ)
    assert reason == (
        f"the saved choices {both.files[0].name} are of another platform: "
        "OMP_NUM_THREADS: 64 when they were saved, 2 here"
    )
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with misfit.mount(here, task, environ) as mounted:
        assert mounted == task


def test_exchanged_choices_are_a_difference_as_in_compare(tmp_path: Path) -> None:
    here, known = lock(), keyring()
    platform = find_platform(here, None, image_variables(here))
    platforms = platform, msgspec.structs.replace(platform, driver="1")
    caches = CACHE, {**CACHE, "inductor/ab/cab.so": b"other"}
    for name, order in (("a", 1), ("b", -1)):
        for number, contents in enumerate(caches[::order]):
            save_choices(tmp_path / name, contents, platforms[number], lock=here.digest)
        write_lock(here, tmp_path / name / "reprobuild.lock")

    def pair(image: str) -> ChoicePair:
        uses = (
            ChoiceUse(
                out=tmp_path / name,
                lock=here,
                image=image,
                known=known,
                options=RunOptions(),
                say=lambda _: None,
            )
            for name in ("a", "b")
        )
        first, second = (
            use.find_used(Task(arguments=("true",)), image_variables(here), os.environ) for use in uses
        )
        return ChoicePair(first=first, second=second)

    assert pair(IMAGE).first
    assert pair(IMAGE).differ
    assert [item.kind for item in compared(tmp_path / "a", tmp_path / "b").differences] == ["choices"]
    assert not pair(f"sha256:{'9' * 64}")


def test_the_page_says_that_its_lines_do_not_use_the_choices(tmp_path: Path) -> None:
    choices = ChoicePair(second=save_choices(tmp_path / "b"))
    mixer = make_mixer(lock(), lock(), choices=choices)
    trial = TrialRecord(
        differences=(0,), answer="B", runs=1, remembered=0, why="", seed=1, seconds=1, setup=1, result="1",
        lock="why.trials/0.lock",
    )  # fmt: skip
    result = BisectionResult(
        first="a", second="b", command=("true",), oracle="exit code", differences=mixer.atoms.atoms,
        sides=(msgspec.structs.replace(trial, differences=(), answer="A"), trial), engine="builtin",
    )  # fmt: skip
    page = explain_bisection(result, TrialCommand(arguments=("true",), options=RunOptions()), None)
    without, with_choices = (line.commands for line in page.trials)
    assert "saved choices" not in without
    used = f"{choices.second.name}: inductor (1 measurements, 1 compiled files)" if choices.second else ""
    assert with_choices.startswith(f"# The trial also had the saved choices of compilers {used}: these lines")
