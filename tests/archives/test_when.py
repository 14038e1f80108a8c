"""The moment of the last `apt update`, on made histories: intervals, their intersection, and what disagrees."""

from __future__ import annotations

import random

import pytest

from reprobuild.resolve.system.apt_update_time import (
    MOST_SAMPLES,
    RESOLUTION,
    Claim,
    Sample,
    claims_of,
    find_version,
    infer_moment,
)
from reprobuild.snapshot.model import SourceLocation
from tests.archives.world import DEBIAN, END, START, TICK, UBUNTU, Shape, make_world
from tests.system.samples import package

DAY = 86400
HISTORY = {  # name: the days at which versions 1, 2, 3 ... came
    "often": range(0, 360, 20),
    "rare": (0, 100, 250),
    "once": (0,),
}


class Archive:
    """An archive with that history; `looked` are the moments at which it was asked."""

    def __init__(self, history: dict[str, object] | None = None) -> None:
        self.history = history or HISTORY
        self.looked: list[int] = []

    def look(self, time: int) -> Sample | None:
        self.looked.append(time)
        return self.at(time)

    def at(self, time: int) -> Sample | None:
        if time < START:
            return None
        days = (time - START) / DAY
        offered = {
            (name, "amd64"): (str(sum(day <= days for day in came)),)
            for name, came in self.history.items()  # type: ignore[attr-defined]  # ranges and tuples of days
        }
        return Sample(time, offered)


def claims_at(time: int, *, sure: bool = True) -> list[Claim]:
    sample = Archive().at(time)
    assert sample is not None
    return [
        Claim(place=SourceLocation("apt-packages.txt", number), key=key, version=versions[0], sure=sure)
        for number, (key, versions) in enumerate(sample.versions.items(), 1)
    ]


@pytest.mark.parametrize("day", [0.5, 19, 21, 101, 249.9, 250.1, 359])
def test_the_moment_lies_in_the_intersection_of_all_intervals(day: float) -> None:
    true, archive = START + int(day * DAY), Archive()
    moment = infer_moment(claims_at(true), archive.look, END)
    assert moment is not None
    found = archive.at(moment.time)
    assert found == Sample(moment.time, {c.key: (c.version,) for c in claims_at(true)})
    assert (moment.after or 0) < true
    assert true < (moment.before or END + 1)
    assert (moment.agreeing, moment.claims, moment.against, moment.confidence) == (3, 3, (), 1)
    assert len(archive.looked) <= 18


@pytest.mark.parametrize("later", [60, 5 * DAY, 400 * DAY])
def test_the_same_list_leads_to_the_same_moment_on_every_later_day(later: int) -> None:
    """The address of each file names the moment, and a lock shall not depend on the clock."""
    true = START + 130 * DAY
    first = infer_moment(claims_at(true), Archive().look, END)
    assert first == infer_moment(claims_at(true), Archive().look, END + later)
    found = [find_version(("often", "amd64"), "4", Archive().look, END + more) for more in (0, later)]
    assert found[0] == found[1]


def test_a_hint_of_the_capture_is_asked_first_and_may_be_all_that_is_asked() -> None:
    true, archive = START + 130 * DAY, Archive()
    moment = infer_moment(claims_at(true), archive.look, END, [true + 60])
    assert moment is not None
    assert archive.looked == [true + 60]
    assert moment.time == true + 60


def test_a_hint_that_is_wrong_does_not_mislead() -> None:
    true, archive = START + 130 * DAY, Archive()
    moment = infer_moment(claims_at(true), archive.look, END, [START + 10 * DAY, END + DAY])
    assert moment is not None
    assert moment.confidence == 1
    assert archive.at(moment.time) == Sample(moment.time, {c.key: (c.version,) for c in claims_at(true)})


def test_where_intervals_do_not_meet_most_of_them_decide_and_the_others_are_named() -> None:
    true = START + 130 * DAY
    claims = [*claims_at(true)]
    claims += [
        Claim(place=SourceLocation("apt-packages.txt", 9), key=("lagging", "amd64"), version="1", sure=True),
        Claim(place=SourceLocation("apt-packages.txt", 10), key=("foreign", "amd64"), version="1", sure=True),
    ]
    archive = Archive(
        {**HISTORY, "lagging": (0, 30)}
    )  # the mirror had version 1 long after its successor came
    moment = infer_moment(claims, archive.look, END)
    assert moment is not None
    assert (moment.agreeing, moment.claims) == (3, 4)  # what no archive knows says nothing
    assert moment.against == (SourceLocation("apt-packages.txt", 9),)
    assert moment.confidence == 0.75
    assert (moment.after or 0) < true < (moment.before or END)


