"""A program run in a root directory of its own.

The machine's directories are in it.

    python3 -I -S dev/private_root.py [--user N] ROOT PROGRAM ARGUMENT...

The program sees the system of ROOT (`/usr`, `/etc`, `/lib`, `/var`) and, at their own places, everything else that the
machine has at the top: the directories of people and projects, `/tmp`, `/var/tmp`, `/dev`, `/proc`, `/sys`. It keeps
this process's number, so a signal reaches it, and its mounts end with it.

It runs in a user namespace with the same numbers of users (without privileges: with one's own alone), because root's
rights there are whole even where the machine's own root has lost some, as in many containers and virtual machines.  A
chroot will not do: no further user namespace can be made in it.  `--user` gives these rights up and leaves those of a
user with that number.

It uses the standard library and no module of this directory: it runs at every start of the program.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_BIND, MS_REC = 0x1000, 0x4000
MNT_DETACH = 2
# Of the root directory; everything else at the top is the machine's.
OWN = {"usr", "bin", "sbin", "etc", "var", "run", "boot", "lost+found"}
# The machine's own /dev/fuse may be root's alone.
FUSE = "var/lib/fuse"
HIGHEST = 1 << 20

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def bind(source: str, target: str) -> None:
    checked(
        libc.mount(source.encode(), target.encode(), None, MS_BIND | MS_REC, None),
        f"bind {source} at {target}",
    )


def same_numbers(table: str) -> str:
    """Return a map that leaves each user number as it is.

    It is made from this process's own map, `table`.

    It does not map all numbers: by a map of all, programs notice that they are not in a user namespace, and expect
    rights that only the machine's root has.
    """
    rows = (map(int, line.split()) for line in table.splitlines())
    kept = ((inside, min(count, HIGHEST - inside)) for inside, _, count in rows if inside < HIGHEST)
    return "".join(f"{inside} {inside} {count}\n" for inside, count in kept)


def namespace_maps() -> dict[str, str]:
    """Return the content of each map file of /proc/PID.

    Root keeps every number, another user its own ones.
    """
    if os.geteuid() == 0:
        return {name: same_numbers(Path("/proc/self", name).read_text()) for name in ("uid_map", "gid_map")}
    user, group = os.geteuid(), os.getegid()
    return {"setgroups": "deny", "uid_map": f"{user} {user} 1\n", "gid_map": f"{group} {group} 1\n"}


def enter_namespaces() -> None:
    """Enter a user and a mount namespace.

    A second process writes the maps, since only one outside may.
    """
    maps = namespace_maps()
    pid = os.getpid()
    ready, go = os.pipe()
    writer = os.fork()
    if writer == 0:
        try:
            os.close(go)
            os.read(ready, 1)
            for name, content in maps.items():
                Path("/proc", str(pid), name).write_text(content)
            os._exit(0)
        except BaseException as error:
            os.write(2, f"private_root: {error}\n".encode())
            os._exit(1)
    os.close(ready)
    checked(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "make a user namespace")
    os.close(go)
    if os.waitpid(writer, 0)[1] != 0:
        raise OSError("the user namespace has no users")


def shared(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the directories that the program shares with the machine.

    Each is (place on the machine, place in the root).
    """
    for entry in sorted(os.scandir("/"), key=lambda entry: entry.name):
        name = entry.name
        if entry.is_dir(follow_symlinks=False) and name not in OWN and not name.startswith("lib"):
            yield f"/{name}", str(root / name)
    yield "/var/tmp", str(root / "var/tmp")


def change_root(root: Path) -> None:
    bind(str(root), str(root))
    for source, target in shared(root):
        Path(target).mkdir(parents=True, exist_ok=True)
        bind(source, target)
    if (root / FUSE).exists():
        bind(str(root / FUSE), str(root / "dev/fuse"))
    os.chdir(root)
    checked(libc.pivot_root(b".", b"."), f"make {root} the root")
    checked(libc.umount2(b".", MNT_DETACH), "leave the machine's root")


def main(argv: Sequence[str]) -> NoReturn:
    user = 0
    if argv[:1] == ["--user"]:
        user, argv = int(argv[1]), argv[2:]
    root, program, *arguments = argv
    folder = Path.cwd()
    enter_namespaces()
    change_root(Path(root).resolve())
    try:
        os.chdir(folder)
    except OSError:
        os.chdir("/")
    if user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.execve(program, [program, *arguments], {**os.environ, "PATH": path})


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except OSError as failure:
        print(f"private_root: {failure}", file=sys.stderr)
        sys.exit(125)
