"""The bundle of a captured repository, whose header must say exactly what capture.json says."""

from __future__ import annotations

import hashlib
from pathlib import Path

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.captured import DAMAGED
from reprobuild.snapshot.repositories import Repository
from reprobuild.snapshot.text import escaped

# https://git-scm.com/docs/gitformat-bundle
_HEADERS = {"sha1": b"# v2 git bundle\n", "sha256": b"# v3 git bundle\n@object-format=sha256\n"}


def damaged(one: Repository, what: str) -> SnapshotError:
    """Return the error for a captured repository that is not what a capture writes; the caller raises it."""
    return SnapshotError(f"the captured repository {one.name}: {escaped(what)}", hint=DAMAGED)


def read_pack(one: Repository, folder: Path) -> bytes:
    """Return the pack of a repository's bundle; empty where a remote had all there is.

    Args:
        folder: the snapshot.

    Raises:
        SnapshotError: no bundle could be written, or it is not the one that capture.json describes.
    """
    bundle = one.bundle
    if bundle is None:
        return b""
    if bundle.file is None:
        raise SnapshotError(
            f"the changes of {one.name} were not captured ({escaped(bundle.reason)})",
            hint="capture it again; `capture.json` says which budget was too small",
        )
    path = folder / bundle.file
    if path.is_symlink() or not path.is_file():
        raise damaged(one, f"{bundle.file} is missing or no file")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != bundle.sha256:
        raise damaged(one, f"{bundle.file} is not the file that was written")
    prerequisites = b"".join(f"-{oid}\n".encode() for oid in one.prerequisites)
    refs = b"".join(f"{oid} refs/reprobuild/{ref}\n".encode() for ref, oid in sorted(bundle.refs.items()))
    header = _HEADERS[one.object_format] + prerequisites + refs + b"\n"
    if not data.startswith(header + b"PACK"):
        raise damaged(one, f"{bundle.file} holds other refs or prerequisites than capture.json says")
    if one.head is not None and bundle.refs.get("head") != one.head:
        raise damaged(one, f"{bundle.file} holds another HEAD than capture.json says")
    return data[len(header) :]
