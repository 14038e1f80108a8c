"""Links of a page: a plain one is taken as it is, and the others are joined to the address of the page."""

from __future__ import annotations

import json
import urllib.parse

import pytest

from reprobuild.ecosystems.pypi import page_text
from reprobuild.ecosystems.pypi.json_page import ALL_FILES, read_json_page
from reprobuild.ecosystems.pypi.page_text import join_link
from reprobuild.infra.http.model import Page

PAGES = (
    "https://index.example/simple/demo/",
    "http://index.example/simple/demo/",
    "file:///srv/simple/demo/",
)
PLAIN = (
    "https://files.example/a/../b/./demo-1.0.tar.gz", "http://files.example:8080//demo%2B1~2.whl",
    "https://files.example/packages/ab/cd/demo-1.0-py3-none-any.whl#sha256=abcdef", "https://files.example/",
)  # fmt: skip
OTHER = (
    "../demo.whl", "//files.example/demo.whl", "HTTPS://files.example/demo.whl", "https:demo.whl", "", "demo.whl?x",
    "https://files.example", "https://user:pw@files.example/demo.whl", "https://files.example/demo.whl?",
    "https://files.example/demo.whl#", "https://files.example/a;b/demo.whl", " https://files.example/demo.whl",
    "https://files.example/d\u00e9mo.whl", "https://files.example/demo.whl\n", "https://f\u2100.example/demo.whl",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("link", PLAIN)
def test_a_plain_link_is_joined_to_itself(page: str, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = urllib.parse.urljoin(page, link)
    monkeypatch.setattr(page_text.urllib.parse, "urljoin", lambda *_: pytest.fail("it takes a long time"))
    assert join_link(page, link) == link == joined


@pytest.mark.parametrize("page", PAGES[:2])
@pytest.mark.parametrize("link", OTHER)
def test_each_other_link_is_joined(page: str, link: str) -> None:
    try:
        expected = urllib.parse.urljoin(page, link)
    except ValueError:  # an invalid host
        expected = None
    assert join_link(page, link) == expected


@pytest.mark.parametrize(
    "link", ["ftp://files.example/x.whl", "file:///etc/x.whl", "javascript:x", "data:,x"]
)
def test_a_page_of_a_server_leads_to_servers(link: str) -> None:
    assert join_link(PAGES[0], link) is None


def test_a_link_that_is_too_long_with_the_address_of_its_page_is_left_out() -> None:
    names = ("demo-1.0.tar.gz", "demo-2.0.tar.gz")
    files = [
        {"filename": name, "url": url, "hashes": {}}
        for name, url in zip(names, ("x" * ((1 << 16) - 1), "x"), strict=True)
    ]
    content = json.dumps({"name": "demo", "files": files, "meta": {"api-version": "1.1"}}).encode()
    page = Page(url=PAGES[0], content_type="", content=content)
    assert [file.filename for file in read_json_page(page, ALL_FILES)[2]] == [names[1]]
