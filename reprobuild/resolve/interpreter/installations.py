"""Pythons on this machine, and checks for safe ownership.

Only the user and root may be able to change them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

# Directories of managers of Pythons: the variable that names one, the path below it, and the default without the
# variable.
_MANAGERS = (
    ("PYENV_ROOT", "versions", ".pyenv/versions"),
    ("UV_PYTHON_INSTALL_DIR", "", ".local/share/uv/python"),
    ("XDG_DATA_HOME", "uv/python", ""),
    ("ASDF_DATA_DIR", "installs/python", ".asdf/installs/python"),
    ("MISE_DATA_DIR", "installs/python", ".local/share/mise/installs/python"),
)
_COMMON = (Path("/opt/python"),)
_ALONE = (Path("/usr/local"),)  # the usual prefix of a Python built from sources
_SYSTEM = (Path("/usr"), Path("/"))
_MOST_FILES = 20_000  # of a standard library, as `capture` packs
_UNREAD = "site-packages"  # by an isolated interpreter without `site`


def list_manager_roots(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories of this user's Python managers."""
    directories = []
    for name, below, ordinary in _MANAGERS:
        if env.get(name):
            directories.append(Path(env[name], below))
        elif env.get("HOME") and ordinary:
            directories.append(Path(env["HOME"], ordinary))
    return tuple(dict.fromkeys(path for path in (*directories, *_COMMON) if path.is_absolute()))


def find_installations(minor: str, stated: str, env: Mapping[str, str]) -> list[Path]:
    """Return the installations of Python `X.Y` in CPython's own layout.

    The system's and conda's are left out.

    Args:
        minor: `X.Y`.
        stated: the installation path in the snapshot; it counts only below one of the
            directories of `list_manager_roots`.
        env: of this process; a directory of its PATH may lead to one.
    """
    bases = dict.fromkeys(
        filter(None, (_resolve_installation(path, minor) for path in _candidate_paths(minor, stated, env)))
    )
    return [path for path in bases if path not in _SYSTEM and not (path / "conda-meta").exists()]


def is_below_roots(path: str, env: Mapping[str, str]) -> bool:
    """Return whether a snapshot's path is in a manager's directory.

    The managers are this user's.
    """
    real = os.path.realpath(path)
    return any(real.startswith(f"{os.path.realpath(root)}/") for root in list_manager_roots(env))


def find_changeable_path(base: Path, minor: str) -> Path | None:
    """Return the first path of a Python that others could change.

    Return None if there is no such path.
    """
    program = base / "bin" / f"python{minor}"
    for path in (*reversed(program.resolve().parents), *reversed((base / "lib").resolve().parents)):
        if _is_writable_by_others(path, above=True):
            return path
    programs, libraries, library = base / "bin", base / "lib", base / "lib" / f"python{minor}"
    headers = base / "include"
    paths = (
        base, headers, base / "lib64", base / "pyvenv.cfg", programs, programs / "pyvenv.cfg", programs.resolve(),
        libraries, libraries.resolve(), *sorted(programs.glob("python*")), *sorted(libraries.iterdir()),
    )  # fmt: skip
    if library.is_symlink():  # the directories above its target would have to be checked, too
        return library
    inside = (*filter(os.path.lexists, paths), *_library_files(library), *_library_files(headers))
    for number, path in enumerate(inside):
        if number > _MOST_FILES or _is_writable_by_others(path) or _leads_away(path, base, library):
            return path
    return None


def _candidate_paths(minor: str, stated: str, env: Mapping[str, str]) -> Iterator[Path]:
    if stated and is_below_roots(stated, env):
        yield Path(stated)
    for root in list_manager_roots(env):
        try:
            yield from sorted(path for path in root.iterdir() if path.is_dir())
        except OSError:
            continue
    for entry in env.get("PATH", "").split(os.pathsep):
        if Path(entry).is_absolute():
            yield Path(entry).parent
    yield from _ALONE


def _resolve_installation(place: Path, minor: str) -> Path | None:
    """Return the installation of a path or virtual environment."""
    try:
        base = (place / "bin" / f"python{minor}").resolve(strict=True).parent.parent
        return base if (base / "lib" / f"python{minor}" / "os.py").is_file() else None
    except (OSError, RuntimeError):  # links that lead to each other
        return None


def _library_files(library: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - {_UNREAD})
        yield from (Path(above, name) for name in (*folders, *names))


def _leads_away(path: Path, base: Path, library: Path) -> bool:
    """Return whether a link leads to an unchecked file.

    `find_changeable_path` checks the others.
    """
    if not path.is_symlink() or path in (
        base / "bin",
        base / "lib",
    ):  # these are followed when checked
        return False
    target = Path(os.path.realpath(path))
    real = library.resolve()
    if target.is_relative_to(real):
        return _UNREAD in target.relative_to(real).parts
    return target.parent not in ((base / "bin").resolve(), (base / "lib").resolve()) or (
        target.is_dir() and path != library
    )


def _is_writable_by_others(path: Path, *, above: bool = False) -> bool:
    """Return whether others may write to a file or directory.

    In a parent directory, the sticky bit protects the entries.
    """
    try:
        facts = path.lstat()
    except OSError:
        return True
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(facts.st_mode) or (above and facts.st_mode & stat.S_ISVTX):
        return False
    return bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
