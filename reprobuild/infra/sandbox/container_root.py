"""The root of a container: the image's layers, the kernel's files, devices and volumes.

Process 1 of `container.py` makes it, with all rights in its own namespaces, from an untrusted tree. So each mount point
is opened from the root step by step: a symbolic link of the tree is followed inside the root, and cannot lead a mount
to the machine's files. `/proc` and `/sys` are masked as container engines do it (`maskedPaths` of
https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from typing import Any

from reprobuild.infra.sandbox.launch import (
    LIBC,
    MS_BIND,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    check,
)

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
KERNEL = MS_NOSUID | MS_NODEV | MS_NOEXEC
_SETATTR, _RECURSIVE, _EMPTY_PATH, _READ_ONLY, _NO_DEVICES = 442, 0x8000, 0x1000, 1, 4  # mount_setattr(2)
MOST_LINKS = 40
NODES = ("null", "zero", "full", "random", "urandom", "tty")
LINKS = {
    "ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2", "core": "/proc/kcore",
}  # fmt: skip
MASKED = (
    *(f"/proc/{name}" for name in (
        "acpi", "asound", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup",
        "kpagecount", "kpageflags", "latency_stats", "modules", "sched_debug", "scsi", "slabinfo", "timer_list",
        "timer_stats", "vmallocinfo",
    )),
    "/sys/devices/virtual/powercap", "/sys/firmware", "/sys/fs/bpf", "/sys/fs/pstore", "/sys/kernel/debug",
    "/sys/kernel/security", "/sys/kernel/tracing",
)  # fmt: skip


class MountAttributes(ctypes.Structure):
    """`struct mount_attr` of linux/mount.h."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "users"))


def make_root(job: dict[str, Any]) -> None:
    """Mount everything that the command sees at the directory `root` of a job."""
    root = job["root"]
    if job["layers"]:
        mount_layers(job)
    else:  # a copy of its own
        mount_at("mount the root", root, root, None, MS_BIND | MS_REC)
    top = os.open(root, os.O_PATH | os.O_DIRECTORY)
    make_devices(top, job["shared_memory"])
    mount_in(top, "/proc", "proc", "proc", KERNEL)
    mount_sys(top)
    for path in MASKED:
        mask(top, path)
    # Its files and device nodes are the machine's: no mode or time of theirs can be changed.
    limit_mount(top, "/proc", _READ_ONLY)
    for source, place in job["devices"]:
        bind_in(top, source, place, read_only=True)
    for source, place, writable in job["binds"]:
        bind_in(top, source, place, read_only=not writable, devices=False)
    os.close(top)


def mount_layers(job: dict[str, Any]) -> None:
    """Mount the layers with a writable directory above them.

    The names of layers are relative, since the kernel takes one page of options. Where the scratch directory cannot be
    the upper one, as inside another overlay, the memory takes the changes.
    """
    os.chdir(job["folder"])
    lower = ":".join(job["layers"])
    for attempt in ("disk", "memory"):
        scratch = job["scratch"]
        if attempt == "memory":
            scratch += "/memory"
            os.mkdir(job["scratch"] + "/memory")
            mount_at("mount memory for changes", "tmpfs", scratch, "tmpfs", MS_NOSUID | MS_NODEV)
        for name in ("upper", "work"):
            os.makedirs(f"{scratch}/{name}", exist_ok=True)
        os.chmod(f"{scratch}/upper", 0o755)
        # Relative, too: a comma or a colon in the path of the cache would end an option.
        place = os.path.relpath(scratch, job["folder"])
        options = f"lowerdir={lower},upperdir={place}/upper,workdir={place}/work,userxattr"
        try:
            mount_at("mount the layers", "overlay", job["root"], "overlay", MS_NODEV, options)
            return
        except OSError as err:
            if attempt == "memory" or err.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise


def make_devices(top: int, shared_memory: int) -> None:
    """Mount a minimal /dev."""
    mount_in(top, "/dev", "tmpfs", "tmpfs", MS_NOSUID, "mode=0755,size=64m")
    for name in NODES:
        bind_in(top, f"/dev/{name}", f"/dev/{name}", read_only=True)
    mount_in(
        top, "/dev/pts", "devpts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"
    )
    mount_in(top, "/dev/shm", "shm", "tmpfs", KERNEL, f"mode=1777,size={shared_memory}")
    with contextlib.suppress(OSError):  # a kernel may lack POSIX message queues
        mount_in(top, "/dev/mqueue", "mqueue", "mqueue", KERNEL)
    above = open_place(top, "/dev", folder=True)
    for name, target in LINKS.items():
        os.symlink(target, name, dir_fd=above)
    os.close(above)


def mount_sys(top: int) -> None:
    """Mount /sys read-only: one of this network, else the machine's."""
    os.close(open_place(top, "/sys", folder=True, links=0))
    try:
        mount_in(top, "/sys", "sysfs", "sysfs", KERNEL | MS_RDONLY)
        bind_in(top, "/sys/fs/cgroup", "/sys/fs/cgroup", read_only=True)
    except OSError:
        bind_in(top, "/sys", "/sys", read_only=True)


