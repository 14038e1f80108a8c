"""Contents of files as git objects."""

from __future__ import annotations

import os
import stat
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

from reprobuild_portable.capture.files import quote
from reprobuild_portable.capture.limits import LISTED, SEARCHED, SPARE
from reprobuild_portable.capture.model import Context, GaveUpError
from reprobuild_portable.capture.repositories.repository import Entry, Files, Repository
from reprobuild_portable.capture.repositories.search import _find_secret_paths, _places
from reprobuild_portable.capture.scrub import _show_paths
from reprobuild_portable.secrets.files import secret_file

UNSEARCHED = "it could not be searched"
IN_PATH = "in its path"


def _search_paths(repository: Repository, paths: Iterable[bytes]) -> None:
    """Remember the paths whose text holds a secret: `_find_withholding_rule` leaves such a new file out."""
    rules = _find_secret_paths(paths, repository.context)
    repository.path_rules.update((path, f"{rule} {IN_PATH}") for path, rule in rules.items())


def _list_own_filters(repository: Repository) -> Set[str]:
    """Return the names of the filters in the configuration."""
    return {key.split(".", 1)[1].rpartition(".")[0] for key in repository.config if key.startswith("filter.")}


def _find_filtered_paths(repository: Repository, paths: Iterable[bytes]) -> Set[bytes]:
    """Return the paths that a filter other than LFS covers.

    The index has no entry for `paths`.
    """
    stdin, filters = b"".join(path + b"\0" for path in paths), _list_own_filters(repository)
    if not stdin or not filters - {"lfs"}:
        return set()
    fields = repository.git("check-attr", "-z", "--stdin", "filter", stdin=stdin).split(b"\0")
    names = zip(fields[0::3], fields[2::3])
    return {path for path, name in names if name != b"lfs" and name.decode("utf-8", "replace") in filters}


def _write_object(
    repository: Repository, path: bytes, entry: Optional[Entry], files: Files, most: int
) -> Optional[Tuple[bytes, bytes]]:
    """Return mode and id of a file, or None.

    Its content is written into our directory if the index has another. The result is None if there is no
    file to capture; a file that is left out is listed in `files` with its reason. `_search_paths` has searched `path`.
    """
    repository.context.left()
    try:
        state = repository.state(path)
        if state is None:
            return None
        if stat.S_ISLNK(state.st_mode):
            target = repository.readlink(path)
            oid = repository.id(b"blob %d\0" % len(target) + target).encode()
            if entry is None or oid != entry.oid:
                rule = _find_withholding_rule(repository, path, oid, target)
                if rule:
                    _leave_file_out(files, path, "secret", rule=rule)
                    return None
                repository.add(b"blob", target)
            return b"120000", oid
        if not stat.S_ISREG(state.st_mode):
            if not stat.S_ISDIR(state.st_mode):
                _leave_file_out(files, path, "special-file")
            return None
        if state.st_size > most:
            _leave_file_out(files, path, "too-large", state.st_size)
            return None
        with open(repository.open(path), "rb") as stream:
            content = stream.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        _leave_file_out(files, path, "unreadable")
        return None
    if len(content) != state.st_size:
        _leave_file_out(files, path, "changed-meanwhile", state.st_size)
    oid = repository.id(b"blob %d\0" % len(content) + content).encode()
    if entry is None or oid != entry.oid or path in files.intended:
        rule = _find_withholding_rule(repository, path, oid, content)
        if rule:
            _leave_file_out(files, path, "secret", state.st_size, rule)
            return None
        repository.add(b"blob", content)
    return _mode(repository, state.st_mode, entry), oid


def _find_withholding_rule(repository: Repository, path: bytes, oid: bytes, content: bytes) -> str:
    """Return the rule that leaves a new file or link out. The content of a link is its target.

    The rule is empty if the file is captured; git does not have it yet. If there is no time to search a
    file, it is captured, and counted as `unsearched` later.
    """
    name, context = quote(path), repository.context
    if _is_accepted(repository, name):
        return ""
    if path in repository.path_rules:
        return repository.path_rules[path]
    if secret_file(os.fsdecode(path), content):  # not its quoted form
        return "a name of files with secrets"
    repository.searched += len(content)
    if repository.searched > SEARCHED:
        return ""
    try:
        places = _places(content, context._replace(deadline=context.deadline - SPARE), 1)
    except GaveUpError:
        return ""
    if not places:
        repository.clean.add(oid)
    return f"{places[0][1]} in line {places[0][0]}" if places else ""


def _find_path_rule(repository: Repository, path: bytes) -> str:
    """Return the rule that leaves a new file out for the text of its path, or an empty text."""
    return "" if _is_accepted(repository, quote(path)) else repository.path_rules.get(path, "")


def _find_rule(repository: Repository, path: bytes, content: Optional[bytes]) -> str:
    """Return the rule that keeps the content of a file out of a diff.

    The rule is empty if the content may be there. No content, and no time to search it, are a rule of their own.
    """
    name, context = quote(path), repository.context
    if _is_accepted(repository, name):
        return ""
    if content is None:
        return UNSEARCHED
    if secret_file(os.fsdecode(path), content):  # not its quoted form
        return "a name of files with secrets"
    try:
        places = _places(content, context._replace(deadline=context.deadline - SPARE), 1)
    except GaveUpError:
        return UNSEARCHED
    return f"{places[0][1]} in line {places[0][0]}" if places else ""


def _is_accepted(repository: Repository, name: str) -> bool:
    """Return whether the user takes a file in spite of a secret."""
    return bool({name, f"{os.path.basename(repository.top)}/{name}"} & set(repository.context.accept))


def _mode(repository: Repository, mode: int, entry: Optional[Entry]) -> bytes:
    if entry is not None and entry.mode == b"120000" and repository.config.get("core.symlinks") == "false":
        return entry.mode
    if repository.config.get("core.filemode") == "false" and entry is not None:
        return entry.mode if entry.mode.startswith(b"100") else b"100644"
    return b"100755" if mode & stat.S_IXUSR else b"100644"


def _leave_file_out(
    files: Files, path: bytes, reason: str, size: Optional[int] = None, rule: str = ""
) -> None:
    entry = {"path": path, "reason": reason, **({} if size is None else {"bytes": size})}
    files.left_out.append({**entry, "rule": rule} if rule else entry)


def _list_files(files: Sequence[Mapping[str, Any]], context: Context) -> List[Dict[str, Any]]:
    """Return the first files of a list, each with its path as text. No secret of a path is in the text."""
    first = files[:LISTED]
    paths = _show_paths([file["path"] for file in first], context.secrets)
    return [{**file, "path": path} for file, path in zip(first, paths)]
