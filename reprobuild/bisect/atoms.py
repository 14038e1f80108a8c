"""Atoms: the differences of two locks, to be applied one by one.

An atom holds the slots that only make sense together: the packages of one source release, an interpreter with the
packages that bring it. `needs` are the atoms without which an atom could not be installed: its version requires theirs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from reprobuild.bisect.requirement_graph import RequirementGraph
from reprobuild.bisect.requirements import FindLinks, link_wheels
from reprobuild.bisect.slots import PACKAGES, Slot, Slots, split_lock
from reprobuild.bisect.sources import SourceChanges
from reprobuild.compare.environments.entries import compare_entries
from reprobuild.compare.environments.model import Kind
from reprobuild.compare.environments.ranking import rank_difference
from reprobuild.infra.untrusted.wheels import read_wheel_tag_parts
from reprobuild.lock.fields import display_variable
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter, Source, Wheel
from reprobuild.lock.system import Deb, EnvVar
from reprobuild.run.choice_pair import ChoicePair
from reprobuild_portable.secrets import redact

AtomKind = Literal[
    "interpreter", "python", "conda", "system", "release", "variable", "preload", "order", "profile", "seed", "source",
    "file", "hunk", "recipe", "choices",
]  # fmt: skip
PRELOADS = ("LD_PRELOAD", "LD_AUDIT")
_ABSENT = "(absent)"
CHOICES_NAME = "saved choices of compilers"
CHOICES: Slot = "choices", CHOICES_NAME
LONGEST = 200  # characters of another value
_LAST = 10_000  # after every rank of the table
# Fields that change an image seldom: files' times, tools of builds.
_UNLIKELY = ("epoch", "build_base", "tools")


class Atom(Struct, frozen=True, kw_only=True):
    """A difference, to be applied alone.

    Attributes:
        kind, name: of the thing that differs; of several, the likeliest.
        first, second: its value in A and in B, of a hunk its lines; None if that side lacks it.
        rank: its place in the ranking of `compare`, from 1.
        reason: why it has this rank.
        slots: the parts of the lock.
        names: all things in it.
        part: of a source, the number of the change in its list of changes; None for the whole source.
    """

    kind: AtomKind
    name: str
    first: str | None
    second: str | None
    rank: int
    reason: str
    slots: tuple[Slot, ...]
    names: tuple[str, ...] = ()
    part: int | None = None


class AtomSet(Struct, frozen=True, kw_only=True):
    """The atoms of two locks, the likeliest first.

    `needs` has for each atom the numbers of those that it cannot be installed without.
    """

    atoms: tuple[Atom, ...]
    needs: tuple[frozenset[int], ...]


def find_atoms(
    first: Lock,
    second: Lock,
    changes: Mapping[str, SourceChanges] | None = None,
    find_links: FindLinks = link_wheels,
    choices: ChoicePair | None = None,
) -> AtomSet:
    """Return the atoms of two locks of one platform.

    Args:
        first, second: the locks.
        changes: of the sources, by name; another source is one atom.
        find_links: finds the requirements between the slots that differ.
        choices: the saved choices of compilers; they are an atom if they differ.
    """
    slots = split_lock(first), split_lock(second)
    differing = [slot for slot in {**slots[0], **slots[1]} if slots[0].get(slot) != slots[1].get(slot)]
    groups = _Groups(differing)
    for together in _bonds(differing, slots):
        groups.unite(together)
    links = find_links(slots, differing)
    for mutual in _cycles(groups, links):
        groups.unite(mutual)
    whole = [_make_atom(group, slots) for group in groups.all()]
    whole += [_make_choices_atom(choices)] if choices and choices.differ else []
    atoms = sorted((part for atom in whole for part in _split_source(atom, changes or {})), key=_sort_key)
    numbers: dict[Slot, list[int]] = defaultdict(list)
    for number, atom in enumerate(atoms):
        for slot in atom.slots:
            numbers[slot].append(number)
    needs = [set[int]() for _ in atoms]
    for slot, other in links:
        for number in numbers[slot]:
            needs[number].update(set(numbers[other]) - set(numbers[slot]))
    return AtomSet(atoms=tuple(atoms), needs=tuple(map(frozenset, needs)))


def _split_source(atom: Atom, changes: Mapping[str, SourceChanges]) -> Iterator[Atom]:
    """Yield an atom for each change of a source, or the atom itself."""
    split = changes.get(atom.name)
    if atom.slots != (("source", atom.name),) or split is None:
        yield atom
        return
    for number, change in enumerate(split.changes):
        name = f"{atom.name}/{change.name}"
        first, second = split.describe(number)
        yield msgspec.structs.replace(
            atom, kind=change.kind, name=name, first=first, second=second, part=number, names=(name,)
        )


def _sort_key(atom: Atom) -> tuple[int, str, int, str]:
    if atom.part is not None:  # in the order of the tree
        return atom.rank, "source", atom.part, atom.slots[0][1]
    return atom.rank, atom.kind, 0, atom.name


class _Groups:
    """Slots in disjoint groups, with their union."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        self._parents: dict[Slot, Slot] = {slot: slot for slot in slots}

    def root(self, slot: Slot) -> Slot:
        passed = []
        while self._parents[slot] != slot:
            passed.append(slot)
            slot = self._parents[slot]
        self._parents.update(dict.fromkeys(passed, slot))  # the next look is short
        return slot

    def unite(self, slots: Sequence[Slot]) -> None:
        for slot in slots[1:]:
            self._parents[self.root(slot)] = self.root(slots[0])

    def all(self) -> list[list[Slot]]:
        groups: dict[Slot, list[Slot]] = {}
        for slot in self._parents:
            groups.setdefault(self.root(slot), []).append(slot)
        return list(groups.values())


