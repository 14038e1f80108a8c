"""Seeding of `random` in forked children.

Python seeds its global generator from the system's entropy in each forked child (`random.py`, its last lines), so a
seeded program that forks would draw other numbers each time. Here each child gets its own stream, made from the seed
and the child's place in the tree of forks. NumPy and torch leave their state alone when a process forks.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

_random: "List[Any]" = []
_place: "List[int]" = [0]  # the seed, then the number of the fork at each generation; the last one counts on


def seed_children(random: "Any", seed: int) -> None:
    """Seed `random` from now on in each child that is forked."""
    _place[0] = seed
    if not _random:
        _place.append(0)
        os.register_at_fork(
            before=_before, after_in_child=_after_in_child
        )  # runs after what random.py registered
    _random[:] = [random]


def _before() -> None:
    _place[-1] += 1


def _after_in_child() -> None:
    _random[0].seed("/".join(map(str, _place)))
    _place.append(0)
