"""Which file the name of a program means.

PATH may hold relative or empty entries (`.`, `node_modules/.bin`). They name the current directory, which may be that
of somebody else's snapshot or bundle, so a program is looked for in the absolute entries alone. Programs get a PATH of
the same entries, for what they start themselves.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path


def absolute_path(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which PATH has its absolute entries alone, or the system's own where it has no such."""
    if "PATH" not in env:
        return dict(env)
    kept = [entry for entry in env["PATH"].split(os.pathsep) if Path(entry).is_absolute()]
    return {**env, "PATH": os.pathsep.join(kept) or os.defpath}


def which(name: str, env: Mapping[str, str]) -> str | None:
    """Return the file of a program, or None where no absolute entry of PATH has it."""
    return shutil.which(name, path=absolute_path(env).get("PATH", os.defpath))


def with_program(argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return a command with the full path of its program.

    Raises:
        FileNotFoundError: no absolute entry of PATH has it. PermissionError: one has it, as no program.
    """
    program, *words = argv
    if "/" in program:
        return [program, *words]
    found = which(program, env)
    if found is None:
        path = absolute_path(env).get("PATH", os.defpath)
        there = any((Path(entry) / program).is_file() for entry in path.split(os.pathsep))
        code = errno.EACCES if there else errno.ENOENT
        raise OSError(code, os.strerror(code), program)
    return [found, *words]


def passed_over(program: str, env: Mapping[str, str]) -> str:
    """Return the hint for a program that only a relative entry of PATH has; an empty one where none has it."""
    for entry in env.get("PATH", "").split(os.pathsep):
        if not Path(entry).is_absolute() and shutil.which(program, path=entry or os.curdir):
            return (
                f"PATH has it in `{entry or os.curdir}`, an entry relative to the current directory, which is not "
                "searched: write the entry in full"
            )
    return ""


def with_absolute(env: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return an environment in which these variables have absolute paths, for a program that starts elsewhere."""
    return {**env, **{name: str(Path(env[name]).absolute()) for name in names if env.get(name)}}
