"""The lookup of programs on PATH.

PATH may have relative or empty entries (`.`, `node_modules/.bin`). They name the current directory, which may
be that of someone else's snapshot or bundle, so programs are searched only in the absolute entries. Programs
get a PATH of the same entries, for their own children.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild_portable.search_path import find_program


def absolute_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose PATH has only absolute entries.

    Without such entries it has the system's default.
    """
    if "PATH" not in env:
        return dict(env)
    entries = [entry for entry in env["PATH"].split(os.pathsep) if Path(entry).is_absolute()]
    return {**env, "PATH": os.pathsep.join(entries) or os.defpath}


def which(name: str, env: Mapping[str, str]) -> str | None:
    """Return the file of a program, or None.

    Only absolute entries of PATH are searched.
    """
    return find_program(name, env)


def resolve_program(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return a command with the full path of its program.

    Raises:
        FileNotFoundError: no absolute entry of PATH has it. PermissionError: a file of that name is not
            executable.
    """
    program, *words = argv
    if "/" in program:
        return [program, *words]
    full_path = which(program, env)
    if full_path is None:
        path = absolute_path(env).get("PATH", os.defpath)
        exists = any((Path(entry) / program).is_file() for entry in path.split(os.pathsep))
        code = errno.EACCES if exists else errno.ENOENT
        raise OSError(code, os.strerror(code), program)
    return [full_path, *words]


def skipped_program_hint(program: str, env: Mapping[str, str]) -> str:
    """Return the hint on a program in relative PATH entries.

    It is empty if no relative entry has the program.
    """
    for entry in env.get("PATH", "").split(os.pathsep):
        if not Path(entry).is_absolute() and shutil.which(program, path=entry or os.curdir):
            return (
                f"PATH has it in `{entry or os.curdir}`, an entry relative to the current directory, which is not "
                "searched: write the entry in full"
            )
    return ""


def with_absolute_paths(env: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return an environment with absolute paths in some variables.

    It is for a program that starts in another directory.
    """
    return {**env, **{name: str(Path(env[name]).absolute()) for name in names if env.get(name)}}
