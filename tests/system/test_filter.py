"""The filter of system calls: its table against libseccomp's, and its program for each ABI by an interpreter of BPF."""

from __future__ import annotations

import ctypes
import errno
import struct

import pytest

from reprobuild.errors import EngineError
from reprobuild.infra.sandbox.filter import make_filter, read_table

ALLOWED, KILLED, DONE = "allowed", "killed", "done"
TABLE = read_table()
ABIS = [(machine, abi) for machine, abis in TABLE.machines.items() for abi in abis]
NEWUSER, NEWTIME = 0x10000000, 0x80
# Newer than the libseccomp of Debian 12: the same number on every machine. Its numbers for i386 are not the kernel's.
UNKNOWN, MULTIPLEXED = {"open_tree_attr": 467}, {"socket": 359, "socketpair": 360}


def judge(machine: str, abi: str, number: int, *arguments: int, durable: bool = True) -> str:
    """Return what the kernel would do with a call."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, TABLE.architectures.get(abi, 1), 0, *values)
    program = list(struct.iter_unpack("=HBBI", make_filter(machine, durable=durable)))
    place, word = 0, 0
    while True:
        code, then, other, value = program[place]
        place += 1
        if code == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif code == 0x05:
            place += value
        elif code == 0x06:
            break
        else:
            holds = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}[code]
            place += then if holds else other
    if value == 0x7FFF0000:
        return ALLOWED
    if value == 0x00050000:
        return DONE
    return KILLED if value == 0x80000000 else errno.errorcode[value & 0xFFFF]


@pytest.mark.parametrize(("machine", "abi"), ABIS)
def test_each_call_of_the_table_is_answered(machine: str, abi: str) -> None:
    numbers = TABLE.numbers[abi]
    refused = [name for name in TABLE.refused if name in numbers]
    assert len(refused) >= 45
    assert {judge(machine, abi, numbers[name]) for name in refused} == {"EPERM"}
    assert {judge(machine, abi, numbers[name]) for name in TABLE.absent} == {"ENOSYS"}
    waits = [numbers[name] for name in TABLE.unneeded if name in numbers]
    assert len(waits) >= 4  # `sync_file_range` is spelled in two ways
    assert {judge(machine, abi, number) for number in waits} == {ALLOWED}
    assert {judge(machine, abi, number, durable=False) for number in waits} == {DONE}
    answered = set(numbers.values())
    others = [number for number in range(470) if number not in answered]
    assert {judge(machine, abi, number, 17, 17) for number in others} == {ALLOWED}


@pytest.mark.parametrize(("machine", "abi"), ABIS)
def test_some_arguments_are_refused(machine: str, abi: str) -> None:
    numbers = TABLE.numbers[abi]
    for request in (0x5412, 0x541C, 0x5423):
        assert judge(machine, abi, numbers["ioctl"], 0, request) == "EPERM"
        assert (
            judge(machine, abi, numbers["ioctl"], 0, request | 1 << 32) == "EPERM"
        )  # the kernel takes the low half
    assert judge(machine, abi, numbers["ioctl"], 0, 0x5413) == ALLOWED
    assert judge(machine, abi, numbers["clone"], NEWUSER | 17) == "EPERM"
    assert judge(machine, abi, numbers["clone"], NEWTIME | 17) == ALLOWED  # there, it is a signal
    assert judge(machine, abi, numbers["clone"], 0x003D0F00) == ALLOWED  # a thread
    assert judge(machine, abi, numbers["unshare"], NEWTIME) == "EPERM"
    assert judge(machine, abi, numbers["unshare"], 0x400) == ALLOWED  # CLONE_FILES


@pytest.mark.parametrize(("machine", "abi"), ABIS)
@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_some_families_and_protocols_are_refused(machine: str, abi: str, name: str) -> None:
    number = TABLE.numbers[abi][name]
    assert [judge(machine, abi, number, one) for one in (0, 1, 2, 10, 16)] == [ALLOWED] * 5
    assert [judge(machine, abi, number, one) for one in (17, 30, 38, 40)] == ["EAFNOSUPPORT"] * 4
    assert judge(machine, abi, number, 2, 1, 6) == ALLOWED  # TCP
    # SOCK_DIAG, AUDIT, NETFILTER, KOBJECT_UEVENT, GENERIC
    refused = [judge(machine, abi, number, 16, 3, protocol) for protocol in (4, 9, 12, 15, 16)]
    assert refused == ["EPROTONOSUPPORT"] * 5


def test_calls_of_other_abis() -> None:
    for request in (1, 8):  # SYS_SOCKET, SYS_SOCKETPAIR
        assert judge("x86_64", "i386", TABLE.numbers["i386"]["socketcall"], request) == "EPERM"
    assert judge("x86_64", "i386", TABLE.numbers["i386"]["socketcall"], 3) == ALLOWED  # connect
    assert judge("x86_64", "x86_64", 0x40000000 | 39) == "ENOSYS"  # getpid of x32
    assert judge("x86_64", "mips", 39) == KILLED
    assert judge("aarch64", "x86_64", 39) == KILLED
    with pytest.raises(EngineError, match="the sandbox has no filter of system calls for riscv64") as err:
        make_filter("riscv64")
    assert err.value.hint == "build on one of these machines: x86_64, aarch64"


@pytest.mark.parametrize("abi", TABLE.numbers)
def test_the_numbers_are_those_of_libseccomp(abi: str) -> None:
    """It is on every Debian: apt is linked with it."""
    find = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    find.argtypes = [ctypes.c_uint32, ctypes.c_char_p]
    names = (*TABLE.refused, *TABLE.absent, *TABLE.unneeded, *TABLE.by_argument)
    numbers = {name: find(TABLE.architectures[abi], name.encode()) for name in names}
    known = {name: number for name, number in numbers.items() if number >= 0} | UNKNOWN
    assert TABLE.numbers[abi] == (known | MULTIPLEXED if abi == "i386" else known)
