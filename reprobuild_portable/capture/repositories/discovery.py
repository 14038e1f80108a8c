"""Discovery and capture of the repositories of an environment."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from reprobuild_portable.capture.files import _relative, quote
from reprobuild_portable.capture.freeze import _editable_line, _format_bare_line
from reprobuild_portable.capture.limits import AT_ONCE, BUDGETS, REPOSITORIES
from reprobuild_portable.capture.model import PROGRAM, Context, GaveUpError, Taken
from reprobuild_portable.capture.projects import read_project_names
from reprobuild_portable.capture.repositories.folders import find_top
from reprobuild_portable.capture.repositories.included import _take_loose
from reprobuild_portable.capture.repositories.record import take_repository
from reprobuild_portable.capture.repositories.repository import Repository, _make_unique_name
from reprobuild_portable.pip_freeze.pins import canonical_name

# The answers for a directory that an editable install states. Those that are sentences are in the freeze.
_PROJECT, _MISSING = "project", "missing"
_MISMATCH = "directory is no project of this name"
_UNREAD = "directory was not read in time"


def _take_repositories(
    entries: List[Dict[str, Any]], take: Callable[[str, Callable[[Context], Taken], float], Any],
    include: Sequence[str] = (),
) -> Tuple[List[Dict[str, Any]], Dict[str, str], List[str]]:  # fmt: skip
    """Capture all repositories of the environment, and named files.

    The repositories are those of the editable installs, that of the working directory, and those inside of
    them.

    Returns:
        Their records, the lines of the freeze by name of distribution, and the distributions whose stated directory
        has another project.
    """
    stated = {entry["name"]: entry for entry in entries if (entry.get("origin") or {}).get("editable")}
    answers = _find_projects(stated, take)
    editable = {name: stated[name] for name, answer in answers.items() if answer == _PROJECT}
    tops: Dict[str, List[str]] = {}
    places = {name: find_top(entry["origin"]["path"]) for name, entry in editable.items()}
    deep = {
        name: top for name, top in places.items()
        if top is not None and os.path.realpath(editable[name]["origin"]["path"]) != top
    }  # fmt: skip
    ignored: List[str] = []
    if deep:
        folders = {name: editable[name]["origin"]["path"] for name in deep}
        part = functools.partial(_take_ignored, tops=deep, folders=folders)
        ignored = take("editable directories", part, BUDGETS["repository"]) or []
    for name, top in places.items():
        if top is not None and name not in ignored:  # else it is as if there were no repository
            tops.setdefault(top, []).append(name)
    with contextlib.suppress(OSError):
        top = find_top(os.getcwd())
        if top is not None:
            tops.setdefault(top, [])
    waiting: List[Tuple[str, List[str], Optional[str], str]] = [
        (top, names, None, "") for top, names in tops.items()
    ]
    repositories: List[Dict[str, Any]] = []
    lines = {
        name: _format_bare_line(stated[name], problem)
        for name, problem in answers.items() if problem in (_MISMATCH, _UNREAD)
    }  # fmt: skip
    used: Dict[str, int] = {}
    captured: Set[str] = set()
    while waiting and len(repositories) < REPOSITORIES:
        room = REPOSITORIES - len(repositories)
        wave, waiting = waiting[:room], waiting[room:]
        named = [
            _make_unique_name(names[0] if len(names) == 1 else os.path.basename(top), used)
            for top, names, _, _ in wave
        ]
        records = _take_wave(
            [(name, top, bool(names)) for name, (top, names, _, _) in zip(named, wave)], take
        )
        for record, name, (top, names, parent, inside) in zip(records, named, wave):
            if record is None:
                lines.update(
                    {
                        distribution: _format_bare_line(editable[distribution], "repository was not captured")
                        for distribution in names
                    }
                )
                continue
            captured.add(os.path.realpath(top))
            record.update(distributions=names, parent=parent, path=inside)
            repositories.append(record)
            for path, folder in sorted(record.pop("inner").items()):
                waiting.append((folder, [], name, quote(path)))
            for distribution in names:
                lines[distribution] = _editable_line(editable[distribution], top, record)
    for top, names, _, _ in waiting:
        take(f"repository {_make_unique_name(os.path.basename(top), used)}", _take_too_many, 1.0)
        lines.update(
            {
                distribution: _format_bare_line(editable[distribution], "repository was not captured")
                for distribution in names
            }
        )
    with contextlib.suppress(OSError):  # of a working directory that is gone
        repositories += _take_loose(include, captured, used, take)
    return repositories, lines, [name for name, answer in answers.items() if answer == _MISMATCH]


def _find_projects(
    stated: Mapping[str, Dict[str, Any]], take: Callable[[str, Callable[[Context], Taken], float], Any]
) -> Dict[str, str]:
    """Return for each distribution whether its stated directory is its project."""
    answers = dict.fromkeys(stated, _UNREAD)
    if stated:
        part = functools.partial(_take_projects, stated=stated, answers=answers)
        take("editable projects", part, BUDGETS["projects"])
    return dict(answers)  # a part that was given up may still write


def _take_projects(context: Context, stated: Mapping[str, Dict[str, Any]], answers: Dict[str, str]) -> Taken:
    """Replace the answers for the stated directories; many wheels may state one."""
    names: Dict[str, Set[str]] = {}
    for name, entry in stated.items():
        context.left()
        folder = entry["origin"]["path"]
        if folder not in names:
            names[folder] = read_project_names(folder)
        if canonical_name(name) in names[folder]:
            answers[name] = _PROJECT
        else:
            answers[name] = _MISMATCH if os.path.isdir(folder) else _MISSING
    return Taken(None)


def _take_ignored(context: Context, tops: Mapping[str, str], folders: Mapping[str, str]) -> Taken:
    """Return the editable installs in directories that git ignores.

    The repository around such a directory does not have its files.
    """
    names: List[str] = []
    for top in sorted(set(tops.values())):
        # `./` keeps a colon from being read as magic: the command takes no literal names.
        by_path = {
            os.fsencode("./" + _relative(os.path.realpath(folders[name]), top)): name
            for name in tops if tops[name] == top
        }  # fmt: skip
        words, stdin = ("check-ignore", "--stdin", "-z"), b"".join(path + b"\0" for path in by_path)
        with contextlib.suppress(GaveUpError, OSError):  # the capture of the repository reports it
            repository = Repository(top, context)
            ignored_paths = repository.git(
                *words, stdin=stdin, codes=(0, 1), GIT_LITERAL_PATHSPECS="0"
            ).split(b"\0")
            names += [name for path, name in by_path.items() if path in ignored_paths]
    return Taken(names)


def _take_too_many(context: Context) -> Taken:
    raise GaveUpError("too-many")


def _take_wave(
    wave: List[Tuple[str, str, bool]], take: Callable[[str, Callable[[Context], Taken], float], Any]
) -> List[Any]:
    """Capture some repositories, a few at once.

    git reads from the disk most of the time. A record is None if its repository cannot be captured.
    """
    records: List[Any] = [None] * len(wave)
    waiting = list(enumerate(wave))[::-1]

    def work() -> None:
        while True:
            try:
                number, (name, top, installed) = waiting.pop()
            except IndexError:
                return
            part = functools.partial(take_repository, top=top, name=name, installed=installed)
            records[number] = take(f"repository {name}", part, BUDGETS["repository"])

    threads = [threading.Thread(target=work, name=PROGRAM, daemon=True) for _ in wave[:AT_ONCE]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return records
