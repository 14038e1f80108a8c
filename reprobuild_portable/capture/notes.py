"""Notes on a capture, for people."""

from __future__ import annotations

import os
import shlex
from typing import Any, Collection, Dict, List, Mapping, Sequence

from reprobuild_portable.capture.freeze import _line
from reprobuild_portable.capture.interpreter import INTERPRETER
from reprobuild_portable.capture.limits import NAMED, SAID
from reprobuild_portable.capture.repositories.objects import IN_PATH


def _notes(document: Dict[str, Any], mismatched: Collection[str] = ()) -> List[str]:
    """Return notes on the gaps and doubts of a capture.

    Args:
        document: capture.json.
        mismatched: distributions whose stated directory has another project, or none.
    """
    notes = [
        f"{distribution['name']}: the freeze says what {distribution['first']} holds, which is first on the path; "
        f"{distribution['installed']['location']} has it installed from another place "
        f"({_line(distribution['installed']).splitlines()[-1]})"
        for distribution in (document.get("distributions") or {}).get("unclear", [])
    ]
    entries = (document.get("distributions") or {}).get("found", [])
    notes += [
        f"{entry['name']} says that it is installed from {entry['origin']['path']}, which is no project of this name: "
        "nothing there is captured for it"
        for entry in entries
        if entry["name"] in mismatched
    ][:SAID]
    taken = [repository for repository in document["repositories"] if repository["distributions"]]
    if taken:
        places = [
            f"{repository['folder']} ({', '.join(repository['distributions'][:NAMED])})"
            for repository in taken
        ]
        notes.append(f"the changes of editable installs are in the snapshot: {', '.join(places[:SAID])}")
    folders = [
        distribution["location"] for distribution in (document.get("distributions") or {}).get("broken", [])
    ]
    damaged = [folder for folder in folders if not os.path.basename(folder).startswith("~")]
    notes += [
        f"{folder} has no metadata that can be read: the freeze leaves it out, and the image will not have it"
        for folder in damaged[:SAID]
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
    for repository in document["repositories"]:
        environments = ", ".join(repository["environments"]["paths"][:NAMED])
        if environments:
            notes.append(
                f"{repository['name']}: environments are no code of the job: {environments}; "
                "`--include FILE` captures a file of one"
            )
        if repository["elsewhere"]:
            notes.append(
                f"{repository['name']} is a worktree: its commits are those of {repository['elsewhere']}"
            )
        if repository["borrowed"]:
            notes.append(
                f"{repository['name']} has objects of other repositories: {', '.join(repository['borrowed'][:NAMED])}"
            )
        if repository["remote_count"] > len(repository["remotes"]):
            notes.append(
                f"{repository['name']}: {len(repository['remotes'])} of its {repository['remote_count']} remotes are "
                "in capture.json"
            )
        if repository["only_here"]:
            notes.append(
                f"{repository['name']}: commit {repository['base']} and those before it are with no remote but "
                f"{repository['only_here']}, a directory of this machine: keep it"
            )
        secret = [file for file in repository["left_out"] if file["reason"] == "secret"]
        notes += [_describe_withheld(repository, file) for file in secret[:SAID]]
        if len(secret) > SAID:
            notes.append(
                f"{repository['name']}: {len(secret) - SAID} more were left out: `left_out` in capture.json"
            )
        added = repository["diff"].get("secrets", [])
        if added:
            more = f" and {len(added) - 1} more" if len(added) > 1 else ""
            notes.append(
                f"{repository['name']}: there is no diff, as a commit that no remote has adds {added[0]['path']}"
                f"{more}, which looks like a secret ({added[0]['rule']}): take it out of the commit, and capture again"
            )
        named = repository["diff"].get("named", [])
        if named:
            more = f" and {len(named) - 1} more" if len(named) > 1 else ""
            notes.append(
                f"{repository['name']}: there is no diff, as it would name {named[0]['path']}{more}, which looks like "
                f"a secret ({named[0]['rule']}): the bundle has the change"
            )
        removed = repository["diff"].get("removed", [])
        notes += [
            f"{repository['name']}: the diff is without the old content of {file['path']}, "
            f"which looks like a secret ({file['rule']})"
            for file in removed[:SAID]
        ]
        if len(removed) > SAID:
            notes.append(
                f"{repository['name']}: {len(removed) - SAID} more files are: `removed` in capture.json"
            )
        if repository["unsearched"]:
            notes.append(
                f"{repository['name']}: {repository['unsearched']} files were not searched for secrets"
            )
    return notes


def _describe_withheld(repository: Mapping[str, Any], file: Mapping[str, Any]) -> str:
    """Return the note on a file that looks like a secret.

    A path that is the secret is not shown as it is, so no option of a command can repeat it.
    """
    start = f"{repository['name']}: {file['path']} was left out"
    if IN_PATH in file["rule"]:
        return f"{start}, its path looks like a secret ({file['rule']}): rename it, and capture again"
    word = shlex.quote(os.path.basename(repository["folder"]) + "/" + file["path"])
    return f"{start}, it looks like a secret ({file['rule']}): `--accept {word}` captures it"


def _list_losses(repositories: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return a line for each repository with files left out.

    The line names the largest of these files.
    """
    lines = []
    for repository in repositories:
        if repository["left_out"]:
            largest = sorted(repository["left_out"], key=lambda file: -int(file.get("bytes", 0)))
            named = [f"{file['path']} ({file['reason']})" for file in largest[:NAMED]]
            more = ["..."] if repository["left_out_count"] > NAMED else []
            files = (
                "1 file is"
                if repository["left_out_count"] == 1
                else f"{repository['left_out_count']} files are"
            )
            lines.append(f"{repository['name']}: {files} not in the snapshot: {', '.join([*named, *more])}")
    return lines
