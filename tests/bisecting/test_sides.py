"""The environments and failures of the command, without a container."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.api.context import open_context
from reprobuild.bisect.artefacts import artefact_oracle
from reprobuild.bisect.bisection import Judging, bisect
from reprobuild.bisect.metric import Metric
from reprobuild.bisect.mixture import make_mixer
from reprobuild.bisect.oracle import LOOKS, ExactOracle, NoisyOracle, Outcome, Runs, exit_code_oracle
from reprobuild.bisect.result import BisectionResult, TrialRecord, render_bisection
from reprobuild.bisect.sides import _machine_differences, bisect_sides
from reprobuild.bisect.trial import MOST_SEARCHES, Laboratory, TrialCommand, reserve_name
from reprobuild.compare.environments.comparison import EnvironmentDifference
from reprobuild.compare.environments.open import Running
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.engines import builtin
from reprobuild.errors import BuildError, EngineError, InconclusiveError, LockError, UsageError
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.pipeline.locked_side import Decide
from reprobuild.pipeline.trial_image import load_trial_image
from reprobuild.run.choice_pair import ChoicePair, MixtureChoices
from reprobuild.run.options import RunOptions
from reprobuild.snapshot.model import Snapshot
from reprobuild.store.store import Store
from tests.bisecting.locks import lock, variable
from tests.conftest import reprobuild

COMMAND = TrialCommand(arguments=("true",), options=RunOptions())
SECRET = "hf_" + "aB3dE5gH7jK9mN1p" * 2 + "Q7"


class Bench:
    """Searches whose containers give prepared outcomes."""

    def __init__(
        self, context: RunContext, monkeypatch: pytest.MonkeyPatch, outcome: Callable[[Lock], Outcome]
    ) -> None:
        self.steps: list[str] = []
        self.shown: list[str] = []
        self.ran: set[tuple[str, ...]] = set()
        self._context = msgspec.structs.replace(context, say=self.steps.append, progress=self._show)

        def run(
            laboratory: Laboratory, lock: Lock, part: str, title: str, choices: MixtureChoices
        ) -> Outcome:
            self.ran.add(laboratory.command.arguments)
            return outcome(lock)

        monkeypatch.setattr(Laboratory, "_run", run)
        monkeypatch.setattr("reprobuild.bisect.trial.image_key", lambda lock, _: lock.digest)
        monkeypatch.setattr("reprobuild.bisect.bisection.find_engine", lambda *_, **__: builtin)

    def _show(self, done: int, total: int, detail: str = "", *, unit: str = "") -> None:
        assert total == 0
        self.shown.append(f"{done} {unit}: {detail}")

    def bisect(
        self, arguments: tuple[str, ...], first: Lock, second: Lock, judging: Judging | None = None, jobs: int = 1,
        **more: Any,
    ) -> BisectionResult:  # fmt: skip
        command = msgspec.structs.replace(COMMAND, arguments=arguments, **more)
        blank = BisectionResult(first="A", second="B", command=arguments, oracle="")
        return bisect(
            make_mixer(first, second), command, judging or Judging(), self._context, blank, jobs=jobs
        )


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    return open_context(tmp_path / "store", offline=True, caches=False)


def decide(_: Path) -> tuple[Decisions, RunContext]:
    raise AssertionError("there is no snapshot")


def sides(
    folder: Path, context: RunContext, first: str, second: str, decide: Decide = decide
) -> BisectionResult:
    running = Running(python=sys.executable, env=context.env)
    return bisect_sides((first, second), folder, decide, COMMAND, Judging(), context, running)


def test_a_path_that_is_not_there_and_an_image(tmp_path: Path, context: RunContext) -> None:
    hint = "give a lock, an output directory, a snapshot, or the word `here`"
    with pytest.raises(UsageError, match="there is nothing at") as error:
        sides(tmp_path, context, str(tmp_path / "gone"), str(tmp_path / "gone"))
    assert error.value.hint == hint
    image = tmp_path / "image"
    image.mkdir()
    (image / "index.json").write_text("{}")
    (tmp_path / "sides").mkdir()
    with pytest.raises(UsageError, match="/image is an image, and only a lock can be mixed") as error:
        sides(tmp_path / "sides", context, str(image), str(image))
    assert error.value.hint == hint


def test_a_snapshot_that_cannot_be_locked_is_to_be_locked_first(
    tmp_path: Path, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "job 1"
    snapshot.mkdir()
    (snapshot / "requirements.txt").write_text("numpy\n")
    write_lock(lock(), tmp_path / "b")
    with pytest.raises(LockError, match="no file of the snapshot shows which Python it was") as error:
        sides(tmp_path, context, str(snapshot), str(tmp_path / "b"), lambda _: (Decisions(), context))
    first, *rest = error.value.hint.splitlines()
    assert first == (
        "lock it with the options that follow, and name that lock: "
        f"`reprobuild lock '{snapshot}' -o side.lock`"
    )
    options = "--python X.Y.Z --as-of DATE --accept no-apt-list"
    assert rest[0].endswith(f"all answers at once: {options}")
    words = options.replace("X.Y.Z", "3.11.2").replace("DATE", "2024-01-15").split()
    done = reprobuild("lock", snapshot, "-o", tmp_path / "side.lock", "--store", tmp_path / "store", *words)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr("reprobuild.bisect.sides.keep_inputs", lambda *_: contextlib.nullcontext())
    (tmp_path / "again").mkdir()
    side = str(tmp_path / "side.lock")
    assert sides(tmp_path / "again", context, side, side).hint == (
        "`reprobuild compare A B` lists all differences"
    )


def test_the_running_environment_is_captured_and_locked(
    tmp_path: Path, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of this machine may need decisions, so a lock stands for it."""
    seen = []

    def choose(snapshot: Snapshot, *_: object) -> Lock:
        seen.extend(line.name for line in snapshot.requirements)
        return lock()

    monkeypatch.setattr("reprobuild.pipeline.locked_side.choose_lock", choose)
    monkeypatch.setattr("reprobuild.bisect.sides.keep_inputs", lambda *_: contextlib.nullcontext())
    write_lock(lock(), tmp_path / "a")
    result = sides(tmp_path, context, str(tmp_path / "a"), "here", lambda _: (Decisions(), context))
    assert (result.second, "pytest" in seen) == ("here", True)
    monkeypatch.setattr("reprobuild.pipeline.locked_side.choose_lock", refuse)
    (tmp_path / "again").mkdir()
    with pytest.raises(LockError) as error:
        sides(tmp_path / "again", context, str(tmp_path / "a"), "here", lambda _: (Decisions(), context))
    assert error.value.hint == (
        "lock it with the options that follow, and name that lock: `reprobuild capture -o side`, then "
        "`reprobuild lock side -o side.lock`\n--accept withdrawn"
    )


