"""A launcher of a container: a command in an image's tree, for a user's job.

It runs as a module of its own Python, with JSON in the variable JOB, and has the processes of `launch.py`: a launcher
that waits, process 1 of the new namespaces, and the command. Other than a build, a job may have users, a network, a
terminal, devices and hooks. The launcher and process 1 hand signals on to the command.

An error before the command starts is written to the file `report`, so that it is not taken for the command's own.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from types import FrameType
from typing import Any, NoReturn

from reprobuild.infra.sandbox import launch
from reprobuild.infra.sandbox.container_hooks import run_hook
from reprobuild.infra.sandbox.container_root import make_root
from reprobuild.infra.sandbox.launch import LIBC, check
from reprobuild.infra.sandbox.own_interpreter import refuse_own_interpreter

NEW_NETWORK = 0x40000000  # CLONE_NEWNET of linux/sched.h
# CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, SYS_CHROOT, MKNOD, AUDIT_WRITE,
# SETFCAP: those of container engines, without NET_RAW.
CAPABILITIES = {0, 1, 3, 4, 5, 6, 7, 8, 10, 18, 27, 29, 31}
# The signals that are handed on. At a terminal, the kernel sends those of the second set to the command itself.
FORWARDED = {
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
    signal.SIGCONT, signal.SIGWINCH,
}  # fmt: skip
OF_TERMINAL = {signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGTSTP}
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP of linux/if.h
LAST_MESSAGE = 4000  # bytes of an error


def main(job: dict[str, Any]) -> int:
    """Run the command of a job; return its exit code."""
    for signum in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(signum, signal.SIG_DFL)
    os.umask(0o022)
    report = os.open(job["report"], os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        for name, soft, hard in job["limits"]:
            set_limit(name, soft, hard)
        isolate(job)
        launch.join_keyring()
        signal.pthread_sigmask(signal.SIG_BLOCK, launch.SIGNALS)
        lifeline, codes = os.pipe(), os.pipe()
        process_1 = os.fork()
    except OSError as err:
        complain(report, err)
        return launch.UNREACHABLE
    if process_1 == 0:
        launch.end_with_parent(*lifeline)
        supervise(job, codes[1], report)
    os.close(codes[1])
    return follow(process_1, codes[0], terminal=job["terminal"])


def set_limit(name: str, soft: int, hard: int) -> None:
    """Set a resource limit by its name in limits.conf(5); -1 is unlimited."""
    try:
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (soft, hard))
    except (OSError, ValueError) as err:
        raise OSError(errno.EPERM, str(err), f"set the limit {name} (error setting rlimit)") from None


def isolate(job: dict[str, Any]) -> None:
    """Make the namespaces, and map the users of the caller's namespace to themselves or one user to the caller."""
    flags = launch.NAMESPACES & ~(0 if job["isolated"] else NEW_NETWORK)
    reading, writing = os.pipe()
    mapper = os.fork()
    if mapper == 0:
        # A process in the new namespace may map one user only; this one is still outside.
        os.read(reading, 1)
        os._exit(write_maps(os.getppid(), job["maps"]))
    try:
        check("make namespaces", LIBC.unshare(flags))
    finally:
        os.write(writing, b"x")
        failure = os.waitstatus_to_exitcode(os.waitpid(mapper, 0)[1])
        os.close(reading)
        os.close(writing)
    if failure:
        raise OSError(failure, os.strerror(failure), "map users")
    check("make mounts private", LIBC.mount(None, b"/", None, launch.MS_REC | launch.MS_PRIVATE, None))
    # The kernel forgets it when rights change.
    check("end with the parent", LIBC.prctl(launch.PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    if os.getppid() != job["parent"]:
        os.kill(os.getpid(), signal.SIGKILL)


def write_maps(process: int, maps: dict[str, Any]) -> int:
    """Write the maps of users and groups of a process; return an error number or 0."""
    files = [] if maps["many"] else [("setgroups", "deny")]
    try:
        for name, text in (*files, ("uid_map", maps["uids"]), ("gid_map", maps["gids"])):
            descriptor = os.open(f"/proc/{process}/{name}", os.O_WRONLY)
            os.write(descriptor, text.encode())
            os.close(descriptor)
    except OSError as err:
        return err.errno or 1
    return 0


def supervise(job: dict[str, Any], codes: int, report: int) -> NoReturn:
    """Act as process 1: make the root, enter it, start the command, and hand signals on."""
    code = launch.UNREACHABLE
    try:
        for signum in OF_TERMINAL if job["terminal"] else ():
            signal.signal(signum, signal.SIG_IGN)
        if job["isolated"]:
            raise_loopback()
        if job["hostname"]:
            socket.sethostname(job["hostname"])
        make_root(job)
        for hook in job["hooks"]:
            run_hook(hook, job["bundle"])
        launch.enter(job["root"])
        with contextlib.suppress(OSError):  # the command reports it
            os.makedirs(job["cwd"], exist_ok=True)
        drop_rights(bytes.fromhex(job["filter"]))
        launch.close_memory()
        command = fork_command(job, report)
        hand_signals_on(command, FORWARDED - (OF_TERMINAL if job["terminal"] else set()))
        code = launch.reap(command)
    except OSError as err:
        complain(report, err)
    finally:
        os.write(codes, code.to_bytes(4, "little", signed=True))
        os._exit(0)


def raise_loopback() -> None:
    """Raise the loopback interface of a new network, as container engines do."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        request = fcntl.ioctl(opened, _GET_FLAGS, struct.pack("16sh22x", b"lo", 0))
        name, flags = struct.unpack("16sh22x", request)
        fcntl.ioctl(opened, _SET_FLAGS, struct.pack("16sh22x", name, flags | _UP))


def drop_rights(program: bytes) -> None:
    """Drop the rights that no job needs, permanently."""
    for capability in launch.CAPABILITIES - CAPABILITIES:
        check("drop capabilities", LIBC.prctl(launch.PR_CAPBSET_DROP, capability, 0, 0, 0))
    launch.drop_rights(program)


def fork_command(job: dict[str, Any], report: int) -> int:
    """Start the command; at a terminal it stays in the session of the launcher, whose terminal it has."""
    child = os.fork()
    if child == 0:
        try:
            if not job["terminal"]:
                os.setsid()
                launch.replace_device()
            change_user(*job["user"], many=job["maps"]["many"])
            enter_directory(job["cwd"])
            for signum in OF_TERMINAL:
                signal.signal(signum, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, launch.SIGNALS)
            execute(job["command"], job["environ"])
        except OSError as err:
            complain(report, err)
            os._exit(launch.ABSENT if err.errno == errno.ENOENT else launch.UNREACHABLE)
        finally:
            os._exit(launch.UNREACHABLE)
    return child


def change_user(uid: int, gid: int, groups: list[int], *, many: bool) -> None:
    """Become a user of the container; where one user exists, the command is that user already."""
    if many:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)


def enter_directory(path: str) -> None:
    """Change to the directory in which the command starts."""
    try:
        os.chdir(path)
    except OSError as err:
        raise OSError(err.errno, err.strerror, f"enter the directory {path}") from None


def execute(argv: list[str], environ: dict[str, str]) -> NoReturn:
    """Become the program, which is searched on the PATH of the container."""
    program = argv[0]
    places = [""] if "/" in program else [f"{place or '.'}/" for place in environ.get("PATH", "").split(":")]
    failure = OSError(errno.ENOENT, os.strerror(errno.ENOENT), f"run {program}")
    for place in places:
        try:
            refuse_own_interpreter(place + program)
            os.execve(place + program, argv, environ)
        except OSError as err:
            if err.errno not in (errno.ENOENT, errno.ENOTDIR):
                failure = OSError(err.errno, err.strerror, f"run {program}")
    raise failure


def hand_signals_on(command: int, signals: set[signal.Signals]) -> None:
    """Hand signals on to the command, from now on."""

    def tell(signum: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended, and its code is about to be read
            os.kill(command, signum)

    for signum in signals:
        signal.signal(signum, tell)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, launch.SIGNALS)


def follow(process_1: int, codes: int, *, terminal: bool) -> int:
    """Wait for the end of process 1, and hand signals on to it.

    Returns:
        The exit code of the command, 128 and the number of the signal that ended it.
    """
    for signum in OF_TERMINAL if terminal else ():
        signal.signal(signum, signal.SIG_IGN)
    hand_signals_on(process_1, FORWARDED - (OF_TERMINAL if terminal else set()))
    _, status = os.waitpid(process_1, 0)
    raw = os.read(codes, 4)
    code = int.from_bytes(raw, "little", signed=True) if raw else os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def complain(report: int, err: OSError) -> None:
    """Report why there is no container."""
    purpose = f"could not {err.filename}: " if err.filename else ""
    os.write(report, f"{purpose}{err.strerror}".encode(errors="replace")[:LAST_MESSAGE])


if __name__ == "__main__":
    sys.exit(
        main(json.loads("".join(os.environ[f"JOB_{number}"] for number in range(int(os.environ["JOB"])))))
    )
