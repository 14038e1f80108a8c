"""Names, versions and relations in Debian's control fields."""

from __future__ import annotations

import re

from debian.deb822 import PkgRelation
from debian.debian_support import Version
from msgspec import Struct

# Debian Policy 5.6.1 and 5.6.12; a name may become an argument of dpkg.
NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+")
VERSION = re.compile(r"(?:[0-9]{1,9}:)?[A-Za-z0-9.+~-]+")


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
        have, want = Version(version), Version(self.version)
        return bool(
            {
                "<<": have < want,
                "<=": have <= want,
                "=": have == want,
                ">=": have >= want,
                ">>": have > want,
            }.get(self.operator, False)
        )


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
