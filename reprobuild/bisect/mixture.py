"""Mixtures: lock A with some of the differences of lock B."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from reprobuild.bisect.atoms import Atom, AtomSet, find_atoms
from reprobuild.bisect.slots import join_slots, split_lock
from reprobuild.lock.model import Lock, canonical, unseal


class Mixer(Struct, frozen=True, kw_only=True):
    """Two locks, neither sealed, and their atoms."""

    first: Lock
    second: Lock
    atoms: AtomSet

    def mix(self, chosen: Collection[int]) -> Lock:
        """Return lock A with these atoms, which is lock B with all of them.

        Fields without an effect on the image are those of A, unless all atoms are chosen.
        """
        slots, other = split_lock(self.first), split_lock(self.second)
        for number in chosen:
            for slot in self.atoms.atoms[number].slots:
                slots.pop(slot, None)
                if slot in other:
                    slots[slot] = other[slot]
        inert = self.second if chosen and len(set(chosen)) == len(self.atoms.atoms) else self.first
        return join_slots(slots, inert, (self.first, self.second))

    def list_atoms(self, chosen: Collection[int]) -> list[Atom]:
        """Return atoms by their numbers, the likeliest first."""
        return [self.atoms.atoms[number] for number in sorted(chosen)]


def make_mixer(first: Lock, second: Lock) -> Mixer:
    """Return the mixer of two locks of one platform."""
    locks = canonical(unseal(first)), canonical(unseal(second))
    return Mixer(first=locks[0], second=locks[1], atoms=find_atoms(*locks))
