"""Installed releases of libraries, by directory names.

Modules are not imported, and metadata is not parsed.
"""

# ruff: noqa: TID251  the environment says where to look

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple


def numbers(version: str) -> "Tuple[int, ...]":
    """Return the leading numbers of a release.

    Examples are (2, 14, 1) of `2.14.1+cu130` and (0, 19, 0) of `0.19.0rc1`.
    """
    result: "List[int]" = []
    for part in version.split("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        result.append(int(digits[:9]))
        if digits != part:
            break
    return tuple(result)


def _comparisons(conditions: str) -> "Iterable[Tuple[str, Tuple[int, ...]]]":
    for condition in filter(None, conditions.split(",")):
        sign = condition[: len(condition) - len(condition.lstrip("<>="))]
        yield sign, numbers(condition[len(sign) :])


def matches(version: str, conditions: str) -> bool:
    """Return whether a release fulfils every condition: `>=2.1,<2.8`.

    A release candidate counts as its release.
    """
    have = numbers(version)
    for sign, bound in _comparisons(conditions):
        width = max(len(have), len(bound))
        left, right = have + (0,) * (width - len(have)), bound + (0,) * (width - len(bound))
        if not (left >= right if sign == ">=" else left < right):
            return False
    return True


def is_for_the_newest(conditions: str) -> bool:
    """Return whether conditions have no upper end."""
    return all(sign == ">=" for sign, _ in _comparisons(conditions))


class VersionFinder:
    """A finder of the consumers' `*.dist-info` and `*.egg-info`.

    It reads each directory of a path once.
    """

    def __init__(self, consumers: "Mapping[str, Any]", path: "Iterable[str]") -> None:
        self._consumers = consumers
        self._path = list(path)
        self._found: "Optional[Dict[str, str]]" = None

    def version(self, consumer: str) -> "Optional[str]":
        """Return the release of a consumer, None if unknown.

        The first directory counts, as for an import.
        """
        if self._found is None:
            self._found = self._look()
        for name in self._consumers[consumer]["distributions"]:
            if name in self._found:
                return self._found[name]
        return None

    def _look(self) -> "Dict[str, str]":
        names = {name for consumer in self._consumers.values() for name in consumer["distributions"]}
        releases: "Dict[str, str]" = {}
        for folder in self._path:
            try:
                entries = os.listdir(folder or ".")
            except OSError:
                continue
            for entry in entries:
                stem, dot, kind = entry.rpartition(".")
                if not dot or kind not in ("dist-info", "egg-info"):
                    continue
                name, _, rest = stem.partition("-")
                name = name.lower().replace("-", "_").replace(".", "_")
                if name in names and rest:
                    releases.setdefault(name, rest.split("-py")[0])
        return releases


def search_path(environ: "Mapping[str, str]") -> "List[str]":
    """Return the module search path of the command's interpreter.

    It is derived from directories, because our own interpreter is another one.

    It is PYTHONPATH, then the site-packages beside each directory of programs in PATH.
    """
    directories = _split(environ.get("PYTHONPATH", ""))
    for programs in environ.get("PATH", "").split(os.pathsep):
        above = os.path.join(os.path.dirname(programs.rstrip("/")), "lib") if programs else ""
        try:
            pythons = (
                sorted(name for name in os.listdir(above) if name.startswith("python3")) if above else []
            )
        except OSError:
            continue
        for python in pythons:
            directories += [os.path.join(above, python, kind) for kind in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(directories))


def _split(path: str) -> "List[str]":
    return [folder for folder in path.split(os.pathsep) if folder]


def list_own_directories() -> "List[str]":
    """Return this interpreter's directories with distributions.

    Others are left out, because they may be large and slow to list.
    """
    kinds = ("site-packages", "dist-packages")
    python_path = _split(os.environ.get("PYTHONPATH", ""))
    return [folder for folder in sys.path if folder in python_path or os.path.basename(folder) in kinds]
