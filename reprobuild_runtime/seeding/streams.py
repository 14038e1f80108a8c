"""Numbers for generators that were given no seed: a function of the seed in force and of who asks.

Who asks is the process (`place`), the thread, the kind of generator, and how many were made before: each answer is
another one, and all are the same when the program runs again. Each thread counts its own, by its name, so that what
other threads do does not matter; threads of one name are told apart by which of them asks first.
"""

import sys
from _thread import _local, get_ident
from itertools import count

from reprobuild_runtime.seeding import place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

MOST_THREADS = 4096  # names remembered; a server may start a thread for each request


class _InForce:
    """The seed that answers are made of, and the counters that start with it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.threads: "Any" = _local()  # each thread's counters
        self.names: "Dict[str, Iterator[int]]" = {}
        self.emptied = 0


_in_force: "List[_InForce]" = []


def begin(seed: int, again: bool = False) -> None:
    """Put a seed in force; counters start anew for another seed, or where `again` says so."""
    if again or seed_in_force() != seed:
        place.watch_forks()
        _in_force[:] = [_InForce(seed)]


def seed_in_force() -> "Optional[int]":
    """Return the seed in force, None where there is none."""
    return _in_force[0].seed if _in_force else None


def next_bits(kind: str, bits: int) -> int:
    """Return the next number below 2**bits for a generator of a kind; a seed must be in force."""
    state = _in_force[0]
    mine: "Dict[str, Any]" = state.threads.__dict__
    if "name" not in mine:
        mine["name"] = _thread(state)
    number = mine[kind] = mine.get(kind, -1) + 1
    return _number(f"{state.seed}/{place.here()}/{mine['name']}/{kind}/{number}", bits)


def own_seed(seed: int) -> int:
    """Return what the global generators of this process are seeded with: the seed itself in the first process."""
    where = place.here()
    return _number(f"{seed}/{where}/global", 32) if where else seed


def further_seed(seed: int, number: int) -> int:
    """Return another seed that is made of one: 1 to 2**31 - 1, as those that are drawn."""
    return _number(f"{seed}/{number}/further", 64) % (2**31 - 1) + 1


def _number(text: str, bits: int) -> int:
    import hashlib  # only here: it takes longer than all else together

    found = b"".join(
        hashlib.sha512(f"{part}/{text}".encode("utf-8", "surrogatepass")).digest()
        for part in range(bits // 512 + 1)
    )
    return int.from_bytes(found, "big") >> (len(found) * 8 - bits)


def _thread(state: _InForce) -> str:
    """Return a name for this thread that no other has; the main thread's is empty.

    A thread that `threading` does not know has no name; asking for one would make an entry for it.
    """
    threading: "Any" = sys.modules.get("threading")
    me = getattr(threading, "_active", {}).get(get_ident())
    if threading is not None and me is threading.main_thread():
        return ""
    name = getattr(me, "name", "?")
    if len(state.names) >= MOST_THREADS:
        state.emptied += 1
        state.names = {}
    return f"{name}/{state.emptied}/{next(state.names.setdefault(name, count()))}"
