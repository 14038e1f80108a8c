"""A captured folder, read: every line becomes a value or a remark, nothing is guessed, no secret is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import apt, captured, environ, freeze, modules, patches, text
from reprobuild.snapshot.model import Remark, Snapshot
from reprobuild.snapshot.repositories import Captured

__all__ = ["read_snapshot"]

_Parser = Callable[[bytes, str], tuple[tuple[Any, ...], tuple[Remark, ...]]]

# file name, field of Snapshot, parser
_KINDS: tuple[tuple[str, str, _Parser], ...] = (
    ("requirements.txt", "requirements", freeze.parse),
    ("apt-packages.txt", "packages", apt.parse),
    ("env.txt", "variables", environ.parse),
    ("modules.txt", "modules", modules.parse),
    ("*.diff", "patches", patches.parse),
)
# Ours or for people: neither is a captured line.
_BESIDE = re.compile(r"reprobuild\.yaml|(?i:readme.*)|.*\.bundle|capture\.json|env\.nul")
# Of `reprobuild capture` and its recipe: what no image can be made of is shown, and does not count as unknown.
_ASIDE = re.compile(r"(?P<changes>.*\.patch)|.*\.untracked")
_RECIPE = "take one with the recipe in README.md, or name the folder that holds env.txt and requirements.txt"


def read_snapshot(folder: Path) -> Snapshot:
    """Return all that a captured folder holds.

    Args:
        folder: what the chapter's recipe wrote.

    Raises:
        SnapshotError: there is no such folder or nothing captured in it, or a file in it is damaged,
            contradicts itself, leads out of the folder, or is a patch with a secret.
    """
    files = _files(folder)
    found: dict[str, list[Any]] = {field: [] for _, field, _ in _KINDS}
    remarks: list[Remark] = []
    absent = {kind for kind, _, _ in _KINDS}
    for path in files:
        shown = text.escaped(path.name)
        kind = "*.diff" if path.name.endswith(".diff") else path.name
        known = next((row for row in _KINDS if row[0] == kind), None)
        if known is not None:
            values, notes = known[2](_bytes(path, folder), shown)
            found[known[1]] += values
            remarks += notes
            absent.discard(kind)
        elif aside := _ASIDE.fullmatch(path.name):
            what = "the changes of a repository" if aside["changes"] else "names of untracked files"
            remarks.append(text.remark(shown, 1, "", f"{what}, for people: not read"))
        elif not _BESIDE.fullmatch(path.name):
            what = "a folder: not read" if path.is_dir() else "a file of no known kind: not read"
            remarks.append(text.remark(shown, 1, "", what, understood=False))
    if len(absent) == len(_KINDS) and not any(path.name == captured.FILE for path in files):
        inside = _elsewhere(folder)
        raise SnapshotError(
            f"nothing captured in `{text.escaped(str(folder))}`",
            hint=f"did you mean `{text.escaped(str(inside))}`?" if inside else _RECIPE,
        )
    snapshot = Snapshot(
        digest="",
        captured=_captured(folder),
        remarks=tuple(remarks),
        absent=tuple(kind for kind, _, _ in _KINDS if kind in absent),
        **{field: tuple(values) for field, values in found.items()},
    )
    return replace(snapshot, digest=_digest(snapshot))


def _digest(snapshot: Snapshot) -> str:
    """Return the snapshot's digest: secrets have been dropped by now, so it tells nothing about them."""
    content = msgspec.to_builtins(snapshot)
    if snapshot.captured is None:  # what there was before captures keeps its digest
        del content["captured"]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def _captured(folder: Path) -> Captured | None:
    path = folder / captured.FILE
    return captured.parse(_bytes(path, folder), captured.FILE) if path.is_symlink() or path.exists() else None


def _files(folder: Path) -> list[Path]:
    shown = text.escaped(str(folder))
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        raise SnapshotError(f"there is no folder `{shown}`", hint=_RECIPE) from None
    except NotADirectoryError:
        raise SnapshotError(f"`{shown}` is a file", hint="name the folder that it stands in") from None
    except OSError as err:
        raise SnapshotError(f"`{shown}` cannot be read: {err.strerror}", hint="check who owns it") from None
    if not files:
        raise SnapshotError(f"`{shown}` is empty", hint=_RECIPE)
    return files


def _bytes(path: Path, folder: Path) -> bytes:
    """Return the content of one captured file; only a regular file of this folder is opened."""
    shown = text.escaped(path.name)
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise SnapshotError(
                f"`{shown}` is a link that leaves the folder", hint="put the file itself into the folder"
            )
        if not path.is_file():
            raise SnapshotError(
                f"`{shown}` is not a regular file", hint="put the captured text there, or remove it"
            )
        text.check_size(path.stat().st_size, shown)
        return path.read_bytes()
    except (OSError, RuntimeError) as err:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(err, "strerror", None) or "a loop of links"
        raise SnapshotError(
            f"`{shown}` cannot be read: {reason}", hint="check who owns it, and what it links to"
        ) from None


def _elsewhere(folder: Path) -> Path | None:
    """Return the only folder inside this one that holds a captured file, if there is one."""
    names = [kind for kind, _, _ in _KINDS]
    inside = [
        d for d in sorted(folder.iterdir()) if d.is_dir() and any(p for name in names for p in d.glob(name))
    ]
    return inside[0] if len(inside) == 1 else None
