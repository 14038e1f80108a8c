"""Manually installed system packages that the environment needs.

Libraries and data have no program with calls as evidence of use, so they are needed; so are the captured parts of the
standard library of the interpreter. Any other package is needed if code of the environment calls one of its programs.
docs/system.md has the rule, `needed.toml` its table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase, translate
from functools import cache
from importlib.resources import files

from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_toml

_LETTERS = 3  # of a name without another meaning
# Debian and Ubuntu keep these parts of Python's standard library in packages of their own.
_PARTS = re.compile(r"python3(?:\.[0-9]+)?-(?:distutils|lib2to3|gdbm|tk)")
_SERIES = re.compile(r"-[0-9][0-9.]*$")  # of a package for one version of its program: gcc-12


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    kept: tuple[str, ...]
    not_libraries: tuple[str, ...]
    words: tuple[str, ...]
    programs: dict[str, tuple[str, ...]]


@cache
def _read_table() -> _Table:
    text = (files("reprobuild.resolve.system") / "needed.toml").read_text(encoding="utf-8")
    return decode_toml(text, _Table)


@cache
def _pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


def is_library_or_data(name: str) -> bool:
    """Return whether a package is a library or data.

    The environment needs such a package without calling it.
    """
    table = _read_table()
    library = name.startswith("lib") and not _pattern(table.not_libraries).match(name)
    return library or _pattern(table.kept).match(name) is not None


def is_interpreter_part(name: str, interpreters: Collection[str]) -> bool:
    """Return whether a package is part of a standard library.

    The library is that of an interpreter (`python3.11`).
    """
    place, _, _ = name.rpartition("-")
    return bool(_PARTS.fullmatch(name)) and (
        place in interpreters
        or (place == "python3" and any(interpreter.startswith("python3.") for interpreter in interpreters))
    )


def programs_of(name: str) -> tuple[str, ...]:
    """Return the names of the programs of a package."""
    for pattern, programs in _read_table().programs.items():
        if fnmatchcase(name, pattern):
            return programs
    return tuple(dict.fromkeys((name, _SERIES.sub("", name))))


def is_ordinary_word(program: str) -> bool:
    """Return whether a program's name is also an ordinary word.

    Then only a call of it counts.
    """
    return len(program) < _LETTERS or program in _read_table().words


def find_programs(names: Iterable[str]) -> set[str]:
    """Return the programs to search for in code.

    Their calls show the needed packages.
    """
    return {program for name in names if not is_library_or_data(name) for program in programs_of(name)}


def select_called_packages(names: Iterable[str], callers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each package with a called program, and the caller.

    Args:
        names: of the manually installed captured packages.
        callers: the called programs, each with its caller.
    """
    for name in names:
        program = next((program for program in programs_of(name) if program in callers), None)
        if program is not None and not is_library_or_data(name):
            yield name, f"{callers[program]}, which calls {program}"
