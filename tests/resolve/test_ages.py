"""Ages of releases on an index without upload times, from the evidence in their files."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.ecosystems.pypi.wheel_tail import TAIL, read_wheel_facts
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.resolve.ages.age import FAR, Age, day, is_constant, parse_time
from reprobuild.resolve.ages.back_ends import built_age
from reprobuild.resolve.ages.changelog import is_changelog, read_entry_day
from reprobuild.resolve.ages.evidence import MOST_SECONDS, AgeReader
from reprobuild.resolve.ages.releases import date_releases, group_files
from reprobuild.resolve.ages.sdist_facts import parse_sdist, read_free_requires
from reprobuild.store.store import Store
from tests.resolve.untimed import CONSTANT, UntimedIndex, make_sdist, make_wheel, seconds

MOMENT = seconds("2023-06-01")


@pytest.fixture
def index() -> Iterator[UntimedIndex]:
    with UntimedIndex() as index:
        yield index


@pytest.fixture
def net() -> Net:
    return Net(manners=RetryPolicy(tries=1, connect=5, read=5))


def listed(index: UntimedIndex, project: str) -> list[ListedFile]:
    return [
        ListedFile(filename=name, url=f"{index.url}/files/{project}/{name}") for name in index.files[project]
    ]


def reader(tmp_path: Path, net: Net, moment: int = MOMENT) -> AgeReader:
    return AgeReader(Store(tmp_path / "store"), net, moment, seconds("2026-11-01"), ("3.11.2", "x86_64"))


def age_of(index: UntimedIndex, tmp_path: Path, net: Net, *files: tuple[str, bytes]) -> Age:
    index.add(*files)
    return reader(tmp_path, net).date(listed(index, "demo"), "1.0")


def test_the_newest_member_of_a_wheel_dates_it(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    age = age_of(index, tmp_path, net, make_wheel("demo", "1.0", "2023-05-01"))
    assert age.side(MOMENT) < 0
    assert age.until - age.since == 28 * 3600 + 0  # a zip archive has no time zone
    assert age.words == "the newest file in demo-1.0-py3-none-any.whl is of 2023-05-01"
    assert [wished for _, wished, _ in index.asked] == [f"bytes=-{TAIL}"]


def test_a_time_within_a_time_zone_of_the_moment_decides_nothing(
    index: UntimedIndex, tmp_path: Path, net: Net
) -> None:
    assert age_of(index, tmp_path, net, make_wheel("demo", "1.0", "2023-06-01")).side(MOMENT) == 0


def test_a_constant_time_is_no_evidence(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    assert age_of(index, tmp_path, net, make_wheel("demo", "1.0", CONSTANT)) == Age()


@pytest.mark.parametrize(
    ("day", "same", "constant"),
    [
        ("1980-01-01", False, True), ("2016-01-01", True, True), ("2020-02-02", False, True),
        ("2006-07-24", False, True), ("2023-05-01", False, False), ("2027-05-01", False, True),
    ],
)  # fmt: skip
def test_constants_of_reproducible_builds(day: str, same: bool, constant: bool) -> None:
    assert is_constant(seconds(day), same=same, now=seconds("2026-11-01")) is constant


def test_midnight_in_all_members_is_a_constant() -> None:
    midnight = seconds("2023-05-01") - 12 * 3600
    assert is_constant(midnight, same=True, now=0)
    assert not is_constant(midnight, same=False, now=0)
    assert is_constant(0, same=False, now=0)


def test_the_header_of_gzip_dates_a_source_archive(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    files = make_wheel("demo", "1.0", CONSTANT), make_sdist("demo", "1.0", written="2023-05-02")
    age = age_of(index, tmp_path, net, *files)
    assert (age.since, age.until) == (seconds("2023-05-02"), seconds("2023-05-02"))
    assert age.words == "demo-1.0.tar.gz was written on 2023-05-02"


def test_the_newest_member_dates_a_source_archive(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    age = age_of(index, tmp_path, net, make_sdist("demo", "1.0", newest="2023-05-03"))
    assert age.words == "the newest file in demo-1.0.tar.gz is of 2023-05-03"


def test_the_list_of_changes_dates_a_release(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    text = "# Changes\n\n## 1.1 (2023-07-01)\n\n## 1.0\n\nReleased on 4th May, 2023\n\n## 0.9 (2024-01-01)\n"
    files = (
        make_wheel("demo", "1.0", CONSTANT),
        make_sdist("demo", "1.0", files={"CHANGELOG.md": text}),
    )
    age = age_of(index, tmp_path, net, *files)
    assert age.side(MOMENT) < 0
    assert age.words == "the list of changes in demo-1.0.tar.gz dates it 2023-05-04"


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("## 1.0 (27th August, 2024)\n", "2024-08-27"),
        ("= 1.0 (20240117)\n", "2024-01-17"),
        ("## 1.0\n\n[x](https://example.org/?from=2023-05-09&to=2023-06-20&type=c)\n", "2023-06-20"),
        ("Version 1.0\n-----------\n(released May 4th, 2024)\n", "2024-05-04"),
        ("## v1.0.1 (2024-01-01)\n## v1.0 (2023-12-01)\n", "2023-12-01"),
        ("## 1.0\n\n- fixed\n\n## 0.9 (2023-01-01)\n", None),
        ("## 1.0 (2023-13-45)\n", None),
        ("no versions, 2023-01-01\n", None),
        ("## 1.0 a20230101b\n", None),
    ],
)
def test_the_day_of_an_entry(text: str, day: str | None) -> None:
    expected = None if day is None else seconds(day) - 12 * 3600
    assert read_entry_day(text, "1.0") == expected


def test_names_of_lists_of_changes() -> None:
    assert is_changelog("CHANGELOG.md")
    assert is_changelog("docs/release-notes.rst")
    assert not is_changelog("src/changelog.png")
    assert not is_changelog("a/b/c/d/e/CHANGES")


def test_a_back_end_bounds_what_it_built() -> None:
    lower = built_age("hatchling 1.18.0", free=False)
    assert (lower.since, lower.until) == (1686576431, FAR)
    assert lower.words == "built by hatchling 1.18.0 of 2023-06-12"
    both = built_age("hatchling 1.18.0", free=True)
    assert both.until < FAR
    assert both.words == "built by hatchling 1.18.0 of 2023-06-12, which was the newest until 2023-12-11"


@pytest.mark.parametrize(
    "generator", ["", "poetry 1.0.7", "hatchling", "hatchling 0.0.1", "hatchling one", "x" * 500]
)
def test_a_back_end_that_is_not_known_bounds_nothing(generator: str) -> None:
    assert built_age(generator, free=True) == Age()


def test_a_back_end_newer_than_the_list_is_a_lower_bound() -> None:
    age = built_age("hatchling 99.0", free=True)
    assert age.since > seconds("2026-01-01")
    assert age.until == FAR
    assert age.words.startswith("built by hatchling 99.0, after 2026-")


@pytest.mark.parametrize(
    ("pyproject", "names"),
    [
        ('[build-system]\nrequires = ["hatchling", "hatch-vcs>=0.3"]\n', ("hatchling", "hatch-vcs")),
        ('requires = ["hatchling==1.17.1"]', ()),
        ('requires = ["hatchling>=1.5", "jupyterlab>=4,<5"]', ("hatchling",)),
        ("[project]\n", ()),
        ('requires = ["hatchling' * 2000, ()),
    ],
)
def test_build_requirements_without_a_limit(pyproject: str, names: tuple[str, ...]) -> None:
    assert read_free_requires(pyproject) == names


def test_a_pinned_back_end_gives_no_upper_bound(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    wheel = make_wheel("demo", "1.0", CONSTANT, generator="hatchling 1.17.0")
    pinned = make_sdist("demo", "1.0", files={"pyproject.toml": 'requires = ["hatchling==1.17.0"]\n'})
    assert age_of(index, tmp_path, net, wheel, pinned).side(MOMENT) == 0
    free = make_sdist("demo", "1.0", files={"pyproject.toml": 'requires = ["hatchling"]\n'})
    with UntimedIndex() as other:
        age = age_of(other, tmp_path, net, wheel, free)
    assert age.side(seconds("2023-07-01")) < 0
    assert "which was the newest until" in age.words


def test_an_upload_time_elsewhere_is_the_strongest(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    index.add(make_wheel("demo", "1.0", "2023-05-01"))
    there = ListedFile(
        filename="demo-1.0.tar.gz", url="https://index.example.org/x", uploaded="2023-07-01T00:00:00Z"
    )
    age = reader(tmp_path, net).date(listed(index, "demo"), "1.0", [there])
    assert (age.words, age.side(MOMENT)) == ("uploaded on 2023-07-01", 1)
    assert index.asked == []


def test_the_wheel_of_the_target_is_read(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    _, content = make_wheel("demo", "1.0", "2023-05-01")
    _, late = make_wheel("demo", "1.0", "2023-08-01")
    index.add(
        ("demo-1.0-cp310-cp310-macosx_10_9_x86_64.whl", late),
        ("demo-1.0-cp312-cp312-manylinux_2_17_x86_64.whl", late),
        ("demo-1.0-3-cp311-cp311-manylinux_2_17_x86_64.whl", late),
        ("demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", content),
    )
    assert reader(tmp_path, net).date(listed(index, "demo"), "1.0").side(MOMENT) < 0


def test_facts_are_remembered_by_hash_and_address(index: UntimedIndex, tmp_path: Path, net: Net) -> None:
    index.add(make_wheel("demo", "1.0", "2023-05-01"))
    (file,) = listed(index, "demo")
    hashed = ListedFile(filename=file.filename, url=file.url, hashes={"sha256": "ab" * 32})
    ages = reader(tmp_path, net)
    assert ages.date([hashed], "1.0") == ages.date([hashed], "1.0")
    assert len(index.asked) == 1
    other = ListedFile(
        filename=file.filename, url=f"{index.url}/files/demo/x.whl", hashes={"sha256": "ab" * 32}
    )
    assert ages.date([other], "1.0") == Age()  # it is not what the other index calls so


def dated(ages: dict[str, Age], moment: int) -> tuple[list[str], list[str], list[str]]:
    """Return the releases that were there, those without evidence, and the dated ones."""
    asked: list[str] = []

    def date(files: Sequence[ListedFile], version: str) -> Age:
        asked.append(version)
        return ages[version]

    files = [
        ListedFile(filename=f"demo-{version}.tar.gz", url="https://index.example.org/x") for version in ages
    ]
    with ThreadPoolExecutor(2) as pool:
        releases = date_releases(group_files(files), moment, date, pool)
    return sorted(map(str, releases.present)), sorted(map(str, releases.unknown)), asked


def at(day: int) -> Age:
    return Age(since=day, until=day, words=f"day {day}")


def test_releases_by_a_moment() -> None:
    ages = {
        "1.0": at(1),
        "1.1": at(2),
        "1.1.1": at(9),
        "1.2": at(4),
        "1.3": at(6),
        "2.0": at(7),
        "2.1": at(8),
    }
    assert dated(ages, 5)[:2] == (["1.0", "1.1", "1.2"], [])
    # Below two complete series, older ones count as complete: 1.1.1 is one of the rare later ones.
    assert dated(ages, 7)[0] == ["1.0", "1.1", "1.1.1", "1.2", "1.3", "2.0"]
    assert dated(ages, 0)[0] == []


def test_a_release_without_evidence_counts_between_others_only() -> None:
    ages = {"1.0": at(1), "1.0.1": Age(), "1.0.2": at(3), "1.0.3": Age(), "1.0.4": at(9), "1.0.5": Age()}
    assert dated(ages, 5)[:2] == (["1.0", "1.0.1", "1.0.2"], ["1.0.3"])
    assert dated({"1.0": Age(), "2.0": Age()}, 5)[:2] == ([], ["1.0", "2.0"])


def test_few_releases_of_many_are_dated() -> None:
    ages = {f"1.{series}.{patch}": at(10 * series + patch) for series in range(200) for patch in range(5)}
    there, unknown, asked = dated(ages, 1003)
    assert (len(there), unknown) == (504, [])
    assert len(asked) < 25


def test_versions_before_a_final_one_are_left_out() -> None:
    assert dated({"1.0": at(1), "1.1rc1": at(1)}, 5)[0] == ["1.0"]
    assert dated({"1.0b1": at(1), "1.0b2": at(1)}, 5)[0] == ["1.0b1", "1.0b2"]


def test_files_with_odd_names_are_left_out() -> None:
    names = [
        "demo.whl",
        "demo-1.0.tar.gz",
        "demo-x-py3-none-any.whl",
        "demo-1.0.exe",
        "demo-1.0-py3-none-any.whl",
    ]
    files = [ListedFile(filename=name, url="https://index.example.org/x") for name in names]
    assert {str(version): len(group) for version, group in group_files(files).items()} == {"1.0": 2}


def test_contradicting_bounds_decide_nothing() -> None:
    both = at(3).meet(Age(since=5), 9)
    assert both.side(9) == 0


# Servers that lie.


def refused(index: UntimedIndex, net: Net, content: bytes) -> None:
    index.add(("demo-1.0-py3-none-any.whl", content))
    (file,) = listed(index, "demo")
    assert read_wheel_facts(file.url, net) is None


def test_what_is_no_wheel(index: UntimedIndex, net: Net) -> None:
    refused(index, net, b"no zip archive" * 100)


def test_a_directory_that_claims_to_be_larger_than_the_file(index: UntimedIndex, net: Net) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 1 << 31, 0, 0)
    refused(index, net, b"x" * 200_000 + end)


def test_a_directory_that_is_too_large_is_not_fetched(index: UntimedIndex, net: Net) -> None:
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 65535, 65535, 3 << 20, 0, 0)
    refused(index, net, b"PK\1\2" * ((3 << 20) // 4) + end)
    assert sum(1 for _ in index.asked) <= 2


def test_an_impossible_time_is_no_time(index: UntimedIndex, net: Net) -> None:
    _, content = make_wheel("demo", "1.0", "2023-05-01")
    stamp = struct.pack("<HH", 12 << 11, 43 << 9 | 5 << 5 | 1)
    changed = content.replace(stamp, struct.pack("<HH", 31 << 11, 43 << 9 | 15 << 5 | 31))
    index.add(("demo-1.0-py3-none-any.whl", changed))
    (file,) = listed(index, "demo")
    facts = read_wheel_facts(file.url, net)
    assert facts is None or facts.newest < seconds("2023-05-02")


def test_a_small_wheel_of_a_server_without_ranges(tmp_path: Path, net: Net) -> None:
    with UntimedIndex(ranges=False) as index:
        assert age_of(index, tmp_path, net, make_wheel("demo", "1.0", "2023-05-01")).side(MOMENT) < 0


def test_a_large_wheel_of_a_server_without_ranges_is_not_fetched_whole(tmp_path: Path, net: Net) -> None:
    with UntimedIndex(ranges=False) as index:
        assert age_of(index, tmp_path, net, make_wheel("demo", "1.0", "2023-05-01", size=3 << 20)) == Age()


def test_a_member_that_unpacks_to_much_is_read_in_part(index: UntimedIndex, net: Net) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo-1.0.dist-info/METADATA", b"Name: demo\n" + b"X" * (20 << 20))
        archive.writestr("demo-1.0.dist-info/WHEEL", b"Generator: x\x00y\n")
    index.add(("demo-1.0-py3-none-any.whl", stream.getvalue()))
    (file,) = listed(index, "demo")
    facts = read_wheel_facts(file.url, net)
    assert facts is not None
    assert (facts.metadata, facts.generator) == ("", "")


def test_a_source_archive_that_unpacks_to_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.resolve.ages.sdist_facts._MOST_UNPACKED", 1 << 20)
    name, content = make_sdist("demo", "1.0", files={"x": "0" * (2 << 20)})
    with pytest.raises(Exception, match=r"too large|more than|unpack"):
        parse_sdist(content, name, "1.0")


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"\x1f\x8b" + b"x" * 50, os.urandom(200)])
def test_a_damaged_source_archive_is_no_evidence(
    content: bytes, index: UntimedIndex, tmp_path: Path, net: Net
) -> None:
    assert age_of(index, tmp_path, net, ("demo-1.0.tar.gz", content)) == Age()


def test_a_source_archive_with_another_hash_is_no_evidence(
    index: UntimedIndex, tmp_path: Path, net: Net
) -> None:
    index.add(make_sdist("demo", "1.0", written="2023-05-02"))
    (file,) = listed(index, "demo")
    changed = ListedFile(filename=file.filename, url=file.url, hashes={"sha256": "0" * 64})
    assert reader(tmp_path, net).date([changed], "1.0") == Age()


def test_only_so_many_files_are_read(
    index: UntimedIndex, tmp_path: Path, net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reprobuild.resolve.ages.evidence.MOST_FILES", 0)
    assert age_of(index, tmp_path, net, make_wheel("demo", "1.0", "2023-05-01")) == Age()
    assert index.asked == []


@pytest.mark.parametrize(
    ("uploaded", "stated"),
    [("0001-01-01T00:00:00+23:59", None), ("9999-12-31T23:59:59-23:59", FAR), ("1970-01-01T00:00:01Z", 1)],
)
def test_an_upload_at_the_ends_of_time(uploaded: str, stated: int | None) -> None:
    """Found by an attacker: one such file of an index ended the search among all files of its project."""
    assert parse_time(uploaded) == stated
    assert stated is None or day(stated)


def test_a_zip_of_very_many_members_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zipfile.ZipFile", lambda _: pytest.fail("its directory was read"))
    with pytest.raises(ValueError, match="too many members"):
        parse_sdist(b"PK\1\2" * 100_001, "a-1.0.zip", "1.0")


def test_a_list_of_build_requirements_is_read_once() -> None:
    """A pattern that backtracks over blanks took minutes for such a file."""
    assert read_free_requires('[build-system]\nrequires = [\n "hatchling", "wheel<1"\n]') == ("hatchling",)
    assert read_free_requires(("requires=[" * 400 + "\n" * 65_536)[:65_536]) == ()
    assert read_free_requires("requires = [" + '"a",' * 2000 + "]") == ()


def test_reading_ends_when_the_time_is_up(
    index: UntimedIndex, tmp_path: Path, net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of all files counts, however slowly an index answers; known facts need none."""
    clock = iter(range(0, 10_000_000, MOST_SECONDS // 2))
    ages = reader(tmp_path, net)
    index.add(*(make_wheel("demo", f"1.{number}", "2023-05-01") for number in range(5)))
    monkeypatch.setattr("reprobuild.resolve.ages.evidence.monotonic", lambda: next(clock))
    files = listed(index, "demo")
    assert [ages.wheel_facts(file) is not None for file in files[:2]] == [True, True]
    with pytest.raises(FetchError, match=f"read for more than {MOST_SECONDS} s to find the ages") as error:
        [ages.wheel_facts(file) for file in files[2:]]
    assert error.value.hint == (
        "try again, because what was read is remembered; or write versions into requirements.txt"
    )
    monkeypatch.undo()
    assert reader(tmp_path, net).wheel_facts(files[-1]) is not None


def test_the_lists_of_changes_of_an_archive_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.resolve.ages.sdist_facts.LARGEST", 100)
    lists = {"CHANGES": "x" * 90, "docs/NEWS": "1.0 (2023-05-01)\n", "HISTORY": "1.0 (2023-05-02)\n"}
    name, content = make_sdist("demo", "1.0", files=lists)
    assert parse_sdist(content, name, "1.0").entry == 0
    monkeypatch.setattr("reprobuild.resolve.ages.sdist_facts.LARGEST", 200)
    assert day(parse_sdist(content, name, "1.0").entry) == "2023-05-02"
