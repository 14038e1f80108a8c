"""A program that starts Python from a sealed copy in memory.

The process that becomes a command of an image runs the machine's Python. A program of the image can lead back to that
file by `/proc/self/exe`: as a link, as the interpreter of a script, or as one that binfmt_misc names. The image's
dynamic linker then runs as that file, and can change its mode (CVE-2019-5736 is of this kind). Of a copy in memory, it
can change nothing that outlives the process. runc has the same remedy
(https://github.com/opencontainers/runc/blob/main/libcontainer/dmz/cloned_binary_linux.go).

A Python with libraries relative to its own file (`$ORIGIN`) cannot be started from a copy, and some systems forbid
programs in memory. There, `own_interpreter.py` alone refuses such programs.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys

OWN = "/proc/self/exe"
NAME = "reprobuild-python"
_RELATIVE = b"$ORIGIN"
_EXECUTABLE = 0x10  # MFD_EXEC of linux/memfd.h, of Linux 6.3
_ADD_SEALS, _ALL_SEALS = (
    1033,
    0x1F,
)  # F_ADD_SEALS; F_SEAL_SEAL, SHRINK, GROW, WRITE, FUTURE_WRITE of linux/fcntl.h


def is_sealed() -> bool:
    """Return whether this process runs from a sealed copy."""
    try:
        return os.readlink(OWN).startswith(f"/memfd:{NAME}")
    except OSError:
        return False


def copy_own_program() -> int:
    """Return the descriptor of a sealed copy of the running program.

    Raises:
        OSError: the system has no such files, or the program needs files relative to its own.
    """
    with open(OWN, "rb") as program:
        size = os.fstat(program.fileno()).st_size
        with mmap.mmap(program.fileno(), size, prot=mmap.PROT_READ) as content:
            if content.find(_RELATIVE) >= 0:
                raise OSError("it needs files relative to its own")
        copy, rest = _make_file(), size
        while rest:
            written = os.sendfile(copy, program.fileno(), None, rest)
            if not written:
                raise OSError("its file became shorter")
            rest -= written
    fcntl.fcntl(copy, _ADD_SEALS, _ALL_SEALS)
    return copy


def _make_file() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create(NAME, flags | _EXECUTABLE)
    except OSError:  # the kernel does not know the flag, and needs none
        return os.memfd_create(NAME, flags)


def main(argv: list[str]) -> None:
    """Become the command of the arguments, which starts with the path of this Python."""
    try:
        os.execve(copy_own_program(), argv, os.environ)
    except OSError:
        os.execv(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
