"""Runs a command in a root folder without network, as the machine's root or as any user.

Namespaces do it, through util-linux' `unshare`. Root and other users take the same path (a user namespace
in which the caller is 0 and nobody else exists), so both get the same result. When the command ends, fails
or is killed, its processes and mounts are gone with the namespaces.
"""

from __future__ import annotations

import re
import resource
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild.errors import BuildError, EngineError
from reprobuild.proc import Failed, run

HOSTNAME = "reprobuild"
PROCESSES = 4096
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_HINT = (
    "user namespaces must be allowed: on Debian and Ubuntu look at the settings "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns and "
    "user.max_user_namespaces; in a container, start it with `--security-opt seccomp=unconfined`, or run "
    "`reprobuild` outside"
)
_ODD = "a package or source that does so is hostile, or broken; leave it out"
_NAMESPACES = (
    "--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
)  # fmt: skip
_MOUNT_POINTS = ("/dev", "/proc", "/sys", "/run", "/tmp")

# $1 root, $2 host name, $3 whether to layer, $4 number of binds, then SOURCE TARGET ro|rw for each, then what
# `env -i` gets.
# The root is moved over `/` and the right to mount is dropped, so nothing of the host can be reached again.
# Settings of the kernel belong to the machine's root, who is also root inside: they are mounted read-only, as
# container engines do it (https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#readonly-paths).
# `mount -n` keeps its hands off the host's /run/mount. A mount from outside keeps flags that a user
# namespace may not clear, hence the attempts at `ro`.
_SETUP = r"""
set -eu
umask 022
root=$1 name=$2 layered=$3 binds=$4
shift 4
hostname "$name"
cd -- "$root"
if [ "$layered" = yes ]; then
    mount -n -t tmpfs -o mode=0700 tmpfs tmp
    mkdir tmp/written tmp/work tmp/root
    mount -n -t overlay -o lowerdir=.,upperdir=tmp/written,workdir=tmp/work overlay tmp/root
    root=$root/tmp/root
else
    mount -n --rbind -- "$root" "$root"
fi
cd -- "$root"
mkdir -p dev proc sys run tmp
mount -n -t tmpfs -o mode=0755,size=1m tmpfs dev
for node in null zero full random urandom tty; do
    : > "dev/$node"
    mount -n --bind "/dev/$node" "dev/$node"
done
mkdir dev/shm dev/pts
mount -n -t tmpfs -o mode=1777 tmpfs dev/shm
mount -n -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
mount -n -t proc proc proc 2>/dev/null || mount -n --rbind /proc proc
for name in sys sysrq-trigger irq bus fs acpi scsi; do
    if [ -e "proc/$name" ]; then
        mount -n --rbind "proc/$name" "proc/$name"
        for flags in ro ro,nosuid,nodev,noexec last; do
            if [ "$flags" = last ]; then
                echo "/proc/$name cannot be mounted read-only" >&2
                exit 1
            fi
            if mount -n -o "remount,bind,$flags" "proc/$name" 2>/dev/null; then break; fi
        done
    fi
done
mount -n -t tmpfs -o mode=1777 tmpfs tmp
mount -n -t tmpfs -o mode=0755 tmpfs run
while [ "$binds" -gt 0 ]; do
    if [ -d "$1" ]; then
        mkdir -p -- "./$2"
    else
        mkdir -p -- "$(dirname -- "./$2")"
        [ -e "./$2" ] || : > "./$2"
    fi
    mount -n --rbind -- "$1" "./$2"
    if [ "$3" = ro ]; then
        for flags in ro ro,nosuid ro,nodev ro,nosuid,nodev ro,nosuid,nodev,noexec last; do
            if [ "$flags" = last ]; then
                echo "$1 cannot be mounted read-only" >&2
                exit 1
            fi
            if mount -n -o "remount,bind,$flags" -- "./$2" 2>/dev/null; then break; fi
        done
    fi
    shift 3
    binds=$((binds - 1))
done
mount -n --move . /
exec setpriv --inh-caps=-all --bounding-set=-sys_admin chroot . /usr/bin/env -i "$@"
"""


class Bind(Struct, frozen=True, kw_only=True):
    """A file or folder of the host that the command sees at `target` (absolute), read-only by default."""

    source: Path
    target: str
    writable: bool = False


