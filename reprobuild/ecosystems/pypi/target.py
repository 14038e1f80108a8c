"""The target of wheels: interpreter, machine and C library tags."""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct
from packaging.tags import Tag, compatible_tags, cpython_tags

from reprobuild.infra.untrusted.wheels import TagParts

# The names of PEP 513, 571 and 599 for a glibc, and their machines.
_X86 = ("x86_64", "i686")
_LEGACY = {
    (2, 17): ("manylinux2014", (*_X86, "aarch64", "armv7l", "ppc64", "ppc64le", "s390x")),
    (2, 12): ("manylinux2010", _X86),
    (2, 5): ("manylinux1", _X86),
}


class WheelTarget(Struct, frozen=True, kw_only=True):
    """The environment that a wheel must fit.

    It has Python (`3.11.2`), glibc (`2, 36`) and machine (`x86_64`). `free_threaded` is CPython's build
    without the global lock (PEP 703), whose ABI has a `t`.
    """

    python: str
    glibc: tuple[int, int]
    machine: str
    free_threaded: bool = False

    def tags(self) -> list[Tag]:
        """Return the fitting wheel tags, best first (PEP 425, PEP 600)."""
        minor = tuple(int(part) for part in self.python.split(".")[:2])
        platforms = []
        for glibc_minor in range(self.glibc[1], 4, -1):
            platforms.append(f"manylinux_{self.glibc[0]}_{glibc_minor}_{self.machine}")
            legacy, machines = _LEGACY.get((self.glibc[0], glibc_minor), ("", ()))
            if self.machine in machines:
                platforms.append(f"{legacy}_{self.machine}")
        platforms.append(f"linux_{self.machine}")
        interpreter = f"cp{minor[0]}{minor[1]}"
        # https://peps.python.org/pep-3149/: with pymalloc, the default, until 3.8 left the flag out
        flag = "m" if minor < (3, 8) else ""
        abi = f"{interpreter}t" if self.free_threaded else f"{interpreter}{flag}"
        return [
            *cpython_tags(minor, abis=[abi], platforms=platforms),
            *compatible_tags(minor, interpreter=interpreter, platforms=platforms),
        ]

    def ranks(self) -> dict[TagParts, int]:
        """Return the rank of each fitting tag, the best first.

        It is computed once for each target.
        """
        return _tag_ranks(self)

    def __str__(self) -> str:
        kind = "free-threaded Python" if self.free_threaded else "Python"
        return f"{kind} {self.python} on {self.machine} with glibc {self.glibc[0]}.{self.glibc[1]}"


@lru_cache(maxsize=8)
def _tag_ranks(target: WheelTarget) -> dict[TagParts, int]:
    return {(tag.interpreter, tag.abi, tag.platform): place for place, tag in enumerate(target.tags())}
