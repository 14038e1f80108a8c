"""The nodes of a present or new Slurm job.

A new job is made for the check, and ended afterwards. https://slurm.schedmd.com/salloc.html
"""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from reprobuild.cluster.answer_table import abbreviate_names
from reprobuild.cluster.shared_dir import NODE
from reprobuild.cluster.slurm import HINT, LONGEST, MOST_NOTES, cancel_job, expand_node_list, run_slurm
from reprobuild.errors import EngineError, UsageError
from reprobuild.infra.proc import stream

LARGEST_SAID = 64 << 10  # bytes of salloc's output; its end is kept
_TOLD_JOB = re.compile(rb"(Granted|Pending) job allocation (\d+)\s")


class JobRequest(Struct, frozen=True, kw_only=True):
    """A request for nodes of Slurm.

    Attributes:
        nodes: the number of nodes; 0 for all of the present allocation.
        partition, time: of a new allocation; empty for the site's defaults.
        options: words for `salloc`, or for `srun` in the present allocation.
        deadline: seconds to wait for nodes, from their start.
    """

    nodes: int = 0
    partition: str = ""
    time: str = ""
    options: tuple[str, ...] = ()
    deadline: int = 1800


class SlurmJob(Struct, frozen=True, kw_only=True):
    """A job of Slurm, with its nodes and `srun` options.

    The nodes are in Slurm's order. `gone` are requested nodes that the job has lost: Slurm takes a failed
    node out of a job with `--no-kill`, and does not list it any more. Without a known name they are
    `unnamed-1` and so on.
    """

    number: str
    nodes: tuple[str, ...]
    options: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()


@contextlib.contextmanager
def allocate_nodes(
    request: JobRequest, env: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[SlurmJob]:
    """Yield a job with the nodes, present or new.

    A new job is ended afterwards.

    Args:
        say: called with each step.

    Raises:
        UsageError: the number of nodes is missing, or the request does not fit the present allocation.
        EngineError: Slurm is missing, or gives no nodes.
    """
    with _open_allocation(request, env, say) as (job, inside):
        job_nodes = _job_nodes(job, env)
        size = max(_read_number(env, "SLURM_JOB_NUM_NODES") if inside else 0, len(job_nodes))
        if inside and request.nodes > size:
            raise UsageError(
                f"{request.nodes} nodes are asked for, and job {job} has {size}",
                hint="ask for fewer with --nodes, or start it outside of a job: then it makes one",
            )
        if not inside and len(job_nodes) > request.nodes:
            say(
                f"job {job} has {len(job_nodes)} nodes, and {request.nodes} were asked for: all of them are checked"
            )
        count = request.nodes or size
        nodes = job_nodes[:count] if inside else job_nodes
        lost_nodes = _name_lost_nodes(
            job_nodes, count - len(nodes), env.get("SLURM_JOB_NODELIST", "") if inside else "", env
        )
        if lost_nodes:
            say(
                f"job {job} has {len(nodes)} nodes, and {count} were asked for; lost: "
                f"{abbreviate_names(lost_nodes, MOST_NOTES)}"
            )
        yield SlurmJob(number=job, nodes=nodes, options=request.options if inside else (), gone=lost_nodes)


def _read_number(env: Mapping[str, str], name: str) -> int:
    return int(env[name]) if re.fullmatch(r"[0-9]{1,9}", env.get(name, "")) else 0


def _name_lost_nodes(
    job_nodes: Sequence[str], count: int, node_list: str, env: Mapping[str, str]
) -> tuple[str, ...]:
    """Return names for `count` nodes that the job has lost.

    They are taken from `node_list`, the original nodes of the job.
    """
    if count < 1:
        return ()
    original_nodes: list[str] = []
    with contextlib.suppress(EngineError):  # then they have no names
        original_nodes = expand_node_list(node_list, env) if node_list else []
    names = [name for name in original_nodes if name not in job_nodes and NODE.fullmatch(name)]
    unnamed = (f"unnamed-{number}" for number in itertools.count(1))
    names += itertools.islice((name for name in unnamed if name not in job_nodes), count)
    return tuple(names[:count])


def _job_nodes(job: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of a job's nodes.

    Slurm expands its list of nodes.

    Raises:
        EngineError: Slurm does not answer, or lists none.
    """
    node_list = run_slurm("squeue", "--noheader", f"--jobs={job}", "--format=%N", env=env)
    names = expand_node_list(node_list, env) if node_list else []
    if not names or not all(NODE.fullmatch(name) for name in names):
        raise EngineError(
            f"job {job} has no nodes: {node_list[:LONGEST]!r}", hint="is it still running? See `squeue`"
        )
    return tuple(names)


@contextlib.contextmanager
def _open_allocation(
    request: JobRequest, env: Mapping[str, str], say: Callable[[str], None]
) -> Iterator[tuple[str, bool]]:
    """Yield a job's number, and whether the job existed before.

    A new job is ended afterwards. The wait in the queue has no limit: its length depends on the site, and an
    interrupt ends it.
    """
    if present := env.get("SLURM_JOB_ID", ""):
        if request.partition or request.time:
            raise UsageError(
                f"--partition and --time-limit ask for a new job, but this process runs in job {present}",
                hint="leave both options out: the present job is used",
            )
        yield present, True
        return
    if not request.nodes:
        raise UsageError("missing option `--nodes`", hint="add --nodes N, or run this in a job of Slurm")
    argv = [
        "salloc", "--no-shell", f"--nodes={request.nodes}", "--exclusive", "--no-kill", "--job-name=reprobuild-verify",
        *([f"--partition={request.partition}"] if request.partition else []),
        *([f"--time={request.time}"] if request.time else []), *request.options,
    ]  # fmt: skip
    say("waiting for Slurm to give " + (f"{request.nodes} nodes" if request.nodes > 1 else "a node"))
    output = _Said()
    try:
        code = stream(argv, env=env, purpose="ask Slurm for nodes", sink=output.take, hint=HINT)
        output.take(2, b"\n")  # its last line may have no end
        if code or not output.granted:
            raise EngineError(
                f"Slurm gives no nodes: {output.last or f'exit code {code}'}",
                hint=f"see whether this works: {shlex.join(argv)}",
            )
        yield output.job, False
    finally:  # also if an interrupt comes between the grant and the end of salloc
        if output.job:
            cancel_job(output.job, env)


class _Said:
    """The output of salloc: the job's number, and the end."""

    def __init__(self) -> None:
        self.job, self.granted = "", False
        self._text = bytearray()

    def take(self, _: int, data: bytes) -> None:
        """Search the new output for the job's number.

        A piece may end within the number, and a site may print much before it.
        """
        self._text += data
        for word, number in _TOLD_JOB.findall(self._text):
            self.job, self.granted = number.decode(), self.granted or word == b"Granted"
        del self._text[:-LARGEST_SAID]

    @property
    def last(self) -> str:
        lines = self._text.decode(errors="replace").strip().splitlines()
        return lines[-1][:LONGEST] if lines else ""
