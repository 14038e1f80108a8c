"""What a dependency may say beyond a name: provides, alternatives, conflicts, cycles; on made indexes."""

from __future__ import annotations

import pytest

from reprobuild.errors import LockError
from tests.system.samples import package, stanza
from tests.system.test_system import outcome, resolve

ASKED = [package("aa", "1-1", "manual", line=3), package("bb", "1-1", "manual", line=4)]


@pytest.mark.parametrize(
    "field", ["Conflicts: bb", "Breaks: bb (<< 2)", "Conflicts: cc, vv", "Breaks: bb:any, cc"]
)
def test_two_packages_that_conflict_are_named_when_locking(field: str) -> None:
    other = stanza("bb", "1-1", "", "Provides: vv", "Multi-Arch: allowed")
    with pytest.raises(
        LockError, match=r"aa 1-1 and bb 1-1 cannot be installed together: aa says that it"
    ) as err:
        resolve(ASKED, stanza("aa", "1-1", "", field), other)
    assert err.value.hint == (
        "leave one of them out: `--drop aa` or `--drop bb`; or give apt a source that has the captured versions, "
        "which stood together"
    )
    found, _ = resolve(ASKED, stanza("aa", "1-1", "", field), other, drop=["bb"])
    assert "aa" in found


@pytest.mark.parametrize(
    "field",
    ["Conflicts: aa", "Conflicts: ww", "Breaks: bb (<< 1)", "Conflicts: vv (<< 2)", "Breaks: bb:i386"],
)
def test_what_is_no_conflict_is_none(field: str) -> None:
    first = stanza("aa", "1-1", "", field, "Provides: ww")
    found, _ = resolve(ASKED, first, stanza("bb", "1-1", "", "Provides: vv"))
    assert {"aa", "bb"} <= set(found)


def test_a_conflict_with_old_versions_is_over_with_a_later_one() -> None:
    # aa was withdrawn, and the later one wants a later bb than the captured one.
    found, rulings = resolve(
        ASKED, stanza("aa", "1-2", "", "Breaks: bb (<< 1-3)"),
        stanza("bb", "1-1"), stanza("bb", "1-3"), stanza("bb", "1-4"),
    )  # fmt: skip
    assert (found["aa"], found["bb"]) == ("1-2", "1-3")
    assert outcome(rulings["bb"]) == ("replaced", "withdrawn")
    assert "does not fit the versions that the rest has to take" in rulings["bb"].reason


def test_another_alternative_is_taken_where_the_first_conflicts() -> None:
    stanzas = [
        stanza("aa", "1-1", "mta"), stanza("bb", "1-1", "", "Conflicts: first"),
        stanza("first", "1", "", "Provides: mta", "Priority: important"),
        stanza("second", "1", "", "Provides: mta", "Priority: optional"),
    ]  # fmt: skip
    found, _ = resolve(ASKED[:1], *stanzas)
    assert {"first", "second"} & set(found) == {"first"}
    found, _ = resolve(ASKED, *stanzas)
    assert {"first", "second"} & set(found) == {"second"}
    with pytest.raises(LockError, match=r"bb 1-1 and first 1 cannot be installed together"):
        resolve(ASKED, *stanzas[:-1])


def test_the_one_that_has_an_alternative_gives_way() -> None:
    # Both were chosen freely; nothing else does for one of them, and for the other something does.
    stanzas = [
        stanza("aa", "1-1", "only, first | second"), stanza("only", "1", "", "Conflicts: first", "Provides: second"),
        stanza("first", "1", "", "Conflicts: only"),
    ]  # fmt: skip
    found, _ = resolve(ASKED[:1], *stanzas)
    assert {"first", "only"} & set(found) == {"only"}
    stanzas[0] = stanza("aa", "1-1", "first, only | second")
    stanzas[1] = stanza("only", "1")
    stanzas[2] = stanza("first", "1", "", "Conflicts: only", "Provides: second")
    found, _ = resolve(ASKED[:1], *stanzas)
    assert {"first", "only"} & set(found) == {"first"}
    stanzas[0] = stanza("aa", "1-1", "first, only")
    with pytest.raises(LockError, match=r"first 1 and only 1 cannot be installed together"):
        resolve(ASKED[:1], *stanzas)


def test_a_chain_of_alternatives_that_conflict_ends() -> None:
    names = [f"p{number}" for number in range(8)]
    stanzas = [
        stanza("aa", "1-1", " | ".join(names)),
        stanza("bb", "1-1", "", f"Conflicts: {', '.join(names[:-1])}"),
    ]
    found, _ = resolve(ASKED, *stanzas, *(stanza(name, "1") for name in names))
    assert set(names) & set(found) == {"p7"}


def test_packages_that_need_each_other_before_are_found() -> None:
    found, _ = resolve(
        ASKED[:1], stanza("aa", "1-1", "", "Pre-Depends: cc"), stanza("cc", "1", "aa", "Pre-Depends: dd"),
        stanza("dd", "1", "cc"),
    )  # fmt: skip
    assert {"aa", "cc", "dd"} <= set(found)


def test_recommended_and_suggested_packages_are_not_taken() -> None:
    found, rulings = resolve(
        [*ASKED[:1], package("rr", "1", line=5)],
        stanza("aa", "1-1", "", "Recommends: rr", "Suggests: ss", "Enhances: ss"), stanza("rr", "1"), stanza("ss", "1"),
    )  # fmt: skip
    assert not {"rr", "ss"} & set(found)
    assert outcome(rulings["rr"]) == ("excluded", "not-needed")


@pytest.mark.parametrize(
    ("given", "wanted", "met"),
    [
        ("vv (= 2)", "vv (>= 2)", True),
        ("vv (= 2)", "vv (>> 2)", False),
        ("vv (= 1:1)", "vv (>= 2)", True),
        ("vv (= 2)", "vv", True),
        ("vv", "vv (>= 0)", False),
        ("ww, vv (= 3)", "vv (= 3)", True),
    ],
)
def test_a_provided_version_counts(given: str, wanted: str, met: bool) -> None:
    stanzas = (stanza("aa", "1-1", wanted), stanza("pp", "9", "", f"Provides: {given}"))
    if met:
        found, _ = resolve(ASKED[:1], *stanzas)
        assert "pp" in found
    else:
        with pytest.raises(LockError, match="aa 1-1 needs vv"):
            resolve(ASKED[:1], *stanzas)
