"""Checks of a three-node Slurm with planted nodes.

They run again and again: is each answer right?

Two checks make a run. In the first one node computes otherwise, in the second another hangs and a third is killed; the
nodes change from run to run. Right is: the first names exactly that node, with exactly the probes that were asked for,
and no other node, and so do the collectives between the three; the second reports the behaviour of both, and has the
answer of the node that is left.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.output.directory import read_image
from tests.cluster.planted import NODES, PROBES, Cluster, Outcome, Trial, named, prepare
from tests.conftest import apptainer_environment

MODULES = ("reprobuild/engines", "reprobuild/cluster", "reprobuild_runtime/probes", "reprobuild/verify")
RUNS = 20
CHECKS = (
    "the node that computes otherwise, and its probes", "the same, by collectives between the nodes",
    "the node that hangs, and the one that dies",
)  # fmt: skip
DEADLINE = 90  # seconds that the second check waits for the node that is left, which needs a third of it


class ClusterExperiment:
    """The experiment, with its results in a file.

    A run that was cut off goes on there.
    """

    def __init__(self, results: Path, store: Path, work: Path) -> None:
        self.results, self.store, self.work = results, store, work
        self.kept = work / "cluster.json"
        self.found: list[dict[str, Any]] = json.loads(self.kept.read_text()) if self.kept.exists() else []

    def do(self, runs: int = RUNS) -> list[dict[str, Any]]:
        """Do the runs that are missing, and return all results."""
        prepare()
        lock, _ = read_image(self.results)
        cache = self.work / "cluster-cache"
        cache.mkdir(exist_ok=True)
        env = apptainer_environment(cache)
        for number in range(len(self.found), runs):
            folder = self.work / "cluster"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            out = folder / "out"
            shutil.copytree(
                self.results, out, copy_function=os.link, ignore=shutil.ignore_patterns("cluster")
            )
            cluster = Cluster(folder, out, lock, self.store, env)
            self.found.append(judged(number, cluster.run(trials(number))))
            self.kept.write_text(json.dumps(self.found))
        return self.found


def trials(number: int) -> list[Trial]:
    """Return the checks of a run."""
    odd, hangs, dies = (NODES[(number + place) % 3] for place in range(3))
    return [
        Trial({odd: "odd"}, collectives=True),
        Trial({hangs: "hang", dies: "die"}, DEADLINE, inside=number % 2 == 1),
    ]


def judged(number: int, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the judgement of a run, and its answers."""
    odd, hangs, dies = (NODES[(number + place) % 3] for place in range(3))
    first, second = outcomes
    groups = [one.nodes for one in first.cluster.groups]
    drifts = [
        (one.verdict, {node for each in one.drifts for node in each.nodes})
        for one in first.cluster.collectives
    ]
    right = (
        (first.code, named(first.cluster), first.cluster.silent, groups)
        == (8, {odd: set(PROBES)}, (), [NODES]),
        drifts == [("drift", {odd})],
        second.code == 9
        and {each.node: each.kind for each in second.cluster.silent} == {hangs: "hangs", dies: "died"}
        and [one.nodes for one in second.cluster.groups] == [(odd,)],
    )
    return {
        "run": number, "right": list(right),
        "named": {node: sorted(names) for node, names in named(first.cluster).items()},
        "silent": [msgspec.to_builtins(each) for each in (*first.cluster.silent, *second.cluster.silent)],
    }  # fmt: skip


def table(found: Sequence[dict[str, Any]]) -> str:
    """Return the findings, a line for each check."""
    return "\n".join(
        f"{name:<48} {sum(each['right'][place] for each in found)} of {len(found)} right"
        for place, name in enumerate(CHECKS)
    )
