"""The directory of a project to build.

It is a source tree, or the contents of a source archive.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted.names import HOSTILE, check_target
from reprobuild.infra.untrusted.sdists import SdistMember, read_sdist
from reprobuild.infra.untrusted.write_below import open_below, symlink_below
from reprobuild.lock.python import Sdist, Source
from reprobuild.lock.system import EPOCH
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.store import Store


def project_path(project: Source | Sdist) -> str:
    """Return the path of a project during its build.

    A source has its path in the image.
    """
    return project.path if isinstance(project, Source) else f"/usr/src/{canonicalize_name(project.name)}"


def project_directory(project: Source | Sdist) -> str:
    """Return the project's own directory in the sandbox."""
    inside = project.subdirectory if isinstance(project, Source) else ""
    return "/".join(part for part in (project_path(project), inside) if part)


def build_epoch(project: Source | Sdist) -> int:
    """Return the time given to a build.

    It is that of the project's own commit, so that a commit of another source does not change it.
    """
    return max(project.epoch, EPOCH) if isinstance(project, Source) else EPOCH


def unpack_project(project: Source | Sdist, store: Store, folder: Path) -> None:
    """Unpack a project into an empty directory.

    Every file gets the same time, so that no file looks out of date.

    Raises:
        BuildError: an archive is malicious or damaged, or holds no project.
    """
    path = store.verified(project.file.sha256, project.file.filename)
    if isinstance(project, Source):
        unpack_root(path, folder)
    else:
        _unpack_sdist(project, path, folder)
    for above, _, names in os.walk(folder):
        for name in names:
            os.utime(Path(above) / name, (build_epoch(project),) * 2, follow_symlinks=False)


def _unpack_sdist(project: Sdist, path: Path, folder: Path) -> None:
    origin = project.file.filename
    links: dict[str, str] = {}
    for member in read_sdist(path, origin, project.subdirectory):
        if member.target is not None:
            check_target(member.target, member.path, origin)
            links[member.path] = member.target
        else:
            with _convert_errors(member.path, origin):
                _write(folder, member, 0o755 if member.executable else 0o644)
    for name, target in links.items():  # links come last, so that no file is written through one
        with _convert_errors(name, origin):
            symlink_below(target, folder, name, mode=0o755)


def _write(folder: Path, member: SdistMember, mode: int) -> None:
    with open_below(folder, member.path, mode=0o755) as stream, member.open() as content:
        shutil.copyfileobj(content, stream, CHUNK)
        os.fchmod(stream.fileno(), mode)


@contextlib.contextmanager
def _convert_errors(name: str, origin: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as err:
        raise BuildError(
            f"{origin} holds {name!r}, which cannot be unpacked: {err.strerror}", hint=HOSTILE
        ) from None
