"""pip's warnings beside a freeze.

They name distributions that pip left out.

pip, metadata/base.py (`iter_all_distributions`) and metadata/importlib/_envs.py have the texts.
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


def describe_skipped_distribution(line: str) -> str | None:
    """Return why a damaged distribution is not in the freeze.

    Return None for another line.
    """
    match = _SKIPPED.fullmatch(line)
    if match is None:
        return None
    folder = re.split(r"[/\\]", match["path"])[-1]
    name, _, version = folder.partition("-")
    shown = f"{name} {version}".strip()
    return f"pip left {shown} out of the freeze: its metadata is damaged, and the image will not have it"


def parse_leftover_name(line: str) -> str | None:
    """Return the name of a leftover directory that pip ignored.

    It is left of an interrupted installation.
    """
    match = _IGNORED.fullmatch(line)
    return match["name"] if match else None


def strip_first_letters(requirements: Iterable[Requirement]) -> frozenset[str]:
    """Return the names of a freeze without their first letters.

    pip changes the first letter of a leftover (`~orch`).
    """
    return frozenset(str(canonicalize_name(line.name))[1:] for line in requirements)


def has_successor(name: str, rests: frozenset[str]) -> bool:
    """Return whether a freeze has the distribution of a leftover.

    `rests` are names without their first letters.
    """
    return str(canonicalize_name(name[1:])) in rests
