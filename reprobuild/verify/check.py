"""The checks themselves: containers are run, their answers are judged. A verdict is never remembered."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from reprobuild.engines.model import Engine, Finished, Task
from reprobuild.errors import EngineError, SnapshotError
from reprobuild.lock import FILES, PREFIX, Lock, Workload
from reprobuild.snapshot import read_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.verify.judge import (
    compare_probes,
    judge_control,
    judge_determinism,
)
from reprobuild.verify.round_trip import (
    FREEZE,
    PACKAGES,
    VARIABLES,
    compare_captured,
    compare_environment,
    compare_folders,
    compare_freeze,
    compare_packages,
    judge_round_trip,
)
from reprobuild.verify.verdict import VERSION, Comparison, Difference, Verdict

SEED = 42  # where nobody chose one
OUTPUTS = "/reprobuild-out"
_RUNTIME = f"{FILES}/lib/reprobuild_runtime"
_PYTHON = f"{PREFIX}/bin/python"


def verify_image(
    lock: Lock, reference: str, manifest: str, engine: Engine, env: Mapping[str, str], *,
    control: bool = True, cpu_only: bool = False, say: Callable[[str], None] = lambda _: None,
) -> Verdict:  # fmt: skip
    """Check a loaded image: is it the captured environment, and does it compute the same bytes twice?

    Args:
        lock: what the image was made from.
        reference, manifest: the image's name in the engine, and its manifest digest.
        control: run the work that must be seen drifting; without it the verdict is inconclusive.
        cpu_only: the CPU is enough for now, also for a torch built for CUDA.
        say: told each step.

    Raises:
        EngineError: the engine failed; a probe that fails is an answer, not an error.
    """
    seed = SEED if lock.seed is None else lock.seed

    def container(*arguments: str, bypass: bool = False, outputs: str = "") -> Finished:
        task = Task(arguments=arguments, environment=_seeded(seed), bypass=bypass, outputs=outputs)
        return engine.run(reference, task, env)

    say("capturing again inside the image, and comparing with what was captured")
    differences, unanswered = compare_lists(lock, container)
    comparisons: list[Comparison] = []
    fingerprint: dict[str, Any] = {}
    control_answer = None
    if has_torch(lock):
        say("the probes, twice in fresh containers")
        options = json.dumps({"device": "cpu", "seed": seed})
        answers = [_answer(container(_PYTHON, f"{_RUNTIME}/probes.py", options)) for _ in range(2)]
        comparisons += compare_probes(answers[0], answers[1])
        fingerprint = dict(answers[0].get("fingerprint", {}))
        if control:
            say("the control, which must be seen drifting")
            options = json.dumps({"device": "cpu", "seed": seed, "control": True})
            control_answer = _answer(container(_PYTHON, f"{_RUNTIME}/probes.py", options))
    elif control:
        control_answer = {"ran": False, "why": "the control needs torch, which is not in the image"}
    if lock.workload:
        say(f"the workload, twice: {' '.join(lock.workload.command)}")
        comparisons += compare_workload(lock.workload, seed, reference, engine, env)
    judged = judge_control(control_answer)
    determinism, notes = judge_determinism(
        comparisons, judged, cuda_build=fingerprint.get("cuda_build") if has_torch(lock) else False,
        cpu_only=cpu_only,
    )  # fmt: skip
    return Verdict(
        version=VERSION, image=manifest, seed=seed, determinism=determinism,
        round_trip=judge_round_trip(differences, unanswered), comparisons=tuple(comparisons), control=judged,
        differences=tuple(differences), fingerprint=fingerprint, notes=(*unanswered, *notes),
    )  # fmt: skip


def has_torch(lock: Lock) -> bool:
    """Tell whether the environment has torch."""
    return any(wheel.name == "torch" and wheel.role == "environment" for wheel in lock.wheels)


def _seeded(seed: int) -> dict[str, str]:
    return {"REPROBUILD_SEED": str(seed)}


def compare_lists(lock: Lock, container: Callable[..., Finished]) -> tuple[list[Difference], list[str]]:
    """Capture again inside the image, and compare with what was captured.

    Returns:
        The differences, and what there is to say about each list that the image did not give.
    """
    frozen = container(_PYTHON, "-I", f"{_RUNTIME}/freeze.py", bypass=True)
    captured = container(_PYTHON, f"{_RUNTIME}/capture.py", "-o", f"{OUTPUTS}/again", outputs=OUTPUTS)
    differences, unanswered = compare_captured(lock), []
    answer = _answer(frozen)
    if "distributions" in answer:
        differences += compare_freeze(lock, answer) + compare_folders(lock, answer)
    else:
        unanswered.append(f"{FREEZE} was not compared: {answer.get('why', _why(frozen))}")
    again = _again(captured)
    if isinstance(again, str):
        unanswered += [f"{name} was not compared: {again}" for name in (PACKAGES, VARIABLES)]
    else:
        for name, compare in ((PACKAGES, compare_packages), (VARIABLES, compare_environment)):
            if name in again.absent:
                unanswered.append(f"{name} was not compared: the capture inside the image did not have it")
            else:
                differences += compare(lock, again)
    return differences, unanswered


def _again(done: Finished) -> Snapshot | str:
    """Return what a capture inside the image wrote, read as every snapshot is, or why it cannot be."""
    files = {path.removeprefix("again/"): data for path, data in done.outputs.items()}
    plain = {name: data for name, data in files.items() if "/" not in name}
    if done.code or not plain:
        return _why(done)
    with tempfile.TemporaryDirectory() as made:
        for name, data in plain.items():
            Path(made, name).write_bytes(data)
        try:
            return read_snapshot(Path(made))
        except SnapshotError as err:
            return str(err)


def _answer(done: Finished) -> dict[str, Any]:
    """Return the JSON document of a runtime script, or why there is none."""
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"ran": False, "why": _why(done)}


def _why(done: Finished) -> str:
    tail = done.stderr.decode(errors="replace").strip().splitlines()[-5:]
    return f"exit code {done.code}: " + " / ".join(tail)


def compare_workload(
    workload: Workload, seed: int, reference: str, engine: Engine, env: Mapping[str, str]
) -> list[Comparison]:
    """Run the user's command in two fresh containers with one seed, and compare the files that it writes."""
    task = Task(
        arguments=tuple(argument.replace("{out}", OUTPUTS) for argument in workload.command),
        environment=_seeded(seed),
        outputs=OUTPUTS,
    )
    runs = [engine.run(reference, task, env) for _ in range(2)]
    for done in runs:
        if done.code:
            tail = "\n".join(done.stderr.decode(errors="replace").strip().splitlines()[-10:])
            raise EngineError(
                f"the workload `{' '.join(workload.command)}` exited {done.code} in the image:\n{tail}",
                hint="run it by hand: reprobuild run OUT -- COMMAND",
            )
    if not workload.outputs:
        return [Comparison(name="workload", verdict="inconclusive", detail="it names no outputs to compare")]
    return [_compare_output(name, runs[0], runs[1]) for name in workload.outputs]


def _compare_output(name: str, one: Finished, two: Finished) -> Comparison:
    label = f"workload output {name}"
    lacking = [done for done in (one, two) if name not in done.outputs]
    if lacking:
        there = ", ".join(sorted(lacking[0].outputs)) or "nothing"
        return Comparison(
            name=label, verdict="inconclusive", detail=f"the command wrote {there}, and not {name}"
        )
    digests = [hashlib.sha256(done.outputs[name]).hexdigest() for done in (one, two)]
    if digests[0] == digests[1]:
        return Comparison(name=label, verdict="identical", detail=digests[0])
    return Comparison(name=label, verdict="drift", detail=f"{digests[0]} and {digests[1]}")
