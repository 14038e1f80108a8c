"""The metadata files that an index publishes beside its wheels: pages name them, and uv gets their header."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.ecosystems.pypi.core_metadata import MOST, read_published_metadata
from reprobuild.ecosystems.pypi.json_page import ALL_FILES
from reprobuild.ecosystems.pypi.page_cache import ListedFile, PageMemory
from reprobuild.ecosystems.pypi.simple_api import _read_project
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import Page
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.resolve.ages import evidence
from reprobuild.resolve.ages.evidence import AgeReader
from reprobuild.store.store import Store
from tests.resolve.test_as_of_untimed import around, solve, versions
from tests.resolve.untimed import UntimedIndex, make_wheel, seconds

WHEEL = "demo-1.0-py3-none-any.whl"
HEADER = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: below>=1\n"
CONTENT = f"{HEADER}\nA description.\n".encode()
HASH = "ab" * 32


@pytest.fixture
def index() -> Iterator[UntimedIndex]:
    with UntimedIndex() as index:
        index.add(make_wheel("demo", "1.0", "2023-01-01"))
        yield index


@pytest.fixture
def net() -> Net:
    return Net(manners=RetryPolicy(tries=3, pause=5, connect=5, read=5))


def listed(index: UntimedIndex, **facts: Any) -> ListedFile:
    return ListedFile(filename=WHEEL, url=f"{index.url}/files/demo/{WHEEL}#sha256={HASH}", **facts)


def reader(folder: Path, net: Net) -> AgeReader:
    return AgeReader(Store(folder / "store"), net, seconds("2023-06-01"), 0, ("3.11.2", "x86_64"))


def paths(index: UntimedIndex) -> list[str]:
    return [path.rpartition("/")[2] for path, *_ in index.asked]


# What pages say.


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"core-metadata": None}, None),
        ({"core-metadata": False}, None),
        ({"core-metadata": True}, ""),
        ({"core-metadata": {}}, ""),
        ({"core-metadata": {"sha256": HASH.upper()}}, HASH),
        ({"core-metadata": {"md5": "ab", "sha256": HASH}}, HASH),
        ({"dist-info-metadata": {"sha256": HASH}}, HASH),
        ({"core-metadata": False, "dist-info-metadata": True}, None),
        ({"core-metadata": True, "dist-info-metadata": {"sha256": HASH}}, ""),
        ({"core-metadata": {"md5": "ab"}}, None),
        ({"core-metadata": {"sha256": "ab"}}, None),
        ({"core-metadata": {"sha256": "../../x"}}, None),
        ({"core-metadata": 7}, None),
        ({"core-metadata": ["true"]}, None),
    ],
)
def test_a_json_page_states_the_metadata_file(fields: dict[str, object], expected: str | None) -> None:
    """An odd value does not hide the wheel."""
    entry = {"filename": WHEEL, "url": f"../{WHEEL}", "hashes": {}, **fields}
    content = json.dumps({"name": "demo", "files": [entry], "meta": {"api-version": "1.1"}}).encode()
    media = "application/vnd.pypi.simple.v1+json"
    page = Page(url="https://index.example/simple/demo/", content_type=media, content=content)
    ((file,), _) = _read_project(page, "demo", ALL_FILES)
    assert (file.filename, file.core_metadata) == (WHEEL, expected)


@pytest.mark.parametrize(
    ("attribute", "expected"),
    [
        ("", None),
        (' data-core-metadata="true"', ""),
        (f' data-core-metadata="sha256={HASH}"', HASH),
        (f' data-dist-info-metadata="sha256={HASH}"', HASH),
        (f' data-core-metadata="true" data-dist-info-metadata="sha256={HASH}"', ""),
        (' data-core-metadata="sha256=xyz"', None),
        (' data-core-metadata="md5=ab"', None),
        (' data-core-metadata="false"', None),
    ],
)
def test_an_html_page_states_the_metadata_file(attribute: str, expected: str | None) -> None:
    content = f'<!DOCTYPE html><body><a href="{WHEEL}"{attribute}>{WHEEL}</a></body>'.encode()
    page = Page(url="https://index.example/simple/demo/", content_type="text/html", content=content)
    ((file,), _) = _read_project(page, "demo", ALL_FILES)
    assert (file.filename, file.core_metadata) == (WHEEL, expected)


def test_a_remembered_page_states_it_too(tmp_path: Path) -> None:
    files = [
        ListedFile(filename=WHEEL, url=f"https://index.example/{WHEEL}", core_metadata=stated)
        for stated in (None, "", HASH)
    ]
    memory = PageMemory(Store(tmp_path), 0)
    memory.put("https://index.example/simple/demo/", "", 60, files, some=True)
    memory.save()
    page = PageMemory(Store(tmp_path), 1).get("https://index.example/simple/demo/", "")
    assert page is not None
    assert list(page.files) == files


# The file itself.


@pytest.mark.parametrize("stated", ["", True])
def test_the_published_file_is_read_in_place_of_the_wheel(
    stated: bool | str, index: UntimedIndex, net: Net, tmp_path: Path
) -> None:
    index.publish(WHEEL, CONTENT, stated)
    hashed = index.published[WHEEL]
    file = listed(index, hashes={"sha256": HASH}, core_metadata=hashed if isinstance(hashed, str) else "")
    for _ in range(2):  # it is remembered
        assert reader(tmp_path, net).wheel_header(file) == HEADER
    assert paths(index) == [f"{WHEEL}.metadata"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"<!DOCTYPE html><title>Not found</title>",
        CONTENT.replace(b"Name: demo", b"Name: other"),
        CONTENT.replace(b"Version: 1.0", b"Version: 2.0"),
        CONTENT.replace(b"Version: 1.0", b"Version: no version"),
        CONTENT.replace(b"Version: 1.0\n", b"Version: 1.0\nVersion: 2.0\n"),
        CONTENT.replace(b"Metadata-Version: 2.1\n", b""),
        HEADER.encode() + b"".join(b"X-%d: x\n" % number for number in range(600)) + b"\n",
        HEADER.encode() + b"Summary: " + b"x" * (1 << 18),
        CONTENT + b"x" * MOST,
    ],
)
def test_a_missing_or_wrong_file_is_not_used(
    content: bytes | None, index: UntimedIndex, net: Net, tmp_path: Path
) -> None:
    index.publish(WHEEL, content)
    file = listed(index, core_metadata=index.published[WHEEL] if content is not None else "")
    assert read_published_metadata(file, net) is None
    header = reader(tmp_path, net).wheel_header(file)
    assert header == "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"  # that of the wheel
    assert paths(index)[-1] == WHEEL


def test_a_file_with_another_hash_is_not_used(index: UntimedIndex, net: Net) -> None:
    index.publish(WHEEL, CONTENT)
    assert read_published_metadata(listed(index, core_metadata=HASH), net) is None
    assert read_published_metadata(listed(index, core_metadata=index.published[WHEEL]), net) is not None


def test_the_suffix_follows_the_path(index: UntimedIndex, net: Net) -> None:
    index.publish(WHEEL, CONTENT)
    file = msgspec.structs.replace(
        listed(index), url=f"{index.url}/files/demo/{WHEEL}?signature=x#sha256={HASH}"
    )
    read_published_metadata(msgspec.structs.replace(file, core_metadata=""), net)
    assert paths(index) == [f"{WHEEL}.metadata?signature=x"]


def test_facts_that_dated_the_wheel_are_not_fetched_again(
    index: UntimedIndex, net: Net, tmp_path: Path
) -> None:
    index.publish(WHEEL, CONTENT)
    file = listed(index, hashes={"sha256": HASH}, core_metadata=index.published[WHEEL])
    ages = reader(tmp_path, net)
    assert ages.wheel_facts(file)
    assert "Name: demo" in ages.wheel_header(file)
    assert paths(index) == [WHEEL]


def test_a_host_without_the_files_that_it_claims_is_not_asked_for_more(
    index: UntimedIndex, net: Net, tmp_path: Path
) -> None:
    ages = reader(tmp_path, net)
    for _ in range(evidence.MOST_MISSING + 3):
        assert ages.wheel_header(listed(index, core_metadata=""))
    assert paths(index).count(f"{WHEEL}.metadata") == evidence.MOST_MISSING


# A whole resolution.


@pytest.mark.parametrize("timed", [True, False])
def test_uv_gets_the_published_metadata(timed: bool, index: UntimedIndex, tmp_path: Path) -> None:
    index.add(make_wheel("below", "1.0", "2023-01-01"))
    for name, content in ((WHEEL, CONTENT), ("below-1.0-py3-none-any.whl", None)):
        index.publish(name, content)
    if timed:
        index.uploads = {name: "2023-01-01T00:00:00Z" for files in index.files.values() for name in files}
    assert versions(solve("demo\n", around(tmp_path, index.root))) == (
        {"demo": "1.0", "below": "1.0"} if timed else {"demo": "1.0"}
    )
    assert (WHEEL in paths(index)) is not timed  # an index without times is dated by the wheel
    assert (f"{WHEEL}.metadata" in paths(index)) is timed


def test_a_login_goes_to_the_hosts_of_the_index_alone(index: UntimedIndex, tmp_path: Path) -> None:
    index.publish(WHEEL, CONTENT)
    index.uploads = {WHEEL: "2023-01-01T00:00:00Z"}
    context = around(tmp_path, "http://other.example/simple", logins={"http://other.example": ("me", "pw")})
    file = listed(index, core_metadata=index.published[WHEEL])
    assert read_published_metadata(file, context.net) is not None
    assert {login for *_, login in index.asked} == {None}
