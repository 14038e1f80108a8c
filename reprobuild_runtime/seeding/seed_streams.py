"""Numbers for generators without a seed.

They are a function of the seed in force and of the requester.

The requester is the process (`place`), the thread, the kind of generator, and the number of earlier ones: each answer
is different, and all are the same when the program runs again. Each thread counts its own, by its name, so that other
threads have no influence; threads of one name are distinguished by the order of their first requests.
"""

import sys
from _thread import _local, get_ident
from itertools import count

from reprobuild_runtime.seeding import process_id

# The hash is loaded now: at a draw, a program may have no files left that it can open. The small module that `random`
# uses, too, if there is one: hashlib takes longer than all else together.
try:
    from _sha2 import sha512  # type: ignore[import-not-found]  # 3.12 and newer
except ImportError:
    try:
        from _sha512 import sha512  # type: ignore[import-not-found]  # before 3.12
    except ImportError:
        from hashlib import sha512

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

MOST_THREADS = 4096  # names remembered; a server may start a thread for each request


class _InForce:
    """The seed of the answers, and the counters that start with it."""

    def __init__(self, seed: int, enforced: bool) -> None:
        self.seed = seed
        self.since = "enforced/" if enforced else ""  # else the launch's answers would come again
        self.threads: "Any" = _local()  # each thread's counters
        self.names: "Dict[str, Iterator[int]]" = {}
        self.emptied = 0


_in_force: "List[_InForce]" = []


def begin(seed: int, enforced: bool = False) -> None:
    """Put a seed in force.

    Counters restart for another seed, or if the program itself enforces one.
    """
    if enforced or seed_in_force() != seed:
        process_id.in_forked_children(_use_one_thread)
        _in_force[:] = [_InForce(seed, enforced)]


def seed_in_force() -> "Optional[int]":
    """Return the seed in force, None without one."""
    return _in_force[0].seed if _in_force else None


def next_bits(kind: str, bits: int) -> int:
    """Return the next number below 2**bits for a kind of generator.

    A seed must be in force.
    """
    state = _in_force[0]
    counters: "Dict[str, Any]" = state.threads.__dict__
    if "name" not in counters:
        counters["name"] = _thread(state)
    turn = counters[kind] = counters.get(kind, -1) + 1
    return number(
        f"{state.seed}/{state.since}{process_id.name_process()}/{counters['name']}/{kind}/{turn}", bits
    )


def process_seed(seed: int) -> int:
    """Return the seed of this process's global generators.

    It is the seed itself in the first process.
    """
    where = process_id.name_process()
    return number(f"{seed}/{where}/global", 32) if where else seed


def further_seed(seed: int, which: int) -> int:
    """Return another seed, derived from one.

    It is from 1 to 2**31 - 1, as those that are drawn.
    """
    return number(f"{seed}/{which}/further", 64) % (2**31 - 1) + 1


def number(text: str, bits: int) -> int:
    """Return a number below 2**bits, derived from a text."""
    digests = b"".join(
        sha512(f"{part}/{text}".encode("utf-8", "surrogatepass")).digest() for part in range(-(-bits // 512))
    )
    return int.from_bytes(digests, "big") >> (len(digests) * 8 - bits)


def _thread(state: _InForce) -> str:
    """Return a unique name for this thread; the main thread's is empty.

    A thread that `threading` does not know has no name; asking for one would make an entry for it.
    """
    if get_ident() == _main_thread():
        return ""
    threading: "Any" = sys.modules.get("threading")
    me = getattr(threading, "_active", {}).get(get_ident())
    name = getattr(me, "name", "?")
    if len(state.names) >= MOST_THREADS:
        state.emptied += 1
        state.names = {}
    return f"{name}/{state.emptied}/{next(state.names.setdefault(name, count()))}"


_alone: "List[int]" = []  # the thread that forked, in a forked child: it is the main one there


def _use_one_thread() -> None:
    _alone[:] = [get_ident()]


def _main_thread() -> "Optional[int]":
    """Return the main thread: that of the start-up hook.

    This works even if `threading` is not loaded yet.
    """
    if _alone:
        return _alone[0]
    hook: "Any" = sys.modules.get("reprobuild_runtime.importhook")
    if hook is not None:
        started: int = hook.STARTED_BY
        return started
    threading: "Any" = sys.modules.get("threading")
    main: "Optional[int]" = threading.main_thread().ident if threading is not None else None
    return main
