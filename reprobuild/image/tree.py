"""The tree digest: what a program in the container can see, as one sha256.

The digest is taken over lines, each JSON without spaces, non-ASCII escaped, ended by `\\n`:

1. for every path of the merged tree, sorted by path, the root first as "":
   `[path, type, mode, uid, gid, target, xattrs, content, device]` with type one of file, directory, symlink,
   char, block, fifo; mode the lower 12 bits, 511 (0777) for every symlink; target the text of a symlink,
   else ""; xattrs sorted pairs [name, hex value]; content the sha256 (hex) of a file, else ""; device
   [major, minor] of char and block, else [0, 0]. A hard link is a file with its target's mode, owner,
   attributes and content, so a builder that copies gives the same line. A directory that no layer writes but
   that stands above a path is root's and 0755; so is the root. Bytes of a path that are not UTF-8 are the
   surrogates of PEP 383.
2. one object with sorted keys: Cmd, Entrypoint, Env (sorted), ExposedPorts (sorted), StopSignal, User,
   Volumes (sorted), WorkingDir; what is absent is [] or "", and WorkingDir is "/".

Times are not in it (all are the epoch), nor the sizes of directories, nor how files are split into layers.
Labels are not, because no program in the container sees them and builders add their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from reprobuild.archive import Entry
from reprobuild.errors import BuildError

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
DAMAGED = "the layer is damaged, or its builder broke the image specification; build the image again"

Tree = dict[str, Entry]
_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def merge(listings: Iterable[Iterable[Entry]], below: Tree | None = None) -> Tree:
    """Return {path: entry} of layers put over each other, sorted by path; hard links are files.

    `below` is the tree, merged before, that the layers stand on.

    The rules are those of the OCI image specification, "Applying Changesets": the later entry wins,
    directories merge, a whiteout removes what lower layers have. Our own layers hold no whiteouts; images
    of other builders may.

    Raises:
        BuildError: a hard link's target is not there, or a path is below what is not a directory.
    """
    tree = dict(below or {"": Entry(path="", type="directory", mode=0o755)})
    for listing in listings:
        entries = list(listing)
        for entry in entries:
            name = entry.path.rpartition("/")[2]
            if name.startswith(WHITEOUT):
                _remove(tree, entry.path, name)
        for entry in entries:
            if entry.path.rpartition("/")[2].startswith(WHITEOUT):
                continue
            former = tree.get(entry.path)
            if former is not None and former.type == "directory" and entry.type != "directory":
                _remove_below(tree, entry.path)
            _make_parents(tree, entry.path)
            tree[entry.path] = _resolved(tree, entry)
    return dict(sorted(tree.items()))


def _make_parents(tree: Tree, path: str) -> None:
    above = path.rpartition("/")[0]
    while above not in tree:
        tree[above] = Entry(path=above, type="directory", mode=0o755)
        above = above.rpartition("/")[0]
    if tree[above].type != "directory":
        raise BuildError(f"a layer writes below /{above}, which is a {tree[above].type}", hint=DAMAGED)


def _resolved(tree: Tree, entry: Entry) -> Entry:
    """Return the entry as the digest sees it."""
    if entry.type == "symlink":
        return msgspec.structs.replace(entry, mode=0o777)
    if entry.type != "hardlink":
        return entry
    target = tree.get(entry.target)
    if target is None or target.type == "directory":
        raise BuildError(f"/{entry.path} is a hard link to /{entry.target}, which is no file", hint=DAMAGED)
    return msgspec.structs.replace(target, path=entry.path)


def _remove(tree: Tree, path: str, name: str) -> None:
    folder = path[: -len(name)].rstrip("/")
    if name == OPAQUE:
        _remove_below(tree, folder)
    else:
        victim = f"{folder}/{name[len(WHITEOUT) :]}".lstrip("/")
        tree.pop(victim, None)
        _remove_below(tree, victim)


def _remove_below(tree: Tree, folder: str) -> None:
    start = f"{folder}/" if folder else ""
    for path in [path for path in tree if path and path.startswith(start)]:
        del tree[path]


def tree_digest(tree: Mapping[str, Entry], config: Mapping[str, Any]) -> str:
    """Return the tree digest as "sha256:" and hex.

    Args:
        tree: what `merge` returned.
        config: the `config` object of the image configuration.
    """
    digest = hashlib.sha256()
    for path in sorted(tree):
        digest.update(_line(tree[path]))
    digest.update(_json(runtime_part(config)))
    return f"sha256:{digest.hexdigest()}"


def differing(one: Tree, other: Tree) -> list[str]:
    """Return the paths at which two trees differ, sorted, the root as ""."""
    return sorted(
        path
        for path in {*one, *other}
        if path not in one or path not in other or _line(one[path]) != _line(other[path])
    )


def runtime_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of an image configuration that decides what runs and how, in one form."""
    return {
        "Cmd": list(config.get("Cmd") or ()),
        "Entrypoint": list(config.get("Entrypoint") or ()),
        "Env": sorted(config.get("Env") or ()),
        "ExposedPorts": sorted(config.get("ExposedPorts") or ()),
        "StopSignal": config.get("StopSignal") or "",
        "User": config.get("User") or "",
        "Volumes": sorted(config.get("Volumes") or ()),
        "WorkingDir": config.get("WorkingDir") or "/",
    }


# The same bytes as `_json` for what is plain, in half the time: ASCII without quotes, backslashes or controls.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_FAST = msgspec.json.Encoder()


def _line(entry: Entry) -> bytes:
    if entry.type == "file" and not entry.xattrs and _PLAIN.fullmatch(entry.path):
        line = (entry.path, "file", entry.mode, entry.uid, entry.gid, "", (), entry.sha256, (0, 0))
        return _FAST.encode(line) + b"\n"
    device = entry.device if entry.type in ("char", "block") else (0, 0)
    owner = (entry.uid, entry.gid)
    target = entry.target if entry.type == "symlink" else ""
    content = entry.sha256 if entry.type == "file" else ""
    return _json([entry.path, entry.type, entry.mode, *owner, target, sorted(entry.xattrs), content, device])


def _json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode() + b"\n"
