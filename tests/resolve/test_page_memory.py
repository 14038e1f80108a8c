"""Pages are asked for again when their server says so; what came with a login is never kept."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndex, PackageIndexes
from reprobuild.ecosystems.pypi.json_page import ALL_FILES, FileFilter
from reprobuild.ecosystems.pypi.page_cache import PageMemory
from reprobuild.ecosystems.pypi.simple_api import Pages
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import Page
from reprobuild.infra.http.retry import freshness_seconds
from reprobuild.store.store import Store
from tests.resolve.served import Reply, Served
from tests.resolve.test_files import Index, lock

WHEEL = "tool-1.0-py3-none-any.whl"
NOW = 1_700_000_000


def lists(served: Served, folder: Path, now: int = NOW, net: Net | None = None) -> FileLists:
    net = net or Net()
    indexes = PackageIndexes(find_links=(), simple=(f"{served.url}/simple",), credentials={})
    return FileLists(indexes, net, pages=Pages(net, PageMemory(Store(folder), now)))


def given(served: Served, *, control: str = "max-age=600, public", login: str = "", url: str = "") -> None:
    index = Index(served)
    index.add(WHEEL, **({"url": url} if url else {}))
    page = served.replies["/simple/tool/"][0]
    served.give(
        "/simple/tool/", Reply(page.body, headers={**page.headers, "Cache-Control": control}, login=login)
    )


def asked_again(served: Served, folder: Path, now: int, net: Net | None = None) -> int:
    """Lock twice, the second time at `now`, and return how often the second run asked."""
    first, again = lists(served, folder, net=net), lists(served, folder, now, net=net)
    one = lock(first, "tool==1.0")
    first.save()
    before = len(served.asked)
    assert lock(again, "tool==1.0") == one
    return len(served.asked) - before


@pytest.mark.parametrize(("later", "times"), [(0, 0), (599, 0), (600, 1), (-10, 0)])
def test_a_fresh_page_is_not_asked_for_again(served: Served, tmp_path: Path, later: int, times: int) -> None:
    given(served)
    assert asked_again(served, tmp_path, NOW + later) == times


def test_a_page_without_a_word_on_it_is_asked_for_again(served: Served, tmp_path: Path) -> None:
    given(served, control="public")
    assert asked_again(served, tmp_path, NOW) == 1


def test_nothing_that_came_with_a_login_is_kept(served: Served, tmp_path: Path) -> None:
    given(served, login="alice:hunter2")
    assert asked_again(served, tmp_path, NOW, Net(credentials={served.url: ("alice", "hunter2")})) == 1
    assert not any(path.is_file() for path in (tmp_path / "made").glob("*"))


@pytest.mark.parametrize("login", ["alice:hunter2", ""])
def test_nothing_that_came_by_a_login_or_a_signed_link_is_kept(
    served: Served, tmp_path: Path, login: str
) -> None:
    given(served)
    place = "/stored?X-Amz-Signature=abc" if not login else "/stored"
    with Served() as other:
        other.give(place, served.replies["/simple/tool/"][0])
        served.give("/simple/tool/", Reply(status=302, headers={"Location": other.url + place}, login=login))
        net = Net(credentials={f"{served.url}/simple": ("alice", "hunter2")} if login else {})
        assert asked_again(served, tmp_path, NOW, net) == 1


@pytest.mark.parametrize("url", ["http://bob:pw@{0}/" + WHEEL, "http://{0}/" + WHEEL + "?token=abc"])
def test_no_list_is_kept_whose_links_may_hold_a_secret(served: Served, tmp_path: Path, url: str) -> None:
    given(served, url=url.format(served.host))
    assert asked_again(served, tmp_path, NOW) == 1


def test_files_of_a_filter_are_kept_apart(served: Served, tmp_path: Path) -> None:
    given(served)
    place = PackageIndex(f"{served.url}/simple")
    none, again = (
        FileFilter(label="none", also=lambda *_: False),
        FileFilter(label="all", also=lambda *_: True),
    )
    for _ in range(2):
        files = lists(served, tmp_path)
        pages = [files.list_page(place, "tool", wanted) for wanted in (none, ALL_FILES, again)]
        assert [[file.filename for file in page] for page in pages] == [[], [WHEEL], [WHEEL]]
        files.save()
    assert len(served.asked) == 1


def test_a_memory_that_nobody_understands_is_made_anew(served: Served, tmp_path: Path) -> None:
    given(served)
    assert asked_again(served, tmp_path, NOW) == 0
    (path,) = (tmp_path / "made").iterdir()
    path.write_text('{"x": 1}')
    assert asked_again(served, tmp_path, NOW) == 0


@pytest.mark.parametrize(
    ("headers", "login", "seconds"),
    [
        ({"Cache-Control": "max-age=600, public"}, False, 600),
        ({"Cache-Control": "Public,Max-Age=600", "Age": "100"}, False, 500),
        ({"Cache-Control": "max-age=600", "Age": "700"}, False, 0),
        ({"Cache-Control": "max-age=99999"}, False, 3600),
        ({"Cache-Control": "max-age=600"}, True, 0),
        ({"Cache-Control": "max-age=600, private"}, False, 0),
        ({"Cache-Control": "no-store, max-age=600"}, False, 0),
        ({"Cache-Control": "max-age=-1"}, False, 0),
        ({"Cache-Control": "max-age=" + "9" * 5000}, False, 0),
        ({"Cache-Control": "max-age=600", "Age": "soon"}, False, 0),
        ({}, False, 0),
    ],
)
def test_for_how_long_an_answer_is_fresh(headers: Mapping[str, str], login: bool, seconds: int) -> None:
    assert freshness_seconds(headers, login=login) == seconds
    assert Page(url="", content_type="", content=b"").fresh == 0
