"""The tree digest: everything visible in a container, as sha256.

The digest is taken over lines, each JSON without spaces, non-ASCII escaped, ended by `\\n`:

1. for every path of the merged tree, sorted by path, the root first as "":
   `[path, type, mode, uid, gid, target, xattrs, content, device]` with type one of file, directory, symlink,
   char, block, fifo; mode the lower 12 bits, 511 (0777) for every symlink; target the text of a symlink,
   else ""; xattrs sorted pairs [name, hex value]; content the sha256 (hex) of a file, else ""; device
   [major, minor] of char and block, else [0, 0]. A hard link is a file with its target's mode, owner,
   attributes and content, so a builder that copies gives the same line. A parent directory that no layer
   writes is root's and 0755; so is the root. Bytes of a path that are not UTF-8 are the surrogates of
   PEP 383.
2. one object with sorted keys: Cmd, Entrypoint, Env (sorted), ExposedPorts (sorted), StopSignal, User,
   Volumes (sorted), WorkingDir; an absent value is [] or "", and WorkingDir is "/". An Env with a name
   twice is sorted by names alone, and the values of a name keep their order. Healthcheck is in it if it
   starts a program: engines run it in the container.

Times are not in it (all are the epoch), nor the sizes of directories, nor the division into layers. Labels
are not, because no program in the container sees them and builders add their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from reprobuild.image.layering.merge import Tree as Tree
from reprobuild.image.layering.merge import merge as merge
from reprobuild.image.layering.order import DAMAGED as DAMAGED
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.recipe.runtime_config import RuntimeConfig

_ENCODER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=True)


def tree_digest(tree: Mapping[str, TarEntry], config: RuntimeConfig) -> str:
    """Return the tree digest as "sha256:" and hex.

    Args:
        tree: the result of `merge`.
        config: the runtime part of the image configuration.
    """
    digest = hashlib.sha256()
    for path in sorted(tree):
        digest.update(_entry_line(tree[path]))
    digest.update(_encode_json(config.digest_part()))
    return f"sha256:{digest.hexdigest()}"


def find_differing_paths(first: Tree, second: Tree) -> list[str]:
    """Return the paths at which two trees differ, sorted.

    The root is "".
    """
    return sorted(
        path
        for path in {*first, *second}
        if path not in first or path not in second or _entry_line(first[path]) != _entry_line(second[path])
    )


# The same bytes as `_encode_json` for plain paths, in half the time: ASCII without quotes, backslashes or controls.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_FAST = msgspec.json.Encoder()


def _entry_line(entry: TarEntry) -> bytes:
    if entry.type == "file" and not entry.xattrs and _PLAIN.fullmatch(entry.path):
        line = (entry.path, "file", entry.mode, entry.uid, entry.gid, "", (), entry.sha256, (0, 0))
        return _FAST.encode(line) + b"\n"
    device = entry.device if entry.type in ("char", "block") else (0, 0)
    owner = (entry.uid, entry.gid)
    target = entry.target if entry.type == "symlink" else ""
    content = entry.sha256 if entry.type == "file" else ""
    return _encode_json(
        [entry.path, entry.type, entry.mode, *owner, target, sorted(entry.xattrs), content, device]
    )


def _encode_json(value: Any) -> bytes:
    return _ENCODER.encode(value).encode() + b"\n"
