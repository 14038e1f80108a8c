"""The conditions of a workload, from the options of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from reprobuild.errors import UsageError
from reprobuild.infra.suggest import suggest_path
from reprobuild.run.options import RunOptions, read_size, read_variables, read_volumes
from reprobuild.run.site_env import find_hidden_variables
from reprobuild.verify.workload.conditions import Conditions


def conditions(run_options: RunOptions, env: Mapping[str, str]) -> Conditions:
    """Return the conditions of a workload in each verification run.

    Volumes are read-only without `:rw`.

    If the first run wrote to a volume, the second run would see another one.

    Raises:
        UsageError: a volume does not exist; see also `read_variables`, `read_volumes`, `read_size`.
    """
    volumes, _ = read_volumes(run_options.volumes)
    for place, _ in volumes:
        if not Path(place).exists():
            raise UsageError(
                f"--volume {place}: it does not exist",
                hint=suggest_path(Path(place)) or "name a directory of this machine: --volume HOST:CONTAINER",
            )
    written = {
        text.rpartition(":")[0].partition(":")[2] for text in run_options.volumes if text.endswith(":rw")
    }
    variables = read_variables(msgspec.structs.replace(run_options, seed=None), env)
    return Conditions(
        seed=run_options.seed, variables=variables,
        hidden=find_hidden_variables(variables, run_options.hidden), volumes=volumes,
        read_only=frozenset(inside for _, inside in volumes if inside not in written),
        shared_memory=read_size(run_options.shm_size) if run_options.shm_size else 0,
    )  # fmt: skip