def refuse(*_: object) -> Lock:
    raise LockError("a file is withdrawn", hint="--accept withdrawn")


def test_software_of_modules_is_listed_and_not_accused(tmp_path: Path, context: RunContext) -> None:
    for name, version in (("a", "12.1"), ("b", "12.4")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "modules.txt").write_text(f"Currently Loaded Modulefiles:\n 1) cuda/{version}\n")
    found = _machine_differences(
        (str(tmp_path / "a"), str(tmp_path / "b")), Running(python="", env=context.env), ChoicePair()
    )
    assert [(item.kind, item.name, item.one, item.other) for item in found] == [
        ("module", "cuda", "12.1", "12.4")
    ]


def test_locks_of_two_platforms_are_not_mixed(tmp_path: Path, context: RunContext) -> None:
    write_lock(lock(), tmp_path / "a")
    write_lock(lock(platform="linux/arm64"), tmp_path / "b")
    with pytest.raises(UsageError, match="A is for linux/amd64, and B for linux/arm64") as error:
        sides(tmp_path, context, str(tmp_path / "a"), str(tmp_path / "b"))
    assert error.value.hint == (
        "lock one of them again for the other's platform: `reprobuild lock DIR --platform OS/ARCH`"
    )


def test_equal_locks_are_said_to_be_equal(context: RunContext) -> None:
    blank = BisectionResult(first="a", second="b", command=("true",), oracle="")
    result = bisect(make_mixer(lock(), lock()), COMMAND, Judging(), context, blank)
    assert result.hint == "`reprobuild compare A B` lists all differences"


def runs_of(*outcomes: Outcome) -> Runs:
    return lambda number: outcomes[number % len(outcomes)]


def code(number: int) -> Outcome:
    return Outcome(code=number)