def _bonds(differing: Sequence[Slot], slots: tuple[Slots, Slots]) -> list[list[Slot]]:
    """Return the slots of inseparable parts."""
    bonds = []
    by_project: dict[str, list[Slot]] = defaultdict(list)
    by_versions: dict[tuple[str | None, ...], list[Slot]] = defaultdict(list)
    for slot in differing:
        if slot[0] in ("wheel", "sdist", "source"):
            by_project[slot[1]].append(slot)
        elif slot[0] == "system":  # binary packages of one source package depend on each other's version
            by_versions[tuple(_text(side.get(slot)) for side in slots)].append(slot)
    bonds += [*by_project.values(), *by_versions.values()]
    bonds.append([slot for slot in differing if slot[0] == "tool"])
    if any(slot[0] == "base" for slot in differing):  # another release, or another image
        bonds.append([slot for slot in differing if slot[0] in ("base", *PACKAGES)])
    interpreter = "lock", "interpreter"
    if interpreter in differing:
        pair = tuple(side[interpreter] for side in slots)
        bonds.append([interpreter, *(slot for slot in differing if _belongs(slot, slots, pair))])
    return [bond for bond in bonds if bond]


def _belongs(slot: Slot, slots: tuple[Slots, Slots], pair: tuple[Interpreter, ...]) -> bool:
    """Return whether a slot changes with the interpreter."""
    kinds = {interpreter.kind for interpreter in pair}
    minors = {interpreter.minor for interpreter in pair}
    name = slot[1].partition(":")[0]
    if slot[0] == "system" and "system" in kinds:
        return any(name.startswith((f"python{minor}", f"libpython{minor}")) for minor in minors)
    if slot[0] == "conda":
        return "conda" in kinds and (name == "python" or len(minors) > 1)
    if slot[0] == "wheel" and len(minors) > 1:
        return any(not _is_universal(side[slot]) for side in slots if slot in side)
    return slot == ("lock", "build_base") and len(minors) > 1


def _is_universal(wheel: Wheel) -> bool:
    """Return whether a wheel is for every Python 3."""
    tags = read_wheel_tag_parts(wheel.file.filename)
    return "py3" in tags.interpreters or "abi3" in tags.abis


def _cycles(groups: _Groups, links: Sequence[tuple[Slot, Slot]]) -> list[list[Slot]]:
    """Return groups of mutually required slots."""
    pairs = [(groups.root(slot), groups.root(other)) for slot, other in links]
    roots = list(dict.fromkeys(root for pair in pairs for root in pair))
    numbers = {root: number for number, root in enumerate(roots)}
    direct: list[list[int]] = [[] for _ in roots]
    for root, other in pairs:
        direct[numbers[root]].append(numbers[other])
    components = RequirementGraph(direct).components
    return [[roots[number] for number in component] for component in components if len(component) > 1]


