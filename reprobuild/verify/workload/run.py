"""The workload: a command in fresh containers with one seed.

The files of the runs are compared.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.engines.model import Engine, Task
from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Text
from reprobuild.lock.system import FILES, PREFIX
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.conditions import RUNS
from reprobuild.verify.workload.judge import (
    FileAnswer,
    OutputIndex,
    display_line,
    judge_artefact,
    judge_distinct,
    pair_paths,
)
from reprobuild.verify.workload.mounts import Mounts
from reprobuild.verify.workload.rounds import merge_rounds
from reprobuild.verify.workload.work import Work, make_work_task
from reprobuild_portable.hashing import hash_file

OUTPUTS = "/reprobuild-out"  # `{out}`
INDEX, LARGEST_INDEX = "index.json", 64 << 20
_PROGRAMS = f"{FILES}/lib/reprobuild_runtime/artefacts"
_PYTHON = f"{PREFIX}/bin/python"
_OLDER = (
    "the image was made by an older reprobuild, which compares no artefacts: build it again from its lock"
)
_BY_HAND = "run it by hand: reprobuild run OUT -- COMMAND"
_READ_ONLY = (
    "a mount is read-only without `:rw`: let the command write below `{out}`, or in the image's own directory"
)
_INSIDE, _ASKED = ("/reprobuild-one", "/reprobuild-two"), "/reprobuild-asked"


class Answers(Struct, frozen=True, kw_only=True):
    """The document of `reprobuild_runtime/artefacts/compare.py`."""

    ran: bool
    why: Text = ""
    files: tuple[FileAnswer, ...] = ()


class WorkloadRun(Struct, frozen=True, kw_only=True):
    """One run: exit code, files, index, and printable errors.

    Of the errors, only the end is kept.
    """

    code: int
    folder: Path
    index: OutputIndex | None
    tail: str


def compare_work(
    work: Work, seed: int, reference: str, engine: Engine, env: Mapping[str, str], *, gpus: str = "",
    say: Callable[[str], None] = lambda _: None, mounts: Mounts | None = None,
    wrap: Callable[[Task], AbstractContextManager[Task]] = nullcontext,
) -> list[WorkComparison]:  # fmt: skip
    """Run a command in fresh containers and compare its files.

    All runs have one seed. The files of each run are compared with those of the first.

    Another container of the image reads the files, so that untrusted files are not read outside of one.

    Args:
        reference: the image's name in the engine.
        gpus: the GPUs that the command sees, as `Task.gpus` has them.
        mounts: the workload's mounts before the first run; they are read here if None.
        wrap: gives each run's task what it needs for its time.

    Raises:
        EngineError: the command failed in the first two runs, its files are unavailable, or the engine failed.
    """
    if not work.artefacts:
        return [
            WorkComparison(name="workload", verdict="inconclusive", detail="it names no outputs to compare")
        ]
    conditions = work.conditions
    mounts = mounts or Mounts(conditions.volumes, conditions.read_only, say)
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as directory:
        say(f"your work, {'twice' if work.runs == RUNS else f'{work.runs} times'}: {work.shown_text}")

        def run(number: int) -> WorkloadRun:
            folder = Path(directory, str(number))
            folder.mkdir()
            words = collecting_command(work.artefacts, work.command)
            task = make_work_task(work, seed, words, gpus)
            task = msgspec.structs.replace(task, outputs=OUTPUTS, kept=folder)
            with wrap(task) as wrapped:
                return _run_task(work, wrapped, reference, engine, env)

        first = run(1)
        rounds: list[list[WorkComparison]] = []
        for number in range(2, work.runs + 1):
            changed = mounts.changed()  # the first run read the earlier contents
            other = run(number)
            comparisons = compare_runs(work, (first, other), reference, engine, env)
            rounds.append(_with_mounts(comparisons, changed or mounts.changed(writable=False)))
            shutil.rmtree(other.folder)
        return merge_rounds(rounds)


def compare_runs(
    work: Work, runs: tuple[WorkloadRun, WorkloadRun], reference: str, engine: Engine, env: Mapping[str, str]
) -> list[WorkComparison]:
    """Compare two runs.

    Raises:
        EngineError: the command failed in both.
    """
    first_run, second_run = runs
    if all(run.index is None and f"{_PROGRAMS}/collect.py" in run.tail for run in runs):
        return [WorkComparison(name=work.label, verdict="inconclusive", detail=_OLDER)]
    if first_run.code and second_run.code:
        raise EngineError(
            f"the workload `{work.shown_text}` exited {first_run.code} in the image:\n{first_run.tail}",
            hint=_READ_ONLY if os.strerror(errno.EROFS) in first_run.tail else _BY_HAND,
        )
    if first_run.code or second_run.code:
        failed = first_run if first_run.code else second_run
        return [
            WorkComparison(
                name="exit code", verdict="drift", detail=f"{first_run.code} and {second_run.code}",
                details=tuple(failed.tail.splitlines()),
            )
        ]  # fmt: skip
    assert first_run.index is not None
    assert second_run.index is not None
    answers = _compare_files(work, runs, reference, engine, env)
    first, *rest = [_judge_artefact(work, artefact, runs, answers) for artefact in work.artefacts]
    warnings = (*first.warnings, *_uncompared_note(first_run.index))
    return [msgspec.structs.replace(first, warnings=warnings), *rest]


def _with_mounts(comparisons: Sequence[WorkComparison], changed: Sequence[str]) -> list[WorkComparison]:
    """Return the comparisons of two runs, with changed mounts.

    Runs that read different files do not show drift.

    Args:
        changed: a line for each mount that changed for the second run.
    """
    if not changed:
        return list(comparisons)
    first, *rest = [
        _mark_unknown(comparison, changed) if comparison.verdict == "drift" else comparison
        for comparison in comparisons
    ]
    return [msgspec.structs.replace(first, warnings=(*changed, *first.warnings)), *rest]


def _mark_unknown(drifted: WorkComparison, changed: Sequence[str]) -> WorkComparison:
    detail = f"{'; '.join(changed)} between the runs, which may be why they differ: {drifted.detail}"
    return msgspec.structs.replace(drifted, verdict="inconclusive", detail=display_line(detail))


def _uncompared_note(index: OutputIndex) -> tuple[str, ...]:
    """Return a note on files below `{out}` that were not compared.

    The directory was empty before the command.
    """
    if not index.others:
        return ()
    more = index.other - len(index.others)
    names = ", ".join(index.others) + (f", and {more} more" if more > 0 else "")
    return (display_line(f"not compared, as no artefact names them: files below {{out}}: {names}"),)


def _judge_artefact(
    work: Work, artefact: str, runs: Sequence[WorkloadRun], answers: Mapping[tuple[str, str], FileAnswer]
) -> WorkComparison:
    first_index, second_index = (run.index for run in runs)
    assert first_index is not None
    assert second_index is not None
    pattern = expand_output(artefact)
    judged = judge_artefact(
        f"{work.label} {_artefact_label(work, artefact)}", pattern, first_index, second_index, answers
    )
    if artefact not in work.distinct:
        return judged
    files = [entry for entry in first_index.files if entry.pattern == pattern and entry.stored]
    return judge_distinct(judged, [(entry.path, hash_file(runs[0].folder / entry.stored)) for entry in files])


def _artefact_label(work: Work, artefact: str) -> str:
    return artefact.removeprefix("{out}/") if work.label == "workload output" else artefact


def expand_output(text: str) -> str:
    """Return a text with the directory of output files for `{out}`."""
    return text.replace("{out}", OUTPUTS)


def collecting_command(artefacts: Sequence[str], command: Sequence[str]) -> tuple[str, ...]:
    """Return a command under the program that collects its output files in `OUTPUTS`."""
    collect = (_PYTHON, "-I", "-S", f"{_PROGRAMS}/collect.py", OUTPUTS, *map(expand_output, artefacts), "--")
    return (*collect, *map(expand_output, command))


def _run_task(work: Work, task: Task, reference: str, engine: Engine, env: Mapping[str, str]) -> WorkloadRun:
    done = engine.run(reference, task, env)
    assert task.kept is not None
    tail = "\n".join(map(display_line, done.stderr.decode(errors="replace").strip().splitlines()[-10:]))
    index = read_index(task.kept)
    if index is None and done.code == 0:
        raise EngineError(
            f"what `{work.shown_text}` wrote cannot be had: the container left no list of it\n{tail}",
            hint="was its disk full? Let the command write less, or another engine run it (--engine)",
        )
    if index is not None and index.failed:
        raise EngineError(
            f"what `{work.shown_text}` wrote cannot be put aside: {display_line(index.failed)}",
            hint="name fewer or smaller artefacts, or let the command write them below {out}",
        )
    code = done.code if index is None else index.code
    return WorkloadRun(code=code, folder=task.kept, index=index, tail=tail)


def read_index(folder: Path) -> OutputIndex | None:
    """Return a container's index of its files, or None if unreadable."""
    path = folder / INDEX
    if not path.is_file() or path.stat().st_size > LARGEST_INDEX:
        return None
    try:
        index = decode_json(read_plain(path, LARGEST_INDEX), OutputIndex)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    whole = all((folder / entry.stored).is_file() for entry in index.files if entry.kind == "file")
    return index if whole else None