def test_a_list_without_suites_bounds_from_below_and_likely_from_above() -> None:
    true, archive = START + 130 * DAY, Archive()
    moment = infer_moment(claims_at(true, sure=False), archive.look, END)
    assert moment is not None
    found = archive.at(moment.time)
    assert found is not None
    assert found.versions == {c.key: (c.version,) for c in claims_at(true)}
    assert moment.before is None


def test_an_archive_that_has_nothing_gives_no_moment() -> None:
    assert infer_moment(claims_at(END), lambda time: None, END) is None
    archive = Archive({"other": (0,)})
    assert infer_moment(claims_at(END), archive.look, END) is None
    assert len(archive.looked) <= MOST_SAMPLES


def test_the_number_of_questions_is_bounded() -> None:
    """Forty packages that contradict each other, each with a version of its own every few hours."""
    dice = random.Random(3)
    history = {f"p{n}": sorted(dice.sample(range(360), 60)) for n in range(40)}
    archive = Archive(dict(history))
    claims = [
        Claim(
            place=SourceLocation("x", n),
            key=(f"p{n}", "amd64"),
            version=str(dice.randrange(1, 60)),
            sure=True,
        )
        for n in range(40)
    ]
    moment = infer_moment(claims, archive.look, END)
    assert len(archive.looked) <= MOST_SAMPLES
    assert moment is not None
    assert moment.confidence < 1


def test_what_the_lines_of_a_list_say() -> None:
    packages = [
        package("a", "1", "manual", suites=("bookworm",)),
        package("b", "1", "automatic"),
        package("c", "1", "local", suites=()),
        package("d", "1", "residual"),
        package("e", "1", "automatic", architecture="all", suites=("bookworm",)),
        package("f", "1", "manual", architecture="i386", suites=("bookworm",)),
    ]
    found = {claim.key: claim.sure for claim in claims_of(packages, "amd64")}
    assert found == {
        ("a", "amd64"): True, ("b", "amd64"): False, ("e", "amd64"): True, ("f", "i386"): True,
    }  # fmt: skip


@pytest.mark.parametrize("shape", [DEBIAN, UBUNTU], ids=["debian", "ubuntu"])
@pytest.mark.parametrize("seed", range(10))
def test_random_moments_of_a_made_up_year(shape: Shape, seed: int) -> None:
    """The bounds hold the true moment wherever nothing was taken back."""
    world, dice = make_world(shape, seed, withdrawn=False), random.Random(seed)
    true = dice.randrange(START + DAY, END)

    def look(time: int) -> Sample | None:
        offered = world.offered(START + (time - START) // TICK * TICK)
        return Sample(time, {(name, "amd64"): tuple(versions) for name, versions in offered.items()})

    newest = {name: max(versions) for name, versions in world.offered(true).items()}
    claims = [
        Claim(place=SourceLocation("x", n), key=(name, "amd64"), version=version, sure=True)
        for n, (name, version) in enumerate(sorted(newest.items()))
    ]
    moment = infer_moment(claims, look, END)
    assert moment is not None
    assert moment.confidence == 1
    assert (moment.after or 0) <= true + TICK
    assert true - TICK <= (moment.before or END)


@pytest.mark.parametrize("version", ["1", "4", "18"])
def test_a_version_is_found_at_a_moment_that_has_it(version: str) -> None:
    archive = Archive()
    found = find_version(("often", "amd64"), version, archive.look, END)
    assert found is not None
    assert found.versions["often", "amd64"] == (version,)
    assert len(archive.looked) < 18


def test_known_moments_are_asked_before_the_archive() -> None:
    archive = Archive()
    known = [sample for day in (10, 70, 130, 350) if (sample := archive.at(START + day * DAY))]
    assert find_version(("often", "amd64"), "4", archive.look, END, known) == known[1]
    assert archive.looked == []
    find_version(("often", "amd64"), "5", archive.look, END, known)
    assert all(known[1].time < time < known[2].time for time in archive.looked)


def test_a_version_that_never_was_is_not_found() -> None:
    archive = Archive()
    assert find_version(("often", "amd64"), "4.5", archive.look, END) is None
    assert find_version(("absent", "amd64"), "1", archive.look, END) is None
    assert len(archive.looked) < 2 * 18
    assert RESOLUTION == 3600
