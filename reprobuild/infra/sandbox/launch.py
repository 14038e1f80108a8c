"""A launcher of a command in its own namespaces.

It runs as a module of its own Python, with JSON in the variable JOB. The arguments of process 1 are visible to
the command, its variables are not: the job names paths of the machine.

util-linux has no program that loads a filter of system calls, and after the root has changed no program of the machine
can be started any more. So there are three processes. The launcher makes the namespaces and waits. Its child is
process 1 of them: it lets `setup.sh` make the root, mounts the other trees in it, enters it, and gives up its rights.
Its child becomes the command.
The command cannot leave the namespace of processes, and the kernel kills all of that when process 1 ends. So process 1
runs no untrusted code and receives no signal from inside; its memory is closed to the command, which is the same user.
No module is imported and no file opened once the namespaces are made: there, the user's rights may not reach Python's
files.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import stat
import sys
from types import FrameType
from typing import Any, NoReturn

from reprobuild.infra.sandbox.own_interpreter import refuse_own_interpreter

# linux/sched.h: NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 1 << 5, 1 << 12, 1 << 13, 1 << 14, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
KEYCTL_JOIN_SESSION_KEYRING = 1
SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW = 1, 1 << 2
NUMBERS = {"x86_64": {"keyctl": 250, "seccomp": 317}, "aarch64": {"keyctl": 219, "seccomp": 277}}
# CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE,
# SYS_CHROOT, MKNOD, AUDIT_WRITE, SETFCAP: those of container engines, and one more for files.
CAPABILITIES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31}
LARGEST_FILE = 64 << 30
UNREACHABLE, ABSENT = 126, 127  # exit codes, as in chroot(1)
SIGNALS = set(signal.valid_signals())

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    """`struct sock_fprog` of linux/filter.h."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def main(job: dict[str, Any]) -> int:
    """Run the command of a job; return its exit code."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(signum, signal.SIG_DFL)
    os.umask(0o022)
    limit(job["processes"])
    isolate(job["parent"])
    join_keyring()
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    lifeline, codes = os.pipe(), os.pipe()
    process_1 = os.fork()
    if process_1 == 0:
        end_with_parent(*lifeline)
        keep_alone(job, codes[1])
    os.close(codes[1])
    return follow(process_1, codes[0])


def limit(processes: int) -> None:
    """Set inherited limits on processes, files and cores.

    The kernel may kill all of them first when memory runs out.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, most in ((resource.RLIMIT_NPROC, processes), (resource.RLIMIT_FSIZE, LARGEST_FILE)):
        _, hard = resource.getrlimit(kind)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))
    try:
        with open("/proc/self/oom_score_adj", "w") as stream:
            stream.write("1000")
    except OSError:
        pass  # it helps, but is not a limit


