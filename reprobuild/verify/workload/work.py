"""The workload to compare: a command and its output files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from msgspec import Struct

from reprobuild.engines.model import Task
from reprobuild.errors import UsageError
from reprobuild.lock.model import Workload
from reprobuild.verify.workload.conditions import BUDGET_RUNS, BUDGET_SECONDS, RUNS, Conditions, hide_secrets

ARTEFACT = "artefact"  # names an `--output-file` in a report
_PLAIN = Conditions()


class Work(Struct, frozen=True, kw_only=True):
    """A command to run several times, and its output files to compare.

    Attributes:
        command: the program and its arguments; `{out}` represents an existing, empty directory.
        artefacts: paths or globs, relative to the image's working directory, or below `{out}`.
        distinct: those of them whose files must differ from one another.
        ignored: keys of values that may differ.
        conditions: the conditions of each run.
        runs: how many containers run the command, at least 2.
        seconds: more containers run it while all of its runs take less than this, up to `BUDGET_RUNS`.
        disturbances: under each of these it runs once more, or twice if its outputs differ.
        text: the command as the user gave it.
        workdir: its working directory, empty for the image's own; the command changes there itself.
        label: the name of the artefacts in the report.
    """

    command: tuple[str, ...]
    artefacts: tuple[str, ...]
    distinct: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    conditions: Conditions = Conditions()
    runs: int = RUNS
    seconds: float = 0.0
    disturbances: tuple[str, ...] = ()
    text: str
    workdir: str = ""
    label: str = ARTEFACT

    def fits_another_run(self, runs: int, seconds: float) -> bool:
        """Return whether another run is due after some runs, which took some seconds together."""
        if runs < self.runs:
            return True
        return runs < BUDGET_RUNS and seconds * (runs + 1) / runs < self.seconds

    @property
    def shown_text(self) -> str:
        """The command without secrets, for the eyes."""
        return hide_secrets(self.text)


def work_of_options(
    command: str | None, artefacts: Sequence[str], distinct: Sequence[str], ignored: Sequence[str],
    conditions: Conditions = _PLAIN, workdir: str = "", runs: int | None = RUNS,
) -> Work | None:  # fmt: skip
    """Return the workload of the command line, or None without a command.

    Args:
        command: a line for the image's `/bin/sh`.
        artefacts: paths and globs, relative to the working directory.
        distinct: artefacts of one run that must differ from one another.
        ignored: keys of values that may differ.
        conditions: the conditions of each run.
        workdir: the working directory of the command; empty for the image's own.
        runs: the number of containers that run the command; None for two, and more in a budget of time.

    Raises:
        UsageError: the command has no artefact, an artefact no command, or a path is not valid.
    """
    named = tuple(dict.fromkeys([*artefacts, *distinct]))
    if command is None:
        if named:
            raise UsageError(
                f"--output-file {named[0]} names an output of a workload, but --workload is missing",
                hint="give it, for example: --workload 'python train.py --steps 20'",
            )
        if conditions != _PLAIN or workdir:
            raise UsageError(
                "--seed, --env, --secret, --volume, --workdir and --shm-size need --workload, which is missing",
                hint="give it, for example: --workload 'python train.py --steps 20'",
            )
        return None
    if workdir and not workdir.startswith("/"):
        raise UsageError(
            f"--workdir {workdir}: not an absolute path", hint="for example --workdir /workspace"
        )
    if not named:
        raise UsageError(
            "--workload names a command, but no --output-file names what it writes",
            hint="name it: --output-file out.ckpt, or --output-file 'logs/*.jsonl'",
        )
    for path in named:
        if not path.isprintable() or path in ("", "--"):
            raise UsageError(
                f"--output-file {path!r} is not a valid path",
                hint="give a path or a glob, for example 'logs/*.jsonl'",
            )
    return Work(
        command=_shell_command(command, workdir), artefacts=tuple(_join_workdir(path, workdir) for path in named),
        distinct=tuple(_join_workdir(path, workdir) for path in distinct), ignored=tuple(ignored),
        conditions=conditions,
        text=command, runs=runs or RUNS, seconds=_choose_budget(runs, conditions), workdir=workdir,
    )  # fmt: skip


def _choose_budget(runs: int | None, conditions: Conditions = _PLAIN) -> float:
    """Return the seconds for more runs: none if their number is given, or if they write into a mount."""
    writable = any(inside not in conditions.read_only for _, inside in conditions.volumes)
    return 0.0 if runs or writable else BUDGET_SECONDS


def _shell_command(line: str, workdir: str) -> tuple[str, ...]:
    line = f"cd -- {shlex.quote(workdir)} && {{ {line}\n}}" if workdir else line
    return "/bin/sh", "-c", line


def make_resume_command(work: Work, line: str) -> tuple[str, ...]:
    """Return the command that resumes a workload: a line for the image's shell, or the workload's own command."""
    return _shell_command(line, work.workdir) if line else work.command


def _join_workdir(path: str, workdir: str) -> str:
    """Return an artefact below a working directory other than the image's."""
    return f"{workdir.rstrip('/')}/{path}" if workdir and not path.startswith(("/", "{out}")) else path


def work_of_workload(workload: Workload, ignored: Sequence[str] = (), runs: int | None = RUNS) -> Work:
    """Return the workload of a lock; its outputs are below `{out}`, and `runs` is as for `work_of_options`."""
    return Work(
        command=workload.command, artefacts=tuple(dict.fromkeys(f"{{out}}/{name}" for name in workload.outputs)),
        ignored=tuple(ignored), text=" ".join(workload.command), label="workload output", runs=runs or RUNS,
        seconds=_choose_budget(runs),
    )  # fmt: skip


def seed_of_work(work: Work, seed: int) -> int:
    """Return the workload's own seed, or else that of the check."""
    return seed if work.conditions.seed is None else work.conditions.seed


def make_work_task(work: Work, seed: int, words: tuple[str, ...], gpus: str = "") -> Task:
    """Return the task of a command line under the conditions of a workload.

    Args:
        work: has the conditions.
        seed: of the check, which the workload may replace.
        words: the command line.
        gpus: that it sees, as `Task.gpus` has them.
    """
    # Records of settings hold times and process numbers, and are in the working directory, which may be an artefact.
    environment = {"REPROBUILD_SEED": str(seed_of_work(work, seed)), "REPROBUILD_RECORD": "0"}
    return work.conditions.apply_to(Task(arguments=words, environment=environment, gpus=gpus))
