"""The choice of packages against an oracle that tries every subset, and by hand: whether, how well, and why not."""

from __future__ import annotations

import pytest

from reprobuild.errors import LockError
from reprobuild.resolve.system.alternatives import Ways
from reprobuild.resolve.system.base import find_base
from reprobuild.resolve.system.closure import Closure
from reprobuild.resolve.system.solver import Needs, OneVersion, PackagePool, RequestRestriction, Restriction
from reprobuild.resolve.system.version_search import Search
from tests.system.pools import VERSIONS, RandomPool, make_pool
from tests.system.samples import Shelved, index, package, stanza
from tests.system.test_system import SYSTEM, outcome, resolve

POOLS = 1000
FIRST = 20_261_123
LABEL = "debian/made"


@pytest.mark.parametrize("first", range(FIRST, FIRST + POOLS, 100))
def test_a_system_of_least_deviation_is_found_whenever_there_is_one(first: int) -> None:
    possible = 0
    for seed in range(first, first + 100):
        pool = make_pool(seed)
        subset, best = _solve(pool), pool.best()
        assert (subset is None) == (best is None), f"seed {seed}: {subset}, {best}"
        if subset is not None:
            assert subset in pool.holds(rule for _, rule in pool.rules()), f"seed {seed}: {subset:b}"
            assert pool.founded(subset), f"seed {seed}: {subset:b}"
            assert pool.deviation(subset) == best, f"seed {seed}: {subset:b}"
            possible += 1
    assert 20 < possible < 80, f"seeds from {first}: {possible} of 100 pools have a system"


@pytest.mark.parametrize("first", range(FIRST, FIRST + POOLS, 500))
def test_what_is_named_contradicts_itself_and_none_of_it_can_be_spared(first: int) -> None:
    contradictions = 0
    for seed in range(first, first + 500):
        pool = make_pool(seed)
        if pool.best() is not None:
            continue
        made = pool.index()
        captured = {key: VERSIONS[version] for key, version in pool.captured.items()}
        core = {
            _name(part)
            for part in PackagePool(made, Ways(made), captured, pool.asked, whole=True).contradiction()
        }
        rules = [(name, rule) for name, rule in pool.rules() if name in core]
        assert core == {name for name, _ in rules}, f"seed {seed}"
        assert not list(pool.holds(rule for _, rule in rules)), f"seed {seed}: {core}"
        for spared in core:
            less = pool.holds(rule for name, rule in rules if name != spared)
            assert next(less, None) is not None, f"seed {seed}: {spared} of {core}"
        contradictions += 1
    assert contradictions > 100, f"seeds from {first}: {contradictions} contradictions"


def _solve(pool: RandomPool) -> int | None:
    """Return the subset that is chosen, None where none can be had."""
    captured = {key: VERSIONS[version] for key, version in pool.captured.items()}
    try:
        chosen = Closure(pool.index(), captured).close(dict.fromkeys(pool.asked, "a test"))
    except LockError:
        return None
    places = {(key, choice.candidate.version) for key, choice in chosen.items()}
    return pool.mask((entry.key, VERSIONS[entry.version]) in places for entry in pool.entries)


def test_the_package_that_needs_moves_where_the_captured_version_of_the_other_is_gone() -> None:
    # libgcc-s1's captured version is in the pool, that of gcc-12-base is not.
    found, rulings = resolve(
        [package("gcc", "12-1", "manual", line=2), package("base", "12-1", line=3)],
        stanza("gcc", "12-1", "base (= 12-1)"), stanza("gcc", "12-3", "base (= 12-3)"), stanza("base", "12-3"),
    )  # fmt: skip
    assert (found["gcc"], found["base"]) == ("12-3", "12-3")
    assert outcome(rulings["gcc"]) == outcome(rulings["base"]) == ("replaced", "withdrawn")
    assert "gcc 12-1 does not fit the versions that the rest has to take" in rulings["gcc"].reason


