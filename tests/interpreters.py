"""Archives of the layout of standalone builds of Python, made of the Python that runs the tests."""

from __future__ import annotations

import io
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

VERSION = platform.python_version()
MINOR = ".".join(VERSION.split(".")[:2])
PROGRAM = Path(sys.base_prefix, "bin", f"python{MINOR}")
LIBRARY = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
# Folders of the standard library without which everything here runs, and which are most of its modules.
LEFT_OUT = {
    "__pycache__", "test", "tests", "idlelib", "lib2to3", "tkinter", "turtledemo", "ensurepip", "pydoc_data", "asyncio",
    "distutils", "unittest", "site-packages", "dist-packages", "multiprocessing", "xml", "wsgiref", "curses", "sqlite3",
    f"config-{MINOR}-{platform.machine()}-linux-gnu",
}  # fmt: skip


def make_build(path: Path, *, more: Mapping[str, bytes] | None = None, only: Sequence[str] = ()) -> Path:
    """Write a build: `python/bin/python3`, `python/bin/pythonX.Y` and `python/lib/pythonX.Y`.

    Args:
        path: where the archive goes.
        more: other files by their path in the archive.
        only: folders of the standard library that are taken; empty for all but those that are `LEFT_OUT`.
    """

    def wanted(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        folder = info.name.removeprefix(f"python/lib/python{MINOR}/").split("/")
        if LEFT_OUT & set(folder) or (only and info.isdir() and len(folder) == 1 and folder[0] not in only):
            return None
        return info

    with tarfile.open(path, "w:gz", compresslevel=1, dereference=True) as tar:
        tar.add(PROGRAM, f"python/bin/python{MINOR}")
        link = tarfile.TarInfo("python/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, f"python{MINOR}"
        tar.addfile(link)
        for child in sorted(LIBRARY.iterdir()):
            tar.add(child, f"python/lib/python{MINOR}/{child.name}", filter=wanted)
        for name, content in (more or {}).items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o644
            tar.addfile(info, io.BytesIO(content))
    return path


def small_root(folder: Path) -> Path:
    """Make a root folder that holds no more than what the build of `make_build` needs to start in a sandbox."""
    env = Path("/usr/bin/env")
    said = subprocess.run(["ldd", env, PROGRAM], check=True, capture_output=True, text=True).stdout
    for path in {env, *(Path(name) for name in re.findall(r"(/\S+) \(0x", said))}:
        place = folder / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return folder
