"""Where Pythons lie on this machine, and which of them nobody but the user and root can change."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

# Folders of managers of Pythons: the variable that names one, what follows it, and where it is without the variable.
_MANAGERS = (
    ("PYENV_ROOT", "versions", ".pyenv/versions"),
    ("UV_PYTHON_INSTALL_DIR", "", ".local/share/uv/python"),
    ("XDG_DATA_HOME", "uv/python", ""),
    ("ASDF_DATA_DIR", "installs/python", ".asdf/installs/python"),
    ("MISE_DATA_DIR", "installs/python", ".local/share/mise/installs/python"),
)
_COMMON = (Path("/opt/python"),)
_ALONE = (Path("/usr/local"),)  # where a Python of sources goes
_SYSTEM = (Path("/usr"), Path("/"))
_MOST_FILES = 20_000  # of a standard library, as `capture` packs
_UNREAD = "site-packages"  # by an isolated interpreter without `site`


def roots(env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders in which this user's managers keep Pythons, one folder each."""
    found = []
    for name, below, ordinary in _MANAGERS:
        if env.get(name):
            found.append(Path(env[name], below))
        elif env.get("HOME") and ordinary:
            found.append(Path(env["HOME"], ordinary))
    return tuple(dict.fromkeys(path for path in (*found, *_COMMON) if path.is_absolute()))


def installations(minor: str, stated: str, env: Mapping[str, str]) -> list[Path]:
    """Return where Pythons `X.Y` of CPython's own layout are installed, without the system's and conda's.

    Args:
        minor: `X.Y`.
        stated: where the snapshot says that it was installed; it counts only below one of the folders of `roots`.
        env: of this process; a directory of its PATH may lead to one.
    """
    found = dict.fromkeys(filter(None, (_base(path, minor) for path in _places(minor, stated, env))))
    return [path for path in found if path not in _SYSTEM and not (path / "conda-meta").exists()]


def is_below_roots(path: str, env: Mapping[str, str]) -> bool:
    """Tell whether a path of a snapshot is one of the folders of this user's managers."""
    real = os.path.realpath(path)
    return any(real.startswith(f"{os.path.realpath(root)}/") for root in roots(env))


def changeable(base: Path, minor: str) -> Path | None:
    """Return the first file or folder of a Python that others could change or exchange; None where none is such."""
    program = base / "bin" / f"python{minor}"
    for path in (*reversed(program.resolve().parents), *reversed((base / "lib").resolve().parents)):
        if _is_open(path, above=True):
            return path
    programs, libraries, library = base / "bin", base / "lib", base / "lib" / f"python{minor}"
    headers = base / "include"
    own = (
        base, headers, base / "lib64", base / "pyvenv.cfg", programs, programs / "pyvenv.cfg", programs.resolve(),
        libraries, libraries.resolve(), *sorted(programs.glob("python*")), *sorted(libraries.iterdir()),
    )  # fmt: skip
    if library.is_symlink():  # the folders above its target would have to be looked at, too
        return library
    inside = (*filter(os.path.lexists, own), *_files(library), *_files(headers))
    for number, path in enumerate(inside):
        if number > _MOST_FILES or _is_open(path) or _leads_away(path, base, library):
            return path
    return None


def _places(minor: str, stated: str, env: Mapping[str, str]) -> Iterator[Path]:
    if stated and is_below_roots(stated, env):
        yield Path(stated)
    for root in roots(env):
        try:
            yield from sorted(path for path in root.iterdir() if path.is_dir())
        except OSError:
            continue
    for entry in env.get("PATH", "").split(os.pathsep):
        if Path(entry).is_absolute():
            yield Path(entry).parent
    yield from _ALONE


def _base(place: Path, minor: str) -> Path | None:
    """Return the installation that a place, or a virtual environment there, leads to."""
    try:
        base = (place / "bin" / f"python{minor}").resolve(strict=True).parent.parent
        return base if (base / "lib" / f"python{minor}" / "os.py").is_file() else None
    except (OSError, RuntimeError):  # links that lead to each other
        return None


def _files(library: Path) -> Iterator[Path]:
    for above, folders, names in os.walk(library):
        folders[:] = sorted(set(folders) - {_UNREAD})
        yield from (Path(above, name) for name in (*folders, *names))


def _leads_away(path: Path, base: Path, library: Path) -> bool:
    """Tell whether a link leads to a file that `changeable` does not look at."""
    if not path.is_symlink() or path in (
        base / "bin",
        base / "lib",
    ):  # these are looked at behind their links, too
        return False
    target = Path(os.path.realpath(path))
    real = library.resolve()
    if target.is_relative_to(real):
        return _UNREAD in target.relative_to(real).parts
    return target.parent not in ((base / "bin").resolve(), (base / "lib").resolve()) or (
        target.is_dir() and path != library
    )


def _is_open(path: Path, *, above: bool = False) -> bool:
    """Tell whether others may write to a file or folder; above it, the sticky bit keeps them from what is in it."""
    try:
        facts = path.lstat()
    except OSError:
        return True
    if facts.st_uid not in (0, os.geteuid()):
        return True
    if stat.S_ISLNK(facts.st_mode) or (above and facts.st_mode & stat.S_ISVTX):
        return False
    return bool(facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
