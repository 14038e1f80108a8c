"""Decisions that are stated beside a given lock: those that the lock does not have are refused, and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.config.overrides import Decisions, WorkloadDecision
from reprobuild.errors import LockError, UsageError
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.pipeline.stated_decisions import refuse_other_decisions
from tests.verify.samples import make_lock

WORK = WorkloadDecision(command=("python", "train.py"), outputs=("a b",))
RECORDED = Decisions(
    accept=("no-apt-list", "no-hash"), drop=("vim",), workload=WORK, as_of="2024-01-15", bake={"MODE": "fast"},
    indexes={"my.lib": "https://index.example.org/simple"}, sources={"job": "job.bundle"},
)  # fmt: skip


def refuse(stated: Decisions) -> list[str]:
    """Compare decisions with those of a lock, and return what is said."""
    said: list[str] = []
    lock = make_lock(decisions=msgspec.convert(RECORDED.lock_document(), RecordedDecisions))
    refuse_other_decisions(lock, stated, Path("my lock"), Path("a snapshot"), said.append)
    return said


@pytest.mark.parametrize(
    "stated",
    [
        {}, {"accept": ("no-hash",)}, {"as_of": "2024-01-16T00:00:00Z"}, {"workload": WORK}, {"bake": {"MODE": "fast"}},
        {"python": "3.11.2"}, {"python": "3.11"}, {"platform": "linux/amd64"}, {"profile": "torch"},
        {"base": "debian/bookworm"},
        {"indexes": {"My_Lib": "https://index.example.org/simple"}}, {"sources": {"job": "job.bundle"}},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_lock_has_may_be_stated(stated: dict[str, Any]) -> None:
    assert refuse(Decisions(**stated)) == []
    assert refuse(RECORDED) == []


@pytest.mark.parametrize(
    ("stated", "text"),
    [
        ({"python": "3.12"}, "python = 3.12 (the lock: 3.11.2)"),
        ({"python": "3.1"}, "python = 3.1 (the lock: 3.11.2)"),
        ({"accept": ("no-hash", "solved")}, "accept: solved (not in the lock)"),
        ({"seed": 7}, "seed = 7 (the lock: nothing)"),
        ({"as_of": "2024-01-16"}, "as_of = 2024-01-17T00:00:00Z (the lock: 2024-01-16T00:00:00Z)"),
        ({"bake": {"MODE": "hunter2"}}, "bake.MODE"),
        ({"bake": {"HOME": None}}, "bake.HOME"),
        (
            {"workload": WorkloadDecision(command=("python", "my job.py"), outputs=("a b",))},
            "workload.command = python 'my job.py' (the lock: python train.py)",
        ),
        ({"system": "all"}, "system = all (the lock: nothing)"),
    ],
)
def test_what_the_lock_does_not_have_is_named(stated: dict[str, Any], text: str) -> None:
    with pytest.raises(LockError) as caught:
        refuse(Decisions(**stated))
    assert str(caught.value) == f"my lock does not have the decisions that you state:\n  {text}"
    assert caught.value.hint == (
        "leave them out to follow the lock, or make a new lock with them: `reprobuild lock 'a snapshot' -o 'my lock'` "
        "and the same options"
    )


def test_many_are_counted() -> None:
    with pytest.raises(LockError) as caught:
        refuse(Decisions(drop=tuple(f"package{number}" for number in range(15))))
    assert str(caught.value).endswith("drop: package9 (not in the lock)\n  and 5 more")


def test_what_cannot_be_compared_is_said() -> None:
    stated = Decisions(sources={"job": "../other"}, services={"pypi": "https://a.example"}, debs=("/x.deb",))
    assert refuse(stated) == [
        "lock: sources (job): these places are only used for sources that the store lacks, and they must give the "
        "bytes of the lock",
        "lock: services and debs: a lock does not record them, so they are not compared or used",
    ]


def test_a_secret_is_not_printed() -> None:
    login = ":".join(["user", "hunter2" * 2])
    with pytest.raises(UsageError):
        refuse(Decisions(base=f"https://{login}@registry.example.org/x"))
