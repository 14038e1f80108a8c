"""The source of the sample of each format: a test in which its tool writes the file, or what was published of it."""

from __future__ import annotations

from typing import NamedTuple


class SampleSource(NamedTuple):
    """The source of the samples of one format.

    `samples` are their names in SAMPLES and TYPICAL. `published` is the documentation or the source of the tool that
    they were made after. `writer` is the test in which the tool itself writes a file, as FILE:TEST; empty if the tool
    needs a service that no test can ask.
    """

    samples: tuple[str, ...]
    published: str
    writer: str = ""


SOURCES = (
    SampleSource(
        ("W&B run", "W&B configuration", "W&B"),
        "https://github.com/wandb/wandb/blob/main/core/internal/stream/handler.go",
        "test_trackers.py:test_an_offline_run_of_wandb",
    ),
    SampleSource(
        ("MLflow model", "MLflow environment", "MLflow run", "MLflow"),
        "https://mlflow.org/docs/latest/ml/model/",
        "test_trackers.py:test_a_model_and_a_run_of_mlflow",
    ),
    SampleSource(
        ("Guild freeze", "Guild variables", "Guild platform", "Guild AI"),
        "https://github.com/guildai/guildai/blob/main/guild/op.py",
        "test_trackers.py:test_a_run_of_guild",
    ),
    SampleSource(
        ("Sacred run", "Sacred"),
        "https://sacred.readthedocs.io/en/stable/observers.html",
        "test_trackers.py:test_a_run_of_sacred",
    ),
    SampleSource(
        ("ClearML task", "ClearML"),
        "https://github.com/clearml/clearml/blob/master/clearml/backend_interface/task/repo/scriptinfo.py",
    ),
    SampleSource(
        ("Aim run", "Aim"),
        "https://github.com/aimhubio/aim/blob/main/aim/ext/system_info/__init__.py",
    ),
    SampleSource(
        ("SageMaker training job", "SageMaker"),
        "https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html",
    ),
    SampleSource(("Slurm job", "Slurm variables", "Slurm"), "https://slurm.schedmd.com/sacct.html"),
    SampleSource(
        ("uv.lock", "`uv.lock`"),
        "https://docs.astral.sh/uv/concepts/resolution/#lockfile",
        "test_real_tools.py:test_a_lock_of_uv_has_the_pins_markers_and_hashes_of_the_project",
    ),
    SampleSource(
        ("pylock.toml", "`pylock.toml`"),
        "https://packaging.python.org/en/latest/specifications/pylock-toml/",
        "test_real_tools.py:test_a_pylock_of_uv_gives_the_same_pins",
    ),
    SampleSource(
        ("pip inspect", "`pip inspect`"),
        "https://pip.pypa.io/en/stable/reference/inspect-report/",
        "test_real_tools.py:test_a_report_of_pip_gives_the_lines_of_its_freeze",
    ),
    SampleSource(
        ("pixi.lock", "`pixi.lock`"),
        "https://pixi.prefix.dev/latest/workspace/lockfile/",
        "test_conda_locks.py:test_a_lock_that_rattler_writes",
    ),
    SampleSource(
        ("conda-lock.yml", "`conda-lock.yml`"),
        "https://conda.github.io/conda-lock/",
        "test_conda_locks.py:test_a_lock_that_conda_lock_writes",
    ),
    SampleSource(
        ("poetry.lock", "`poetry.lock`"),
        "https://github.com/python-poetry/poetry/blob/main/src/poetry/packages/locker.py",
        "test_trackers.py:test_a_lock",
    ),
    SampleSource(
        ("pdm.lock", "`pdm.lock`"),
        "https://github.com/pdm-project/pdm/tree/main/src/pdm/project/lockfile",
        "test_trackers.py:test_a_lock",
    ),
    SampleSource(
        ("Pipfile.lock", "`Pipfile.lock`"),
        "https://pipenv.pypa.io/en/stable/pipfile.html",
        "test_trackers.py:test_a_lock",
    ),
    SampleSource(
        ("Hugging Face model card", "a model card"),
        "https://github.com/huggingface/transformers/blob/main/src/transformers/modelcard.py",
    ),
    SampleSource(
        ("Hydra",),
        "https://hydra.cc/docs/tutorials/basic/running_your_app/working_directory/",
        "test_trackers.py:test_a_directory_of_hydra_joins_a_list",
    ),
    SampleSource(
        ("DVC",),
        "https://dvc.org/doc/user-guide/project-structure/dvc-files",
        "test_trackers.py:test_data_of_dvc",
    ),
    SampleSource(("notebook",), "https://nbformat.readthedocs.io/en/latest/format_description.html"),
    # People write these files, and no tool does.
    SampleSource(
        ("pyproject.toml", "pyproject.toml of uv", "`pyproject.toml`"),
        "https://packaging.python.org/en/latest/specifications/pyproject-toml/",
    ),
    SampleSource(
        ("setup.cfg", "`setup.cfg`"),
        "https://setuptools.pypa.io/en/latest/userguide/declarative_config.html",
    ),
    SampleSource(
        ("requirements", "`requirements.txt`, pinned", "`requirements.txt` with ranges"),
        "https://pip.pypa.io/en/stable/reference/requirements-file-format/",
    ),
    SampleSource(
        (
            "`environment.yml` with Python",
            "`environment.yml` without Python",
            "`environment.yml` with requests",
        ),
        "https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html",
    ),
)
