"""A task as a job for the launcher of the built-in engine."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.engines.builtin_images import UnpackedImage
from reprobuild.engines.cdi import Edits, find_edits
from reprobuild.engines.limits import limits_of_caller, may_raise, task_limits
from reprobuild.engines.model import DEFAULT_NETWORK, Task, identity_variables
from reprobuild.errors import EngineError
from reprobuild.infra.sandbox.filter import make_filter

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SET_ID = 6, 7  # CAP_SETGID, CAP_SETUID
_USER = re.compile(r"(\d{1,10})(?::(\d{1,10}))?")
_LARGEST_ID = (1 << 31) - 1  # as in Docker; 4294967295 means no change (setresuid(2))
_LARGEST = 1 << 20  # bytes of /etc/passwd


def make_job(
    image: UnpackedImage, layers: Sequence[Path], task: Task, scratch: Path, env: Mapping[str, str]
) -> dict[str, Any]:
    """Return the job of `infra.sandbox.container` for a task.

    Args:
        image: the image.
        layers: the directories of its layers, lowest first; empty if `scratch/root` is a copy of its tree.
        task: the task to run.
        scratch: a directory for the container's changes; it has `root` and `outputs`.
        env: the user's environment.

    Raises:
        EngineError: this engine cannot do what the task asks.
    """
    check_network(task)
    edits = find_edits(task.gpus)
    uid, gid = _find_user(task.user or image.user, layers)
    many = has_rights_to_map()
    isolated = task.network == "none"
    return {
        "parent": os.getpid(), "report": str(scratch / "report"), "terminal": task.terminal,
        "filter": make_filter(os.uname().machine).hex(), "isolated": isolated,
        "hostname": container_hostname(scratch) if isolated else "",
        "limits": [(limit.name, limit.soft, limit.hard) for limit in _limits(task)],
        "maps": _maps(uid, gid, many=many), "user": (uid, gid, _groups(task, edits)),
        "folder": str(layers[0].parent) if layers else "", "layers": [path.name for path in reversed(layers)],
        "scratch": str(scratch), "root": str(scratch / "root"), "shared_memory": task.shared_memory,
        "devices": [(node.host_path or node.path, node.path) for node in edits.device_nodes],
        "binds": _binds(task, edits, scratch, isolated=isolated),
        "hooks": [_hook(hook) for hook in edits.hooks], "bundle": str(scratch),
        "environ": _environment(image, task, edits), "cwd": task.workdir or image.workdir,
        "command": _command(image, task),
    }  # fmt: skip


def container_hostname(scratch: Path) -> str:
    """Return the host name of a container without network, which no other container has."""
    return scratch.name[:12]


def check_network(task: Task) -> None:
    """Refuse a network or port that this engine cannot make.

    It has no network of its own besides `none`: the command sees that of the machine.

    Raises:
        EngineError: it is another network, or a port of another number.
    """
    if task.network not in ("none", "host", DEFAULT_NETWORK):
        raise EngineError(
            f"the built-in engine has no network {task.network!r}",
            hint="take --network host or none, or choose another engine with --engine",
        )
    for port in task.ports:
        if port.host != port.inside:
            raise EngineError(
                f"the built-in engine cannot publish port {port.inside} as {port.host}",
                hint=f"let the server listen on port {port.host} itself, or choose another engine with --engine",
            )


def has_rights_to_map() -> bool:
    """Return whether this process may map all users of its namespace (user_namespaces(7))."""
    if os.geteuid():
        return False
    status = Path("/proc/self/status").read_text().splitlines()
    capabilities = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    return all(capabilities >> number & 1 for number in SET_ID)


def _maps(uid: int, gid: int, *, many: bool) -> dict[str, Any]:
    """Return the maps of users: all of the caller's namespace to themselves, or one to the caller."""
    if not many:
        return {"many": False, "uids": f"{uid} {os.geteuid()} 1", "gids": f"{gid} {os.getegid()} 1"}
    rows = {name: Path(f"/proc/self/{name}_map").read_text().split("\n") for name in ("uid", "gid")}
    maps = {
        f"{name}s": "\n".join(
            f"{first} {first} {count}" for first, _, count in map(str.split, filter(None, lines))
        )
        for name, lines in rows.items()
    }
    return {"many": True, **maps}


