"""Meta packages that need a driver.

The driver is the host's, and their other needs are requested instead.

NVIDIA's own instructions end in `apt install cuda`: a package without files that needs the toolkit, through
`cuda-runtime-X-Y`, and the driver that was current then. Unchanged, it would install drivers, dkms and an X server into
the image, and the container engine lays those of the host over them.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.ecosystems.apt.relations import Group
from reprobuild.resolve.system.alternatives import pick_version
from reprobuild.resolve.system.system_rules import find_exclusion

_DRIVER = "driver"
# Bytes of a .deb: those without files have some 2 to 10 KB of control files, change log and copyright.
_LARGEST = 16 << 10


def parts_without_drivers(
    key: str, index: SystemIndex, captured: Mapping[str, str], known: dict[str, tuple[str, ...] | None]
) -> tuple[str, ...] | None:
    """Return the other needs of a meta package that needs a driver.

    Return None for any other package.

    Args:
        key: of a requested package.
        index: the available packages.
        captured: the captured version of each installed package, by key.
        known: results for others with the same index and list; it is extended.
    """
    if key in known:
        return known[key]
    known[key] = None  # for those that lead back to it
    candidate = pick_version(key, captured.get(key), index)
    if candidate is None or candidate.file.size > _LARGEST:
        return None
    parts: list[str] = []
    driven = False
    for group in candidate.needs:
        need = _choose_fulfilment(group, index, captured)
        rule = find_exclusion(need.partition(":")[0]) if need else None
        below = None
        if need and not rule:
            below = parts_without_drivers(need, index, captured, known)
        if (rule and rule.class_ == _DRIVER) or below is not None:
            driven = True
            parts += below or ()
        elif need:
            parts.append(need)
    known[key] = tuple(dict.fromkeys(parts)) if driven else None
    return known[key]


def _choose_fulfilment(group: Group, index: SystemIndex, captured: Mapping[str, str]) -> str:
    """Return the package for a native package's dependency, or "".

    It is the first captured one, or else the first available one.
    """
    ordered = [name for relation in group for name in (relation.name, *index.providers(relation.name))]
    candidates = [name for name in ordered if index.versions(name)]
    return next((name for name in candidates if name in captured), candidates[0] if candidates else "")
