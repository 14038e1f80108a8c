"""Checks of the places of mounts in the sandbox.

A mount must not be outside the root, inside another mount, or among the kernel's own files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

from reprobuild.errors import EngineError

_KERNEL = ("/dev", "/proc", "/sys")
_EMPTY = ("/run", "/tmp")
_EMPTY_BELOW = tuple(f"{place}/" for place in _EMPTY)
_HINT = "leave out the package that made it, or unpack the root again"


def resolve_targets(root: Path, targets: Sequence[str]) -> list[str]:
    """Return the targets' places after following links in a root.

    No two of them are equal or inside one another, by name or by link: a mount would hide the mount point of
    another, or its tree would lead the other to another place.

    Args:
        root: a directory without concurrent writers.
        targets: absolute paths inside. They may be below `/run` and `/tmp`, which are empty and have no
            links.

    Raises:
        ValueError: a target is not such a path, or is at, above or below another or the kernel's files.
        EngineError: a symbolic link leads a target, or a place of the sandbox's own, out of the root or to
            another.
    """
    for target in targets:
        _check_name(target)
    for first, second in combinations(targets, 2):
        if _overlap(first, second):
            raise ValueError(f"one of two binds would hide the other: {first!r} and {second!r}")
    sandbox_places = {place: _follow(root, place) for place in (*_KERNEL, *_EMPTY)}
    places = [_resolve_target(root, target, sandbox_places) for target in targets]
    pairs = list(zip(targets, places, strict=True))
    _check_disjoint(
        [*sandbox_places.items(), *(pair for pair in pairs if not pair[0].startswith(_EMPTY_BELOW))]
    )
    _check_disjoint(pairs)
    return places


def _check_name(target: str) -> None:
    """Refuse an ambiguous name, or one not for binds."""
    steps = target.split("/")
    if steps[0] or len(steps) < 2 or {"", ".", ".."} & set(steps[1:]) or "\0" in target:
        raise ValueError(f"not an absolute path inside: {target!r}")
    if target in _EMPTY or any(_overlap(target, place) for place in _KERNEL):
        raise ValueError(f"a place of the sandbox's own: {target!r}")


def _resolve_target(root: Path, target: str, sandbox_places: dict[str, str]) -> str:
    """Return the real place of a target.

    The root's files below an empty directory of ours are not visible.
    """
    for place in _EMPTY:
        if target.startswith(f"{place}/"):
            return sandbox_places[place] + target[len(place) :]
    return _follow(root, target)


def _follow(root: Path, target: str) -> str:
    """Return the path that links in a root lead to.

    It is absolute, inside the root.
    """
    top = root.resolve()
    try:
        path = (top / target.lstrip("/")).resolve()
    except (OSError, RuntimeError):  # links that lead to each other
        path = top
    if path == top or not path.is_relative_to(top):
        raise EngineError(f"{target} is a symbolic link out of the root {root}", hint=_HINT)
    return f"/{path.relative_to(top)}"


def _check_disjoint(places: Iterable[tuple[str, str]]) -> None:
    for (first, first_place), (second, second_place) in combinations(places, 2):
        if _overlap(first_place, second_place):
            raise EngineError(
                f"a symbolic link leads {second} to {second_place}, where {first} stands", hint=_HINT
            )


def _overlap(first: str, second: str) -> bool:
    """Return whether a path is at, above or below another."""
    return f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/")
