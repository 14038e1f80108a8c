"""The check of the base's glibc for the wheels.

It must be new enough.
"""

from __future__ import annotations

import re

from packaging.utils import InvalidWheelFilename

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.wheels import read_wheel_tag_parts
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel

_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
_LEGACY = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}


def check_glibc(lock: Lock) -> None:
    """Compare the glibc tags of the wheels with the base.

    Raises:
        LockError: a wheel needs a newer glibc than the base has.
    """
    has = glibc_of_base(lock)
    if has is None:
        return
    for wheel in lock.wheels:
        needs = _glibc_of_wheel(wheel)
        if needs is not None and needs > has:
            raise LockError(
                f"{wheel.file.filename} needs glibc {needs[0]}.{needs[1]}, and the base has {has[0]}.{has[1]}",
                hint="choose a newer base with `--base`, and make the lock again",
            )


def glibc_of_base(lock: Lock) -> tuple[int, int] | None:
    """Return the version of the base's glibc, or None.

    None means that the base has no libc6 package of Debian.
    """
    match = re.match(r"(?:\d+:)?(\d+)\.(\d+)", lock.base.installed.get("libc6", ""))
    return (int(match[1]), int(match[2])) if match else None


def _glibc_of_wheel(wheel: Wheel) -> tuple[int, int] | None:
    """Return the oldest glibc that a wheel's tags allow (PEP 600).

    None means that the wheel runs with every glibc.
    """
    try:
        platforms = read_wheel_tag_parts(wheel.file.filename).platforms
    except InvalidWheelFilename:
        return None
    versions = []
    for platform in platforms:
        modern = _GLIBC.match(platform)
        legacy = [glibc for name, glibc in _LEGACY.items() if platform.startswith(name)]
        if modern:
            versions.append((int(modern[1]), int(modern[2])))
        elif legacy:
            versions.append(legacy[0])
        else:
            return None
    return min(versions, default=None)
