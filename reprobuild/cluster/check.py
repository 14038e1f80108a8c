"""Start the determinism test on many nodes, and gather the answers."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.cluster import kubernetes_collect, kubernetes_job
from reprobuild.cluster.aggregate import Fleet, Image, gather
from reprobuild.cluster.answer_table import Table
from reprobuild.cluster.collectives_run import FEWEST, devices_of, meet
from reprobuild.cluster.shared_dir import COLLECTIVES, NOT_RUN
from reprobuild.cluster.slurm_allocation import Wanted, granted
from reprobuild.cluster.slurm_step import run_step
from reprobuild.context import Session
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.image.model import Image as Built
from reprobuild.infra.atomic import write_file
from reprobuild.lock.lock import Lock
from reprobuild.pipeline.verify import Checks
from reprobuild.verify.check import seed_of
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.expected import Expected, expected
from reprobuild.verify.determinism.run import OTHER
from reprobuild.verify.verdict import Verdict


def check_slurm(
    lock: Lock, image: Built, out: Path, session: Session, checks: Checks, wanted: Wanted, program: Sequence[str],
    *, collectives: bool | None = None,
) -> Fleet:  # fmt: skip
    """Run the smoke test on each node through Slurm, then collectives between them, and gather the answers.

    Args:
        out: must be at the same place on all nodes, as must the store and this program.
        program: starts this program.
        collectives: run those between the nodes that answered; True leaves the answer open where that cannot be, and
            None is for all but a quick look at some probes, where there are two nodes or more.

    Raises:
        UsageError: what is asked for cannot be.
        EngineError: Slurm is not there, or gives no nodes.
        InconclusiveError: the image has not this smoke test.
    """
    table = table_of(lock, session)
    session.store.release()  # the check takes long, and the nodes use it
    made = datetime.datetime.fromtimestamp(session.now, datetime.timezone.utc)
    folder = out.absolute() / "fleet" / f"{made:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    command = [*program, *words(out, session, checks, folder)]
    wished = not checks.probes if collectives is None else collectives
    with granted(wanted, session.env, session.say) as job:
        session.say(
            f"job {job.number}: the smoke test on {len(job.nodes)} nodes, for at most {wanted.deadline} s: {folder}"
        )
        notes = run_step(
            job, job.nodes, command, folder, session.env, deadline=wanted.deadline, gone=job.gone
        )
        asked, met = (*job.nodes, *job.gone), dict[Device, tuple[str, ...]]()
        answered = devices_of(check_folder(lock, image, folder, table, session, asked)) if wished else {}
        for device, nodes in answered.items():
            if why := hindrance(table, device, nodes):
                session.say(f"collectives between nodes, {device}, are not run: {why}")
                if collectives:
                    note_not_run(folder, device, why)
                continue
            met[device] = nodes
            notes += meet(
                job, nodes, device, program, out, seed_of(lock), folder, session, checks, wanted.deadline
            )
    return check_folder(lock, image, folder, table, session, asked, notes, met)


def hindrance(table: Table, device: Device, nodes: Sequence[str]) -> str:
    """Return why collectives between the nodes that answered on a device cannot be run; empty where they can."""
    if len(nodes) < FEWEST:
        return f"of the nodes only {', '.join(nodes)} answered on it"
    return "" if table.between[device] else OTHER


def note_not_run(folder: Path, device: Device, why: str) -> None:
    """Write into a fleet's folder that collectives were asked for, and could not be: that leaves the answer open."""
    own = folder / f"{COLLECTIVES}{device}"
    own.mkdir(exist_ok=True)
    write_file(own / NOT_RUN, f"{why}\n".encode())


def check_folder(
    lock: Lock, image: Built, folder: Path, table: Table, session: Session, nodes: Sequence[str] = (),
    notes: Sequence[str] = (), met: Mapping[Device, Sequence[str]] = {}, made: str = "",
) -> Fleet:  # fmt: skip
    """Compare the certificates in a folder, now or as when they were compared at first (`made`).

    Raises:
        UsageError: the folder is none, or has no node.
    """
    wanted = Image(tree=image.tree, seed=seed_of(lock), profile=lock.profile)
    now = datetime.datetime.fromtimestamp(session.now, datetime.timezone.utc)
    return gather(folder, wanted, table, nodes, notes, made or f"{now:%Y-%m-%dT%H:%M:%SZ}", met)


def job_of(
    lock: Lock, image: Built, session: Session, checks: Checks, job: kubernetes_job.Job
) -> dict[str, Any]:
    """Return the manifest of the Indexed Job that checks nodes through Kubernetes.

    Raises:
        UsageError: a name is none that Kubernetes takes, a probe is none, or GPUs are given and are not to be asked.
        InconclusiveError: the image has not this smoke test.
    """
    if checks.cpu_only and job.gpus:
        raise UsageError(
            f"--scope cpu asks no GPU, but --node-gpus is {job.gpus}", hint="leave one of the two options out"
        )
    return kubernetes_job.manifest(
        job, lock, image.manifest, _expected(lock, session), controls=checks.control, thorough=checks.thorough,
        probes=checks.probes,
    )  # fmt: skip


def judge_pods(lock: Lock, image: Built, folder: Path, session: Session, checks: Checks, nodes: int) -> Path:
    """Make certificates of what the pods of that job printed, and return their folder; the options must be the job's.

    Raises:
        UsageError: the folder has no pods.
        InconclusiveError: the image has not this smoke test.
    """
    return kubernetes_collect.certificates(
        folder, lock, image, _expected(lock, session), checks, now=session.now, nodes=nodes
    )


def table_of(lock: Lock, session: Session) -> Table:
    """Return the names of all answers of a lock's image.

    Raises:
        InconclusiveError: it has not this smoke test.
    """
    return Table(_expected(lock, session))


def _expected(lock: Lock, session: Session) -> dict[Device, Expected]:
    wanted = expected(lock, session.store, session.say)
    if wanted is None:
        raise InconclusiveError("nodes cannot be compared by this image", hint=OTHER)
    return wanted


def told(found: Fleet | Verdict) -> Any:
    """Return the document of `--json`; a fleet's own answer stands in it, too."""
    document = msgspec.to_builtins(found)
    return {"verdict": found.verdict, **document} if isinstance(found, Fleet) else document


def words(out: Path, session: Session, checks: Checks, folder: Path) -> list[str]:
    """Return the command line by which a node takes part."""
    return [
        "cluster", "worker", str(out.absolute()), "--out", str(folder), "--store", str(session.store.root),
        "--gpu", checks.gpus, "--scope", "cpu" if checks.cpu_only else "all",
        *(["--engine", checks.engine] if checks.engine else []),
        *(["--thorough"] if checks.thorough else []),
        *([] if checks.control else ["--no-control"]),
        *(word for name in checks.probes for word in ("--probe", name)),
    ]  # fmt: skip