def _compare_files(
    work: Work, runs: Sequence[WorkloadRun], reference: str, engine: Engine, env: Mapping[str, str]
) -> dict[tuple[str, str], FileAnswer]:
    """Return an answer for each pair of files.

    Those of equal bytes are searched for NaN.
    """
    indexes = [run.index for run in runs if run.index is not None]
    pairs = {
        (both.one.stored, both.two.stored): both.one
        for artefact in work.artefacts
        for both in pair_paths(expand_output(artefact), *indexes)[0]
        if both.one.kind == both.two.kind == "file" and (both.one.size or both.two.size)
    }
    if not pairs:
        return {}
    files = [(entry.path, *numbers) for numbers, entry in pairs.items()]
    file_answers, why = _compare_in_container(work, runs, files, reference, engine, env)
    answers = {}
    for number, (numbers, entry) in enumerate(pairs.items()):
        digests = [hash_file(run.folder / stored) for run, stored in zip(runs, numbers, strict=True)]
        answer = file_answers[number] if file_answers else None
        answers[numbers] = _make_answer(entry.path, digests, answer, why)
    return answers


def _make_answer(name: str, digests: Sequence[str], answer: FileAnswer | None, why: str) -> FileAnswer:
    """Return the answer on a pair of files.

    Args:
        answer: the comparison's answer, None if it gave no answer.
    """
    same = digests[0] == digests[1]
    if answer is None and same:
        warning = f"nothing looked for NaN in it: {why}"
        return FileAnswer(name=name, verdict="identical", digest=digests[0], warnings=(warning,))
    if answer is None:
        detail = f"the bytes differ, and what differs could not be told: {why}"
        return FileAnswer(name=name, verdict="inconclusive", details=(detail,), digest=digests[0])
    if same and answer.verdict == "drift":  # equal bytes are equal, even if a container says otherwise
        answer = msgspec.structs.replace(answer, verdict="identical", details=(), count=0)
    # The digest of the bytes would be one of two, and does not identify content that is equal in other bytes.
    digest = "" if answer.verdict == "identical" and not same else digests[0]
    return msgspec.structs.replace(answer, name=name, digest=digest)


