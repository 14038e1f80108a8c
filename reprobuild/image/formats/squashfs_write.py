"""A writer of squashfs files, by `mksquashfs` from a tar.

The bytes depend on the tar and the program's version. https://github.com/plougher/squashfs-tools. Compressor,
level, times and the root's owner and mode are given; the number of processors, the clock, the user and
SOURCE_DATE_EPOCH (an error beside a given time) have no influence. The bytes of zstd depend on the version of
libzstd, so files of two machines are compared as trees.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from reprobuild.errors import EngineError
from reprobuild.infra import proc
from reprobuild.infra.tar.entries import TarEntry

PROGRAM = "mksquashfs"
OLDEST = (4, 5)  # the first that reads a tar
INSTALL = "install squashfs-tools 4.5 or newer (Debian 12 and Ubuntu 22.04 have it), or leave out --format"
# Before 4.6 the root of a squashfs made from a tar belongs to the user of the program, in spite of -root-uid.
ROOT_OWNER = (4, 6)
AS_ROOT = ("unshare", "--user", "--map-root-user", "--")
MEMORY = "256M"  # mksquashfs would take a quarter of the machine's

Compressor = Literal["zstd", "gzip"]
# zstd 3 is as small as gzip 9 and 15 times as fast; gzip is for kernels whose squashfs knows only that.
_OPTIONS: dict[Compressor, tuple[str, ...]] = {
    "zstd": ("-comp", "zstd", "-Xcompression-level", "3"),
    "gzip": ("-comp", "gzip", "-Xcompression-level", "1"),
}


def find_program(env: Mapping[str, str]) -> tuple[int, int]:
    """Return the version of `mksquashfs`, before any work.

    Raises:
        EngineError: it is missing or too old; with the program to install.
    """
    try:
        output = proc.run(
            [PROGRAM, "-version"], env=env, purpose="write a squashfs", timeout=60, hint=INSTALL
        )
    except proc.ProcessFailedError as err:  # 4.4 and older exit with 1, and print their version nevertheless
        output = err.stderr.encode()
    match = re.search(rb"version (\d+)\.(\d+)", output)
    if match is None:
        raise EngineError(f"`{PROGRAM}` does not say which version it is", hint=INSTALL)
    version = int(match[1]), int(match[2])
    if version < OLDEST:
        raise EngineError(f"`{PROGRAM}` is {version[0]}.{version[1]}, and cannot read a tar", hint=INSTALL)
    return version


def write_squashfs(
    pieces: Iterable[bytes], target: Path, *, root: TarEntry, epoch: int, env: Mapping[str, str], offset: int = 0,
    compressor: Compressor = "zstd",
) -> None:  # fmt: skip
    """Write a squashfs into a file, which grows as needed.

    Args:
        pieces: a tar without the root.
        target: its former content is lost; the bytes before `offset` become zeros.
        root: the owner and mode of the root.
        epoch: the only time in it, in seconds.
        env: the user's environment.
        offset: its start, in bytes; a multiple of 4096.

    Raises:
        EngineError: `mksquashfs` is absent or failed, for example without space; or it is older than 4.6 and
            cannot give the root its owner.
    """
    argv = [
        *(PROGRAM, "-", str(target.absolute()), "-tar", "-noappend", "-quiet", "-no-progress", "-mem", MEMORY),
        *("-offset", str(offset), "-all-time", str(epoch), "-mkfs-time", str(epoch), "-no-exports", "-xattrs"),
        *("-root-mode", f"{root.mode:o}", "-root-uid", str(root.uid), "-root-gid", str(root.gid)),
        *_OPTIONS[compressor],
    ]  # fmt: skip
    hint = "see above what mksquashfs says; nothing was left behind"
    if find_program(env) < ROOT_OWNER:
        if root.uid or root.gid:
            raise EngineError(
                f"the image's / belongs to {root.uid}:{root.gid}, which `{PROGRAM}` cannot write before 4.6",
                hint="install squashfs-tools 4.6 or newer, or give / to root in the image",
            )
        if os.geteuid():
            argv = [*AS_ROOT, *argv]
            hint = "mksquashfs before 4.6 needs a user namespace where the user is not root: install 4.6 or newer"
    child = {name: value for name, value in env.items() if name != "SOURCE_DATE_EPOCH"}
    try:
        proc.feed(argv, pieces, env=child, purpose=f"write {target.name}", hint=INSTALL)
    except proc.ProcessFailedError as err:
        raise EngineError(str(err), hint=hint) from None
