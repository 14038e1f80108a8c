"""The seccomp filter of the sandbox, in classic BPF.

It is made from a table of system calls, as a program for the kernel. A call is refused with EPERM, or with
ENOSYS if libraries then use an older one. Programs of the machine's 32-bit ABI get the same answers by their
own numbers: packages of a foreign architecture run some. x32 is absent, and a call of any other ABI ends the
program. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.decode import decode_toml

# linux/bpf_common.h: load a word of `struct seccomp_data`, jump, return.
_LOAD, _JUMP, _EQUAL, _AT_LEAST, _HAS, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE = 0, 4
# The low word, the only part of these arguments that the kernel reads. Both machines are little-endian.
_FIRST, _SECOND, _THIRD = 16, 24, 32
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_REFUSED, _ABSENT, _NO_FAMILY, _NO_PROTOCOL = (
    _ERRNO | code for code in (errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT)
)
_DONE = _ERRNO  # an error of 0 is success
_X32 = 0x40000000
# CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET; CLONE_NEWTIME has a bit that clone(2) uses for a signal.
_NAMESPACES = 0x7E020000
_NEW_TIME = 0x80
# TIOCSTI, TIOCLINUX: they type into a terminal. TIOCSETD: it loads drivers of old protocols.
_IOCTLS = (0x5412, 0x541C, 0x5423)
# AF_UNSPEC, -UNIX, -INET, -INET6. AF_VSOCK, for one, reaches the host of a virtual machine.
_FAMILIES = (0, 1, 2, 10)
# Only NETLINK_ROUTE, which lists interfaces. The error makes libaudit continue as on a kernel without audit.
_NETLINK, _ROUTE = 16, 0
# SYS_SOCKET, SYS_SOCKETPAIR
_SOCKETS = (1, 8)

Instruction = tuple[int, int, int, int]


class SyscallTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of `syscalls.toml`."""

    refused: tuple[str, ...]
    absent: tuple[str, ...]
    unneeded: tuple[str, ...]
    by_argument: tuple[str, ...] = msgspec.field(name="by-argument")
    machines: dict[str, tuple[str, ...]]
    architectures: dict[str, int]
    numbers: dict[str, dict[str, int]]


@cache
def read_table() -> SyscallTable:
    """Return the table of system calls."""
    raw = files("reprobuild.infra.sandbox").joinpath("syscalls.toml").read_bytes()
    return decode_toml(raw, SyscallTable)


def make_filter(machine: str, *, durable: bool = True) -> bytes:
    """Return a machine's filter, an array of `struct sock_filter`.

    Args:
        machine: in the kernel's words, `x86_64`.
        durable: files reach the disk when a program asks for it; builds need no such wait.

    Raises:
        EngineError: the table has no numbers of its system calls.
    """
    table = read_table()
    if machine not in table.machines:
        raise EngineError(
            f"the sandbox has no filter of system calls for {machine}",
            hint=f"build on one of these machines: {', '.join(table.machines)}",
        )
    program: list[Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for abi in table.machines[machine]:
        block = [*_abi_instructions(abi, table, durable), (_RETURN, 0, 0, _ALLOW)]
        program += [(_EQUAL, 1, 0, table.architectures[abi]), (_JUMP, 0, 0, len(block)), *block]
    program.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _abi_instructions(abi: str, table: SyscallTable, durable: bool) -> Iterator[Instruction]:
    """Yield the instructions for the calls of one ABI.

    A call without an answer is allowed.
    """
    numbers = table.numbers[abi]
    yield _LOAD, 0, 0, _NUMBER
    if abi == "x86_64":
        yield from _answer_instructions(_AT_LEAST, _X32, _ABSENT)
    for name in table.refused:
        if name in numbers:
            yield from _answer_instructions(_EQUAL, numbers[name], _REFUSED)
    for name in table.absent:
        yield from _answer_instructions(_EQUAL, numbers[name], _ABSENT)
    for name in () if durable else table.unneeded:
        if name in numbers:
            yield from _answer_instructions(_EQUAL, numbers[name], _DONE)
    for name in table.by_argument:
        if name in numbers:
            judged = [*_argument_instructions(name), (_RETURN, 0, 0, _ALLOW)]
            yield _EQUAL, 0, len(judged), numbers[name]
            yield from judged


def _argument_instructions(name: str) -> Iterator[Instruction]:
    yield _LOAD, 0, 0, _SECOND if name == "ioctl" else _FIRST
    if name == "ioctl":
        for request in _IOCTLS:
            yield from _answer_instructions(_EQUAL, request, _REFUSED)
    elif name in ("socket", "socketpair"):
        for family in _FAMILIES:
            yield from _answer_instructions(_EQUAL, family, _ALLOW)
        yield _EQUAL, 1, 0, _NETLINK
        yield _RETURN, 0, 0, _NO_FAMILY
        yield _LOAD, 0, 0, _THIRD
        yield from _answer_instructions(_EQUAL, _ROUTE, _ALLOW)
        yield _RETURN, 0, 0, _NO_PROTOCOL
    elif name == "socketcall":  # the family is in memory, out of reach of filters
        for request in _SOCKETS:
            yield from _answer_instructions(_EQUAL, request, _REFUSED)
    else:
        yield from _answer_instructions(_HAS, _NAMESPACES | (_NEW_TIME if name == "unshare" else 0), _REFUSED)


def _answer_instructions(test: int, value: int, answer: int) -> Iterator[Instruction]:
    yield test, 0, 1, value
    yield _RETURN, 0, 0, answer
