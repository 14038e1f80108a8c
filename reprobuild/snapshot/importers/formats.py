"""The tables of importers. A new format is a module beside this one, and a row here.

The first that recognises a path reads it: trackers before the lock files that may lie in their directories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from reprobuild.snapshot.importers import (
    aim,
    clearml,
    conda_locks,
    dvc,
    guild,
    hf_card,
    hydra,
    mlflow,
    notebooks,
    pdm_lock,
    pip_inspect,
    pipfile_lock,
    poetry_lock,
    pylock,
    pyproject,
    sacred,
    sagemaker,
    setup_cfg,
    slurm,
    uv_lock,
    wandb,
)
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.source import ImportSource


class Importer(NamedTuple):
    """One format.

    `recognises` is quick, and never raises; `read` raises SnapshotError for a damaged file.
    """

    name: str
    recognises: Callable[[ImportSource], bool]
    read: Callable[[ImportSource], Draft]


class Supplement(NamedTuple):
    """One format that adds facts to another one, and is not a snapshot without it.

    `add` raises SnapshotError for a damaged file.
    """

    name: str
    recognises: Callable[[ImportSource], bool]
    add: Callable[[Draft, ImportSource], None]


IMPORTERS: tuple[Importer, ...] = (
    # Guild copies the project, with the runs of other trackers, into its run.
    Importer("Guild run", guild.recognises, guild.read),
    Importer("W&B run", wandb.recognises, wandb.read),
    Importer("MLflow model or run", mlflow.recognises, mlflow.read),
    Importer("Sacred run", sacred.recognises, sacred.read),
    Importer("ClearML task", clearml.recognises, clearml.read),
    Importer("Aim run", aim.recognises, aim.read),
    Importer("SageMaker training job", sagemaker.recognises, sagemaker.read),
    Importer("Slurm job", slurm.recognises, slurm.read),
    Importer("uv.lock", uv_lock.recognises, uv_lock.read),
    Importer("pylock.toml", pylock.recognises, pylock.read),
    Importer("pip inspect", pip_inspect.recognises, pip_inspect.read),
    Importer("pixi.lock", conda_locks.recognises_pixi, conda_locks.read_pixi),
    Importer("conda-lock.yml", conda_locks.recognises_conda_lock, conda_locks.read_conda_lock),
    Importer("poetry.lock", poetry_lock.recognises, poetry_lock.read),
    Importer("pdm.lock", pdm_lock.recognises, pdm_lock.read),
    Importer("Pipfile.lock", pipfile_lock.recognises, pipfile_lock.read),
    Importer("Hugging Face model card", hf_card.recognises, hf_card.read),
    Importer("pyproject.toml", pyproject.recognises, pyproject.read),
    Importer("setup.cfg", setup_cfg.recognises, setup_cfg.read),
)
SUPPLEMENTS: tuple[Supplement, ...] = (
    Supplement("Hydra", hydra.recognises, hydra.add),
    Supplement("DVC", dvc.recognises, dvc.add),
    Supplement("a notebook", notebooks.recognises, notebooks.add),
)


def find_importer(source: ImportSource) -> Importer | None:
    """Return the importer of a path, or None."""
    return next((importer for importer in IMPORTERS if importer.recognises(source)), None)


def find_supplements(source: ImportSource) -> list[Supplement]:
    """Return the formats of a path that add facts to another one."""
    return [supplement for supplement in SUPPLEMENTS if supplement.recognises(source)]
