"""A command on many nodes through Slurm: one step with a task on each, in a job of its own or the present one.

One task that fails, or a node that dies, ends no other (`--kill-on-bad-exit=0`, `--wait=0`, `--no-kill`). The wait
ends when all have ended, or at the deadline; the step has a time limit of its own, by which Slurm ends it where this
program cannot any more. https://slurm.schedmd.com/srun.html, https://slurm.schedmd.com/salloc.html
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
import shlex
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import DriftError, EngineError, InconclusiveError, UsageError
from reprobuild.fleet.answers import some
from reprobuild.fleet.folder import CERTIFICATE, ENDED, ERROR, LOG, LOST, NODE, NODES, STEP, TOLD
from reprobuild.proc import TimedOut, run, stream
from reprobuild.whole import write_file

SECONDS = 60  # for Slurm's own programs to answer
GRACE = 60  # from the deadline to the end of the step by Slurm itself
MOST_NOTES, LONGEST = 20, 300
HINT = "run this where `srun` and `salloc` are, on a login node or in a job; `--member` and `--gather` do without Slurm"
LARGEST_SAID = 64 << 10  # of what salloc says; its end is kept
_TOLD_JOB = re.compile(rb"(Granted|Pending) job allocation (\d+)\s")
# What runs on each node beside the check itself: it tells that a process has ended that could not tell it any more.
# Where Slurm ends all that still goes on, this ends a moment after the process, and has nothing to tell.
_WATCHED = (
    f'"$@" > "$0/$SLURMD_NODENAME{TOLD}" 2> "$0/$SLURMD_NODENAME{LOG}"; code=$?; '
    "test $code -le 128 || sleep 2; "
    f'echo $code > "$0/$SLURMD_NODENAME{ENDED}"; '
    # A drift, or what is open, is an answer that stands in the folder: Slurm is not to call the task a failure.
    f"case $code in {DriftError.exit_code}|{InconclusiveError.exit_code}) exit 0 ;; esac; exit $code"
)
# A node that Slurm does not reach has a star behind its state (sinfo, "NODE STATE CODES").
_FAILED = re.compile(r"Node failure on (\S+)")
_UNREACHED = re.compile(r"down.*|.*\*")


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked of Slurm.

    Attributes:
        nodes: how many; 0 for all of the present allocation.
        partition, time: of an allocation of its own; empty for the site's own.
        options: words for `salloc`, or for `srun` in the present allocation.
        deadline: seconds that nodes are waited for, from their start.
    """

    nodes: int = 0
    partition: str = ""
    time: str = ""
    options: tuple[str, ...] = ()
    deadline: int = 1800


class Job(Struct, frozen=True, kw_only=True):
    """A job of Slurm, its nodes in Slurm's own order, and the options that `srun` is given in it.

    `gone` are nodes that were asked for, and are not among those: Slurm takes one that fails out of a job with
    `--no-kill`, and names it no more. Where nothing else names them, they are `unnamed-1` and so on.
    """

    number: str
    nodes: tuple[str, ...]
    options: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@contextlib.contextmanager
def granted(wanted: Wanted, env: Mapping[str, str], say: Callable[[str], None]) -> Iterator[Job]:
    """Give a job with the nodes; one that is made for this is ended afterwards.

    Args:
        say: told each step.

    Raises:
        UsageError: the number of nodes is not told, or what is asked for cannot be in the present allocation.
        EngineError: Slurm is not there, or gives no nodes.
    """
    with _allocation(wanted, env, say) as (job, inside):
        there = _nodes(job, env)
        given = max(_number(env, "SLURM_JOB_NUM_NODES") if inside else 0, len(there))
        if inside and wanted.nodes > given:
            raise UsageError(
                f"{wanted.nodes} nodes are asked for, and job {job} has {given}",
                hint="ask for fewer with --nodes, or start it outside of a job: then it makes one",
            )
        if not inside and len(there) > wanted.nodes:
            say(
                f"job {job} has {len(there)} nodes, and {wanted.nodes} were asked for: all of them are checked"
            )
        asked = wanted.nodes or given
        nodes = there[:asked] if inside else there
        gone = _gone(there, asked - len(nodes), env.get("SLURM_JOB_NODELIST", "") if inside else "", env)
        if gone:
            say(
                f"job {job} has {len(nodes)} nodes, and {asked} were asked for; lost: {some(gone, MOST_NOTES)}"
            )
        yield Job(number=job, nodes=nodes, options=wanted.options if inside else (), gone=gone)


def _number(env: Mapping[str, str], name: str) -> int:
    return int(env[name]) if re.fullmatch(r"[0-9]{1,9}", env.get(name, "")) else 0


