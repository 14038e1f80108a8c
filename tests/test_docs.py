"""The pages: every link leads somewhere, and the index has them all."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from reprobuild.engines import apptainer_cache, builtin_images
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for place in (
        ROOT,
        DOCS,
        *(path for path in DOCS.rglob("*") if path.is_dir()),
        *(ROOT / "examples").glob("*"),
    )
    for path in place.glob("*.md")
)
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"#{1,6} +(.+?)(?: +#+)?$")


# Words that the glossary of docs/STYLE.md avoids, and that users would read as another thing.
AVOIDED = ("smoke test",)


@pytest.mark.parametrize(
    "folder", ["reprobuild", "reprobuild_runtime", "reprobuild_portable", "templates", "docs", "dev"]
)
def test_a_thing_has_the_name_of_the_glossary(folder: str) -> None:
    sources = [
        path
        for ending in ("py", "md", "j2", "toml", "js", "sh")
        for path in (ROOT / folder).rglob(f"*.{ending}")
        if path != DOCS / "STYLE.md"
    ]
    assert sources
    for path in [*sources, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        text = " ".join(path.read_text("utf-8", "replace").lower().split())
        assert not [word for word in AVOIDED if word in text], path


@pytest.mark.parametrize("path", sorted((DOCS / "guides").glob("*.md")), ids=lambda path: path.name)
def test_a_guide_loads_an_image_before_docker_runs_it(path: Path) -> None:
    """The image of an output directory is in no daemon until somebody loads it."""
    before, run, _ = path.read_text(encoding="utf-8").partition('"$IMAGE"')
    assert not run or "| docker load\n" in before


def test_the_page_on_clusters_names_what_the_image_cache_needs() -> None:
    text = (DOCS / "cluster.md").read_text(encoding="utf-8")
    for name in (
        builtin_images.FOLDER,
        apptainer_cache.FOLDER,
        "XDG_CACHE_HOME",
        "--store /scratch",
        "mksquashfs",
    ):
        assert name in text


def prose(text: str) -> Iterator[str]:
    """Yield the lines of a page outside of its blocks, without what stands between backticks."""
    fence = ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(```+|~~~+)", line)
        if mark and not fence:
            fence = mark.group(1)
        elif fence:
            fence = "" if line.strip() == fence else fence
        elif not line.startswith("    "):
            yield re.sub(r"`[^`]*`", "``", line)


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for line in _lines_with_code(text):
        if heading := HEADING.match(line):
            slug = re.sub(r"[^\w\- ]", "", heading.group(1).lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return set(found)


def _lines_with_code(text: str) -> Iterator[str]:
    fenced = False
    for line in text.split("\n"):
        if re.match(r" {0,3}(```|~~~)", line):
            fenced = not fenced
        elif not fenced:
            yield line


def broken(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere in this repository."""
    found = []
    for link in LINK.findall("\n".join(prose(page.read_text(encoding="utf-8")))):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = page.parent / unquote(parts.path) if parts.path else page
        if not target.exists():
            found.append(f"{link}: there is no such file")
        elif parts.fragment and parts.fragment not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{link}: there is no such heading")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_there_are_pages_and_links() -> None:
    assert len(PAGES) > 30
    assert sum(len(LINK.findall("\n".join(prose(page.read_text())))) for page in PAGES) > 150


def test_the_index_has_every_page() -> None:
    index = DOCS / "README.md"
    linked = {
        (DOCS / urlsplit(link).path).resolve() for link in LINK.findall(index.read_text(encoding="utf-8"))
    }
    missing = [
        str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != index and page not in linked
    ]
    assert missing == [], "give each a line in docs/README.md"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[a](gone.md)", "gone.md: there is no such file"),
        ("| [`a`](other.md#nothing) |", "other.md#nothing: there is no such heading"),
        ("[a](#nothing)", "#nothing: there is no such heading"),
        ("```\n[a](gone.md)\n```\n[b](gone.md)", "gone.md: there is no such file"),
    ],
)
def test_a_broken_link_is_seen(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Some `words`, and more\n")
    page = tmp_path / "page.md"
    page.write_text(text)
    assert broken(page) == [complaint]


def test_good_links_are_not_complained_of(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# Some `words`, and more\n\n## Again\n\n## Again\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](other.md#some-words-and-more) [b](other.md#again-1) [c](#top) [d](https://site.test/#x)\n"
        "`[e](gone.md)`\n\n    [f](gone.md)\n"
    )
    assert broken(page) == []
