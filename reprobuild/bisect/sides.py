"""The two environments of a bisection, and the options that say how results are compared."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.bisect.bisection import Judging, bisect
from reprobuild.bisect.links import make_link_finder
from reprobuild.bisect.metric import Metric, check_metric
from reprobuild.bisect.mixture import Mixer, make_mixer
from reprobuild.bisect.oracle import read_tolerance
from reprobuild.bisect.result import BisectionResult, TrialRecord
from reprobuild.bisect.script import check_script
from reprobuild.bisect.trial import TrialCommand
from reprobuild.compare.environments.comparison import EnvironmentDifference
from reprobuild.compare.environments.model import Kind
from reprobuild.compare.environments.open import HERE, Running, capture_here, compare
from reprobuild.context import RunContext
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.lock.model import Lock
from reprobuild.pipeline.locked_side import (
    Decide,
    keep_inputs,
    lock_side,
    open_source,
    update_side,
)
from reprobuild.pipeline.trial_image import keep_trial_lock
from reprobuild.run.choice_pair import ChoicePair, find_choices

# Differences of machines, and of the software that a cluster's modules load: no image has them.
MACHINE: tuple[Kind, ...] = ("gpu", "machine", "module")


def bisect_sides(
    names: tuple[str, str | None], folder: Path, decide: Decide, command: TrialCommand, judging: Judging,
    context: RunContext, running: Running, *, afresh: bool = False, jobs: int = 1, trials: Path | None = None,
    update: Path | None = None,
) -> BisectionResult:  # fmt: skip
    """Bisect two environments that the user names.

    Args:
        names: paths of locks, output directories or snapshots, or `here`; None for today's versions of the first.
        folder: an empty directory for the locks of snapshots.
        decide: returns the overrides of a snapshot's directory, and the context for them.
        command, judging, context, afresh, jobs: as `bisect` has them.
        running: the meaning of `here`.
        trials: the directory for the lock of each trial; None if they are not needed.
        update: the file for the lock of today's versions.

    Raises:
        UsageError: a path is absent, the two are of different platforms, or neither has the command's script.
        LockError, SnapshotError: an environment is damaged, or cannot be locked.
    """
    first, first_place = _lock(names[0], folder / "first", decide, context, running)
    if names[1] is None:
        second, shown = update_side(first, update, context)
        second_place = ""
    else:
        second, second_place = _lock(names[1], folder / "second", decide, context, running)
        shown = names[1]
    if first.platform != second.platform:
        raise UsageError(
            f"A is for {first.platform}, and B for {second.platform}: no mixture of them is an image",
            hint="lock one of them again for the other's platform: `reprobuild lock DIR --platform OS/ARCH`",
        )
    choices = find_choices(names, command.options, context)
    blank = BisectionResult(
        first=names[0], second=shown, command=command.arguments, oracle="",
        untestable=_machine_differences((first_place, second_place), running, choices) if second_place else (),
    )  # fmt: skip
    with keep_inputs((first, second), folder, context):
        check_script(command, (first, second), lambda source: open_source(source, context))
        mixer = make_mixer(
            first, second, lambda source: open_source(source, context), make_link_finder(context), choices
        )
        result = bisect(mixer, command, judging, context, blank, afresh=afresh, jobs=jobs)
        return result if trials is None else _keep_locks(result, mixer, trials, context)


def _lock(name: str, folder: Path, decide: Decide, context: RunContext, running: Running) -> tuple[Lock, str]:
    """Return the lock of a side, and the path by which `compare` reads it."""
    folder.mkdir()
    if name != HERE:
        return lock_side(name, folder, decide, context), name
    context.say("capturing the running environment")
    captured = folder / "here"
    capture_here(running, captured)
    return lock_side(name, folder, decide, context, captured), str(captured)


def _keep_locks(
    result: BisectionResult, mixer: Mixer, folder: Path, context: RunContext
) -> BisectionResult:  # fmt: skip
    """Write the lock of each trial, and return the result with their paths."""

    def keep(trial: TrialRecord) -> TrialRecord:
        path = keep_trial_lock(mixer.mix(trial.differences).lock, folder, context)
        return msgspec.structs.replace(trial, lock="" if path is None else str(path))

    return msgspec.structs.replace(
        result, sides=tuple(map(keep, result.sides)), trials=tuple(map(keep, result.trials))
    )


def _machine_differences(
    places: tuple[str, str], running: Running, choices: ChoicePair
) -> tuple[EnvironmentDifference, ...]:
    """Return the differences that no image has: a lock states no machine, and a snapshot does.

    Saved choices that fit neither side here cannot be tried, either.
    """
    kinds = MACHINE if choices else (*MACHINE, "choices")
    try:
        comparison = compare(*places, running, running.env, lambda _: None)
    except InconclusiveError:
        return ()
    return tuple(item for item in comparison.differences if item.kind in kinds and not item.noise)


def read_judging(
    pattern: str | None, metric_file: str | None, tolerance: str, error_rate: float | None,
    artefacts: tuple[str, ...], ignored: tuple[str, ...], jobs: int = 1,
) -> tuple[Metric | None, Judging]:  # fmt: skip
    """Return the number to read, and how results are compared.

    Raises:
        UsageError: the options contradict each other, or one is not valid.
    """
    if pattern is None and (metric_file is not None or error_rate is not None or tolerance != "0"):
        raise UsageError(
            "--metric-file, --tolerance and --noisy are about a number, and --metric is missing",
            hint="name the number: --metric 'loss=([0-9.]+)', or a key with --metric-file metrics.json",
        )
    if pattern is not None and artefacts:
        raise UsageError(
            "--metric and --output-file are given", hint="compare by one of them: leave the other out"
        )
    if ignored and not artefacts:
        raise UsageError(
            "--ignore-key is about output files, and --output-file is missing",
            hint="name them: --output-file out.json",
        )
    if error_rate is not None and jobs > 1:
        raise UsageError(
            "--noisy and --jobs: trials at the same time disturb each other's number",
            hint="leave --jobs out: trials of a noisy number run one at a time",
        )
    metric = None if pattern is None else check_metric(Metric(pattern=pattern, file=metric_file or ""))
    return metric, Judging(ignored=ignored, tolerance=read_tolerance(tolerance), error_rate=error_rate or 0.0)
