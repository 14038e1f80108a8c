"""The bundle of a captured repository, checked against capture.json.

Its header must be exactly as stated there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.git_packs import check_pack
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.snapshot.capture_model import CapturedRepository, GitBundle
from reprobuild.snapshot.parsers.capture_json import DAMAGED
from reprobuild_portable.hashing import hash_stream

# https://git-scm.com/docs/gitformat-bundle
_MAGIC = b"# v"
_HEADERS = {"sha1": b"# v2 git bundle\n", "sha256": b"# v3 git bundle\n@object-format=sha256\n"}
_ID_SIZES = {"sha1": 20, "sha256": 32}

# A capture has budgets of some hundred megabytes; git takes the pack from memory.
LARGEST = 4 << 30
_SMALL = 4 << 20  # bytes that are hashed in some milliseconds: a snapshot may have a thousand bundles


def damage_error(repository: CapturedRepository, reason: str) -> SnapshotError:
    """Return the error for a damaged captured repository."""
    return SnapshotError(f"the captured repository {repository.name}: {escape_text(reason)}", hint=DAMAGED)


def read_pack(repository: CapturedRepository, folder: Path) -> bytes:
    """Return the pack of a repository's bundle, or b"".

    It is empty if a remote had all objects.

    Args:
        folder: the snapshot.

    Raises:
        SnapshotError: no bundle could be written, or it is not the one that capture.json describes.
    """
    bundle, path = repository.bundle, _locate_bundle(repository, folder)
    if bundle is None or path is None:
        return b""
    prerequisites = b"".join(f"-{oid}\n".encode() for oid in repository.prerequisites)
    refs = b"".join(f"{oid} refs/reprobuild/{ref}\n".encode() for ref, oid in sorted(bundle.refs.items()))
    header = _HEADERS[repository.object_format] + prerequisites + refs + b"\n"
    with open_plain(path, links=False)[0] as stream:
        data = _read_checked(repository, bundle, stream)
    if not data.startswith(header + b"PACK"):
        raise damage_error(
            repository, f"{bundle.file} holds other refs or prerequisites than capture.json says"
        )
    if repository.head is not None and bundle.refs.get("head") != repository.head:
        raise damage_error(repository, f"{bundle.file} holds another HEAD than capture.json says")
    pack = data[len(header) :]
    try:
        check_pack(pack, _ID_SIZES[repository.object_format])
    except ValueError as err:
        raise damage_error(repository, f"{bundle.file}: {err}") from None
    return pack


def check_bundle(repository: CapturedRepository, folder: Path) -> None:
    """Refuse a bundle that is missing, or that is small and has another hash than capture.json says.

    Args:
        folder: the snapshot.

    Raises:
        SnapshotError: as `read_pack` does.
    """
    bundle, path = repository.bundle, _locate_bundle(repository, folder)
    if bundle is None or path is None:
        return
    with open_plain(path, links=False)[0] as stream:
        if os.fstat(stream.fileno()).st_size <= _SMALL:
            _check_stream(repository, bundle, stream)


def _locate_bundle(repository: CapturedRepository, folder: Path) -> Path | None:
    """Return the path of a repository's bundle; None if it needs no bundle."""
    bundle = repository.bundle
    if bundle is None:
        return None
    if bundle.file is None:
        raise SnapshotError(
            f"the changes of {repository.name} were not captured ({escape_text(bundle.reason)})",
            hint="capture it again; `capture.json` says which budget was too small",
        )
    path = folder / bundle.file
    if path.is_symlink() or not path.is_file():
        raise damage_error(repository, f"{bundle.file} is missing or no file")
    return path


def _read_checked(repository: CapturedRepository, bundle: GitBundle, stream: IO[bytes]) -> bytes:
    """Return the content of the bundle that capture.json describes.

    Another bundle is not read into memory.
    """
    size = _check_stream(repository, bundle, stream)
    return stream.read(size)


def _check_stream(repository: CapturedRepository, bundle: GitBundle, stream: IO[bytes]) -> int:
    """Refuse another bundle than the one that capture.json describes, and return its size in bytes."""
    size = os.fstat(stream.fileno()).st_size
    if size > LARGEST:
        raise damage_error(repository, f"{bundle.file} has {size} bytes, and at most {LARGEST} are read")
    is_bundle = stream.read(len(_MAGIC)) == _MAGIC
    stream.seek(0)
    if not is_bundle or hash_stream(stream) != bundle.sha256:
        raise damage_error(repository, f"{bundle.file} is not the file that was written")
    stream.seek(0)
    return size
