"""The kinds of evidence, with their modules and commands."""

from __future__ import annotations

from benchmarks import (
    bisecting,
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
from proof import (
    as_of,
    choices,
    factors,
    gpu_train,
    leftovers,
    long_tests,
    planted,
    shares,
    suites,
    torch_tests,
    tracing,
)
from proof.bisection import experiment as bisections
from proof.environments import experiment
from proof.evidence import Kind
from proof.fault_injection.faults import MODULES as FAULTS

_BENCHMARKS = (
    bisecting,
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
# The modules that read snapshots.
READ = ("reprobuild_portable/secrets", "reprobuild/snapshot")
# The modules that read archives of others.
FUZZED = ("reprobuild/image", "reprobuild/infra/tar", "reprobuild/infra/untrusted", "reprobuild/realise")
# The modules that read documents of others.
DOCUMENTS = (
    "reprobuild/ecosystems/apt",
    "reprobuild/ecosystems/conda",
    "reprobuild/config/overrides",
    "reprobuild/infra/untrusted",
    "reprobuild/lock",
    "reprobuild/ecosystems/oci_registry",
    "reprobuild/output/directory",
    "reprobuild/distribute",
    "reprobuild/snapshot",
    "reprobuild/verify",
)
KINDS: tuple[Kind, ...] = (
    Kind(
        name="benchmarks",
        modules=tuple(sorted({name for module in _BENCHMARKS for name in module.MODULES})),
        made_by='make bench BENCH_ARGS="--evidence FILE"',
    ),
    Kind(name="environments", modules=experiment.MODULES, made_by="make proof"),
    Kind(name="as-of", modules=as_of.MODULES, made_by="make proof PROOF_ARGS=as-of"),
    Kind(name="as-of-untimed", modules=as_of.MODULES, made_by="make proof PROOF_ARGS=as-of-untimed"),
    Kind(name="bisect", modules=bisections.MODULES, made_by="make proof PROOF_ARGS=bisect"),
    Kind(name="choices", modules=choices.MODULES, made_by="make proof PROOF_ARGS=choices"),
    Kind(name="sdists", modules=as_of.MODULES, made_by="make proof PROOF_ARGS=sdists"),
    Kind(name="factors", modules=factors.MODULES, made_by="make proof"),
    Kind(name="ablation", modules=factors.MODULES, made_by="make proof"),
    Kind(name="leftovers", modules=leftovers.MODULES, made_by="make proof"),
    Kind(name="documents", modules=DOCUMENTS, made_by="make proof"),
    Kind(name="fault-injection", modules=FAULTS, made_by="make proof"),
    Kind(
        name="cluster",
        modules=(
            "reprobuild/engines",
            "reprobuild/cluster",
            "reprobuild_runtime/probes",
            "reprobuild/verify",
        ),
        made_by="make proof",
    ),
    Kind(
        name="fuzz",
        modules=FUZZED,
        made_by="make proof",
    ),
    Kind(name="gpu-train", modules=gpu_train.MODULES, made_by="make proof"),
    Kind(name="long-tests", modules=long_tests.MODULES, made_by="make proof PROOF_ARGS=long-tests"),
    Kind(name="trace", modules=tracing.MODULES, made_by="make proof PROOF_ARGS=trace"),
    Kind(name="planted", modules=planted.MODULES, made_by="make proof"),
    Kind(name="reading", modules=READ, made_by="make proof"),
    Kind(name="shares", modules=shares.MODULES, made_by="make proof PROOF_ARGS=shares"),
    Kind(name="suites", modules=suites.MODULES, made_by="make proof PROOF_ARGS=suites"),
    Kind(name="torch", modules=torch_tests.MODULES, made_by="make proof"),
)
# Evidence that another page than docs/proof.md shows.
ON_OTHER_PAGES: tuple[Kind, ...] = (
    Kind(
        name="probes-cpu",
        modules=("reprobuild_runtime/digest", "reprobuild_runtime/probes"),
        made_by="python dev/probe_table.py measure INTERPRETER FILE",
    ),
)
