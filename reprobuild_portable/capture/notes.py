"""Notes on a capture, for people."""

from __future__ import annotations

import os
import shlex
from typing import Any, Dict, List, Mapping, Sequence

from reprobuild_portable.capture.freeze import _line
from reprobuild_portable.capture.interpreter import INTERPRETER
from reprobuild_portable.capture.limits import NAMED, SAID


def _notes(document: Dict[str, Any]) -> List[str]:
    """Return notes on the gaps and doubts of a capture."""
    notes = [
        f"{one['name']}: the freeze says what {one['first']} holds, which is first on the path; "
        f"{one['installed']['location']} has it installed from another place "
        f"({_line(one['installed']).splitlines()[-1]})"
        for one in (document.get("distributions") or {}).get("unclear", [])
    ]
    folders = [one["location"] for one in (document.get("distributions") or {}).get("broken", [])]
    damaged = [one for one in folders if not os.path.basename(one).startswith("~")]
    notes += [
        f"{one} has no metadata that can be read: the freeze leaves it out, and the image will not have it"
        for one in damaged[:SAID]
    ]
    if len(damaged) > SAID:
        notes.append(f"{len(damaged) - SAID} more have none: `broken` in capture.json")
    notes += [
        f"{name} was left out: {part['why']}"
        for name, part in document["parts"].items()
        if part["outcome"] == "untrusted"
    ]
    packing = document["parts"].get(INTERPRETER)
    if packing and packing["outcome"] != "done":
        notes.append(f"the interpreter was not packed: {packing.get('why') or packing['outcome']}")
    lost = (document.get(INTERPRETER) or {}).get("left_out", ())
    if lost:
        named = ", ".join(f"{file['path']} ({file['reason']})" for file in lost[:NAMED])
        notes.append(f"the packed interpreter is without {len(lost)} of its files: {named}")
    for one in document["repositories"]:
        if one["elsewhere"]:
            notes.append(f"{one['name']} is a worktree: its commits are those of {one['elsewhere']}")
        if one["only_here"]:
            notes.append(
                f"{one['name']}: commit {one['base']} and those before it are with no remote but "
                f"{one['only_here']}, a directory of this machine: keep it"
            )
        secret = [file for file in one["left_out"] if file["reason"] == "secret"]
        notes += [
            f"{one['name']}: {file['path']} was left out, it looks like a secret ({file['rule']}): "
            f"`--accept {shlex.quote(os.path.basename(one['folder']) + '/' + file['path'])}` captures it"
            for file in secret[:SAID]
        ]
        if len(secret) > SAID:
            notes.append(
                f"{one['name']}: {len(secret) - SAID} more were left out: `left_out` in capture.json"
            )
        if one["unsearched"]:
            notes.append(f"{one['name']}: {one['unsearched']} files were not searched for secrets")
    return notes


def _losses(repositories: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return a line for each repository with files left out.

    The line names the largest of these files.
    """
    lines = []
    for one in repositories:
        if one["left_out"]:
            largest = sorted(one["left_out"], key=lambda file: -int(file.get("bytes", 0)))
            named = [f"{file['path']} ({file['reason']})" for file in largest[:NAMED]]
            more = ["..."] if one["left_out_count"] > NAMED else []
            files = "1 file is" if one["left_out_count"] == 1 else f"{one['left_out_count']} files are"
            lines.append(f"{one['name']}: {files} not in the snapshot: {', '.join([*named, *more])}")
    return lines