def _gone(there: Sequence[str], count: int, listed: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return names for `count` nodes that are not there any more, of those that the job was given: `listed`."""
    if count < 1:
        return ()
    given: list[str] = []
    with contextlib.suppress(EngineError):  # then they have no names
        given = _expanded(listed, env) if listed else []
    names = [name for name in given if name not in there and NODE.fullmatch(name)]
    unnamed = (f"unnamed-{number}" for number in itertools.count(1))
    names += itertools.islice((name for name in unnamed if name not in there), count)
    return tuple(names[:count])


@contextlib.contextmanager
def _allocation(
    wanted: Wanted, env: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[tuple[str, bool]]:
    """Give the number of a job with the nodes, and whether it was there before; one of its own is ended afterwards.

    In the queue it is waited for without a bound: how long that takes is the site's affair, and an interrupt ends it.
    """
    if present := env.get("SLURM_JOB_ID", ""):
        if wanted.partition or wanted.time:
            raise UsageError(
                f"--partition and --time ask for a new job, and this is in job {present} already",
                hint="leave them out: the present allocation is used",
            )
        yield present, True
        return
    if not wanted.nodes:
        raise UsageError("how many nodes are to be checked is not told", hint="add --nodes N")
    argv = [
        "salloc", "--no-shell", f"--nodes={wanted.nodes}", "--exclusive", "--no-kill", "--job-name=reprobuild-verify",
        *([f"--partition={wanted.partition}"] if wanted.partition else []),
        *([f"--time={wanted.time}"] if wanted.time else []), *wanted.options,
    ]  # fmt: skip
    say("waiting for Slurm to give " + (f"{wanted.nodes} nodes" if wanted.nodes > 1 else "a node"))
    said = _Said()
    try:
        code = stream(argv, env=env, purpose="ask Slurm for nodes", sink=said.take, hint=HINT)
        said.take(2, b"\n")  # its last line may have no end
        if code or not said.granted:
            raise EngineError(
                f"Slurm gives no nodes: {said.last or f'exit code {code}'}",
                hint=f"see whether this works: {shlex.join(argv)}",
            )
        yield said.job, False
    finally:  # also where an interrupt comes between the grant and the end of salloc
        if said.job:
            _cancel(said.job, env)


class _Said:
    """What salloc said: the number of the job, once it is told, and the end of the rest."""

    def __init__(self) -> None:
        self.job, self.granted = "", False
        self._text = bytearray()

    def take(self, _: int, data: bytes) -> None:
        """Look for the number in what came; a piece may end within it, and a site may say much before it."""
        self._text += data
        for word, number in _TOLD_JOB.findall(self._text):
            self.job, self.granted = number.decode(), self.granted or word == b"Granted"
        del self._text[:-LARGEST_SAID]

    @property
    def last(self) -> str:
        lines = self._text.decode(errors="replace").strip().splitlines()
        return lines[-1][:LONGEST] if lines else ""


def _cancel(job: str, env: Mapping[str, str]) -> None:
    with contextlib.suppress(EngineError):  # it has ended by itself
        run(["scancel", job], env=env, purpose="end the job or its step", timeout=SECONDS, hint=HINT)


def _cancel_step(job: str, name: str, env: Mapping[str, str]) -> None:
    """End the step of a name: its srun has ended, and may not have taken it along; the job is another's and goes on."""
    with contextlib.suppress(EngineError):
        listed = run(
            ["squeue", "--noheader", "--steps", f"--jobs={job}", "--format=%i %j"], env=env,
            purpose="ask for the steps of a job", timeout=SECONDS, hint=HINT,
        )  # fmt: skip
        for line in listed.decode(errors="replace").splitlines():
            step, _, called = line.strip().partition(" ")
            if called.strip() == name and re.fullmatch(rf"{job}\.\d+", step):
                _cancel(step, env)


def _nodes(job: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a job's nodes, as Slurm itself writes them out.

    Raises:
        EngineError: Slurm does not answer, or names none.
    """
    listed = _ask("squeue", "--noheader", f"--jobs={job}", "--format=%N", env=env)
    names = _expanded(listed, env) if listed else []
    if not names or not all(NODE.fullmatch(name) for name in names):
        raise EngineError(
            f"job {job} has no nodes: {listed[:LONGEST]!r}", hint="is it still running? See `squeue`"
        )
    return tuple(names)


def _expanded(listed: str, env: Mapping[str, str]) -> list[str]:
    """Return the names that `n[1-3]` stands for."""
    return _ask("scontrol", "show", "hostnames", listed, env=env).split()


def _ask(*argv: str, env: Mapping[str, str]) -> str:
    answer = run(argv, env=env, purpose="ask Slurm for its nodes", timeout=SECONDS, hint=HINT)
    return answer.decode(errors="replace").strip()


def address_of(node: str, env: Mapping[str, str]) -> str:
    """Return where the other nodes reach one: its address, as Slurm has it, and its name where Slurm does not say."""
    with contextlib.suppress(EngineError):
        said = _ask("scontrol", "show", "node", node, "--oneliner", env=env)
        if found := re.search(r"\bNodeAddr=([A-Za-z0-9_.:-]+)", said):
            return found[1]
    return node


def run_step(
    job: Job, nodes: Sequence[str], command: Sequence[str], folder: Path, env: Mapping[str, str], *, deadline: int,
    patience: int = 0, gone: Sequence[str] = (),
) -> tuple[str, ...]:  # fmt: skip
    """Run a command once on each of some nodes, and return what srun said when all have ended, or the deadline came.

    Nodes that Slurm does not reach any more, and that have left nothing, are noted down as lost.

    Args:
        command: what it prints, its errors and its exit code go into `folder`, which all nodes share.
        deadline: in seconds.
        patience: seconds that the others are waited for once one has ended; 0 for as long as the deadline lets.
        gone: nodes that were to be asked, too, and are lost.

    Raises:
        EngineError: Slurm is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / STEP, "".join(f"{node}\n" for node in nodes).encode())
    write_file(folder / NODES, "".join(f"{node}\n" for node in (*nodes, *gone)).encode())
    for node in gone:
        write_file(
            folder / f"{node}{LOST}", b"Slurm has taken it out of the job, as it does with one that fails"
        )
    notes = _step(job, len(nodes), command, folder, env, deadline=deadline, patience=patience)
    _note_lost(nodes, folder, env, notes)
    return notes


def _note_lost(nodes: Sequence[str], folder: Path, env: Mapping[str, str], notes: Sequence[str]) -> None:
    """Write down which nodes Slurm does not reach, or says to have failed, of those that have not ended."""
    left = {
        node
        for node in nodes
        if not any((folder / f"{node}{suffix}").exists() for suffix in (CERTIFICATE, ERROR, ENDED))
    }
    if not left:
        return
    with contextlib.suppress(EngineError):  # then they hang, for all that is known
        for failed in filter(None, map(_FAILED.search, notes)):  # one that was started again is reached
            for name in left & set(_expanded(failed[1], env)):
                write_file(folder / f"{name}{LOST}", b"Slurm says that it failed")
        listed = _ask("sinfo", "--noheader", "--Node", "--format=%N|%T|%E", env=env)
        for line in listed.splitlines():
            name, _, rest = line.partition("|")
            state, _, reason = rest.partition("|")
            if name.strip() in left and _UNREACHED.fullmatch(state):
                why = f"Slurm does not reach it any more: {state}, {reason}"
                write_file(folder / f"{name.strip()}{LOST}", why[:LONGEST].encode())


def _step(
    job: Job, count: int, command: Sequence[str], folder: Path, env: Mapping[str, str], *, deadline: int, patience: int,
) -> tuple[str, ...]:  # fmt: skip
    """Run the step; return what srun said.

    The nodes are in a file, which a value with a slash is: a word of a command line has room for some thousand names.
    """
    name = f"reprobuild-{uuid.uuid4().hex[:12]}"
    argv = [
        "srun", f"--jobid={job.number}", f"--job-name={name}", f"--nodes={count}", f"--ntasks={count}",
        "--ntasks-per-node=1", f"--nodelist={folder.absolute() / STEP}",
        "--kill-on-bad-exit=0", f"--wait={patience}", "--no-kill", "--input=none", "--mpi=none",
        "--cpu-bind=none", "--overlap", f"--time={math.ceil((deadline + GRACE) / 60)}",
        f"--output={folder}/task-%t.log", *job.options, "sh", "-c", _WATCHED, str(folder), *command,
    ]  # fmt: skip
    said: list[str] = []

    def take(number: int, data: bytes) -> None:
        if len(said) < 10 * MOST_NOTES:
            said.extend(data.decode(errors="replace").splitlines())

    late = False
    try:
        stream(argv, env=env, purpose="run a check on nodes", sink=take, timeout=deadline)
    except TimedOut:
        late = True
        _cancel_step(job.number, name, env)
    except BaseException:
        _cancel_step(job.number, name, env)
        raise
    notes = [
        line.encode("unicode_escape").decode()[:LONGEST] for line in said if line.startswith("srun: error")
    ]
    return (*([f"not waited for any longer than {deadline} s"] if late else []), *notes[:MOST_NOTES])
