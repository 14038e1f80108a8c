"""The documentation site: built strictly by `make docs`, and read in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import normpath

import pytest
import yaml

from tests.browser import HOST, Browser
from tests.conftest import ROOT

PHONE = 390
TOC = yaml.safe_load((ROOT / "docs" / "_toc.yml").read_text())
INDEX = (ROOT / "docs" / "README.md").read_text()
# An element for which a browser makes a request, with the address of another host.
EXTERNAL = re.compile(
    r"<(?!a\b)\w+\b[^>]*\b(?:src|srcset|href|data|action)=\"(?:https?:)?//[^>]*>|url\(.?https?:"
)


def make_docs(checkout: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Run the target of the Makefile with this Python."""
    argv = ["make", "-C", checkout, "--old-file=venv", "docs", f"PYTHON={sys.executable}", f"SITE={site}"]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = make_docs(ROOT, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def pages(site: Path, browser: Browser) -> list[str]:
    """The pages that the browser can visit, by path."""
    files = {f"/{path.relative_to(site)}": path for path in site.rglob("*") if path.is_file()}
    browser.proxy.pages |= {name: path.read_bytes() for name, path in files.items()}
    # The first page only redirects: the browser never stays on it.
    return sorted(name for name in files if name.endswith(".html") and name != "/index.html")


def test_every_page_of_docs_is_built(site: Path) -> None:
    sources = [path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md")]
    assert len(sources) > 50
    assert [path for path in sources if not (site / path.with_suffix(".html")).is_file()] == []
    assert 'url=docs/README.html"' in (site / "index.html").read_text()


def test_a_link_has_the_title_of_its_page(site: Path) -> None:
    text = (site / "docs" / "determinism.html").read_text()
    assert '<a class="reference internal" href="seeds.html">Seeds</a>' in text
    names = re.compile(r"<a [^>]*internal[^>]*>(?:<[^>]*>)*[^<]*\.md<")
    assert [path.name for path in site.rglob("*.html") if names.search(path.read_text())] == []


def test_the_navigation_is_the_index() -> None:
    """The parts of the site are the headings of docs/README.md, with the same pages."""
    groups = [part.partition("\n") for part in INDEX.split("\n## ")[2:]]
    rows = re.compile(r"^(?:\| |\d\. )\[([^]]+)\]\(([^)]+)\.(?:md|rst)\)", re.MULTILINE)
    index = {
        title: {(normpath(f"docs/{file}"), name) for name, file in rows.findall(text)}
        for title, _, text in groups
    }
    navigation = {
        part["caption"]: {(entry["file"], entry["title"].split(" · ")[-1]) for entry in part["entries"]}
        for part in TOC["subtrees"]
    }
    navigation["Tutorial"].remove(("README", "Install and first use"))
    assert navigation == index


def test_a_newcomer_has_few_choices() -> None:
    start = INDEX.split("\n## ")[1]
    assert start.startswith("Start here\n")
    assert 5 <= start.count("\n| ") - 1 <= 12


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    texts = [path for path in site.rglob("*") if path.suffix in (".html", ".css", ".svg")]
    assert len(texts) > 60
    found = {path.name: match for path in texts if (match := EXTERNAL.search(path.read_text()))}
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example/x.js">', '<link rel="stylesheet" href="//fonts.example/x.css">',
        "body { background: url('http://cdn.example/x.png') }",
    ],
)  # fmt: skip
def test_a_request_to_another_host_is_seen(text: str) -> None:
    assert EXTERNAL.search(text)
    assert not EXTERNAL.search('<a class="reference external" href="https://site.example/">')


@pytest.mark.parametrize("link", ["gone.md", "README.md#gone", "../gone.toml"])
def test_a_broken_link_fails(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("conf.py", "icon.svg", "site.css", "site.js"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs")
    (tmp_path / "docs" / "_toc.yml").write_text("root: docs/README\n")
    (tmp_path / "docs" / "README.md").write_text(f"# Title\n\n[text]({link})\n")
    done = make_docs(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "docs/README.md:3: WARNING:" in done.stderr


def test_the_index_on_a_desktop(browser: Browser, pages: list[str]) -> None:
    browser.visit("/docs/README.html")
    assert browser.driver.title.startswith("reprobuild ")
    captions = browser.driver.find_elements("css selector", ".sidebar-tree .caption")
    assert [caption.text.title() for caption in captions] == [part["caption"] for part in TOC["subtrees"]]
    browser.driver.find_element("link text", "Slurm without Docker").click()
    assert "/docs/guides/slurm-without-docker.html" in browser.driver.current_url
    assert browser.complaints() == []
    assert {url for url in browser.requests() if not url.startswith((f"http://{HOST}/", "data:"))} == set()


def test_the_navigation_shows_the_current_page(browser: Browser, pages: list[str]) -> None:
    browser.visit("/docs/STYLE.html")
    seen = """const box = document.querySelector('.sidebar-scroll').getBoundingClientRect();
        const entry = document.querySelector('.current-page').getBoundingClientRect();
        return box.top <= entry.top && entry.bottom <= box.bottom && window.scrollY === 0"""
    assert browser.script(seen) is True


def test_the_search_finds_a_variable(browser: Browser, pages: list[str]) -> None:
    browser.visit("/docs/README.html")
    field = browser.driver.find_element("css selector", ".sidebar-search")
    field.send_keys("REPROBUILD_SEED")
    field.submit()
    browser.driver.implicitly_wait(20)
    try:
        browser.driver.find_element("css selector", "#search-results a[href*='docs/seeds.html']")
    finally:
        browser.driver.implicitly_wait(0)
    assert browser.complaints() == []


@pytest.mark.long
def test_every_page_fits_a_phone(browser: Browser, pages: list[str]) -> None:
    """No page scrolls sideways, complains, or asks another host."""
    for page in pages:
        browser.visit(page, width=PHONE)
        assert (page, browser.overflow(), browser.complaints()) == (page, 0, [])
        assert {
            url for url in browser.requests() if not url.startswith((f"http://{HOST}/", "data:"))
        } == set()


def test_a_wide_table_scrolls_in_its_box(browser: Browser, pages: list[str]) -> None:
    browser.visit("/docs/seeds.html", width=PHONE)
    boxes = "return [...document.querySelectorAll('.table-wrapper')].map((box) => box.scrollWidth - box.clientWidth)"
    assert max(browser.script(boxes)) > 0
    assert not [rule for rule in browser.violations() if rule.startswith("scrollable-region-focusable")]
