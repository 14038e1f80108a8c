"""Reasons for a rebuilt image to differ.

Unknown reasons are reported as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprobuild.image.formats.single_file import KINDS
from reprobuild.image.model import NATIVE
from reprobuild.lock.diff import Change

RECIPE = ("Dockerfile", "Apptainer.def", "pylock.toml")
_RUNTIME = "runtime package"


def explain_differences(
    differing: Sequence[str],
    inputs: Sequence[Change],
    recipe: Sequence[str],
    unread: str,
    builders: tuple[str, str] = (NATIVE, NATIVE),
) -> tuple[str, ...]:
    """Return reasons for the digests that differ, if known.

    Args:
        differing: names of digests: "tree", "config", "manifest", "sif", "sqsh".
        inputs: the differences of the two locks.
        recipe: files of the recipe that differ.
        unread: why the two images could not be compared file by file; empty if they were compared.
        builders: the stated builder of the first image, and that of the new one.
    """
    return (
        *_list_reasons(set(differing), inputs, recipe, unread),
        *_explain_builders(set(differing), *builders),
    )


def _explain_builders(differing: set[str], then: str, now: str) -> Iterator[str]:
    """Yield the reason for other layers, if two builders made them."""
    if then == now or not differing & {"config", "manifest"}:
        return
    yield (
        f"the first image states the builder {then!r}, and {now!r} made this one: builders divide a tree into other "
        "layers, so only the trees can be equal, which `--level tree` compares"
    )


def _list_reasons(
    differing: set[str], inputs: Sequence[Change], recipe: Sequence[str], unread: str
) -> Iterator[str]:
    changes = [change for change in inputs if change.kind == "realised"]
    for change in changes:
        yield (
            f"{change.name}: the lock says {_short_digest(change.one)}, and {_short_digest(change.other)} "
            "came out here. " + _describe_cause(change.name)
        )
    if unread:
        yield f"which files differ is not known: {unread}"
    if "tree" in differing and not changes:
        yield (
            "the lock is the same and the tree is not: this reprobuild lays out the same inputs otherwise than the "
            "one that made the first image, or the builder does"
        )
    if recipe:
        yield f"{' and '.join(recipe)}: this reprobuild writes them otherwise than the one that made the first"
    if "tree" not in differing and "manifest" in differing and unread:
        yield "both images state the same tree, packed otherwise; whether it is the same was not read"
    elif "tree" not in differing and "manifest" in differing:
        yield (
            "the same tree, packed otherwise: another builder, or another version of it, of reprobuild or of zstd. "
            "What a program in the container sees is the same"
        )
    singles = sorted(differing & set(KINDS))
    if singles and "tree" not in differing and unread:
        yield f"{' and '.join(singles)}: of trees that both state as the same, which was not read"
    elif singles and "tree" not in differing:
        yield (
            f"{' and '.join(singles)}: of the same tree, by another mksquashfs, libzstd or reprobuild; "
            "`reprobuild diff` compares such files as trees"
        )


def _describe_cause(name: str) -> str:
    if name == _RUNTIME:
        return (
            "That is reprobuild's own part: another version of it is at work, and the lock's was kept nowhere, or "
            "not used"
        )
    return (
        "Its inputs are the same, and its step was run again: by another kernel, processor or reprobuild, or it does "
        "not come out alike twice, or the lock's output is not that of its inputs"
    )


def _short_digest(digest: str | None) -> str:
    return (digest or "none")[:12]
