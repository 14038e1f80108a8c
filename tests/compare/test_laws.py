"""What holds of any two sides: the same twice is the same, the other way round is the mirror, nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reprobuild.compare.environments.comparison import EnvironmentComparison, EnvironmentDifference
from reprobuild.compare.environments.model import KINDS, Environment
from reprobuild.compare.environments.sides import compare_sides
from reprobuild.report.comparison import render_comparison

ASPECTS = st.dictionaries(
    st.sampled_from(["version", "sha256", "commit"]), st.sampled_from(["1", "1.0", "2", ""])
)
NAMES = st.sampled_from(["torch", "pip", "LD_PRELOAD", "PWD", "libc6", "seed", "a"]) | st.text(max_size=3)
FACTS = st.dictionaries(NAMES, ASPECTS, max_size=6)
SIDES = st.builds(
    Environment,
    name=st.text(max_size=5),
    form=st.just("snapshot"),
    known=st.dictionaries(st.sampled_from(KINDS), FACTS, max_size=5),
    unlisted=st.dictionaries(st.sampled_from(KINDS), st.just(frozenset({"pip"}))),
)


def mirrored(difference: EnvironmentDifference) -> tuple[object, ...]:
    d = difference
    return (d.rank, d.kind, d.name, d.other, d.one, d.aspects, d.noise)


def rows(found: EnvironmentComparison) -> list[tuple[object, ...]]:
    return [(d.rank, d.kind, d.name, d.one, d.other, d.aspects, d.noise) for d in found.differences]


@given(SIDES)
def test_a_side_is_the_same_as_itself(side: Environment) -> None:
    found = compare_sides(side, side)
    assert (found.differences, found.is_same) == ([], True)


@given(SIDES, SIDES)
def test_the_other_way_round_is_the_mirror(one: Environment, other: Environment) -> None:
    there, back = compare_sides(one, other), compare_sides(other, one)
    assert [mirrored(difference) for difference in back.differences] == rows(there)
    assert len(there.not_compared) == len(back.not_compared)
    assert there.is_same == back.is_same


@given(SIDES, SIDES)
def test_nothing_is_lost(one: Environment, other: Environment) -> None:
    found = compare_sides(one, other)
    differing = {(difference.kind, difference.name) for difference in found.differences}
    whole = {item.kind for item in found.not_compared if not item.names}
    single = {(item.kind, name) for item in found.not_compared for name in item.names}
    for kind in KINDS:
        if kind == "choices" and not one.known.get(kind) and not other.known.get(kind):
            continue  # without facts, no side states an absence
        assert (kind in whole) == (kind not in one.known or kind not in other.known)
        if kind in whole:
            continue
        for name in {*one.known[kind], *other.known[kind]}:
            here, there = one.known[kind].get(name), other.known[kind].get(name)
            if here != there:
                # What is spelt otherwise and means the same is in neither.
                same = (
                    here is not None
                    and there is not None
                    and {*here.values(), *there.values()} >= {"1", "1.0"}
                )
                assert (kind, name) in differing | single or same


@given(SIDES, SIDES)
def test_the_text_says_the_first_and_is_fit_to_print(one: Environment, other: Environment) -> None:
    found = compare_sides(one, other)
    text = render_comparison(found, everything=True)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert text.startswith("likeliest: " if found.differences else "no difference")
    counted = [
        line.partition(": ")[2] for line in text.splitlines() if line.startswith(("differ: ", "only in "))
    ]
    assert sum(map(int, counted)) == len(found.differences)
    ranks = [difference.rank for difference in found.differences]
    assert ranks == sorted(ranks)