def test_a_third_package_that_fixes_the_version_moves_the_second() -> None:
    # libstdc++6 is there in a later version alone, which fixes gcc-12-base, which libgcc-s1 needs in its own.
    found, _ = resolve(
        [package("stdc", "12-1", "manual", line=2), package("gcc", "12-1", "manual", line=3), package("base", "12-1")],
        stanza("stdc", "12-3", "base (= 12-3)"),
        stanza("gcc", "12-1", "base (= 12-1)"), stanza("gcc", "12-3", "base (= 12-3)"),
        stanza("base", "12-1"), stanza("base", "12-3"),
    )  # fmt: skip
    assert (found["stdc"], found["gcc"], found["base"]) == ("12-3", "12-3", "12-3")


def test_a_provider_of_a_versioned_virtual_package_moves() -> None:
    # libapt-pkg-dev needs libapt-pkg (= VERSION), which libapt-pkg6.0 provides.
    found, _ = resolve(
        [package("dev", "2.4-1", "manual", line=2), package("lib6", "2.4-1", line=3)],
        stanza("dev", "2.4-5", "lib (= 2.4-5)"),
        stanza("lib6", "2.4-1", "", "Provides: lib (= 2.4-1)"), stanza("lib6", "2.4-5", "", "Provides: lib (= 2.4-5)"),
    )  # fmt: skip
    assert (found["dev"], found["lib6"]) == ("2.4-5", "2.4-5")


def test_only_what_must_move_moves() -> None:
    found, rulings = resolve(
        [package("aa", "1-1", "manual", line=2), package("bb", "1-1", line=3), package("cc", "1-1", line=4)],
        stanza("aa", "1-1", "bb, cc"), stanza("aa", "1-2", "bb, cc"), stanza("bb", "1-2", "cc (>= 1-2)"),
        stanza("cc", "1-1"), stanza("cc", "1-2"), stanza("cc", "1-3"),
    )  # fmt: skip
    assert (found["aa"], found["bb"], found["cc"]) == ("1-1", "1-2", "1-2")
    assert outcome(rulings["aa"]) == ("pinned", "")


def test_a_captured_package_moves_rather_than_that_another_takes_its_place() -> None:
    found, _ = resolve(
        [package("aa", "1-1", "manual", line=2), package("bb", "1-1", line=3)],
        stanza("aa", "1-1", "bb | other", "Breaks: bb (<< 2)"), stanza("bb", "1-1"), stanza("bb", "2-1"),
        stanza("other", "1"),
    )  # fmt: skip
    assert {"bb", "other"} & set(found) == {"bb"}
    assert found["bb"] == "2-1"


def test_the_error_is_the_whole_contradiction_and_the_hint_what_was_asked_for() -> None:
    stanzas = [
        stanza("aa", "1-1", "bb"), stanza("bb", "1-1", "dd (= 1-1)"), stanza("bb", "1-2", "dd (= 1-1)"),
        stanza("cc", "1-1", "dd (= 1-2)"), stanza("dd", "1-1"), stanza("dd", "1-2"), stanza("free", "1"),
    ]  # fmt: skip
    asked = [package(name, "1-1", "manual", line=line) for line, name in enumerate(("aa", "cc", "free"), 2)]
    with pytest.raises(LockError) as err:
        resolve(asked, *stanzas)
    assert str(err.value) == (
        "aa 1-1 needs bb; cc 1-1 needs dd (= 1-2); bb 1-2 and 1-1 needs dd (= 1-1); only one version of dd can be "
        "installed"
    )
    assert err.value.hint == (
        "leave one of them out: `--drop aa` or `--drop cc`; or give apt a source that has the captured versions, which "
        "stood together"
    )
    found, _ = resolve(asked, *stanzas, drop=["aa"])
    assert {"cc", "free"} <= set(found)


def test_what_a_person_did_not_ask_for_is_not_offered_to_be_left_out() -> None:
    with pytest.raises(LockError, match=rf"py 3 needs gone, which {LABEL} does not have") as err:
        resolve([], stanza("py", "3", "gone"), roots=["py"])
    assert err.value.hint == "choose another base or Python, or give apt a source that has it"
    with pytest.raises(LockError, match=rf"bb 1-1 needs gone, which {LABEL} does not have") as err:
        resolve([package("aa", "1-1", "manual")], stanza("aa", "1-1", "bb"), stanza("bb", "1-1", "gone"))
    assert err.value.hint == "give apt a source that has it, or leave aa out with `--drop aa`"


