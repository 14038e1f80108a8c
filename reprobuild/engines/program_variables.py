"""Variables that change each program which starts with them, so that a container's own are no variables of its engine."""

from __future__ import annotations

# Those of the loader and the C library, of shells and of a user's session. An engine starts helpers, and some are scripts.
OF_EACH_PROGRAM = (
    r"LD_.*|GLIBC_TUNABLES|GCONV_PATH|LOCPATH|MALLOC_.*|PATH|HOME|TMPDIR|USER|SHELL|LANG|LANGUAGE|LC_.*|TZ|XDG_.*|IFS|ENV"
    r"|BASH.*|SHELLOPTS|CDPATH|GLOBIGNORE|POSIXLY_CORRECT|PS4"
)
