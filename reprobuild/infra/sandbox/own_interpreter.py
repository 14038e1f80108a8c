"""The refusal to become the machine's own Python.

The process that becomes a command of an image still runs the machine's Python. A program of the image that is a link to
`/proc/self/exe`, or a script whose interpreter is one, would be that file, with the image's code in it by the image's
dynamic linker: that code could change the mode or the owner of the machine's Python (CVE-2019-5736 is of this kind).
The process runs from a copy in memory (`seal.py`) where it can. Elsewhere, this check is the only remedy, and refuses
each program whose interpreter it cannot know.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from reprobuild.infra.sandbox.seal import OWN, is_sealed

_DEEPEST = 8  # scripts whose interpreters are scripts
_READ = 512  # bytes; the kernel reads 256, or 128 before Linux 5.1
# As the kernel splits the line: blanks, tabs and NUL end the name, and other white space is a part of it
# (https://github.com/torvalds/linux/blob/master/fs/binfmt_script.c).
_INTERPRETER = re.compile(rb"#![ \t]*([^ \t\0\n]*)")
_MACHINE = slice(18, 20)  # e_machine of an ELF header (elf(5))


def refuse_own_interpreter(program: str) -> None:
    """Refuse a program that is the machine's Python, or a script that it would run.

    Raises:
        OSError: it is; or this process runs from the file of that Python, and the program is not readable, or is no
            ELF file of this machine and no script, so that the kernel may start another program for it.
    """
    try:
        python = os.stat(OWN)
    except OSError:
        return  # without a /proc of its own, no link leads to the file
    sealed = is_sealed()
    for _ in range(_DEEPEST):
        try:
            descriptor = os.open(program, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as err:
            # A program that cannot be read can still be executed, and be a script.
            if _is_own(program, python):
                raise _refusal(program) from None
            if err.errno == errno.EACCES and not sealed:
                raise _refusal(program, "it cannot be read, so its interpreter is unknown") from None
            return
        try:
            status = os.fstat(descriptor)
            if os.path.samestat(status, python):
                raise _refusal(program)
            start = os.read(descriptor, _READ) if stat.S_ISREG(status.st_mode) else b""
        finally:
            os.close(descriptor)
        script = _INTERPRETER.match(start)
        if script is None:
            if start and not sealed and not _is_of_this_machine(start):
                raise _refusal(program, "it is no program of this machine, so its interpreter is unknown")
            return
        program = os.fsdecode(script[1])
    raise _refusal(program)


def _is_of_this_machine(start: bytes) -> bool:
    """Return whether a file starts as the ELF files of this machine do: binfmt_misc starts others."""
    with open(OWN, "rb") as stream:
        python = stream.read(_READ)
    return start[:6] == python[:6] and start[_MACHINE] == python[_MACHINE]


def _is_own(program: str, python: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(program), python)
    except OSError:
        return False


def _refusal(program: str, reason: str = "it is the machine's own Python") -> OSError:
    return OSError(errno.EACCES, reason, f"run {program}")
