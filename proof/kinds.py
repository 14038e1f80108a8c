"""The kinds of evidence that there are to be, the rooms that each is about, and the command that makes it."""

from __future__ import annotations

from benchmarks import (
    capturing,
    change,
    difference,
    memory,
    merging,
    native_build,
    rendering,
    resolving,
    sif,
    smoke,
    startup,
)
from proof import factors, gpu_train, leftovers, planted, torch_tests
from proof.drills.drill import ROOMS as DRILLS
from proof.environments import experiment
from proof.evidence import Kind

_BENCHMARKS = (
    capturing,
    change,
    difference,
    memory,
    merging,
    native_build,
    rendering,
    resolving,
    sif,
    smoke,
    startup,
)
# The rooms that read documents of others.
DOCUMENTS = (
    "apt",
    "conda",
    "decisions",
    "guard",
    "lock",
    "registry",
    "results",
    "ship",
    "snapshot",
    "verify",
)
KINDS: tuple[Kind, ...] = (
    Kind(
        name="benchmarks",
        rooms=tuple(sorted({room for module in _BENCHMARKS for room in module.ROOMS})),
        made_by='make bench BENCH_ARGS="--evidence FILE"',
    ),
    Kind(name="environments", rooms=experiment.ROOMS, made_by="make proof"),
    Kind(name="factors", rooms=factors.ROOMS, made_by="make proof"),
    Kind(name="ablation", rooms=factors.ROOMS, made_by="make proof"),
    Kind(name="leftovers", rooms=leftovers.ROOMS, made_by="make proof"),
    Kind(name="documents", rooms=DOCUMENTS, made_by="make proof"),
    Kind(name="drills", rooms=DRILLS, made_by="make proof"),
    Kind(
        name="fleet", rooms=("engines", "fleet", "reprobuild_runtime/probes", "verify"), made_by="make proof"
    ),
    Kind(name="fuzz", rooms=("archive", "guard", "image", "realise"), made_by="make proof"),
    Kind(name="gpu-train", rooms=gpu_train.ROOMS, made_by="make proof"),
    Kind(name="planted", rooms=planted.ROOMS, made_by="make proof"),
    Kind(name="reading", rooms=("secrets", "snapshot"), made_by="make proof"),
    Kind(name="torch", rooms=torch_tests.ROOMS, made_by="make proof"),
)
# Evidence that another page than docs/proof.md shows.
ON_OTHER_PAGES: tuple[Kind, ...] = (
    Kind(
        name="probes-cpu",
        rooms=("reprobuild_runtime/digest", "reprobuild_runtime/probes"),
        made_by="python dev/probe_table.py measure INTERPRETER FILE",
    ),
)
