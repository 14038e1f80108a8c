"""Fingerprints of data beside a run: `dvc.lock` and `*.dvc` files of DVC.

Formats: https://dvc.org/doc/user-guide/project-structure/dvcyaml-files#dvclock-file and
https://dvc.org/doc/user-guide/project-structure/dvc-files
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from reprobuild.infra.untrusted.yaml_documents import TextLoader
from reprobuild.snapshot.importers.documents import load_document
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table, tables

_LOCK = "dvc.lock"
_OWN = "the job's own command: `reprobuild run OUT -- CMD`"
_DIGITS = re.compile(r"[0-9]{1,19}")
_REASONS = {"cmd": _OWN, "params": "hyperparameters of the run"}


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a file of DVC, or has one below it."""
    return bool(_files(source))


def add(draft: Draft, source: ImportSource) -> None:
    """Add the fingerprint of each file and directory that DVC tracks.

    Raises:
        SnapshotError: a file is damaged.
    """
    for name in _files(source):
        draft.source = name
        document = load_document(source, name, loader=TextLoader)
        directory = str(PurePosixPath(name).parent)
        prefix = "" if directory == "." else f"{directory}/"
        if name.endswith(".dvc"):
            _add_lists(draft, document, prefix, "")
            continue
        stages = table(document, "stages") or {
            key: inner for key, inner in document.items() if isinstance(inner, dict)
        }
        draft.leave_rest(
            {key: inner for key, inner in document.items() if key not in stages},
            ("stages",),
            {"schema": "the format"},
        )
        for stage, content in stages.items():
            _add_lists(draft, content, prefix, f"stages.{stage}.")


def _files(source: ImportSource) -> list[str]:
    names = [name for name in source.names if not name.startswith(".dvc/")]
    locks = [name for name in names if name.rpartition("/")[2] == _LOCK or name.endswith(f"-{_LOCK}")]
    return [*locks, *(name for name in names if name.endswith(".dvc"))]


def _add_lists(draft: Draft, content: Any, prefix: str, field: str) -> None:
    """Add the `deps` and `outs` of a stage."""
    for kind in ("deps", "outs"):
        for number, entry in enumerate(tables(content, kind)):
            place = f"{field}{kind}[{number}]"
            if "repo" in entry:  # of another repository: `outs` has the fingerprint of what was imported
                draft.leave(place, "its origin, in another repository")
                continue
            path = prefix + string(entry, "path")
            size, files = _number(entry, "size"), _number(entry, "nfiles")
            draft.add_data(path, string(entry, "md5"), place, size=size, files=files)
    if isinstance(content, dict):
        rest = {f"{field}{key}": inner for key, inner in content.items()}
        reasons = {f"{field}{key}": reason for key, reason in _REASONS.items()}
        draft.leave_rest(rest, (f"{field}deps", f"{field}outs"), reasons)


def _number(entry: dict[str, Any], key: str) -> int | None:
    """Return the number of a key, or None if it is missing or too long for a number of bytes."""
    stated = string(entry, key)
    return int(stated) if _DIGITS.fullmatch(stated) else None
