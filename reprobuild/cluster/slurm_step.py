"""A command on many nodes through one Slurm step.

The step has a task on each node. A task that fails, or a node that dies, does not end the others
(`--kill-on-bad-exit=0`, `--wait=0`, `--no-kill`). The wait ends when all have ended, or at the deadline. The
step has a time limit of its own, so Slurm ends it if this program cannot any more.
https://slurm.schedmd.com/srun.html
"""

from __future__ import annotations

import contextlib
import math
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.cluster.shared_dir import CERTIFICATE, ENDED, ERROR, LOG, LOST, NODES, STEP, TOLD
from reprobuild.cluster.slurm import LONGEST, MOST_NOTES, cancel_job, expand_node_list, run_slurm
from reprobuild.cluster.slurm_allocation import SlurmJob
from reprobuild.errors import DriftError, EngineError, InconclusiveError
from reprobuild.infra.atomic import write_file
from reprobuild.infra.proc import stream
from reprobuild.infra.proc.errors import ProcessTimeoutError

GRACE = 60  # seconds from the deadline to the end of the step by Slurm itself
# The shell around the check on each node: it records the end of a process that could not record it itself. If
# Slurm ends all tasks, this shell ends a moment after the process, and has no record to write.
# With `set -C` a shell only makes new files, and follows no link of another writer (POSIX, "noclobber").
_WATCHED = (
    f'set -C; "$@" > "$0/$SLURMD_NODENAME{TOLD}" 2> "$0/$SLURMD_NODENAME{LOG}"; code=$?; '
    "test $code -le 128 || sleep 2; "
    f'echo $code > "$0/$SLURMD_NODENAME{ENDED}"; '
    # A drift or an open result is an answer in the directory, so Slurm must not count the task as failed.
    f"case $code in {DriftError.exit_code}|{InconclusiveError.exit_code}) exit 0 ;; esac; exit $code"
)
# Slurm marks the state of an unreachable node with a star (sinfo, "NODE STATE CODES").
_FAILED = re.compile(r"Node failure on (\S+)")
_UNREACHED = re.compile(r"down.*|.*\*")


def run_step(
    job: SlurmJob, nodes: Sequence[str], command: Sequence[str], folder: Path, env: Mapping[str, str], *, deadline: int,
    patience: int = 0, lost_nodes: Sequence[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    """Run a command on each node; return srun's messages.

    Each runs it once. The function returns when all have ended, or at the deadline. Nodes that Slurm cannot
    reach any more, and that have left no result, are recorded as lost.

    Args:
        command: its output, its errors and its exit code go into `folder`, which all nodes share.
        deadline: in seconds.
        patience: seconds to wait for the others once one has ended; 0 to wait until the deadline.
        lost_nodes: nodes that should have been asked, too, and are lost.

    Raises:
        EngineError: Slurm is missing.
    """
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_file(folder / STEP, "".join(f"{node}\n" for node in nodes).encode())
    write_file(folder / NODES, "".join(f"{node}\n" for node in (*nodes, *lost_nodes)).encode())
    for node in lost_nodes:
        write_file(
            folder / f"{node}{LOST}", b"Slurm has taken it out of the job, as it does with one that fails"
        )
    notes = _run_srun(job, len(nodes), command, folder, env, deadline=deadline, patience=patience)
    _note_lost(nodes, folder, env, notes)
    return notes


def _note_lost(nodes: Sequence[str], folder: Path, env: Mapping[str, str], notes: Sequence[str]) -> None:
    """Record the lost nodes among those that have not ended.

    Slurm cannot reach these nodes, or reports their failure.
    """
    unfinished_nodes = {
        node
        for node in nodes
        if not any((folder / f"{node}{suffix}").exists() for suffix in (CERTIFICATE, ERROR, ENDED))
    }
    if not unfinished_nodes:
        return
    with contextlib.suppress(EngineError):  # otherwise they count as hanging
        for failed in filter(None, map(_FAILED.search, notes)):  # a node that was started again is reached
            for name in unfinished_nodes & set(expand_node_list(failed[1], env)):
                write_file(folder / f"{name}{LOST}", b"Slurm says that it failed")
        output = run_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T|%E", env=env)
        for line in output.splitlines():
            name, _, rest = line.partition("|")
            state, _, reason = rest.partition("|")
            if name.strip() in unfinished_nodes and _UNREACHED.fullmatch(state):
                why = f"Slurm does not reach it any more: {state}, {reason}"
                write_file(folder / f"{name.strip()}{LOST}", why[:LONGEST].encode())


def _run_srun(
    job: SlurmJob, count: int, command: Sequence[str], folder: Path, env: Mapping[str, str], *,
    deadline: int, patience: int,
) -> tuple[str, ...]:  # fmt: skip
    """Run the step, and return srun's messages.

    The nodes are in a file, given as a value with a slash: a command line has room for only some thousand
    names.
    """
    name = f"reprobuild-{uuid.uuid4().hex[:12]}"
    argv = [
        "srun", f"--jobid={job.number}", f"--job-name={name}", f"--nodes={count}", f"--ntasks={count}",
        "--ntasks-per-node=1", f"--nodelist={folder.absolute() / STEP}",
        "--kill-on-bad-exit=0", f"--wait={patience}", "--no-kill", "--input=none", "--mpi=none",
        "--cpu-bind=none", "--overlap", f"--time={math.ceil((deadline + GRACE) / 60)}",
        "--output=none",  # slurmstepd would follow a link
        *job.options, "sh", "-c", _WATCHED, str(folder), *command,
    ]  # fmt: skip
    lines: list[str] = []

    def take(number: int, data: bytes) -> None:
        if len(lines) < 10 * MOST_NOTES:
            lines.extend(data.decode(errors="replace").splitlines())

    late = False
    try:
        stream(argv, env=env, purpose="run a check on nodes", sink=take, timeout=deadline)
    except ProcessTimeoutError:
        late = True
        _cancel_step(job.number, name, env)
    except BaseException:
        _cancel_step(job.number, name, env)
        raise
    notes = [
        line.encode("unicode_escape").decode()[:LONGEST] for line in lines if line.startswith("srun: error")
    ]
    return (*([f"not waited for any longer than {deadline} s"] if late else []), *notes[:MOST_NOTES])


def _cancel_step(job: str, name: str, env: Mapping[str, str]) -> None:
    """Cancel the step with this name.

    Its srun has ended, and the step may still run; the job belongs to someone else and continues.
    """
    with contextlib.suppress(EngineError):
        output = run_slurm("squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i %j", env=env)
        for line in output.splitlines():
            step, _, called = line.strip().partition(" ")
            if called.strip() == name and re.fullmatch(rf"{job}\.\d+", step):
                cancel_job(step, env)
