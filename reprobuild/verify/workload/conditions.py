"""Conditions of the workload's containers, and their record."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.engines.model import Task
from reprobuild.infra.untrusted.strings import Key, OptionalDigest, Size, Text
from reprobuild_portable import secrets

RUNS, MOST_RUNS = 2, 1000  # the fewest, and the most
# Without a number, runs of the same result are repeated while all of them take less than this, up to BUDGET_RUNS: no
# drift in 30 runs bounds the share of drifting runs by 10 % (the rule of three).
BUDGET_SECONDS, BUDGET_RUNS = 30.0, 30
Runs = Annotated[int, Meta(ge=2, le=MOST_RUNS)]


class Conditions(Struct, frozen=True, kw_only=True):
    """The conditions of each run, the same in all of them.

    Attributes:
        seed: None for that of the check.
        variables: names and values, those in `hidden` among them.
        hidden: names with values that are on no command line and in no verdict.
        volumes: (directory of this machine, directory in the container).
        read_only: volumes that are not written to, by their directory in the container.
        shared_memory: bytes of /dev/shm, 0 for the engine's default.
    """

    seed: int | None = None
    variables: dict[str, str] = {}
    hidden: frozenset[str] = frozenset()
    volumes: tuple[tuple[str, str], ...] = ()
    read_only: frozenset[str] = frozenset()
    shared_memory: int = 0

    def apply_to(self, task: Task) -> Task:
        """Return a task with these conditions."""
        return msgspec.structs.replace(
            task,
            environment={**task.environment, **self.variables},
            hidden=task.hidden | self.hidden,
            volumes=(*task.volumes, *self.volumes),
            read_only=task.read_only | self.read_only,
            shared_memory=self.shared_memory or task.shared_memory,
        )


class Mount(Struct, frozen=True, kw_only=True):
    """A mount in a verdict.

    Attributes:
        place: its path in the container; the path on this machine is not recorded.
        digest: of its content before the first run; empty if there is no digest.
        paths: the number of its paths; the bytes of its files are `size`.
        size: see `paths`.
        writable: whether the runs could change it.
        why: the reason if it has no digest.
    """

    place: Text
    digest: OptionalDigest = ""
    paths: Size = 0
    size: Size = 0
    writable: bool = False
    why: Text = ""


class WorkRecord(Struct, frozen=True, kw_only=True):
    """The workload in a verdict: its command and conditions.

    Secrets are recorded by name alone. Of a volume only the directory in the container is recorded, and not that of
    this machine. `mounts` has the contents of the volumes; older verdicts have no digests.
    """

    command: Text
    seed: int
    runs: Runs = RUNS
    variables: dict[Key, Text] = {}
    secrets: tuple[Key, ...] = ()
    volumes: tuple[Text, ...] = ()
    shared_memory: int = 0
    workdir: Text = ""
    mounts: tuple[Mount, ...] = ()


def make_work_record(
    command: str, seed: int, conditions: Conditions, runs: int = RUNS, *, workdir: str = "",
    mounts: tuple[Mount, ...] = (),
) -> WorkRecord:  # fmt: skip
    """Return the workload's record for a verdict."""
    shown = {
        name: secrets.redact(value)
        for name, value in conditions.variables.items()
        if name not in conditions.hidden and secrets.secret_variable(name, value) is None
    }
    return WorkRecord(
        command=hide_secrets(command), seed=seed, runs=runs, variables=dict(sorted(shown.items())),
        secrets=tuple(sorted(set(conditions.variables) - set(shown))),
        volumes=tuple(sorted(inside for _, inside in conditions.volumes)), shared_memory=conditions.shared_memory,
        workdir=workdir, mounts=mounts,
    )  # fmt: skip


def hide_secrets(text: str) -> str:
    """Return a command or an option without secrets, for the eyes and for documents."""
    text = secrets.redact(text)
    return secrets.GONE if secrets.find(text.encode(errors="replace"), most=1) else text


def hide_argument_secrets(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return a command without secrets; an option may make the argument after it one."""
    text = shlex.join(arguments)
    hidden = hide_secrets(text)
    if hidden == text:
        return tuple(arguments)
    try:
        return tuple(shlex.split(hidden))
    except ValueError:  # a quote was in the secret
        return (secrets.GONE,)
