"""Importer of a run directory of Weights & Biases.

Format: wandb's own source, `core/internal/stream/handler.go` and `gitops/git.go`; older runs have `docker`, `cuda`,
`state` and `heartbeatAt` in their metadata, newer ones nest it in `config.yaml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from reprobuild.snapshot.importers import wandb_records
from reprobuild.snapshot.importers.captured_content import ENVIRONMENT, put_captured
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.repositories import add_repository
from reprobuild.snapshot.importers.requirement_files import add_lists
from reprobuild.snapshot.importers.source import MOST_CANDIDATES, ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table

METADATA, CONFIG, CONDA = "wandb-metadata.json", "config.yaml", "conda-environment.yaml"
CODE = (
    "a copy of the job's program, which is not imported: mount it (`reprobuild run OUT -v RUN/files/code:/work`), or a "
    "checkout of its repository"
)
_MARK = re.compile(rb"(?m)^_wandb:")
_HEAD = (
    200_000  # bytes of a config.yaml in which its mark is looked for: its keys are sorted, and `_` is early
)
_PERSONAL = dict.fromkeys(
    ("email", "username", "host", "root", "executable"), "it names a person or a machine"
)
_REASONS = _PERSONAL | dict.fromkeys(
    ("gpu", "gpu_count", "gpu_devices", "gpu_nvidia", "gpu_amd", "gpuapple", "gpu_apple", "apple", "cpu", "cpu_count",
     "cpu_count_logical", "cpu_freq", "cpu_freq_per_core", "memory", "disk", "cuda", "cudaVersion", "tpu", "trainium"),
    "a fact of the machine, which an image cannot hold",
) | dict.fromkeys(
    ("program", "args", "codePath", "codePathLocal"), "the job's own command: `reprobuild run OUT -- CMD`"
) | dict.fromkeys(("heartbeatAt", "state", "writer_id", "writerId", "slurm"), "a fact of the run itself") | {
    "docker": "the image that the job ran in: `--base` can take it",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a run, its `files`, or a directory with one run in it."""
    return _directory(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a run.

    Raises:
        SnapshotError: a file of it is damaged, or it names no package.
    """
    directory = _directory(source)
    assert directory is not None
    files = source.below(directory) if directory else source
    draft = Draft("W&B run", METADATA)
    metadata, draft.source = _read_metadata(source, files)
    origin = draft.source
    draft.start(metadata.get("startedAt", ""), "startedAt")
    draft.add_python(string(metadata, "python"), "python", string(metadata, "os"))
    git = table(metadata, "git")
    lists = _add_requirements(draft, files)
    draft.source = origin
    patch = next((name for name in files.names if name == "diff.patch"), None)
    add_repository(
        draft, string(git, "remote"), string(git, "commit"), "git", files.read(patch) if patch else b""
    )
    draft.leave_rest(metadata, ("startedAt", "python", "os", "git"), _REASONS)
    _leave_files(draft, files, lists)
    return draft


def _directory(source: ImportSource) -> str | None:
    """Return the directory of the run's files in the source, empty for the top; None without one."""
    marks = [name for name in source.names if PurePosixPath(name).name == METADATA]
    if not marks:
        configs = [name for name in source.names if PurePosixPath(name).name == CONFIG]
        nearest = sorted(configs, key=lambda name: (name.count("/"), name))[:MOST_CANDIDATES]
        marks = [name for name in nearest if _MARK.search(source.head(name, _HEAD))]
    if not marks and (log := _log(source)):
        marks = [str(PurePosixPath(log).parent / "files" / METADATA)]
    directories = sorted({str(PurePosixPath(name).parent) for name in marks})
    return {".": ""}.get(directories[0], directories[0]) if len(directories) == 1 else None


def _log(source: ImportSource) -> str | None:
    """Return the `.wandb` file of the run, or None; a directory with several runs has no single one."""
    logs = [name for name in source.names if name.endswith(".wandb") and "/files/" not in f"/{name}"]
    return logs[0] if len(logs) == 1 else None


def _read_metadata(source: ImportSource, files: ImportSource) -> tuple[dict[str, Any], str]:
    """Return the metadata, with what only `config.yaml` has, and the name of their file."""
    metadata, file = load_document(files, METADATA) if files.has(METADATA) else {}, METADATA
    if not files.has(METADATA) and (log := _log(source)):
        metadata, file = wandb_records.read_environment(source.head(log, wandb_records.HEAD)), log
    if not files.has(CONFIG):
        return metadata, file
    inner = table(table(load_document(files, CONFIG), "_wandb"), "value")
    nested = next((entry for entry in table(inner, "e").values() if isinstance(entry, dict)), {})
    return {"python": string(inner, "python_version")} | nested | metadata, file


def _add_requirements(draft: Draft, files: ImportSource) -> frozenset[str]:
    """Add the lists of packages, and return the names of those for pip."""
    lists: frozenset[str] = frozenset()
    if files.has(REQUIREMENTS):
        lists = add_lists(draft, files, REQUIREMENTS, without_home)
    if files.has(CONDA):
        draft.source = CONDA
        put_captured(draft, ENVIRONMENT, ENVIRONMENT, files.read(CONDA))
    return lists


def _leave_files(draft: Draft, files: ImportSource, lists: frozenset[str]) -> None:
    """Name the other files of the run."""
    for name, reason in _file_reasons(files, lists):
        draft.source = name
        draft.leave("the file", reason)


def _file_reasons(files: ImportSource, lists: frozenset[str]) -> Iterator[tuple[str, str]]:
    for name in files.names:
        if name == CONFIG:
            yield name, "hyperparameters of the run"
        elif name == "wandb-summary.json":
            yield name, "results of the run"
        elif name.startswith(("diff_", "upstream_diff_")):
            yield name, "changes against the branch of a remote: `diff.patch` has those against the commit"
        elif name.startswith("code/"):
            yield name, CODE
        elif name not in (METADATA, REQUIREMENTS, CONDA, "diff.patch") and name not in lists:
            yield name, "an output of the run"
