"""Variables that change each program: those of a container are kept out of the environment of its engine."""

from __future__ import annotations

# Those of the loader and the C library, of shells, and of a user's session. An engine starts scripts, too.
OF_EACH_PROGRAM = (
    r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|MALLOC_.*|PATH|HOME|TMPDIR|USER|SHELL|LANG|LANGUAGE|LC_.*|TZ|XDG_.*|IFS|ENV"
    r"|BASH.*|SHELLOPTS|CDPATH|GLOBIGNORE|POSIXLY_CORRECT|PS4"
)
