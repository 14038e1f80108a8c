"""squashfs-tools for the tests: the machine's, or Debian's unpacked into a directory of the session."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.image.layering.merge import Tree, merge
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar

ROOT = Path(__file__).parent.parent
PROGRAMS = ("mksquashfs", "unsquashfs", "sqfs2tar")
PACKAGES = (
    "squashfs-tools", "squashfs-tools-ng", "libsquashfs1", "liblzo2-2", "liblz4-1", "libzstd1", "liblzma5", "zlib1g",
)  # fmt: skip


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Give a temporary directory that every user can enter; pytest keeps its own to itself."""
    with tempfile.TemporaryDirectory(prefix="reprobuild-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def squashfs_tools(folder: Path) -> dict[str, str]:
    """Return an environment on whose PATH `mksquashfs`, `unsquashfs` and `sqfs2tar` are."""
    env = dict(os.environ)
    if all(shutil.which(program) for program in PROGRAMS):
        return env
    unpacked, bin_folder = folder / "unpacked", folder / "bin"
    argv = [sys.executable, ROOT / "dev" / "private_engine.py", "unpack", unpacked, *PACKAGES]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    libraries = ":".join(sorted({str(path.parent) for path in unpacked.rglob("lib*.so*")}))
    bin_folder.mkdir()
    for program in PROGRAMS:
        script = bin_folder / program
        script.write_text(
            f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {unpacked}/usr/bin/{program} "$@"\n',
            encoding="utf-8",
        )
        script.chmod(0o755)
    return {**env, "PATH": f"{bin_folder}:{env['PATH']}"}


def squashfs_tree(path: Path, env: Mapping[str, str], offset: int = 0) -> Tree:
    """Return what is in a squashfs, as a program of other authors reads it."""
    part = path.with_suffix(".part")
    with path.open("rb") as source, part.open("wb") as target:
        source.seek(offset)
        shutil.copyfileobj(source, target, 1 << 20)
    try:
        argv = ["sqfs2tar", "--root-becomes", ".", "--no-skip", str(part)]
        with subprocess.Popen(argv, env=dict(env), stdout=subprocess.PIPE) as child:
            assert child.stdout
            listing: list[TarEntry] = list(list_tar(child.stdout))
        assert child.returncode == 0
    finally:
        part.unlink()
    return merge([listing])
