"""Importer of the accounting of a Slurm job: `sacct --json`, with the job's variables beside it.

Format: https://slurm.schedmd.com/sacct.html; Slurm's `data_parser` has the versions of the JSON, and `sacct/options.c`
the head of the output of `--env-vars` and `--batch-script`. Slurm keeps both only with `AccountingStoreFlags`.
"""

from __future__ import annotations

import re
from typing import Any

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.exports import find_export
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.requirement_files import add_lists
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import table, tables
from reprobuild.snapshot.importers.variables import ENVIRONMENT, add_variables

_ENVIRONMENT_HEAD, _SCRIPT_HEAD = b"Environment used for ", b"Batch Script for "
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_PERSONAL = "it names a person or a machine"
_RUN = "a fact of the run itself"
_COMMAND = "the job's own command: `reprobuild run OUT -- CMD`"
_REASONS = dict.fromkeys(
    ("association", "cluster", "group", "nodes", "user", "working_directory", "stderr", "stderr_expanded", "stdin",
     "stdin_expanded", "stdout", "stdout_expanded", "failed_node", "kill_request_user", "account", "wckey"),
    _PERSONAL,
) | dict.fromkeys(("script", "submit_line", "name", "comment", "extra"), _COMMAND) | {
    "container": "the image that the job ran in: `--base` can take it", "meta": "the program that wrote the file",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is such a JSON file, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a job: its start, and the variables and requirements of the files beside it.

    Raises:
        SnapshotError: it is damaged, has not exactly one job, or has neither of these files.
    """
    file = _file(source)
    assert file is not None
    document = load_document(source, file)
    jobs = tables(document, "jobs")
    if len(jobs) != 1:
        raise SnapshotError(
            f"{display_text(file)} has {len(jobs)} jobs, and a snapshot is of one",
            hint="write the accounting of one job: `sacct -j ID --json`",
        )
    draft = Draft("Slurm job", file)
    draft.start(_number(table(jobs[0], "time").get("start")), "jobs[0].time.start")
    draft.leave_rest(document, ("jobs",), _REASONS)
    draft.leave_rest(jobs[0], ("time",), _REASONS | dict.fromkeys(jobs[0].keys() - _REASONS.keys(), _RUN))
    lists = frozenset([file])
    for name in sorted(source.names, key=lambda name: name != REQUIREMENTS):
        if name == REQUIREMENTS:
            lists |= add_lists(draft, source, name, without_home)
        elif name not in lists:
            _add_file(draft, source, name)
    draft.source = file
    if not draft.has(ENVIRONMENT) and not draft.has(REQUIREMENTS):
        raise SnapshotError(
            f"{display_text(file)}: a Slurm job without its variables names no environment",
            hint="write them beside it, if the site keeps them: `sacct -j ID --env-vars > env-vars.txt`; "
            "or put a requirements.txt of the job there, and import the directory",
        )
    return draft


def _file(source: ImportSource) -> str | None:
    return find_export(source, "jobs", "meta")


def _number(value: Any) -> Any:
    """Return a number: plain, or from Slurm 23.11 on `{set, infinite, number}`."""
    return value.get("number") if isinstance(value, dict) and value.get("set") is True else value


def _add_file(draft: Draft, source: ImportSource, name: str) -> None:
    draft.source = name
    head = source.head(name, max(len(_ENVIRONMENT_HEAD), len(_SCRIPT_HEAD)))
    if head.startswith(_ENVIRONMENT_HEAD):
        content = source.read(name)
        text.check_environment(len(content), display_text(name))  # before values are joined from their rows
        rows = text.decode_lines(content, name)[2:]
        add_variables(draft, _assignments(rows), "the job's environment")
    elif head.startswith(_SCRIPT_HEAD):
        draft.leave("the file", "the job's batch script: its modules and commands are for people")
    else:
        draft.leave("the file", "an output of the run")


def _assignments(rows: list[str]) -> dict[str, str]:
    """Return variables by name; a row without a name continues the value above."""
    variables: dict[str, list[str]] = {}
    name = ""
    for row in rows:
        if match := _ASSIGNMENT.fullmatch(row):
            name = match["name"]
            variables[name] = [match["value"]]
        elif name and row.strip():
            variables[name].append(row)
    return {name: "\n".join(lines) for name, lines in variables.items()}
