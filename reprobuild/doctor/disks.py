"""The directories that are written to, and their file systems."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from reprobuild.doctor.model import Disk
from reprobuild.engines import apptainer_cache, builtin_images, docker, docker_images, podman
from reprobuild.errors import EngineError
from reprobuild.infra.cache_directory import find_cache_directory


def default_directories(env: Mapping[str, str], store: Path, results: Path) -> dict[str, Path]:
    """Return our directories by role, including those of engines without a store of their own.

    Docker and podman report theirs: see `engine_directories`.
    """
    cache = find_cache_directory(env) or Path("/")
    return {
        "store": store,
        "temporary": Path(env.get("TMPDIR") or (tempfile.gettempdir() if os.name == "nt" else "/tmp")),
        "results": results,
        "builtin": cache / builtin_images.FOLDER,
        "apptainer": cache / apptainer_cache.FOLDER,
    }


def engine_directories(answering: Collection[str], env: Mapping[str, str]) -> dict[str, Path]:
    """Return the image directories of Docker and podman, by name.

    An unknown directory, or one on another machine, is left out.

    Args:
        answering: the names of engines that answer.
        env: the user's environment.
    """
    directories: dict[str, Path] = {}
    with contextlib.suppress(EngineError):
        if docker.NAME in answering and env.get("DOCKER_HOST", "unix:").startswith("unix:"):
            # A daemon behind a socket may be in another container, or around this one: then none of its
            # directories exists here.
            places = [Path(place) for place in docker_images.find_image_directories(env) if place]
            if place := next(filter(_exists, places), None):
                directories[docker.NAME] = place
    with contextlib.suppress(EngineError):
        if podman.NAME in answering and (directory := podman.find_image_directory(env)):
            directories[podman.NAME] = Path(directory)
    return directories


def inspect_disks(folders: Mapping[str, Path], root: Path) -> tuple[Disk, ...]:
    """Return the disk of each directory.

    For a missing directory it is that of its nearest existing parent.

    Args:
        folders: by their role.
        root: the parent of /proc.
    """
    kinds = _read_mounts(root)
    disks = []
    for role, folder in folders.items():
        place = next((path for path in (folder, *folder.absolute().parents) if _exists(path)), Path("/"))
        try:
            free = shutil.disk_usage(place).free
            flags = os.statvfs(place).f_flag if hasattr(os, "statvfs") else 0  # not on Windows
        except OSError:
            continue
        values: dict[str, Any] = {
            "role": role, "path": str(folder), "free": free,
            "kind": _file_system_kind(place, kinds), "noexec": bool(flags & getattr(os, "ST_NOEXEC", 0)),
            "readonly": bool(flags & getattr(os, "ST_RDONLY", 0)), "writable": os.access(place, os.W_OK | os.X_OK),
        }  # fmt: skip
        disks.append(Disk(**values))
    return tuple(disks)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # below a directory that may not be entered
        return False


def _read_mounts(root: Path) -> dict[str, str]:
    """Return {mount point: file system} of proc_pid_mountinfo(5).

    A later mount hides an earlier one.
    """
    try:
        lines = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    kinds = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) >= 5 and after:
            place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields[4])
            kinds[place] = after.split()[0]
    return kinds


def _file_system_kind(place: Path, kinds: Mapping[str, str]) -> str:
    real = place.resolve()
    return next((kinds[str(path)] for path in (real, *real.parents) if str(path) in kinds), "")
