"""Circumstances that must not matter, and programs under them."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from proof import clock

ROOT = Path(__file__).parent.parent
USER = 12345
MEMORY = Path("/dev/shm")
_DISK = 12 << 30  # bytes; the file takes only those in use
# As an ordinary user, who may read what only root can reach: the interpreter of this very program may lie there.
AS_USER = (
    "setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
# The first of each is the plain one. "store" is the start of the build: only the fetched files, or all results of an
# earlier build.
LEVELS: dict[str, tuple[Any, ...]] = {
    "days later": (0, 40, 400),
    "time zone": ("UTC", "Asia/Kathmandu", "America/St_Johns"),
    "locale": ("C.UTF-8", "C", "de_DE.UTF-8"),
    "umask": ("022", "077", "000"),
    "user": ("root", "ordinary"),
    "path": ("short", "with spaces, ümlauts and " + "a-long-name-" * 8),
    "processors": ("all", 1),
    "disk": ("disk", "memory"),
    "store": ("fresh", "fresh", "used"),
    "host name": ("one", "another.example"),
    "hash seed": ("random", "0", "1"),
}
# Only the ablation works there: a file system with blocks of 1 KiB, by which gdbm lays out its files.
SMALL_BLOCKS = "small blocks"
PLAIN = {name: levels[0] for name, levels in LEVELS.items()}
FAR = {name: levels[-1] for name, levels in LEVELS.items()} | {
    "store": "fresh", "umask": "077", "disk": SMALL_BLOCKS,
}  # fmt: skip


def scratch(levels: Mapping[str, Any], work: Path, name: str) -> Path:
    """Return the directory of a build, on disk or in memory.

    Two experiments with other directories do not meet there.
    """
    if levels["disk"] == "disk":
        return work / name
    return MEMORY / f"proof-{hashlib.sha256(bytes(work)).hexdigest()[:8]}-{name}"


@contextlib.contextmanager
def workplace(levels: Mapping[str, Any], work: Path, name: str) -> Iterator[Path]:
    """Give an empty directory on the circumstances' file system.

    It is gone afterwards.
    """
    if levels["disk"] != SMALL_BLOCKS:
        top = scratch(levels, work, name)
        shutil.rmtree(top, ignore_errors=True)
        yield top
        shutil.rmtree(top, ignore_errors=True)
        return
    disk, mounted = work / f"{name}.ext4", work / f"{name}-small-blocks"
    mounted.mkdir(exist_ok=True)
    with disk.open("wb") as stream:
        stream.truncate(_DISK)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-b", "1024", "-O", "^has_journal", str(disk)], check=True)
        subprocess.run(["mount", "-o", "loop", str(disk), str(mounted)], check=True)
        try:
            yield mounted / name
        finally:
            subprocess.run(["umount", str(mounted)], check=True)
    finally:
        disk.unlink()


def prefix(levels: Mapping[str, Any], library: Path) -> list[str]:
    """Return a command's prefix to run it under the circumstances.

    Args:
        levels: one of each factor.
        library: libfaketime.
    """
    found = ["taskset", "--cpu-list", "0"] if levels["processors"] == 1 else []
    found += ["unshare", "--uts", "--", "sh", "-c", 'hostname "$0" && exec "$@"', levels["host name"]]
    found += AS_USER if levels["user"] == "ordinary" else ()
    if levels["days later"]:  # from here on: the programs before have another user
        found += ["env", *(f"{k}={v}" for k, v in clock.variables(library, levels["days later"]).items())]
    return found


def environment(levels: Mapping[str, Any], tools: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the variables of a command.

    `tools` are those with which its programs are found.
    """
    env = {
        **tools, "TZ": levels["time zone"], "LC_ALL": levels["locale"], "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
    }  # fmt: skip
    env.pop("PYTHONHASHSEED", None)
    if levels["hash seed"] != "random":
        env["PYTHONHASHSEED"] = levels["hash seed"]
    return env


def module(levels: Mapping[str, Any]) -> str:
    """Return the module of reprobuild's command line.

    With another clock, its sandboxes have that clock too.
    """
    return "proof.disturbed" if levels["days later"] else "reprobuild.cli"
