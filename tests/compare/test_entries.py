"""The entries of two lists such as PATH: removed, added, moved and repeated ones, in code and in the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprobuild.compare.environments.entries import EntryChanges, compare_entries
from reprobuild.report.comparison import render_comparison
from tests.compare.samples import compared, make_snapshot

LISTS = st.lists(st.sampled_from("abcdefgh"), min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("name", "one", "other", "found"),
    [
        ("LD_PRELOAD", "/a.so:/b.so", "/b.so /c.so", (["/a.so"], ["/c.so"], [], [], [])),
        ("LD_PRELOAD", "/a.so /b.so", "/b.so /c.so", (["/a.so"], ["/c.so"], [], [], [])),
        ("PATH", "/a:/b", "/b:/a", ([], [], [("/a", 1, 2)], [], [])),
        ("PATH", "/a:/b:/c:/d", "/d:/a:/b:/c", ([], [], [("/d", 4, 1)], [], [])),
        ("PATH", "/a:/b:/c:/d", "/d:/x:/a:/c", (["/b"], ["/x"], [("/d", 4, 1)], [], [])),
        ("PATH", "/a:/b:/a", "/a:/b", ([], [], [], ["/a"], [])),
        ("PATH", "/a:/b", "/a:/b:/b", ([], [], [], [], ["/b"])),
        ("PATH", "/a:/b::", "/b", (["/a"], [], [], [], [])),
        ("PATH", "/a:/b:", "/a:/b", ([], [], [], [], [])),
        ("PATH", "/a", "/b", None),
        ("MY_FOLDERS", "/a:/b", "/c:/b", (["/a"], ["/c"], [], [], [])),
        ("TEXT", "a:b", "c:b", None),
        ("processor flags", "avx avx2", "avx avx512f", (["avx2"], ["avx512f"], [], [], [])),
    ],
)
def test_entries_of_lists(name: str, one: str, other: str, found: tuple[list[str], ...] | None) -> None:
    assert compare_entries(name, one, other) == found


def changes_of(one: list[str], other: list[str]) -> EntryChanges:
    found = compare_entries("PATH", ":".join(one), ":".join(other))
    assert found is not None
    return found


@given(LISTS, LISTS)
def test_entries_tell_which_are_missing(one: list[str], other: list[str]) -> None:
    found = changes_of(one, other)
    assert set(one) - set(found.removed) == set(other) - set(found.added)
    assert not set(found.removed) & set(other)
    assert not set(found.added) & set(one)
    assert found.same_entries == (set(one) == set(other))


@given(st.permutations("abcdefgh"), st.permutations("abcdefgh"))
def test_without_the_moved_entries_the_order_is_the_same(one: list[str], other: list[str]) -> None:
    found = changes_of(one, other)
    moved = {row.entry for row in found.moved}
    assert [entry for entry in one if entry not in moved] == [entry for entry in other if entry not in moved]
    assert all(one[row.first - 1] == row.entry == other[row.second - 1] for row in found.moved)
    assert bool(moved) == (one != other)


def test_one_entry_that_moves_is_the_only_one_that_is_shown() -> None:
    path = [f"/{number}" for number in range(5000)]
    assert [row.entry for row in changes_of(path, path[1:] + path[:1]).moved] == ["/0"]


def test_of_a_long_path_the_report_shows_the_changes(tmp_path: Path) -> None:
    path = [f"/opt/tool{number}/bin" for number in range(30)]
    later = [path[20], *path[:12], "/opt/new/bin", *path[13:20], *path[21:], path[3]]
    one = make_snapshot(tmp_path / "one", env_txt=f"PATH={':'.join(path)}\n")
    other = make_snapshot(tmp_path / "other", env_txt=f"PATH={':'.join(later)}\n")
    shown = (
        "PATH: only A /opt/tool12/bin, only B /opt/new/bin, moved /opt/tool20/bin (from 21 to 1), "
        "more often in B /opt/tool3/bin (which programs"
    )
    assert shown in render_comparison(compared(one, other))


def test_many_changes_are_counted_and_verbose_lists_them(tmp_path: Path) -> None:
    path = [f"/opt/tool{number}/bin" for number in range(9)]
    one = make_snapshot(tmp_path / "one", env_txt=f"PATH={':'.join(path)}\n")
    other = make_snapshot(tmp_path / "other", env_txt=f"PATH={':'.join([*path[::-1], '/bin'])}\n")
    found = compared(one, other)
    (shown,) = [line for line in render_comparison(found).splitlines() if " PATH " in line]
    assert "/opt/tool3/bin (from 4 to 6) and 4 more  which" in shown
    (shown,) = [line for line in render_comparison(found, everything=True).splitlines() if " PATH " in line]
    assert all(f"/opt/tool{number}/bin (from {number + 1} to {9 - number})" in shown for number in range(8))


def test_an_entry_of_a_terminal_sequence_is_escaped(tmp_path: Path) -> None:
    one = make_snapshot(tmp_path / "one", env_txt="PATH=/a:/b\x1b[31m:/c\n")
    other = make_snapshot(tmp_path / "other", env_txt="PATH=/b\x1b[31m:/c:/a\n")
    text = render_comparison(compared(one, other), everything=True)
    assert "\x1b" not in text
