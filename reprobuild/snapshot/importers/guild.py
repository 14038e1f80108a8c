"""Importer of runs of Guild AI.

Format: guildai's `op.py`, `op_util.py` and `plugins/python_script.py`: one YAML document for each attribute, in
`.guild/attrs`. Guild leaves some secrets out of `env`; the rules of this program apply to the rest.
"""

from __future__ import annotations

from typing import Any

from reprobuild.snapshot.importers.documents import load_value
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string
from reprobuild.snapshot.importers.variables import add_variables

_ATTRIBUTES = ".guild/attrs/"
_FREEZE, _ENVIRONMENT, _PLATFORM, _STARTED = "pip_freeze", "env", "platform", "started"
_PERSONAL = "it names a person or a machine"
_REASONS = {
    "user": _PERSONAL, "host": _PERSONAL, "cmd": "the job's own command: `reprobuild run OUT -- CMD`",
    "flags": "hyperparameters of the run", "user_flags": "hyperparameters of the run",
    "vcs_commit": "the commit of the job's own repository, without its address",
    "sourcecode_digest": "the hash of the job's programs, which are in .guild/sourcecode",
    "random_seed": "a hyperparameter of the run",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a run."""
    return any(name.startswith(_ATTRIBUTES) for name in source.names)


def read(source: ImportSource) -> Draft:
    """Import a run.

    Raises:
        SnapshotError: an attribute of it is damaged.
    """
    draft = Draft("Guild run", _ATTRIBUTES)
    attributes = [name for name in source.names if name.startswith(_ATTRIBUTES)]
    for file in attributes:
        draft.source = file
        name = file.removeprefix(_ATTRIBUTES)
        if name in (_FREEZE, _ENVIRONMENT, _PLATFORM, _STARTED):
            _add_attribute(draft, name, load_value(source, file))
        else:
            draft.leave("the file", _REASONS.get(name, "it says nothing about the environment"))
    for file in source.names:
        if file not in attributes:
            draft.source = file
            programs = file.startswith(".guild/sourcecode/")
            draft.leave("the file", "a copy of the job's program" if programs else "an output of the run")
    draft.source = _ATTRIBUTES
    return draft


def _add_attribute(draft: Draft, name: str, value: Any) -> None:
    if name == _FREEZE and isinstance(value, list):
        for number, row in enumerate(value):
            draft.add_row(str(row), f"[{number}]")
    elif name == _FREEZE and isinstance(value, str):
        draft.add_requirements(value.encode(), draft.source)
    elif name == _ENVIRONMENT and isinstance(value, dict):
        add_variables(draft, value, name)
    elif name == _PLATFORM and isinstance(value, dict):
        system = str(value.get("uname", "")).partition(" ")[0]
        draft.add_python(
            string(value, "python_version"), "python_version", f"{system}-{value.get('processor')}"
        )
        draft.leave_rest(value, ("python_version",), {"uname": _PERSONAL})
    elif name == _STARTED and isinstance(value, int):
        draft.start(value // 1_000_000, "the file")  # microseconds; a float has no room for every integer
    else:
        draft.leave("the file", "it has another type than Guild writes")
