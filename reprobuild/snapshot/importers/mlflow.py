"""Importer of models and runs of MLflow.

Format: https://mlflow.org/docs/latest/ml/model/ and mlflow's `utils/environment.py`. The requirements of a model are
what MLflow inferred from imports: the rest is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from reprobuild.infra.display import display_text
from reprobuild.snapshot.importers.captured_content import ENVIRONMENT, put_captured
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.requirement_files import add_constraints, add_lists, unstated_rows
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import table

MODEL, META = "MLmodel", "meta.yaml"
_HEAD = 64 << 10  # bytes of a meta.yaml in which its mark is looked for; it has some 500
_CONDA, _CONSTRAINTS = "conda.yaml", "constraints.txt"
_INSTALLERS = re.compile(r"(?:python|pip)(?:[\s=<>!].*)?")  # of an environment that conda makes
_OWN_LIST = ("-r requirements.txt", "-c constraints.txt")
_MOST_SHOWN = 5
_ENVIRONMENTS = ("python_env.yaml", "python-env.yaml")
_COMMIT, _REPOSITORY = "tags/mlflow.source.git.commit", "tags/mlflow.source.git.repoURL"
_MODEL_REASONS = {
    "run_id": "a name of the run", "model_uuid": "a name of the model", "mlflow_version": "MLflow is a line of its own",
    "signature": "the model's own inputs and outputs", "artifact_path": "a place of the run",
}  # fmt: skip
_RUN_REASONS = {
    "user_id": "it names a person",
    "artifact_uri": "a place of the run",
    "run_name": "a name of the run",
}


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a model or a run, or has one model or run in it."""
    return source.find(MODEL) is not None or _is_run(source)


def read(source: ImportSource) -> Draft:
    """Import a model, or the model of a run.

    Raises:
        SnapshotError: a file of it is damaged, or it names no package.
    """
    draft = Draft("MLflow run" if _is_run(source) else "MLflow model", MODEL)
    model = source.find(MODEL)
    if model is not None:
        directory = str(PurePosixPath(model).parent)
        _add_model(draft, source if directory == "." else source.below(directory))
    if _is_run(source):
        _add_run(draft, source)
    return draft


def _is_run(source: ImportSource) -> bool:
    return source.has(META) and b"run_id:" in source.head(META, _HEAD)


def _add_model(draft: Draft, files: ImportSource) -> None:
    model = load_document(files, MODEL)
    function = table(table(model, "flavors"), "python_function")
    draft.start(model.get("utc_time_created", ""), "utc_time_created")
    environment = next((name for name in _ENVIRONMENTS if files.has(name)), None)
    if environment:
        draft.source = environment
        content = load_document(files, environment)
        draft.add_python(content.get("python", ""), "python")
        draft.leave_rest(
            content,
            ("python", "dependencies"),
            {"build_dependencies": "programs that installed the environment"},
        )
    elif function.get("python_version"):
        draft.source = MODEL
        draft.add_python(function["python_version"], "flavors.python_function.python_version")
    if files.has(REQUIREMENTS):
        _add_requirements(draft, files)
    elif files.has("conda.yaml"):
        draft.source = "conda.yaml"
        put_captured(draft, ENVIRONMENT, ENVIRONMENT, files.read("conda.yaml"))
    draft.source = MODEL
    draft.leave_rest(model, ("flavors", "utc_time_created"), _MODEL_REASONS)


def _add_requirements(draft: Draft, files: ImportSource) -> None:
    lists = add_lists(draft, files, REQUIREMENTS, without_home)
    if files.has(_CONSTRAINTS) and _CONSTRAINTS not in lists:
        draft.source = _CONSTRAINTS
        add_constraints(draft, files, _CONSTRAINTS)
    if files.has(_CONDA):
        draft.source = _CONDA
        dependencies = load_document(files, _CONDA).get("dependencies")
        rows = list(_conda_rows(dependencies if isinstance(dependencies, list) else []))
        if unstated := unstated_rows(draft, rows):
            shown = display_text(", ".join(unstated[:_MOST_SHOWN]))
            draft.leave_requirement("dependencies", f"requirements.txt has no line for {shown}")
        else:
            draft.leave("the file", "requirements.txt has the same lines")


def _conda_rows(dependencies: list[Any]) -> Iterator[str]:
    """Yield what an environment of conda names besides Python, pip and the list itself."""
    for entry in dependencies:
        if isinstance(entry, dict):
            rows = entry.get("pip")
            yield from (
                str(row) for row in (rows if isinstance(rows, list) else ()) if str(row) not in _OWN_LIST
            )
        elif not _INSTALLERS.fullmatch(str(entry)):
            yield str(entry)


def _add_run(draft: Draft, source: ImportSource) -> None:
    draft.source = META
    meta = load_document(source, META)
    draft.start(meta.get("start_time", ""), "start_time")
    draft.leave_rest(meta, ("start_time",), _RUN_REASONS)
    for name in source.names:
        draft.source = name
        if name == _COMMIT:
            remote = (
                source.read(_REPOSITORY).decode(errors="replace").strip() if source.has(_REPOSITORY) else ""
            )
            add_repository(draft, remote, source.read(name).decode(errors="replace").strip(), "the file")
        elif name.startswith("params/"):
            draft.leave("the file", "a hyperparameter of the run")
        elif name.startswith("tags/") and name != _REPOSITORY:
            draft.leave("the file", "a tag of the run")
    draft.source = META