def mask(top: int, path: str) -> None:
    """Hide a file or directory of the kernel."""
    place = find_place(top, path)
    if place is None:
        return
    is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
    os.close(place)
    if is_folder:
        mount_in(top, path, "tmpfs", "tmpfs", KERNEL | MS_RDONLY, "size=0,nr_inodes=2")
    else:
        bind_in(top, "/dev/null", path)


def limit_mount(top: int, path: str, attributes: int, *, folder: bool = True) -> None:
    """Set attributes of a mount of the root, and of those below it."""
    mounted = open_place(top, path, folder=folder)
    try:
        set_attributes(mounted, attributes, f"limit the mount {path}")
    finally:
        os.close(mounted)


def bind_in(top: int, source: str, place: str, *, read_only: bool = False, devices: bool = True) -> None:
    """Show a file or directory of the machine at a place in the root; without `devices`, its nodes cannot be opened."""
    point = open_place(top, place, folder=os.path.isdir(source))
    try:
        mount_at(f"mount {source} at {place}", source, f"/proc/self/fd/{point}", None, MS_BIND | MS_REC)
    finally:
        os.close(point)
    if read_only or not devices:
        limit_mount(
            top, place, _READ_ONLY * read_only | _NO_DEVICES * (not devices), folder=os.path.isdir(source)
        )


def set_attributes(mounted: int, wanted_flags: int, purpose: str) -> None:
    """Set attributes of a mount and of those below it; before Linux 5.12, of it alone."""
    attributes = MountAttributes(set=wanted_flags)
    flags = _EMPTY_PATH | _RECURSIVE
    if LIBC.syscall(_SETATTR, mounted, b"", flags, ctypes.byref(attributes), ctypes.sizeof(attributes)) == 0:
        return
    if ctypes.get_errno() != errno.ENOSYS:
        check(purpose, -1)
    added = (MS_RDONLY if wanted_flags & _READ_ONLY else 0) | (MS_NODEV if wanted_flags & _NO_DEVICES else 0)
    flags = os.fstatvfs(mounted).f_flag & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)
    mount_at(purpose, "", f"/proc/self/fd/{mounted}", None, MS_REMOUNT | MS_BIND | added | flags)


def mount_in(top: int, place: str, source: str, kind: str, flags: int, options: str = "") -> None:
    """Mount a file system at a place in the root, in whose path no link may be."""
    point = open_place(top, place, folder=True, links=0)
    try:
        mount_at(f"mount {place}", source, f"/proc/self/fd/{point}", kind, flags, options)
    finally:
        os.close(point)


def mount_at(purpose: str, source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Call mount(2)."""
    check(
        purpose,
        LIBC.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind and kind.encode(),
            flags,
            os.fsencode(options) or None,
        ),
    )


def find_place(top: int, path: str) -> int | None:
    """Open an existing path below the root without following links, or return None."""
    above = os.dup(top)
    for step in path.strip("/").split("/"):
        try:
            inner = os.open(step, os.O_PATH | os.O_NOFOLLOW, dir_fd=above)
        except OSError:
            return None
        finally:
            os.close(above)
        above = inner
    return above


def open_place(top: int, path: str, *, folder: bool, links: int = MOST_LINKS) -> int:
    """Open a mount point below the root; make what is missing of it.

    A link is followed as inside the root: an absolute one begins at the root, and `..` does not leave it.

    Args:
        top: a descriptor of the root.
        path: absolute, inside.
        folder: the last step is a directory, else a file.
        links: the most that are followed.
    """
    steps, opened = list(reversed(path.split("/"))), [os.dup(top)]
    try:
        while steps:
            step = steps.pop()
            if step in ("", "."):
                continue
            if step == "..":
                if len(opened) > 1:
                    os.close(opened.pop())
                continue
            is_last = not any(steps)
            kind = _kind_of(step, opened[-1], path, folder=folder or not is_last)
            if stat.S_ISLNK(kind):
                links -= 1
                if links < 0:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), f"make the mount point {path}")
                target = os.readlink(step, dir_fd=opened[-1])
                if target.startswith("/"):
                    while len(opened) > 1:
                        os.close(opened.pop())
                steps += reversed(target.split("/"))
                continue
            if (not is_last or folder) and not stat.S_ISDIR(kind):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"make the mount point {path}")
            opened.append(os.open(step, os.O_PATH | os.O_NOFOLLOW, dir_fd=opened[-1]))
        place = opened.pop()
    finally:
        for descriptor in opened:
            os.close(descriptor)
    if stat.S_ISLNK(os.fstat(place).st_mode):
        os.close(place)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), f"make the mount point {path}")
    return place


def _kind_of(step: str, above: int, path: str, *, folder: bool) -> int:
    """Return the mode of a step in a directory; make a missing one."""
    try:
        return os.stat(step, dir_fd=above, follow_symlinks=False).st_mode
    except FileNotFoundError:
        pass
    try:
        if folder:
            os.mkdir(step, dir_fd=above)
        else:
            os.close(os.open(step, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, dir_fd=above))
    except OSError as err:
        raise OSError(err.errno, err.strerror, f"make the mount point {path}") from None
    return os.stat(step, dir_fd=above, follow_symlinks=False).st_mode
