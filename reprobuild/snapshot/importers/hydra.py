"""Facts of Hydra beside a run: `.hydra/hydra.yaml`, `config.yaml` and `overrides.yaml`.

Format: https://hydra.cc/docs/tutorials/basic/running_your_app/working_directory/
"""

from __future__ import annotations

from typing import Any

from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table
from reprobuild.snapshot.importers.variables import add_variables

_DIRECTORY = ".hydra/"
_MAIN = ".hydra/hydra.yaml"
_NAME = "hydra-core"


def recognises(source: ImportSource) -> bool:
    """Return whether the path is an output directory of Hydra."""
    return any(name.startswith(_DIRECTORY) for name in source.names)


def add(draft: Draft, source: ImportSource) -> None:
    """Add the version of Hydra if no line has it, and the variables that Hydra sets in the job.

    Raises:
        SnapshotError: its file is damaged.
    """
    for name in source.names:
        draft.source = name
        if name == _MAIN:
            _add_configuration(draft, load_document(source, name))
        elif name.startswith(_DIRECTORY):
            draft.leave("the file", "hyperparameters of the run")


def _add_configuration(draft: Draft, document: dict[str, Any]) -> None:
    hydra = table(document, "hydra")
    version = string(table(hydra, "runtime"), "version")
    if version and not draft.has_conda and not draft.has_distribution(_NAME):
        draft.add(REQUIREMENTS, f"{_NAME}=={version}", "hydra.runtime.version")
    elif version:
        draft.leave("hydra.runtime.version", f"{_NAME} is a line of another file")
    add_variables(draft, table(table(hydra, "job"), "env_set"), "hydra.job.env_set")
    reasons = {"job": "the name and the options of the job", "runtime": "directories and choices of the job"}
    draft.leave_rest(hydra, (), reasons)
    draft.leave_rest(document, ("hydra",), {})
