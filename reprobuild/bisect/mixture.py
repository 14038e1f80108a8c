"""Mixtures: lock A with some of the differences of lock B."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from typing import IO

from msgspec import Struct

from reprobuild.bisect.atoms import CHOICES, AtomSet, find_atoms
from reprobuild.bisect.requirements import FindLinks, link_wheels
from reprobuild.bisect.slots import join_slots, split_lock
from reprobuild.bisect.sources import SourceChanges, find_changes
from reprobuild.lock.fields import is_same_part
from reprobuild.lock.model import Lock, canonical, unseal
from reprobuild.lock.python import Source
from reprobuild.run.choice_pair import ChoicePair, MixtureChoices

# Opens the tar of a source's tree; None if it is unavailable.
OpenTar = Callable[[Source], AbstractContextManager[IO[bytes]] | None]
_NO_CHOICES = ChoicePair()


class Mixture(Struct, frozen=True, kw_only=True):
    """A lock with its own trees and saved choices.

    `tars` are the trees of sources that only this mixture has. One of `choices` must fit.
    """

    lock: Lock
    tars: tuple[bytes, ...] = ()
    choices: MixtureChoices = MixtureChoices()


class Mixer(Struct, frozen=True, kw_only=True):
    """Two locks, neither sealed, their atoms, and the changes of sources by name."""

    first: Lock
    second: Lock
    atoms: AtomSet
    changes: Mapping[str, SourceChanges]
    choices: ChoicePair = _NO_CHOICES

    def mix(self, chosen: Collection[int]) -> Mixture:
        """Return lock A with these atoms, which is lock B with all of them.

        Fields without an effect on the image are those of A, unless all atoms are chosen.
        """
        slots, other = split_lock(self.first), split_lock(self.second)
        parts: dict[str, list[int]] = {}
        for number in sorted(set(chosen)):
            atom = self.atoms.atoms[number]
            if atom.part is not None:
                parts.setdefault(atom.slots[0][1], []).append(atom.part)
                continue
            for slot in atom.slots:
                slots.pop(slot, None)
                if slot in other:
                    slots[slot] = other[slot]
        tars = []
        for name, numbers in parts.items():
            slot = "source", name
            if len(numbers) == len(self.changes[name].changes):
                slots[slot] = other[slot]
            else:
                slots[slot], tar = self.changes[name].mix(slots[slot], numbers)
                tars.append(tar)
        inert = self.second if chosen and len(set(chosen)) == len(self.atoms.atoms) else self.first
        has_second = any(CHOICES in self.atoms.atoms[number].slots for number in chosen)
        return Mixture(
            lock=join_slots(slots, inert, (self.first, self.second)), tars=tuple(tars),
            choices=self.choices.choose(second=has_second),
        )  # fmt: skip


def make_mixer(
    first: Lock, second: Lock, open_tar: OpenTar = lambda _: None, find_links: FindLinks = link_wheels,
    choices: ChoicePair = _NO_CHOICES,
) -> Mixer:  # fmt: skip
    """Return the mixer of two locks of one platform.

    Args:
        first, second: the locks.
        open_tar: opens the tree of a source, to tell its changes apart.
        find_links: finds the requirements between the slots that differ.
        choices: the saved choices of compilers.
    """
    locks = canonical(unseal(first)), canonical(unseal(second))
    locks = locks[0], _adopt_same_parts(*locks)
    changes = _find_all_changes(locks, open_tar)
    return Mixer(
        first=locks[0], second=locks[1], atoms=find_atoms(*locks, changes, find_links, choices), changes=changes,
        choices=choices,
    )  # fmt: skip


def _adopt_same_parts(first: Lock, second: Lock) -> Lock:
    """Return lock B with the parts of A that make the same image, such as a file from another mirror."""
    first_slots, slots = split_lock(first), split_lock(second)
    for slot, value in slots.items():
        former = first_slots.get(slot)
        if isinstance(value, Struct) and isinstance(former, type(value)) and is_same_part(former, value):
            slots[slot] = former
    return join_slots(slots, second, (second, first))


def _find_all_changes(locks: tuple[Lock, Lock], open_tar: OpenTar) -> dict[str, SourceChanges]:
    changes = {}
    others = {source.name: source for source in locks[1].sources}
    for source in locks[0].sources:
        other = others.get(source.name)
        if other is None or other.tree == source.tree:
            continue
        tars = open_tar(source), open_tar(other)
        if tars[0] is None or tars[1] is None:
            continue
        with contextlib.ExitStack() as stack:
            streams = stack.enter_context(tars[0]), stack.enter_context(tars[1])
            if split := find_changes(source, other, streams):
                changes[source.name] = split
    return changes
