"""The planted faults and the clean scripts: what each writes, and which artefact shows the fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.work import Work, work_of_options

HERE = Path(__file__).parent
FAULTS_FOLDER, CLEAN_FOLDER = HERE / "faults", HERE / "clean"


@dataclass(frozen=True)
class Script:
    """One script: the artefacts that drift, those that do not, those that must differ, and the keys to ignore."""

    name: str
    drifts: tuple[str, ...] = ()
    same: tuple[str, ...] = ("config.json",)
    distinct: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def artefacts(self) -> tuple[str, ...]:
        """All artefacts that are compared."""
        return (*self.drifts, *self.same)

    @property
    def expected(self) -> dict[str, str]:
        """The verdict of each artefact: ranks that draw the same are no drift, and no pass."""
        blind = dict.fromkeys(self.distinct, "inconclusive")
        return {**dict.fromkeys(self.same, "identical"), **dict.fromkeys(self.drifts, "drift"), **blind}


def work_of(script: Script) -> Work:
    """Return what the command line makes of a script, which lies in `/scripts`."""
    made = work_of_options(
        f"python /scripts/{script.name}.py", script.artefacts, script.distinct, script.ignored
    )
    assert made
    return made


def verdicts(found: Sequence[WorkComparison]) -> dict[str, str]:
    """Return the verdict of each artefact."""
    return {comparison.name.removeprefix("artefact "): comparison.verdict for comparison in found}


TRAINED = ("weights.json", "log.jsonl")
CHECKPOINT = ("out.ckpt",)
FAULTS: tuple[Script, ...] = (
    *(
        Script(name, TRAINED)
        for name in (
            "dropped_seed", "urandom_seed", "time_seeded_shuffle", "system_random", "secrets_augmentation",
            "uuid_split", "id_order", "address_in_hash", "hash_order_isolated", "host_name_seed",
            "random_port_seed", "library_reseeds", "as_completed", "imap_unordered", "async_order", "two_producers",
            "shared_memory_race", "wall_clock_schedule", "mtime_order", "listing_order", "temporary_names",
            "resume_without_rng",
        )
    ),
    Script("set_of_objects", ("norms.json",), ("config.json", *TRAINED)),
    Script("autotune_by_timing", ("sums.json",), ("config.json", *TRAINED)),
    Script("threads_by_load", ("sums.json",), ("config.json", *TRAINED)),
    Script("time_budget", ("log.jsonl",)),
    Script("garbage_time", ("log.jsonl",)),
    Script("half_checkpoint", ("checkpoint.bin",), ("config.json", *TRAINED)),
    Script("torn_checkpoint", ("checkpoint.json",), ("config.json", *TRAINED)),
    Script("uninitialised_memory", ("features.npz",), ("config.json", *TRAINED)),
    Script("atomic_addition", CHECKPOINT, ()),
    Script("generator_seed", CHECKPOINT, ()),
    Script("loader_reseeds", CHECKPOINT, ()),
    Script("hogwild", CHECKPOINT, ()),
    Script("rank_blind", (), ("config.json", "rank*.jsonl"), ("rank*.jsonl",)),
)  # fmt: skip
CLEAN: tuple[Script, ...] = (
    Script("plain_training", (), ("config.json", *TRAINED)),
    Script("unseeded_generators", (), ("config.json", *TRAINED, "draws.npz")),
    Script("set_of_strings", (), ("config.json", *TRAINED)),
    Script("pool_of_processes", (), ("config.json", *TRAINED)),
    Script("resumed", (), ("config.json", *TRAINED)),
    Script(
        "times_and_hosts",
        (),
        ("config.json", *TRAINED, "run.log", "metrics.jsonl", "table.csv"),
        ignored=("elapsed", "step_time_ms", "samples_per_second", "# per s", "in # seconds"),
    ),
    Script("tensors_by_hand", (), ("model.safetensors", "arrays.npz", "packed.jsonl.gz")),
    Script("dropout", (), CHECKPOINT),
    Script("loader_workers", (), CHECKPOINT),
    Script("bfloat16", (), CHECKPOINT),
)