def _make_atom(group: Sequence[Slot], slots: tuple[Slots, Slots]) -> Atom:
    rows = sorted((*_rank(slot, slots), slot) for slot in group)
    leading = [row for row in rows if row[2] in ("release", "interpreter")] or rows
    _, _, kind, name, slot = leading[0]
    rank, reason = rows[0][:2]
    first, second = (_text(side.get(slot)) for side in slots)
    if first == second and first is not None:  # another build of one version
        first, second = (f"{first} ({_name_file(side[slot])})" for side in slots)
    return Atom(
        kind=kind, name=name, first=first, second=second, rank=rank, reason=reason, slots=tuple(sorted(group)),
        names=tuple(dict.fromkeys([name, *(row[3] for row in rows)])),
    )  # fmt: skip


def _make_choices_atom(choices: ChoicePair) -> Atom:
    """Return the atom of different saved choices; no part of a lock has them."""
    rank, rule = rank_difference("choices", CHOICES_NAME)
    first, second = choices.describe()
    return Atom(
        kind="choices", name=CHOICES_NAME, first=first, second=second, rank=rank, reason=rule.reason, slots=(CHOICES,),
        names=(CHOICES_NAME,),
    )  # fmt: skip


def _rank(slot: Slot, slots: tuple[Slots, Slots]) -> tuple[int, str, AtomKind, str]:
    """Return rank, reason, kind and name of a slot's difference."""
    field, key = slot
    kind, name, compared = _classify(slot, slots)
    place, rule = rank_difference(compared, name)
    unlikely = field == "tool" or key in _UNLIKELY or rule.noise
    return place + _LAST * unlikely, rule.reason, kind, name


def _classify(slot: Slot, slots: tuple[Slots, Slots]) -> tuple[AtomKind, str, Kind]:
    """Return kind and name of a slot's difference, and its kind in `compare`."""
    field, key = slot
    first, second = (side.get(slot) for side in slots)
    if field == "environment":
        if key in PRELOADS:
            return "preload", key, "environment"
        return ("order" if _same_entries(key, first, second) else "variable"), key, "environment"
    if field in ("wheel", "sdist"):
        return "python", key, "python"
    if field == "conda":
        return "conda", key, "conda"
    if field == "source":
        installed = any(source.installed for source in (first, second) if source)
        return "source", key, "source" if installed else "job"
    if field == "system":
        return "system", key.partition(":")[0], "system"
    if field == "base":
        return "release", "system", "release"
    if key == "interpreter":
        return "interpreter", "python", "interpreter"
    if key in ("profile", "seed"):
        return ("profile" if key == "profile" else "seed"), key, "recipe"
    return "recipe", "tools" if field == "tool" else key, "recipe"


def _same_entries(name: str, first: EnvVar | None, second: EnvVar | None) -> bool:
    """Return whether two lists have the same entries in another order."""
    if first is None or second is None:
        return False
    changes = compare_entries(name, first.value, second.value)
    return changes is not None and changes.same_entries


def _name_file(value: Any) -> str:
    """Return the name of a part's file with the beginning of its sha256, or the part itself."""
    file = getattr(value, "file", None)
    return (
        f"{file.filename}, {file.sha256[:12]}" if file else redact(str(msgspec.to_builtins(value))[:LONGEST])
    )


def _text(value: Any) -> str | None:
    """Return the value of a slot, as a person reads it, without secrets."""
    if value is None:
        return None
    if isinstance(value, EnvVar):
        return display_variable(value)
    if isinstance(value, Source):
        return f"commit {value.commit[:12]}, tree {value.tree[:12]}"
    if isinstance(value, Interpreter):
        return f"{value.version} ({value.kind})"
    if isinstance(value, (Deb, Wheel)) or hasattr(value, "version"):
        build = f" {value.build}" if hasattr(value, "build") else ""
        return f"{value.version}{build}"
    return redact(str(msgspec.to_builtins(value))[:LONGEST])