class Root(Struct, frozen=True, kw_only=True):
    """A folder with a system in it; it must have /usr/bin/env.

    Where it is `layered` (see `can_layer`), what the command writes is lost with it and the folder stays as
    it is. Else it is written to, and gets the mount points and the places of binds that it lacks. Every command
    in it sees its `binds`.
    """

    folder: Path
    layered: bool = False
    binds: tuple[Bind, ...] = ()


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
    """Run a command with a folder as its root, and return its standard output.

    There is no network, not even the loopback. The command is user and group 0, and no other owner
    exists. `/dev` is minimal, `/proc` its own, `/tmp` and `/run` are empty and vanish. Its umask is 022 and
    its environment is constant but for `env`. It may have `PROCESSES` processes, which the kernel does not hold
    against the machine's root; memory and disk are those of the machine.

    Args:
        root: what becomes `/`.
        argv: the program and its arguments.
        epoch: SOURCE_DATE_EPOCH for the command.
        purpose: completes "could not ...".
        binds: what else it sees, mounted in this order.
        env: additional variables.
        cwd: its working directory, inside.
        stdin: bytes for its standard input.
        timeout: seconds until it is killed with all its children.

    Raises:
        EngineError: this machine has no user namespaces, the time ran out, or a symbolic link leads a
            mount out of the root.
        Failed: the command exited with another code than 0.
    """
    variables = {
        "PATH": PATH, "HOME": "/root", "SOURCE_DATE_EPOCH": str(epoch), **(env or {}),
    }  # fmt: skip
    for name in variables:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"not a variable name: {name!r}")
    if not argv or "=" in argv[0] or argv[0].startswith("-"):
        raise ValueError(f"not a program: {list(argv)!r}")
    mounts: list[str] = []
    seen = (*root.binds, *binds)
    for bind in seen:
        _check_place(root.folder, bind.target)
        mounts += [str(bind.source.absolute()), bind.target, "rw" if bind.writable else "ro"]
    for place in _MOUNT_POINTS:
        _check_place(root.folder, place)
    check_namespaces()
    return run(
        [
            "unshare", *_NAMESPACES, "--", "prlimit", f"--nproc={_processes()}", "sh", "-c", _SETUP, "sandbox",
            str(root.folder.absolute()), HOSTNAME, "yes" if root.layered else "no", str(len(seen)), *mounts,
            f"--chdir={cwd}", *(f"{name}={value}" for name, value in sorted(variables.items())), *argv,
        ],
        env={"PATH": PATH, "LC_ALL": "C"}, purpose=purpose, stdin=stdin, timeout=timeout,
        hint="install util-linux",
    )  # fmt: skip


def _processes() -> int:
    """Return how many processes the command may have: `PROCESSES`, or fewer where the caller may have fewer."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    return PROCESSES if most == resource.RLIM_INFINITY else min(most, PROCESSES)


def left_behind(path: Path, program: str) -> Path:
    """Return a file that a command left in a writable bind, to be read outside of the sandbox.

    Args:
        path: where it must stand; the folder above must be one that the command could not replace.
        program: what ran, for the error.

    Raises:
        BuildError: it is absent, or a link or device, which would be followed or waited for outside.
    """
    try:
        kind = path.lstat().st_mode
    except OSError as err:
        raise BuildError(f"{program} left no {path.name}: {err.strerror}", hint=_ODD) from None
    if not stat.S_ISREG(kind):
        raise BuildError(f"{program} left {path.name} as something else than a file", hint=_ODD)
    return path


def _check_place(root: Path, target: str) -> None:
    """Refuse a place that is not below the root, be it by its name or by a symbolic link on the way."""
    if not target.startswith("/") or ".." in target.split("/"):
        raise ValueError(f"not an absolute path inside: {target!r}")
    if not (root / target.lstrip("/")).resolve().is_relative_to(root.resolve()):
        raise EngineError(
            f"{target} is a symbolic link out of the root {root}",
            hint="leave out the package that made it, or unpack the root again",
        )


def check_namespaces() -> None:
    """Check that this machine lets the caller make namespaces.

    Raises:
        EngineError: it does not; the hint names the settings.
    """
    try:
        run(
            ["unshare", *_NAMESPACES, "--", "true"], env={"PATH": PATH, "LC_ALL": "C"},
            purpose="isolate a command from the network", hint="install util-linux",
        )  # fmt: skip
    except Failed as err:
        raise EngineError(
            f"this machine does not let the user make namespaces: {err.stderr.strip()}", hint=_HINT
        ) from None


_TRY = """
set -eu
mount -n -t tmpfs tmpfs /tmp
cd /tmp
mkdir lower upper work merged
mount -n -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged
: > merged/written
"""


def can_layer() -> bool:
    """Tell whether a user namespace may mount an overlay here: Linux 5.11 or newer, if nothing forbids it."""
    try:
        run(
            ["unshare", *_NAMESPACES, "--", "sh", "-c", _TRY], env={"PATH": PATH, "LC_ALL": "C"},
            purpose="try an overlay", hint="install util-linux",
        )  # fmt: skip
    except Failed:
        return False
    return True
