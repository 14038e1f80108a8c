"""`python -m tests.store.other_machine refused|ignored COMMAND...`: a command on a file system with poor locks.

This machine has no NFS. What stands in for it is a filter in the kernel (seccomp) for the system call flock(2) of
the command and its children: `refused`, as NFS without a lock daemon does it (ENOLCK), or `ignored`, as a mount with
`nolock` does it between machines: it succeeds, and locks nothing; the command then has a host name of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import socket
import struct
import sys
import uuid

FLOCK = {"x86_64": 73, "aarch64": 32}  # <asm/unistd.h>
CLONE_NEWUTS = 0x04000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def deny(number: int) -> None:
    """Let flock(2) return this error, or success for 0, without doing anything."""
    steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, FLOCK[platform.machine()]), (RETURN, 0, 0, ERRNO | number)]
    code = b"".join(struct.pack("HBBI", *step) for step in [*steps, (RETURN, 0, 0, ALLOW)])
    libc = ctypes.CDLL(None, use_errno=True)
    program = Filter(len(code) // 8, code)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    if number == 0 and libc.unshare(CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if number == 0:
        socket.sethostname(uuid.uuid4().hex[:12])


if __name__ == "__main__":
    deny({"refused": errno.ENOLCK, "ignored": 0}[sys.argv[1]])
    os.execvp(sys.argv[2], sys.argv[2:])