@pytest.mark.parametrize(
    ("first", "second", "message", "hint"),
    [
        ((code(0), code(1)), (code(0),), "A differs from itself: exit code 0 and exit code 1",
         "fix its seeds, or judge it by a noisy number: --metric with --noisy"),
        ((code(0),), (code(2), code(1)), "B differs from itself: exit code 2 and exit code 1",
         "fix its seeds, or judge it by a noisy number: --metric with --noisy"),
        ((code(1),), (code(1),), "A and B give the same result: exit code 1",
         "try another command or input, or compare output files or a number: --output-file, --metric"),
        ((code(0),), (Outcome(code=None, why="no wheel"),), "B itself cannot be tested: no wheel",
         "build it alone: `reprobuild build LOCK -o OUT`, and try the command with `reprobuild run`"),
    ],
)  # fmt: skip
def test_sides_that_show_nothing(
    first: tuple[Outcome, ...], second: tuple[Outcome, ...], message: str, hint: str
) -> None:
    with pytest.raises(InconclusiveError) as error:
        exit_code_oracle().check(runs_of(*first), runs_of(*second))
    assert (str(error.value), error.value.hint) == (message, hint)


def test_hints_of_noisy_numbers() -> None:
    with pytest.raises(InconclusiveError) as error:
        NoisyOracle(0.05).check(runs_of(code(0)), runs_of(code(0)))
    assert error.value.hint == (
        "--metric is a regular expression for standard output, whose group is the number"
    )
    equal = runs_of(Outcome(code=0, number=1), Outcome(code=0, number=2))
    with pytest.raises(InconclusiveError, match=f"in {LOOKS[-1]} runs of each") as error:
        NoisyOracle(0.05).check(equal, equal)
    assert error.value.hint == "let the command measure for longer, or choose a number with less noise"