@pytest.mark.parametrize(
    ("version", "suites", "words"),
    [
        ("1-1", (), "is not in debian/made any more; 1-2 is the nearest"),
        ("0-1", ("made-updates", "made"), "is not in debian/made any more, and no later revision"),
        ("0-1", ("stable-security",), "is not in debian/made any more, and no later revision"),
        (
            "9-1",
            ("made",),
            "is not in debian/made (if it came from another archive, name that with `--archive`), and",
        ),
        (
            "9-1",
            ("stable",),
            "is not in debian/made (if it came from another archive, name that with `--archive`), and",
        ),
        (
            "9-1",
            (),
            "is not in debian/made (if it came from another archive, name that with `--archive`), and",
        ),
    ],
)
def test_only_of_what_was_there_it_is_said_that_it_is_there_no_more(
    version: str, suites: tuple[str, ...], words: str
) -> None:
    _, rulings = resolve([package("aa", version, "manual", suites=suites)], stanza("aa", "1-2"))
    assert rulings["aa"].reason.startswith(f"aa {version} {words}")


@pytest.mark.parametrize(
    ("captured", "there", "words"),
    [
        (
            "2024a-0+deb12u1",
            "2026b-0+deb12u1",
            "is there; the image has 2026b-0+deb12u1, a later upstream version",
        ),
        ("2024a-1", "2023c-1", "is there; the image has 2023c-1, an earlier upstream version"),
        ("1-3", "1-2", "is there; the image has 1-2, an earlier revision"),
    ],
)
def test_another_version_is_named_as_what_the_image_has(captured: str, there: str, words: str) -> None:
    """Debian's tzdata has a new upstream version in each update: a later version is there, but no later revision."""
    found, rulings = resolve([package("tzdata", captured, "manual")], stanza("tzdata", there))
    assert found["tzdata"] == there
    assert outcome(rulings["tzdata"]) == ("unresolved", "unknown-version")
    assert rulings["tzdata"].reason.endswith(f"no later revision of the same upstream version {words}")


def test_a_later_revision_that_does_not_fit_is_not_denied() -> None:
    found, rulings = resolve(
        [package("aa", "1-1", "manual", line=2), package("bb", "1-1", "manual", line=3)],
        stanza("aa", "1-1", "bb (= 2-1)"), stanza("bb", "1-2"), stanza("bb", "2-1"),
    )  # fmt: skip
    assert found["bb"] == "2-1"
    assert rulings["bb"].reason.endswith(
        "no later revision of the same upstream version fits; the image has 2-1, a later upstream version"
    )


def test_every_place_is_asked_before_a_contradiction_ends_the_search() -> None:
    # The mirror has aa alone; the captured bb, which it needs, is elsewhere, and so is what provides vv.
    packages = (
        package("aa", "1-1", "manual", line=2), package("bb", "1-1", line=3), package("pp", "1-1", line=4),
        package("old", "1-1", "residual", line=5),
    )  # fmt: skip
    made = index(*SYSTEM, stanza("aa", "1-1", "bb (= 1-1)"), stanza("bb", "1-2"))
    shelf = Shelved(stanza("bb", "1-1", "vv"), stanza("pp", "1-1", "", "Provides: vv"))
    base, rulings, _ = find_base(packages, made, Search(packages, made, None, [shelf], now=0), roots=[])
    assert {"aa", "bb", "pp"} <= {deb.name for deb in base.packages}
    assert {ruling.outcome for ruling in rulings if ruling.subject in ("aa", "bb", "pp")} == {"pinned"}
    assert shelf.asked == ["bb", "pp"]  # first what the contradiction is about
    empty = Shelved()
    with pytest.raises(LockError, match=r"aa 1-1 needs bb \(= 1-1\), which debian/made does not have"):
        find_base(packages, made, Search(packages, made, None, [empty], now=0), roots=[])
    assert empty.asked == ["bb", "pp"]


def _name(part: Restriction) -> tuple[object, ...]:
    """Return a restriction as the oracle names it."""
    if isinstance(part, RequestRestriction):
        return "asked", part.key
    if isinstance(part, Needs):
        return "needs", part.candidate.key, part.candidate.version, str(part.need)
    if isinstance(part, OneVersion):
        return "one", part.key
    return "clash", frozenset((each.key, each.version) for each in (part.one, part.other))
