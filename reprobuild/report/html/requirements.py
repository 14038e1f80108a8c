"""The section on requirements: unmet ones, and a tree of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.lock.distributions import environment_wheels
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel
from reprobuild.lock.requirements import find_conflicts, read_requirement
from reprobuild.report.html.components import MOST_ROWS, Section
from reprobuild.report.units import format_bytes

DEEPEST = 8  # levels of the tree
MOST_EDGES = 10_000  # requirements of a drawn tree; an environment of 500 distributions has some 4000


class RequirementNode(Struct, frozen=True, kw_only=True):
    """A distribution in the tree, with what it requires, the largest first.

    `size` is that of its file and of everything below it, in words. `again` is true if the tree shows its
    requirements at another place.
    """

    name: str
    version: str
    size: str
    again: bool
    children: Sequence[RequirementNode]


class RequirementsView(Struct, frozen=True, kw_only=True):
    """The unmet requirements, one a line, and the roots of the tree: distributions that no other requires."""

    conflicts: Sequence[str]
    roots: Sequence[RequirementNode]


def view_requirements(lock: Lock) -> Section:
    """Return the section on requirements."""
    conflicts = find_conflicts(lock)
    lead = (
        "What ran with a conflict runs with it again: a freeze is taken as it is."
        if conflicts
        else "Every requirement of a package is met by another."
    )
    wheels = environment_wheels(lock)
    drawn = len(wheels) <= MOST_ROWS and sum(len(wheel.requires) for wheel in wheels) <= MOST_EDGES
    view = RequirementsView(conflicts=conflicts, roots=_RequirementTree(wheels).grow() if drawn else ())
    return Section(id="conflicts", title="Requirements", lead=lead, view=view)


class _RequirementTree:
    """The tree of the requirements between wheels; each distribution is expanded once, at its first place."""

    def __init__(self, wheels: Sequence[Wheel]) -> None:
        self._wheels: dict[str, Wheel] = {str(canonicalize_name(wheel.name)): wheel for wheel in wheels}
        self._required = {name: self._read_names(wheel) for name, wheel in self._wheels.items()}
        self._sizes = {name: _total_size(name, self._required, self._wheels) for name in self._wheels}
        self._expanded: set[str] = set()

    def grow(self) -> list[RequirementNode]:
        """Return the roots with their branches; distributions that only require each other follow the roots."""
        required = {name for names in self._required.values() for name in names}
        roots = self._sort(self._wheels.keys() - required)
        nodes = [self._make_node(name, 1) for name in roots]
        for name in self._sort(self._wheels):
            if name not in self._expanded:
                nodes.append(self._make_node(name, 1))
        return nodes

    def _sort(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: (-self._sizes[name], name))

    def _read_names(self, wheel: Wheel) -> list[str]:
        parsed = [read_requirement(text) for text in wheel.requires]
        names = {str(canonicalize_name(requirement.name)) for requirement in parsed if requirement}
        return sorted(names & self._wheels.keys())

    def _make_node(self, name: str, level: int) -> RequirementNode:
        again = name in self._expanded
        deep = level >= DEEPEST
        if not deep:
            self._expanded.add(name)
        below = [] if again or deep else self._sort(self._required[name])
        return RequirementNode(
            name=self._wheels[name].name, version=self._wheels[name].version, size=format_bytes(self._sizes[name]),
            again=bool(self._required[name]) and (again or deep),
            children=[self._make_node(child, level + 1) for child in below],
        )  # fmt: skip


def _total_size(name: str, required: Mapping[str, Sequence[str]], wheels: Mapping[str, Wheel]) -> int:
    """Return the bytes of a wheel and of all wheels below it."""
    reached, todo = {name}, [name]
    while todo:
        fresh = set(required[todo.pop()]) - reached
        reached |= fresh
        todo += fresh
    return sum(wheels[reached_name].file.size for reached_name in reached)
