"""`python -m tests.store.other_machine refused|ignored|confined COMMAND...`: a command on a poorer machine.

This machine has no NFS. What stands in for it is a filter in the kernel (seccomp) for the system call flock(2) of
the command and its children: `refused`, as NFS without a lock daemon does it (ENOLCK), or `ignored`, as a mount with
`nolock` does it between machines: it succeeds, and locks nothing; the command then has a host name of its own.
`confined` denies unshare(2), as containers and hardened machines do it (EPERM).
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

# <asm/unistd.h>
FLOCK = {"x86_64": 73, "aarch64": 32}
UNSHARE = {"x86_64": 272, "aarch64": 97}
MODES = {"refused": (FLOCK, errno.ENOLCK), "ignored": (FLOCK, 0), "confined": (UNSHARE, errno.EPERM)}
CLONE_NEWUTS = 0x04000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LIBC = ctypes.CDLL(None, use_errno=True)
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET|BPF_K


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def deny(call: int, number: int) -> None:
    """Let a system call return this error, or success for 0, without doing anything."""
    steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, call), (RETURN, 0, 0, ERRNO | number), (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("HBBI", *step) for step in steps)
    program = Filter(len(code) // 8, code)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    check(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)), "prctl")


def check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), what)


if __name__ == "__main__":
    if sys.argv[1] == "ignored":
        check(LIBC.unshare(CLONE_NEWUTS), "unshare")
        socket.sethostname(uuid.uuid4().hex[:12])
    calls, error = MODES[sys.argv[1]]
    deny(calls[platform.machine()], error)
    os.execvp(sys.argv[2], sys.argv[2:])
