"""Names, versions and relations in Debian's control fields."""

from __future__ import annotations

import operator
import re
from functools import lru_cache

from debian.deb822 import PkgRelation
from debian.debian_support import Version
from msgspec import Struct

# Debian Policy 5.6.1 and 5.6.12; a name may become an argument of dpkg.
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
# A file name holds a version, so it is no longer than one. `Version` takes time with the square of its length.
VERSION = re.compile(r"(?:[0-9]{1,9}:)?[A-Za-z0-9.+~-]{1,255}")
_OPERATORS = {"<<": operator.lt, "<=": operator.le, "=": operator.eq, ">=": operator.ge, ">>": operator.gt}


class Relation(Struct, frozen=True):
    """An alternative of a dependency.

    It is a name, optionally with a condition on the version, and an architecture or `any`.
    """

    name: str
    operator: str = ""
    version: str = ""
    architecture: str = ""

    def __str__(self) -> str:
        name = f"{self.name}:{self.architecture}" if self.architecture else self.name
        return f"{name} ({self.operator} {self.version})" if self.operator else name

    def allows(self, version: str) -> bool:
        """Return whether a version meets the condition."""
        if not self.operator:
            return True
        if not VERSION.fullmatch(version) or not VERSION.fullmatch(self.version):
            return False
        compare = _OPERATORS.get(self.operator)
        return compare is not None and bool(compare(_parse_version(version), _parse_version(self.version)))


@lru_cache(maxsize=10_000)
def _parse_version(version: str) -> Version:
    return Version(version)


Group = tuple[Relation, ...]


def parse_relations(text: str) -> tuple[Group, ...]:
    """Return the groups of alternatives in a relation field.

    The groups are in their order. Fields are `Depends`, `Provides`, and so on.
    """
    groups = []
    text = " ".join(text.split())  # python-debian takes time with the square of a run of blanks
    for group in PkgRelation.parse_relations(text) if text else []:
        alternatives = []
        for item in group:
            operator, version = item.get("version") or ("", "")
            alternatives.append(Relation(item["name"], operator, version, item.get("archqual") or ""))
        groups.append(tuple(alternatives))
    return tuple(groups)
