"""The reader of `capture.json`, with checks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_error, escape_text
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.json_documents import refuse_repeated_keys
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.snapshot.capture_document import CaptureDocument
from reprobuild.snapshot.capture_model import CapturedPython, CapturedRepository, CaptureFacts, Command

FILE = "capture.json"
NEWEST = 1  # version of capture.json that is understood
DAMAGED = "the snapshot is damaged or made to harm: take it again, or get it from where it was taken"

_LIMIT = 64 << 20
MOST_REPOSITORIES = (
    4096  # each costs the capture several runs of git; large projects have some hundred submodules
)
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}


class _Version(Struct, frozen=True):
    capture: int


def load_capture(folder: Path) -> CaptureDocument:
    """Return the `capture.json` of a snapshot directory.

    Raises:
        SnapshotError: there is no capture.json (the snapshot was taken by a recipe), it is of a newer version, or it is
            damaged.
    """
    path = folder / FILE
    try:
        path = next((path for path in sorted(folder.iterdir()) if path.name.lower() == FILE), path)
        with open_plain(path, links=False)[0] as stream:
            return parse(stream.read(_LIMIT + 1), escape_text(str(path)))
    except OSError as err:
        raise SnapshotError(
            f"{escape_text(str(path))} cannot be read: {err.strerror}",
            hint="only snapshots of `reprobuild capture` hold whole repositories",
        ) from None


def parse(data: bytes, shown: str = FILE) -> CaptureDocument:
    """Parse the bytes of a capture.json.

    `shown` is its name in messages.

    Raises:
        SnapshotError: as `load_capture`.
    """
    try:
        if len(data) > _LIMIT:
            raise msgspec.DecodeError(f"it has more than {_LIMIT} bytes")
        version = decode_json(data, _Version).capture
        if version > NEWEST:
            raise SnapshotError(
                f"{shown} is of version {version}, and this reprobuild reads {NEWEST}",
                hint="read it with the reprobuild that took it, or a newer one",
            )
        document = decode_json(data, CaptureDocument)
        refuse_repeated_keys(data)
        _check_parents(document.repositories)
        _check_files(document.repositories)
        return document
    except (msgspec.DecodeError, ValueError, RecursionError) as err:  # the last: nested brackets
        raise SnapshotError(f"{shown}: {display_error(err)}", hint=DAMAGED) from None


def select_facts(document: CaptureDocument) -> CaptureFacts:
    """Return the repositories and paths of a capture, which a snapshot's digest covers."""
    python, command = document.python, document.command
    return CaptureFacts(
        repositories=document.repositories,
        python=CapturedPython(prefix=python.prefix) if python else None,
        command=Command(folder=command.folder) if command else None,
        notes=document.notes,
        interpreter=document.interpreter,
    )


def _check_parents(repositories: Sequence[CapturedRepository]) -> None:
    """Refuse repositories with equal names, or inside of themselves."""
    if len(repositories) > MOST_REPOSITORIES:
        raise msgspec.DecodeError(f"it has more than {MOST_REPOSITORIES} repositories")
    parents = {repository.name: repository.parent for repository in repositories}
    if len(parents) != len(repositories):
        raise msgspec.DecodeError("two repositories have one name")
    settled: set[str | None] = {
        None
    }  # these are below repositories that were checked, so each is checked once
    for name in parents:
        chain: dict[str | None, None] = {}
        above: str | None = name
        while above not in settled:
            if above in chain or above not in parents:
                raise msgspec.DecodeError(f"the repository {name} lies in none that is there, or in itself")
            chain[above] = None
            above = parents[above]
        settled.update(chain)


def _check_files(repositories: Sequence[CapturedRepository]) -> None:
    """Refuse two repositories with one file: each has its own, and each consumer reads it."""
    files = [
        file
        for entry in repositories
        for file in (entry.diff.file, entry.bundle and entry.bundle.file)
        if file
    ]
    if len(set(files)) != len(files):
        raise msgspec.DecodeError("two repositories have one bundle or one diff")


def unquote_path(written: str) -> bytes:
    """Return the path that the capture's `quote` wrote, as bytes.

    The bytes are those that git knows.
    """
    if not (len(written) > 1 and written[0] == written[-1] == '"'):
        return written.encode("utf-8", "surrogateescape")

    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8) & 0xFF) if code[0].isdigit() else chr(_ESCAPES.get(code, ord(code)))

    return re.sub(r"\\([0-7]{3}|.)", one, written[1:-1], flags=re.DOTALL).encode("latin-1", "replace")