def _compare_in_container(
    work: Work, runs: Sequence[WorkloadRun], files: Sequence[tuple[str, str, str]], reference: str, engine: Engine,
    env: Mapping[str, str],
) -> tuple[Sequence[FileAnswer], str]:  # fmt: skip
    """Compare files in a container of the same image.

    Untrusted files are then not read outside of one. It cannot change them: they are hashed afterwards.

    Returns:
        An answer for each file, or an empty sequence and the reason.
    """
    options = {
        "one": _INSIDE[0], "two": _INSIDE[1], "ignore": list(work.ignored),
        "files": [{"name": name, "one": first, "two": second} for name, first, second in files],
        "runs": [_run_facts(run.index) for run in runs if run.index],
    }  # fmt: skip
    folder = runs[0].folder.parent / "asked"
    folder.mkdir(exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options))
    task = Task(
        arguments=(_PYTHON, "-I", f"{_PROGRAMS}/compare.py", f"{_ASKED}/options.json"), bypass=True,
        volumes=(
            *((str(run.folder), inside) for run, inside in zip(runs, _INSIDE, strict=True)),
            (str(folder), _ASKED),
        ),
        read_only=frozenset((*_INSIDE, _ASKED)),
    )  # fmt: skip
    done = engine.run(reference, task, env)
    why = f"exit code {done.code}: " + " / ".join(
        map(display_line, done.stderr.decode(errors="replace").splitlines()[-3:])
    )
    try:
        answers = decode_json(done.stdout, Answers)
    except (msgspec.DecodeError, UnicodeDecodeError):
        answers = Answers(ran=False, why=why)
    if answers.ran and len(answers.files) == len(files):
        return answers.files, ""
    return (), answers.why or why


def _run_facts(index: OutputIndex) -> dict[str, float | int | str]:
    """Return the facts that identify times, host and processes of a run."""
    return {
        "began": index.began, "ended": index.ended, "host": index.host, "pid": index.pid, "last": index.last,
        "zone": index.zone,
    }  # fmt: skip
