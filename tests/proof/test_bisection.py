"""The planted pairs of the proof of `bisect`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from proof.bisection import differences, experiment, kills, pairs
from reprobuild.bisect.atoms import find_atoms
from reprobuild.lock.system import Base
from reprobuild.store.store import Store
from tests.verify.samples import deb

PAIRS = pairs.make_pairs()


class MadeWorld(differences.World):
    """A world whose packages of Debian are made."""

    def base(self, packages: frozenset[str]) -> Base:
        return Base(
            distribution="debian", release="bookworm", packages=(deb("bash"), *map(deb, sorted(packages)))
        )


def test_the_pairs_have_all_kinds_and_sizes() -> None:
    assert len(PAIRS) == 60
    assert Counter(len(pair.differences) for pair in PAIRS) == dict.fromkeys(pairs.COUNTS, 10)
    assert Counter(len(pair.guilty) for pair in PAIRS) == {1: 30, 2: 24, 3: 6}
    guilty = Counter(item.kind for pair in PAIRS for item in pair.guilty)
    assert set(guilty) == {*pairs.KINDS, *(item.kind for item in differences.special())}
    assert len({item.name for pair in PAIRS for item in pair.guilty}) > 20


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_the_locks_differ_as_planted(number: int, tmp_path: Path) -> None:
    pair = PAIRS[number]
    world = MadeWorld(Store(tmp_path / "store"), tmp_path / "world")
    planted = [item for item in pair.differences if item.kind != "hunk"]
    atoms = find_atoms(*world.pair(planted)).atoms
    assert sorted(atom.name for atom in atoms) == sorted(item.name for item in planted)


def test_wrong_answers_are_counted() -> None:
    right = {
        "kind": "planted",
        "right": True,
        "differences": 5,
        "guilty": "seed",
        "runs": 9,
        "set-up": 0.2,
        "found": [],
    }
    wrong = {**right, "right": False, "runs": 11}
    assert experiment.held([right])
    assert not experiment.held([right, wrong])
    assert experiment.rows([right, wrong]) == [["5", "1 of 2", "10", "-", "-", "0.2"]]
    noisy = [{**right, "kind": "noisy", "right": number > 0, "found": ["V001"]} for number in range(20)]
    assert experiment.held(noisy)
    assert not experiment.held([*noisy, noisy[0]])
    missing = {**noisy[0], "found": []}
    assert experiment.held([*noisy, missing])
    assert not experiment.held([*noisy, missing, missing])
    assert "0 accusations" in experiment.describe([right, *noisy])


def test_repeated_trials_are_counted() -> None:
    names = ["V003", "v001"]
    right = {
        "kills": kills.KILLS, "runs again": 2, "answers after kills": [names, names],
        "answers side by side": [names, names],
    }  # fmt: skip
    assert kills.held(right)
    assert not kills.held({**right, "runs again": kills.KILLS + 1})
    assert not kills.held({**right, "kills": kills.KILLS - 1})
    assert not kills.held({**right, "answers after kills": [names, []]})