def test_names_of_images_are_of_one_search(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.bisect.trial.MOST_SEARCHES", 2)
    assert MOST_SEARCHES == 64
    with reserve_name(context) as first, reserve_name(context) as second:
        assert first != second
        with (
            pytest.raises(InconclusiveError, match="2 searches use the store") as error,
            reserve_name(context),
        ):
            pass
        assert error.value.hint == "wait until one of them ends"
    with reserve_name(context) as name:
        assert name == first


def laboratory(context: RunContext, **more: Any) -> Laboratory:
    return Laboratory(msgspec.structs.replace(COMMAND, **more), builtin, context, "reprobuild-bisect:test")


def test_a_mount_that_changes_ends_the_search(
    tmp_path: Path, context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").write_text("1")
    place = laboratory(context, options=RunOptions(volumes=(f"{tmp_path / 'data'}:/data",)))
    (tmp_path / "data").write_text("22")
    monkeypatch.setattr(place, "image_name", lambda *_: "image")
    monkeypatch.setattr("reprobuild.bisect.trial.image_key", lambda *_: "key")
    with pytest.raises(InconclusiveError, match="the mount /data changed while the search ran") as error:
        place.runs(lock())(0)
    assert error.value.hint == "mount a copy that no other program changes"


@pytest.mark.parametrize("options", [{"hidden": ("DATA",)}, {"variables": ("DATA_TOKEN",)}])
def test_another_value_of_a_hidden_variable_is_another_trial(
    options: dict[str, Any], context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprobuild.bisect.trial.image_key", lambda *_: "key")
    ran = []
    for value in ("hf_" + "a" * 34, "hf_" + "b" * 34, "hf_" + "a" * 34):
        env = {**context.env, "DATA": value, "DATA_TOKEN": value}
        place = laboratory(msgspec.structs.replace(context, env=env), options=RunOptions(**options))
        monkeypatch.setattr(
            place,
            "_run",
            lambda lock, part, title, choices, value=value: ran.append(value) or Outcome(code=0),
        )
        place.runs(lock())(0)
    assert ran == ["hf_" + "a" * 34, "hf_" + "b" * 34]
    remembered = b"".join(path.read_bytes() for path in (context.store.root / "made").iterdir())
    assert b"aaaa" not in remembered


def test_values_that_are_secrets_are_not_shown() -> None:
    secret = "hf_" + "x" * 34
    variables = [
        variable("WANDB_API_KEY", secret),
        variable("https_proxy", f"http://bob:{secret}@proxy.example"),
    ]
    mixer = make_mixer(lock(), lock(environment=tuple(variables)))
    text = render_bisection(result(differences=mixer.atoms.atoms, guilty=(0, 1, 2)), everything=True)
    assert secret not in text
    assert secret not in repr(msgspec.to_builtins(mixer.atoms))
    assert "(secret)" in [atom.second for atom in mixer.atoms.atoms]


@pytest.mark.parametrize("words", [("--token", SECRET), (f"--token={SECRET}",), ("-c", f"login('{SECRET}')")])
def test_a_secret_of_the_command_is_in_no_step_and_no_document(
    words: tuple[str, ...], context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Bench(context, monkeypatch, lambda lock: Outcome(code=int(bool(lock.environment))))
    found = place.bisect(("train.py", *words), lock(environment=()), lock())
    assert found.is_proved
    assert found.command[0] in ("train.py", "***")
    assert SECRET not in json.dumps([place.steps, msgspec.to_builtins(found)])
    assert place.ran == {("train.py", *words)}


def test_steps_say_what_ran_and_what_came_out(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Bench(context, monkeypatch, lambda lock: Outcome(code=3 * bool(lock.environment)))
    first, second = lock(environment=()), lock()
    place.bisect(("train.py",), first, second)
    assert place.steps == [
        "running A and B: train.py", "A, run 1: exit code 0", "A, run 2: exit code 0", "B, run 1: exit code 3",
        "B, run 2: exit code 3", "trial 1: A with 1 of 2 differences", "1 of 2 differences: the result of B",
        "trial 2: A with 1 of 2 differences", "1 of 2 differences: the result of B",
        "",
    ]  # fmt: skip
    assert place.shown == [
        "0 runs so far: run 1 of A", "1 runs so far: run 2 of A", "2 runs so far: run 1 of B",
        "3 runs so far: run 2 of B",
        "4 runs so far: run 1 of A with 1 of 2 differences", "5 runs so far: run 1 of A with 1 of 2 differences",
    ]  # fmt: skip
    place.steps.clear()
    place.bisect(("train.py",), first, second)
    assert place.steps[1] == "A, run 1: exit code 0, remembered"


def test_each_run_of_a_noisy_number_is_a_step(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Bench(
        context, monkeypatch,
        lambda lock: Outcome(code=0, number=len(place.shown) % 2 / 1000 + len(lock.environment)),
    )  # fmt: skip
    metric = Metric(pattern="x")
    assert place.bisect(
        ("t",), lock(environment=()), lock(), Judging(error_rate=0.01), metric=metric
    ).is_proved
    assert place.steps[1:5] == ["A, run 1: 0.001", "B, run 1: 2", "A, run 2: 0.001", "B, run 2: 2"]
    assert "A with 1 of 2 differences, run 2: 1" in place.steps


def test_the_result_in_a_step_is_printable_and_short(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = f"\x1b[2J {SECRET} " + "long " * 100
    place = Bench(context, monkeypatch, lambda _: Outcome(code=None, why=why))
    assert place.bisect(("t",), lock(environment=()), lock()).reason
    (step,) = [step for step in place.steps if step.startswith("A, run 1: ")]
    assert len(step) < 80
    assert step.isprintable()
    assert SECRET not in step


def test_the_step_of_a_run_comes_again_after_those_of_its_image(
    context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    place = laboratory(msgspec.structs.replace(context, say=steps.append))
    monkeypatch.setattr("reprobuild.bisect.trial.image_key", lambda *_: "key")
    monkeypatch.setattr(
        "reprobuild.bisect.trial.load_trial_image",
        lambda *words: words[-1].say("compiling the modules of 3 wheels"),
    )
    monkeypatch.setattr(place, "_run_container", lambda *_: Outcome(code=0))
    runs = place.runs(lock(), "a", "A")
    assert [runs(0).code, runs(1).code] == [0, 0]
    assert steps == ["compiling the modules of 3 wheels", "running A"]


@pytest.mark.parametrize("made", [(), ("compiling the modules of 3 wheels",)])
def test_a_step_ends_those_before_an_image(
    made: tuple[str, ...], context: RunContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def realise(sealed: Lock, store: Store, say: Callable[[str], None]) -> Lock:
        for step in made:
            say(step)
        return sealed

    def build(*_: Any, **__: Any) -> None:
        raise BuildError("it ends here", hint="")

    module = "reprobuild.pipeline.trial_image"
    for name, function in (
        ("fetch_inputs", lambda *_: None), ("realise", realise), ("payload_files", lambda *_: {}),
        ("build_image", build),
    ):  # fmt: skip
        monkeypatch.setattr(f"{module}.{name}", function)
    with pytest.raises(BuildError, match="it ends here"):
        load_trial_image(lock(), "x", builtin, msgspec.structs.replace(context, say=steps.append))
    assert steps == [*made, *["making the image"] * len(made)]


def test_a_damaged_record_of_files(context: RunContext, monkeypatch: pytest.MonkeyPatch) -> None:
    place = laboratory(context, artefacts=("x",))
    monkeypatch.setattr(place, "image_name", lambda *_: "image")
    oracle: ExactOracle = artefact_oracle(place, lock(), ())
    digest = Store(context.store.root).add(b"no index")
    outcomes = [Outcome(code=0, content=mark * 64, files={"index.json": digest}) for mark in "ab"]
    with pytest.raises(EngineError, match="the list of a trial's files is damaged") as error:
        oracle.check(runs_of(*outcomes), runs_of(code(1)))
    assert error.value.hint == "run it again with --afresh"


@pytest.mark.parametrize("stored", [("0", "1"), ("0", "7")])
def test_files_of_holes_are_not_read(stored: tuple[str, str], tmp_path: Path, context: RunContext) -> None:
    """Each of both is below the bound; a pipe has no stored file."""
    place = laboratory(context, artefacts=("x",))
    files = []
    for name in stored:
        if name != "7":
            with (tmp_path / name).open("wb") as file:
                file.truncate(1 if "7" in stored else 40 << 30)
        files.append(
            {"pattern": "x", "path": f"x/{name}", "kind": "fifo" if name == "7" else "file", "stored": name,
             "size": 0, "written": True, "link": ""}
        )  # fmt: skip
    index = {"code": 0, "began": 1.0, "ended": 2.0, "host": "h", "files": files, "there": {}, "failed": ""}
    (tmp_path / "index.json").write_text(json.dumps(index))
    outcome = place._collect(tmp_path, b"", 0, 1.0)
    why = (
        "the container left no list of its files" if "7" in stored
        else "it wrote files with 85,899,345,920 bytes, of which nearly all are holes: x/0"
    )  # fmt: skip
    assert (outcome.code, outcome.why, outcome.files) == (None, why, {})


def result(**more: Any) -> BisectionResult:
    atoms = make_mixer(lock(), lock(seed=7, environment=())).atoms.atoms
    fields: dict[str, Any] = {
        "first": "a.lock", "second": "b\x1b[1m.lock", "command": ("true",), "oracle": "exit code", "differences": atoms,
        "guilty": (0,), "groups": ((0,),), "forward": "B", "backward": "A", "removed": (0,), "runs": 12,
        "trials": (
            TrialRecord(differences=(0,), answer="B"), TrialRecord(differences=(1,), answer="untestable", why="x"),
        ),
        **more,
    }  # fmt: skip
    return BisectionResult(**fields)


def test_the_report() -> None:
    gpu = EnvironmentDifference(
        rank=1, group="GPU", reason="", kind="gpu", name="GPU", one="A100", other="H100"
    )
    text = render_bisection(result(untestable=(gpu,)), everything=True)
    assert text.startswith("cannot be tested: 1 differences of the machines, which may be the cause, too")
    assert "guilty: 1 of 3 differences\n  variable  PYTHONPATH  /a:/b  ->  (absent)" in text
    assert "A with it gives the result of B: proved" in text
    assert "B without it gives the result of A: proved" in text
    assert "untestable mixtures: 1, which accuse no difference" in text
    assert "\x1b" not in text
    text = render_bisection(result(backward="other", removed=(0, 1), guilty=(0, 2), groups=((0,), (2,))))
    assert "guilty: 2 of 3 differences, together" in text
    assert "and, hidden behind the former:" in text
    assert "and what needs them (OMP_NUM_THREADS) gives the result of A: NOT proved (another result)" in text
    text = render_bisection(result(guilty=(0, 2), groups=((0, 2),), required=((0, 2),)))
    assert "PYTHONPATH  /a:/b     ->  (absent)  (required by seed)" in text
    assert "no answer: why" in render_bisection(result(guilty=(), reason="why", hint="how"))


def test_exit_codes_and_the_document(tmp_path: Path) -> None:
    write_lock(lock(), tmp_path / "a")
    done = reprobuild(
        "bisect", tmp_path / "a", tmp_path / "a", "--json", "--store", tmp_path / "s", "--", "true"
    )
    assert done.returncode != 0
    assert "error" in json.loads(done.stdout) or json.loads(done.stdout)["reason"]
