"""The comparison of two runs of the workload.

A container of the image reads the files.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from reprobuild.engines.model import Engine, Task
from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Text
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.container import PROGRAMS, PYTHON, WorkloadRun, expand_output
from reprobuild.verify.workload.judge import (
    FileAnswer,
    display_line,
    judge_artefact,
    judge_distinct,
    pair_paths,
)
from reprobuild.verify.workload.output_index import OutputIndex
from reprobuild.verify.workload.work import Work
from reprobuild_portable.hashing import hash_file

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


def compare_runs(
    work: Work, runs: tuple[WorkloadRun, WorkloadRun], reference: str, engine: Engine, env: Mapping[str, str]
) -> list[WorkComparison]:
    """Compare two runs.

    If the command failed in both with one exit code, no file is compared.
    """
    first_run, second_run = runs
    if _are_older(runs):
        return [WorkComparison(name=work.label, verdict="inconclusive", detail=_OLDER)]
    if first_run.code and first_run.code == second_run.code:
        return [
            WorkComparison(name="exit code", verdict="identical", detail=f"{first_run.code} in both runs")
        ]
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
    return [_judge_artefact(work, artefact, runs, answers) for artefact in work.artefacts]


def refuse_failures(work: Work, runs: tuple[WorkloadRun, WorkloadRun]) -> None:
    """Refuse two runs that failed.

    Raises:
        EngineError: the command failed in both.
    """
    if all(run.code for run in runs) and not _are_older(runs):
        code, tail = runs[0].code, runs[0].tail
        raise EngineError(
            f"the workload `{work.shown_text}` exited {code} in the image:\n{tail}",
            hint=_READ_ONLY if os.strerror(errno.EROFS) in tail else _BY_HAND,
        )


def _are_older(runs: Sequence[WorkloadRun]) -> bool:
    return all(run.index is None and f"{PROGRAMS}/collect.py" in run.tail for run in runs)


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
        arguments=(PYTHON, "-I", f"{PROGRAMS}/compare.py", f"{_ASKED}/options.json"), bypass=True,
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
