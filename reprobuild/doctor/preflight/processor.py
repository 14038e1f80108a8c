"""The check if this machine's processor runs the wheels.

It uses one table (`processors.toml`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.resources import files

from msgspec import Struct
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.lock.model import Lock


class _Needs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flags: tuple[str, ...]
    since: str
    source: str


def check_processor(lock: Lock, has: Collection[str]) -> Iterator[str]:
    """Yield each wheel that needs a missing processor flag.

    Without known flags it yields no wheel.
    """
    content = files("reprobuild.doctor.preflight").joinpath("processors.toml").read_bytes()
    table = decode_toml(content, dict[str, _Needs])
    for wheel in lock.wheels if has else ():
        needs = table.get(canonicalize_name(wheel.name))
        if needs is None or wheel.role != "environment" or not _is_at_least(wheel.version, needs.since):
            continue
        lacking = [flag for flag in needs.flags if flag not in has]
        if lacking:
            yield (
                f"{wheel.name} {wheel.version} needs a processor with {', '.join(lacking)}, which this one lacks: "
                f"it will not run here ({needs.source})"
            )


def _is_at_least(version: str, first: str) -> bool:
    try:
        return Version(version) >= Version(first)
    except InvalidVersion:
        return True
