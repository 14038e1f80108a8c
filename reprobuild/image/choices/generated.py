"""The identity of code that a compiler generated."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from reprobuild.infra.untrusted.regular_files import open_within

_LARGEST = 16 << 20  # bytes; a larger file is known by its own hash
# Inductor names each constant in a comment that ends with its address. With frozen parameters it generates the code in
# each process, and so under another name (torch 2.13, `_inductor/codegen/wrapper.py`).
_ADDRESS = re.compile(rb"(?m)^(\w+ = None  # device\(.*\)) -?[0-9a-f]+$")


def identify_code(folder: Path, hashes: Mapping[str, str]) -> dict[str, str]:
    """Return a hash of each file of generated code by its path, without the addresses in Inductor's comments.

    Args:
        folder: a directory that a container wrote.
        hashes: the sha256 of each file, by its path.
    """
    return {path: _identify(folder, path, sha256) for path, sha256 in hashes.items()}


def _identify(folder: Path, path: str, sha256: str) -> str:
    if not path.endswith(".py"):
        return sha256
    stream, size = open_within(folder, path)
    with stream:
        content = stream.read(_LARGEST) if size <= _LARGEST else b""
    plain = _ADDRESS.sub(rb"\1", content)
    return sha256 if plain == content else hashlib.sha256(plain).hexdigest()


def find_new_code(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of changed files, and of new ones whose code no former file has."""
    known = frozenset(before.values())
    return tuple(
        path
        for path, code in after.items()
        if (before[path] != code if path in before else code not in known)
    )
