"""The refusal to become the machine's own Python.

The process that becomes a command of an image still runs the machine's Python. A program of the image that is a link to
`/proc/self/exe`, or a script whose interpreter is one, would be that file, with the image's code in it by the image's
dynamic linker: that code could change the mode or the owner of the machine's Python (CVE-2019-5736 is of this kind).
"""

from __future__ import annotations

import errno
import os
import stat

_OWN = "/proc/self/exe"
_DEEPEST = 8  # scripts whose interpreters are scripts


def refuse_own_interpreter(program: str) -> None:
    """Refuse a program that is the machine's Python, or a script that it would run.

    Raises:
        OSError: it is.
    """
    try:
        python = os.stat(_OWN)
    except OSError:
        return  # without a /proc of its own, no link leads to the file
    for _ in range(_DEEPEST):
        try:
            descriptor = os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            # A program that cannot be read can still be executed.
            if _is_own(program, python):
                raise _refusal(program) from None
            return
        try:
            status = os.fstat(descriptor)
            if os.path.samestat(status, python):
                raise _refusal(program)
            start = os.read(descriptor, 512) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(descriptor)
        words = start[2:].split(b"\n")[0].split() if start.startswith(b"#!") else []
        if not words:
            return
        program = os.fsdecode(words[0].split(b"\0")[0])
    raise _refusal(program)


def _is_own(program: str, python: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(program), python)
    except OSError:
        return False


def _refusal(program: str) -> OSError:
    return OSError(errno.EACCES, "it is the machine's own Python", f"run {program}")
