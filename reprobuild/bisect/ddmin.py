"""Delta debugging: a 1-minimal subset that still gives a result.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering
28(2), 2002, https://doi.org/10.1109/32.988498, algorithm ddmin. An untestable subset counts as one without the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence


def ddmin(items: Sequence[int], hits: Callable[[Sequence[int]], bool]) -> list[int]:
    """Return a subset that hits, and no longer does without any item.

    Args:
        items: they hit together, and none of them does not.
        hits: says whether a subset has the result.
    """
    rest, parts = list(items), 2
    while len(rest) > 1:
        size = -(-len(rest) // parts)
        chunks = [rest[start : start + size] for start in range(0, len(rest), size)]
        smaller = next((chunk for chunk in chunks if len(chunk) < len(rest) and hits(chunk)), None)
        if smaller is not None:
            rest, parts = smaller, 2
            continue
        if len(chunks) > 2:
            without = ([item for item in rest if item not in set(chunk)] for chunk in chunks)
            smaller = next((candidate for candidate in without if hits(candidate)), None)
        if smaller is not None:
            rest, parts = smaller, max(parts - 1, 2)
        elif parts >= len(rest):
            break
        else:
            parts = min(2 * parts, len(rest))
    return rest
