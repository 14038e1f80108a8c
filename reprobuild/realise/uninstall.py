"""Removal of distributions that wheels replace.

Their files are removed before the wheels are installed, as pip uninstalls them.

https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

from __future__ import annotations

import configparser
import contextlib
import csv
import posixpath
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.ini import collapse_blanks
from reprobuild.infra.untrusted.regular_files import is_unlinked, open_plain

_FOR_PYTHON = re.compile(r"-py\d(\.\d+)?(-.*)?$")
_LARGEST = 32 << 20  # of a RECORD; torch's has 1 MB


def remove_replaced(
    prefix: Path,
    library: str,
    names: Collection[str],
    files_by_name: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[str]:
    """Remove distributions from a tree, with their entry-point scripts.

    Their bytecode stays; the code that packs the tree leaves it out.

    Args:
        prefix: the directory of the environment, which is untrusted: no link in it is followed.
        library: the directory of distributions below it, `lib/python3.11/site-packages`.
        names: of projects, in any spelling.
        files_by_name: {project: its files below the prefix} from another list. It is used if a distribution has no
            RECORD, as those that setup.py installed.

    Returns:
        The names of the removed distributions, sorted.
    """
    projects = {canonicalize_name(name) for name in names}
    site = prefix / library
    removed_names: set[str] = set()
    for info in sorted(site.iterdir()) if _is_directory(prefix, library) else ():
        name = _project(info.name)
        if name in projects and not info.is_symlink():
            for path in (
                *(tuple(_recorded_files(info, library)) or files_by_name.get(name, ())),
                *_scripts(info),
            ):
                _remove(prefix, path)
            _remove(prefix, f"{library}/{info.name}")
            shutil.rmtree(info, ignore_errors=True)
            removed_names.add(name)
    return sorted(removed_names)


def _project(folder: str) -> str:
    """Return the project of a metadata directory, or an empty string.

    `PyYAML-5.3.1-py3.8.egg-info`, which may be a file: https://setuptools.pypa.io/en/latest/deprecated/python_eggs.html
    """
    stem, _, kind = folder.rpartition(".")
    if kind == "egg-info":
        stem = _FOR_PYTHON.sub("", stem)
    return canonicalize_name(stem.rpartition("-")[0]) if kind in ("dist-info", "egg-info") else ""


def _recorded_files(info: Path, library: str) -> Iterator[str]:
    """Yield the files of a RECORD, by their path below the prefix."""
    with contextlib.suppress(csv.Error):
        for row in csv.reader(_text(info / "RECORD").splitlines()):
            if row and row[0] and not row[0].startswith("/"):
                yield posixpath.normpath(f"{library}/{row[0]}")


def _scripts(info: Path) -> Iterator[str]:
    config = configparser.ConfigParser(delimiters="=", interpolation=None, strict=False)
    config.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    with contextlib.suppress(configparser.Error):
        config.read_string(collapse_blanks(_text(info / "entry_points.txt")))
    for section in ("console_scripts", "gui_scripts"):
        for name in config.options(section) if config.has_section(section) else ():
            if "/" not in name:
                yield f"bin/{name}"


def _text(path: Path) -> str:
    try:
        stream, size = open_plain(path, links=False)
    except OSError:
        return ""
    with stream:
        return stream.read().decode("utf-8", "surrogateescape") if size <= _LARGEST else ""


def _remove(prefix: Path, path: str) -> None:
    """Remove a file, and the directories above it that become empty."""
    above = posixpath.dirname(path)
    if path.startswith("../") or not _is_directory(prefix, above):
        return
    place = prefix / path
    if place.is_symlink() or place.is_file():
        place.unlink()
    with contextlib.suppress(OSError):  # it is not empty
        while above.count("/") > 2:  # below lib/python3.11/site-packages
            if [child.name for child in (prefix / above).iterdir()] == ["__pycache__"]:
                shutil.rmtree(prefix / above / "__pycache__")
            (prefix / above).rmdir()
            above = posixpath.dirname(above)


def _is_directory(prefix: Path, path: str) -> bool:
    """Return whether a path is a directory without links on the way.

    The path is below the prefix.
    """
    return is_unlinked(prefix, path) and (prefix / path).is_dir()