def _find_user(user: str, layers: Sequence[Path]) -> tuple[int, int]:
    """Return the numbers of a user of the image or of `Task.user`."""
    if user in ("", "caller"):
        return 0, 0  # root in the container is the caller
    if match := _USER.fullmatch(user):
        return _check_numbers(match)
    name, _, group = user.partition(":")
    for path in [layer for layer in reversed(layers) if os.path.lexists(layer / "etc/passwd")][:1]:
        for line in _read_passwd(path):
            fields = line.split(":")
            is_user = len(fields) > 3 and fields[0] == name and not group
            if is_user and (match := _USER.fullmatch(f"{fields[2]}:{fields[3]}")):
                return _check_numbers(match)
    raise EngineError(
        f"the image's user {ascii(user)[:100]} has no number in its /etc/passwd",
        hint="name it by number with --user UID:GID",
    )


def _check_numbers(match: re.Match[str]) -> tuple[int, int]:
    """Return the numbers of a user and a group; the kernel takes larger ones for others.

    Raises:
        EngineError: one is too large.
    """
    uid, gid = int(match[1]), int(match[2] or 0)
    if max(uid, gid) > _LARGEST_ID:
        raise EngineError(
            f"{match[0]} is no user of Linux: a number is at most {_LARGEST_ID}",
            hint="name it by number with --user UID:GID",
        )
    return uid, gid


def _read_passwd(layer: Path) -> list[str]:
    """Return the lines of a layer's /etc/passwd; no link is followed."""
    try:
        top = os.open(layer, os.O_RDONLY | os.O_DIRECTORY)
        try:
            above = os.open("etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        finally:
            os.close(top)
        try:
            opened = os.open("passwd", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=above)
        finally:
            os.close(above)
        with os.fdopen(opened, "rb") as stream:
            if not stat.S_ISREG(os.fstat(opened).st_mode):
                return []
            return stream.read(_LARGEST).decode(errors="replace").splitlines()
    except OSError:
        return []


def _groups(task: Task, edits: Edits) -> list[int]:
    return sorted(set(edits.additional_gids))


def _limits(task: Task) -> list[Any]:
    return task_limits(task) if may_raise() else limits_of_caller(task)


def _binds(task: Task, edits: Edits, scratch: Path, *, isolated: bool) -> list[tuple[str, str, bool]]:
    """Return (source, place, writable), in an order in which no mount hides another."""
    names = ("hosts", "hostname") if isolated else ("hosts", "hostname", "resolv.conf")
    binds = [(str(scratch / name), f"/etc/{name}", True) for name in names if (scratch / name).exists()]
    binds += [(mount.host_path, mount.container_path, "ro" not in mount.options) for mount in edits.mounts]
    binds += [(host, inside, inside not in task.read_only) for host, inside in task.volumes]
    if task.outputs:
        binds.append((str(scratch / "outputs"), task.outputs, True))
    for source, place, _ in binds:
        if not Path(source).exists():
            raise EngineError(
                f"{source} does not exist, and cannot be mounted at {place}",
                hint="make it, or leave the mount out",
            )
    return sorted(binds, key=lambda bind: bind[1].rstrip("/").count("/"))


def _hook(hook: Any) -> dict[str, Any]:
    if hook.hook_name != "createContainer":
        raise EngineError(
            f"the description of a GPU has a hook {hook.hook_name!r}, which the built-in engine does not run",
            hint="choose another engine with --engine",
        )
    variables = dict(line.partition("=")[::2] for line in hook.env)
    return {**msgspec.to_builtins(hook), "env": {"PATH": PATH, **variables}}


def _environment(image: UnpackedImage, task: Task, edits: Edits) -> dict[str, str]:
    lines = (*image.env, *edits.env)
    declared = dict(line.partition("=")[::2] for line in lines)
    user = "" if task.user == "caller" else task.user
    terminal = {"TERM": "xterm"} if task.terminal else {}
    return {
        "PATH": PATH,
        "HOME": "/root",
        **terminal,
        **declared,
        **identity_variables(user),
        **task.environment,
    }


def _command(image: UnpackedImage, task: Task) -> list[str]:
    if task.bypass:
        return list(task.arguments)
    command = [*image.entrypoint, *(task.arguments or image.cmd)]
    if not command:
        raise EngineError("the image has no command", hint="name one after `--`")
    return command
