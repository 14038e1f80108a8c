"""System packages of shared libraries.

They follow from Debian's naming, and a table of exceptions (`sonames.toml`).
"""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase
from importlib.resources import files

from msgspec import Struct

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.infra.untrusted.decode import decode_toml

# A library with a version after `.so`, or before it (Policy 8.1).
_NAME = re.compile(
    r"(?P<name>lib[A-Za-z0-9_.+-]{1,80}?)\.so(?:\.(?P<version>[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}))?"
)
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")


class _Patterns(Struct, frozen=True):
    patterns: tuple[str, ...]


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    package: dict[str, str]
    host: _Patterns
    alternative: _Patterns
    libstdcxx: dict[int, int]


@functools.lru_cache(maxsize=1)
def _read_table() -> _Table:
    raw = files("reprobuild.resolve.system").joinpath("sonames.toml").read_bytes()
    return decode_toml(raw, _Table, strict=False)


def guess_packages(soname: str) -> tuple[str, ...]:
    """Return likely package names of a library, the likeliest first.

    The result is empty for names that are not libraries.

    Debian Policy 8.1: `libX11.so.6` is in libx11-6, `libGL.so.1` in libgl1, `libnspr4.so` in libnspr4; glib's habit
    makes libatk1.0-0 of `libatk-1.0.so.0`. Each name may end in t64 since the transition to 64 bits of time_t
    (trixie, noble).
    """
    if known := _read_table().package.get(soname):
        return known, f"{known}t64"
    match = _NAME.fullmatch(soname)
    if not match:
        return ()
    name, version = match["name"].lower().replace("_", "-"), match["version"] or ""
    between = "-" if version and name[-1].isdigit() else ""
    joined = re.sub(r"-(?=\d)", "", name, count=1)
    plain = dict.fromkeys(f"{stem}{between}{version}" for stem in (name, joined))
    return tuple(
        candidate
        for package in plain
        for candidate in (package, f"{package}t64")
        if _PACKAGE.fullmatch(candidate)
    )


def package_of(soname: str, index: SystemIndex) -> str | None:
    """Return the index's package of a library, or None."""
    return next((name for name in guess_packages(soname) if index.versions(name)), None)


def is_host_library(soname: str) -> bool:
    """Return whether a library belongs to the GPU's driver."""
    return any(fnmatchcase(soname, pattern) for pattern in _read_table().host.patterns)


def is_alternative(soname: str) -> bool:
    """Return whether a library has equivalent alternatives.

    The host had one of them.
    """
    return any(fnmatchcase(soname, pattern) for pattern in _read_table().alternative.patterns)


def glibc_of(version: str) -> tuple[int, int] | None:
    """Return the glibc version of a libc6 package, or None."""
    match = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])", version)
    return (int(match[1]), int(match[2])) if match else None


def newest_glibcxx(version: str) -> tuple[int, int, int] | None:
    """Return the newest GLIBCXX of a libstdc++6 package, or None.

    It is None if the table does not have its GCC.
    """
    minor = _read_table().libstdcxx.get(int(match[0])) if (match := re.match(r"\d{1,3}", version)) else None
    return (3, 4, minor) if minor is not None else None
