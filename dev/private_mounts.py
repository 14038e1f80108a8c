"""Mounts in a private mount namespace, invisible to the machine."""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from private_apt import OWN_ENGINE, EngineError

CLONE_NEWNS = 0x00020000
MS_REC, MS_SLAVE, MS_SHARED = 0x4000, 0x80000, 0x100000
MNT_DETACH = 2


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(kind: str, target: str, flags: int = 0, options: str = "") -> None:
    names = (kind.encode(), target.encode(), kind.encode(), flags, options.encode())
    checked(libc().mount(*names), f"mount {kind} at {target}")


def unmount(target: str) -> None:
    checked(libc().umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def enter_mount_namespace() -> None:
    """Continue in a private mount namespace.

    Mounts of the machine come in; mounts made here stay inside.
    """
    if os.geteuid() != 0:
        raise EngineError(
            "no Docker engine answers, and a private one needs root", f"be root, or {OWN_ENGINE}"
        )
    try:
        checked(libc().unshare(CLONE_NEWNS), "unshare")
        mount("none", "/", MS_REC | MS_SLAVE)
        mount("none", "/", MS_REC | MS_SHARED)
    except OSError as error:
        raise EngineError(
            f"no private mount namespace: {error}", f"be the real root, or {OWN_ENGINE}"
        ) from error


def mount_cgroups() -> None:
    """Mount the control groups if they are missing (a chroot).

    The machine does not see the mount.
    """
    if any(Path("/sys/fs/cgroup").glob("*")):
        return
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        groups = [line.split(":")[1] for line in lines]
        if not Path("/sys/fs/cgroup").is_dir():
            mount("sysfs", "/sys")
        if groups == [""]:
            mount("cgroup2", "/sys/fs/cgroup")
            return
        mount("tmpfs", "/sys/fs/cgroup", options="mode=755")
        for group in groups:
            target = Path("/sys/fs/cgroup", group.removeprefix("name=") or "unified")
            target.mkdir()
            mount("cgroup" if group else "cgroup2", str(target), options=group)
    except OSError as error:
        raise EngineError(
            f"no control groups: {error}",
            f"mount /proc, /sys and /sys/fs/cgroup as a started Debian has them, or {OWN_ENGINE}",
        ) from error


def try_overlay(folder: Path) -> None:
    """Mount an overlay on trial in the directory of the images.

    A clear error now is better than a riddle later.
    """
    trial = folder / "overlay-trial"
    for name in ("lower", "upper", "work", "merged"):
        (trial / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
    try:
        mount("overlay", str(trial / "merged"), options=options)
        unmount(str(trial / "merged"))
    except OSError as error:
        raise EngineError(
            f"the kernel cannot make an overlay in {folder}: {error}",
            "`modprobe overlay`, or --folder on a disk that is no overlay, with no comma or colon",
        ) from error
    finally:
        shutil.rmtree(trial, ignore_errors=True)


@contextlib.contextmanager
def hidden(path: Path) -> Iterator[None]:
    """Lay an empty file system over a directory.

    The daemon writes to it under any configuration.

    The directory has to exist.  One that had to be made carries the time stamp 0, and only such a one is removed.
    Removing it would take the mount away from the engine of another checkout, so each engine holds a shared lock on it,
    and only the last one removes it.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o711, parents=True)
        os.utime(path, (0, 0))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        mount("tmpfs", str(path), options="mode=711")
        try:
            yield
        finally:
            unmount(str(path))
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.stat().st_mtime == 0:
                    path.rmdir()
    finally:
        os.close(descriptor)


def remove_cgroups(name: str) -> None:
    """Remove the daemon's emptied control groups, children first."""
    for top in (*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


def mounts_under(folder: Path) -> list[str]:
    """Return the mount points in a directory, innermost first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    octal = re.compile(r"\\([0-7]{3})")
    points = [octal.sub(lambda m: chr(int(m.group(1), 8)), line.split()[4]) for line in lines]
    return sorted((p for p in points if p.startswith(f"{folder}/")), key=len, reverse=True)
