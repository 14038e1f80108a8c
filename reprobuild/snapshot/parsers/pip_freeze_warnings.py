"""What pip's own warnings beside a freeze say: distributions that it left out.

pip, metadata/base.py (`iter_all_distributions`) and metadata/importlib/_envs.py have the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.utils import canonicalize_name

from reprobuild.snapshot.model import Requirement

_SKIPPED = re.compile(
    r"WARNING: Skipping (?P<path>\S.*?)\.(?:dist|egg)-info due to invalid metadata entry '\w{1,40}'"
)
_IGNORED = re.compile(r"WARNING: Ignoring invalid distribution (?P<name>[-~]\S{1,200})(?: \(.*\))?")


def skipped(line: str) -> str | None:
    """Return why a distribution whose metadata is damaged is not in the freeze, None for another line."""
    match = _SKIPPED.fullmatch(line)
    if match is None:
        return None
    folder = re.split(r"[/\\]", match["path"])[-1]
    name, _, version = folder.partition("-")
    shown = f"{name} {version}".strip()
    return f"pip left {shown} out of the freeze: its metadata is damaged, and the image will not have it"


def leftover(line: str) -> str | None:
    """Return the name of the folder that pip ignored as a leftover of an interrupted installation."""
    match = _IGNORED.fullmatch(line)
    return match["name"] if match else None


def without_first_letters(requirements: Iterable[Requirement]) -> frozenset[str]:
    """Return the names of a freeze as `has_successor` takes them: pip changes the first letter (`~orch`)."""
    return frozenset(str(canonicalize_name(line.name))[1:] for line in requirements)


def has_successor(name: str, rests: frozenset[str]) -> bool:
    """Tell whether a freeze has the distribution of which a leftover is; `rests` lack their first letters."""
    return str(canonicalize_name(name[1:])) in rests
