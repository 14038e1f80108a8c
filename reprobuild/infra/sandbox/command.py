"""A command in a root directory without network.

It is the same for root and for any user. `launch.py` makes namespaces for it. Root and other users take the
same path (a user namespace in which the caller is 0 and the only user), so both get the same result. When the
command ends, fails or is killed, its processes and mounts are gone with the namespaces. It has a session and
a keyring of its own, no terminal, no rights that a build does not need, and only the system calls that
`filter.py` allows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

from reprobuild.infra.proc import run
from reprobuild.infra.proc.own_python import own_sealed_module
from reprobuild.infra.sandbox.filter import make_filter
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.mounts import resolve_targets
from reprobuild.infra.sandbox.namespaces import PATH as PATH
from reprobuild.infra.sandbox.namespaces import check_namespaces

HOSTNAME = "reprobuild"
PROCESSES = 4096
MOST_OUTPUT = 64 << 20
# The launcher kills all processes inside at once, and waits until the kernel has ended them.
GRACE_SECONDS = 60.0
# From this version on `kernel.pid_max` is a setting of each namespace of processes; before, it is the
# machine's.
_OWN_PID_MAX = (6, 14)


def run_in_root(
    root: Root,
    argv: Sequence[str],
    *,
    epoch: int,
    purpose: str,
    binds: Sequence[Bind] = (),
    env: Mapping[str, str] | None = None,
    cwd: str = "/",
    stdin: bytes | None = None,
    timeout: float = 3600,
) -> bytes:
    """Run a command with a directory as its root.

    Return its standard output. There is no network, not even the loopback. The command is user and group 0,
    and no other owner exists. `/dev` is minimal, `/proc` its own, `/tmp` and `/run` are empty and vanish. Its
    umask is 022 and its environment is constant except for `env`. It may have `PROCESSES` processes, which
    the kernel enforces for the machine's root from Linux 6.14 on; memory and disk are those of the machine.

    Args:
        root: becomes `/`.
        argv: the program and its arguments.
        epoch: SOURCE_DATE_EPOCH for the command, in seconds since 1970.
        purpose: completes "could not ...".
        binds: further visible paths. None is inside another, nor at, above or below `/dev`, `/proc` and
            `/sys`.
        env: additional variables.
        cwd: its working directory, inside.
        stdin: bytes for its standard input.
        timeout: seconds until it is killed with all its children.

    Raises:
        EngineError: this machine has no user namespaces, the command wrote more than `MOST_OUTPUT`, or a
            symbolic link leads a mount out of the root or to another.
        ProcessTimeoutError: the time ran out.
        ProcessFailedError: the command exited with another code than 0.
    """
    variables = {
        "PATH": PATH, "HOME": "/root", "SOURCE_DATE_EPOCH": str(epoch), **(env or {}),
    }  # fmt: skip
    for name in variables:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"not a variable name: {name!r}")
    if not argv or "=" in argv[0] or argv[0].startswith("-"):
        raise ValueError(f"not a program: {list(argv)!r}")
    mounts = [*root.binds, *binds]
    places = resolve_targets(root.folder, [bind.target for bind in mounts])
    sources = [str(bind.source.absolute()) for bind in mounts]
    writable = [bind.writable for bind in mounts]
    check_namespaces()
    inner = root.folder.absolute() / "tmp/root" if root.layered else root.folder.absolute()
    environment = {"PATH": PATH, "LC_ALL": "C"}
    job = {
        "parent": os.getpid(), "processes": _processes(),
        "filter": make_filter(os.uname().machine, durable=False).hex(),
        "root": str(inner), "setup": ["/bin/sh", "-c", _setup(), "sandbox", *_settings(root)],
        "environment": environment,
        "binds": list(zip(sources, places, writable, strict=True)),
        "command": [
            "/usr/bin/env", "-i", f"--chdir={cwd}",
            *(f"{name}={value}" for name, value in sorted(variables.items())), *argv,
        ],
    }  # fmt: skip
    return run(
        own_sealed_module("reprobuild.infra.sandbox.launch"), command=argv, env={**environment, "JOB": json.dumps(job)},
        purpose=purpose, stdin=stdin, timeout=timeout, most=MOST_OUTPUT, grace=GRACE_SECONDS,
    )  # fmt: skip


def _setup() -> str:
    return files("reprobuild.infra.sandbox").joinpath("setup.sh").read_text()


def _settings(root: Root) -> list[str]:
    """Return the arguments of `setup.sh`."""
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    has_pid_max = match is not None and (int(match[1]), int(match[2])) >= _OWN_PID_MAX
    layered = "yes" if root.layered else "no"
    return [str(root.folder.absolute()), HOSTNAME, layered, str(_processes() if has_pid_max else 0)]


def _processes() -> int:
    """Return the maximum number of processes of the command.

    It is `PROCESSES`, or fewer if the caller may have fewer.
    """
    import resource  # not on Windows

    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    return PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)