def isolate(parent: int) -> None:
    """Make the namespaces, with the caller as their only user.

    End together with the process that asked for them.
    """
    user, group = os.geteuid(), os.getegid()
    check("make namespaces", LIBC.unshare(NAMESPACES))
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        descriptor = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(descriptor, text.encode())
        os.close(descriptor)
    check("make mounts private", LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None))
    # After the change of rights, which would undo it.
    check("end with the parent", LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def join_keyring() -> None:
    """Begin a session keyring, to hide the caller's keys.

    A kernel without keys has no keyrings.
    """
    if (
        LIBC.syscall(number("keyctl"), KEYCTL_JOIN_SESSION_KEYRING, None) < 0
        and ctypes.get_errno() != errno.ENOSYS
    ):
        check("begin a keyring", -1)


def end_with_parent(reading: int, writing: int) -> None:
    """End together with the parent, which may have ended already."""
    check("end with the parent", LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    os.close(writing)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        if os.read(reading, 1) == b"":
            os._exit(1)
    except BlockingIOError:
        pass
    os.close(reading)


def keep_alone(job: dict[str, Any], codes: int) -> NoReturn:
    """Act as process 1: make the root, and start the command.

    It enters the root without a way back, and gives up rights. The exit code of the command is written to
    `codes`: process 1 cannot end by a signal, as the command can.
    """
    code = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the kernel keeps such signals from process 1
        code = set_up(job["setup"], job["environment"])
        if code == 0:
            code = 1  # until the command's own code: the next steps can fail, too
            bind(job["root"], job["binds"])
            enter(job["root"])
            drop_rights(bytes.fromhex(job["filter"]))
            close_memory()
            code = reap(fork_command(job["command"]))
    except OSError as err:
        complain(err)
    finally:
        os.write(codes, code.to_bytes(4, "little", signed=True))
        os._exit(0)


def close_memory() -> None:
    """Close the memory and files of this process to others.

    The kernel decides by the user namespace in which the program was started, and the command has no rights
    there. It comes after all changes of rights, which would undo it.
    """
    check("close the memory", LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))


def fork_command(argv: list[str]) -> int:
    """Start the command in its own session.

    No signal to a group reaches the launcher from there.
    """
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setsid()
            replace_device()
            code = start(argv, {})
        finally:
            os._exit(code)
    return child


def replace_device() -> None:
    """Replace a standard input that is a device.

    The command could change the mode and times of a device of the machine.
    """
    if not stat.S_ISFIFO(os.fstat(0).st_mode):
        null = os.open("/dev/null", os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)


def reap(command: int) -> int:
    """Wait for orphaned processes; return the command's exit code."""
    while True:
        child, status = os.wait()
        if child == command:
            return os.waitstatus_to_exitcode(status)


def set_up(argv: list[str], environment: dict[str, str]) -> int:
    """Run the set-up and return its exit code."""
    child = os.fork()
    if child == 0:
        os._exit(start(argv, environment))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def bind(root: str, binds: list[tuple[str, str, bool]]) -> None:
    """Mount the binds: sources at places in the root.

    Each is writable or not. All mount points are made and opened before the first other tree is there, and no
    link is followed: neither a tree nor a lock can lead a mount, or its mount point, out of the root.
    """
    top = os.open(root, os.O_PATH | os.O_DIRECTORY)
    points = [open_point(top, place, os.path.isdir(source)) for source, place, _ in binds]
    for (source, place, writable), (above, point) in zip(binds, points, strict=True):
        mount(f"mount {place}", source, point, MS_BIND | MS_REC)
        if not writable:
            mounted = os.open(place.rpartition("/")[2], os.O_PATH | os.O_NOFOLLOW, dir_fd=above)
            # Flags that a user namespace may not clear are kept.
            flags = os.fstatvfs(mounted).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
            mount(f"mount {place} read-only", None, mounted, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)
            os.close(mounted)
    for descriptor in (top, *(file for pair in points for file in pair)):
        os.close(descriptor)


def open_point(top: int, place: str, folder: bool) -> tuple[int, int]:
    """Open a parent and its mount point; make missing ones."""
    above, steps = os.dup(top), place.strip("/").split("/")
    for step in steps[:-1]:
        inner = open_step(above, step, True)
        os.close(above)
        above = inner
    return above, open_step(above, steps[-1], folder)


def open_step(above: int, name: str, folder: bool) -> int:
    """Open a directory or file in a directory; make a missing one."""
    if name in ("", ".", ".."):
        raise OSError(errno.EINVAL, "it is no name", f"make the mount point {name!r}")
    try:
        if folder:
            os.mkdir(name, dir_fd=above)
        else:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o666, dir_fd=above))
    except FileExistsError:
        pass
    opened = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=above)
    if not (stat.S_ISDIR if folder else stat.S_ISREG)(os.fstat(opened).st_mode):
        raise OSError(
            errno.ENOTSUP, "it is something else than a directory or file", f"make the mount point {name}"
        )
    return opened


def mount(purpose: str, source: str | None, point: int, flags: int) -> None:
    """Mount onto an open descriptor."""
    target = f"/proc/self/fd/{point}".encode()
    check(purpose, LIBC.mount(source and os.fsencode(source), target, None, flags, None))


def enter(root: str) -> None:
    """Move the root over `/`.

    Of the machine's files, only those mounted below it remain.
    """
    os.chdir(root)
    check("move the root", LIBC.mount(b".", b"/", None, MS_MOVE, None))
    os.chroot(".")
    os.chdir("/")


def drop_rights(program: bytes) -> None:
    """Drop the rights that no build needs, permanently."""
    for capability in range(64):
        if capability not in CAPABILITIES and LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            if ctypes.get_errno() == errno.EINVAL:  # the kernel has no more of them
                break
            check("drop capabilities", -1)
    check("set no_new_privs", LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    content = ctypes.create_string_buffer(program, len(program))
    loaded = Program(len(program) // 8, ctypes.addressof(content))
    # Without the flag, kernels before 5.16 slow the command down; those before 4.17 do not know it.
    for flags in (SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0):
        if LIBC.syscall(number("seccomp"), SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(loaded)) == 0:
            return
    check("load the filter of system calls", -1)


def start(argv: list[str], env: dict[str, str]) -> int:
    """Become a program; return an exit code upon failure."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    try:
        if not env:  # a command of the new root
            refuse_own_interpreter(argv[0])
        os.execve(argv[0], argv, env)
    except OSError as err:
        os.write(2, f"sandbox: cannot run {argv[0]}: {err.strerror}\n".encode())
        return ABSENT if err.errno == errno.ENOENT else UNREACHABLE


def follow(process_1: int, codes: int) -> int:
    """Wait for the end of process 1, and all others inside.

    Returns:
        The exit code of the command. If a signal ended it, the signal ends this process, too.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        os.kill(process_1, signal.SIGKILL)

    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _, status = os.waitpid(process_1, 0)
    raw = os.read(codes, 4)
    code = int.from_bytes(raw, "little", signed=True) if raw else os.waitstatus_to_exitcode(status)
    if code < 0:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def number(name: str) -> int:
    """Return the number of a system call on this machine."""
    return NUMBERS[os.uname().machine][name]


def check(purpose: str, result: int) -> None:
    """Raise the error of a call that failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), purpose)


def complain(err: OSError) -> None:
    """Report why there is no sandbox."""
    os.write(2, f"sandbox: could not {err.filename}: {err.strerror}\n".encode())


if __name__ == "__main__":
    try:
        sys.exit(main(json.loads(os.environ["JOB"])))
    except OSError as err:
        complain(err)
        sys.exit(1)
