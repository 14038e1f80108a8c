"""The page: no captured value can change it, it asks nobody for anything, and it has every answer."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from reprobuild.lock.system import EnvVar
from reprobuild.report.html.markup import LONGEST, attribute_text, text
from reprobuild.report.html.page import render_html
from reprobuild.report.html.run import job_command
from reprobuild.verify.verdict import RoundTripDifference, WorkComparison
from tests.conftest import ROOT
from tests.report.samples import HOSTILE, IMAGE, LONG, Page, full_page, large_page
from tests.verify.samples import OTHER_TORCHES, make_lock, make_smoke, make_verdict, ruling, wheel

LIMIT = 1_000_000  # bytes of a page of 500 packages
# All that the page has: its own markup, pictures, one style and one script.
TAGS = {
    "html", "head", "meta", "title", "link", "style", "body", "a", "header", "p", "h1", "h2", "h3", "div",
    "svg", "path", "strong", "nav", "ul", "li", "main", "section", "details", "summary", "span", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "code", "small", "figure", "figcaption", "b", "desc", "text",
    "g", "circle", "rect", "dl", "dt", "dd", "label", "input", "output", "pre", "footer", "script", "fieldset",
    "legend", "button",
}  # fmt: skip
# What acts, or leads away.
DANGEROUS = {
    "src",
    "action",
    "style",
    "srcdoc",
    "formaction",
    "poster",
    "data",
    "srcset",
    "xlink:href",
    "ping",
}


@pytest.mark.parametrize("bad", HOSTILE)
def test_hostile_values_stay_text(bad: str) -> None:
    content = full_page(bad)
    parsed = Page(content)
    assert parsed.tags <= TAGS
    names = {name for name, _ in parsed.attributes}
    assert not names & DANGEROUS
    assert not [name for name in names if name.startswith("on")]
    assert {value for name, value in parsed.attributes if name == "href"} <= {"data:,"} | {
        value for _, value in parsed.attributes if value.startswith("#")
    }
    assert parsed.text.count(bad) > 100
    # As many elements as where the text is harmless.
    assert content.count("<td") == full_page().count("<td")
    assert [content.count(end) for end in ("</script>", "</style>")] == [1, 1]


def test_what_does_not_print_is_written_out() -> None:
    bad = "a\x1b[31m\r\n\x00\u202e\u2066\u200b\ufeff\x85z"
    content = full_page(bad)
    assert all(character.isprintable() or character == "\n" for character in content)
    assert '<i class="x">\\u202e</i><i class="x">\\u2066</i><i class="x">\\u200b</i>' in content
    assert str(text("a\\u202e")) == "a\\u202e"  # those who wrote that get no mark
    assert str(text("\ud800")) == '<i class="x">\\ud800</i>'  # no lock can hold it


def test_what_stands_beside_it_is_escaped_too() -> None:
    assert str(text("<b>\x00<i>")) == '&lt;b&gt;<i class="x">\\x00</i>&lt;i&gt;'


def test_marks_do_not_paint_over_other_lines() -> None:
    assert text("e" + "\u0301" * 3) == "e" + "\u0301" * 3
    for mark in ("\u0301", "\u0489", "\u20dd", "\u0e34"):  # only the first has a combining class
        assert str(text("e" + mark * 50)).count(mark) == 3


@pytest.mark.parametrize("unseen", ["\ufe0f", "\U000e0101", "\u034f", "\u1160", "\u3164", "\u180b", "\uffa0"])
def test_what_paints_nothing_is_written_out(unseen: str) -> None:
    """They count as printable, and two names that differ by them alone look the same."""
    code = unseen.encode("unicode_escape").decode()
    assert str(text(f"torch{unseen}")) == f'torch<i class="x">{code}</i>'
    assert attribute_text(f"torch{unseen}") == f"torch{code}"


@pytest.mark.parametrize(
    "ordinary",
    [
        "\u2764\ufe0f",
        "\U0001f525",
        "nai\u0308ve",
        "\u0e01\u0e34\u0e48",
        "\ud55c\uae00",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
    ],
)
def test_ordinary_text_is_left_alone(ordinary: str) -> None:
    assert str(text(ordinary)) == ordinary


def test_an_emoji_selector_is_seen_once_alone() -> None:
    assert str(text("\u2764\ufe0f\ufe0f")) == '\u2764\ufe0f<i class="x">\\ufe0f</i>'


def test_long_values_are_cut_and_say_so() -> None:
    shown = text(LONG)
    assert len(shown) < LONGEST + 100
    assert "[... 20,011 characters ...]" in shown
    assert len(full_page(LONG).encode()) < LIMIT


def test_a_command_is_never_cut() -> None:
    assert f"echo {LONG}" in Page(full_page(LONG)).text


def test_no_address_outside_the_page() -> None:
    for content in (full_page(), large_page(50, 50, 50)):
        for word in ("http:", "https:", "@import", "src=", "//planted"):
            assert word not in content
        links = re.findall(r'href="([^"]*)"', content)
        inside = {link[1:] for link in links if link.startswith("#")}
        assert set(links) == {"data:,"} | {f"#{id_}" for id_ in inside}
        ids = re.findall(r' id="([^"]*)"', content)
        assert inside <= set(ids)
        assert len(ids) == len(set(ids))
        named = {id_ for ids in re.findall(r'aria-labelledby="([^"]*)"', content) for id_ in ids.split()}
        assert named <= set(ids)


def test_the_policy_allows_the_pages_own_style_and_script_alone() -> None:
    content = full_page()
    (allowed,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', content)
    rules = dict(rule.split(" ", 1) for rule in allowed.replace("&#x27;", "'").split("; "))
    for kind, name in (("style-src", "style"), ("script-src", "script")):
        (inline,) = re.findall(f"<{name}>(.*?)</{name}>", content, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert rules.pop(kind) == f"'sha256-{digest}'"
    assert rules == {
        "default-src": "'none'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert content.index("Content-Security-Policy") < content.index("<style>")


def test_the_page_of_500_packages_is_under_a_megabyte() -> None:
    content = large_page()
    assert content.count("-distribution-") >= 1000  # each among the packages, and among the captured lines
    assert len(content.encode()) < LIMIT


def test_more_rows_than_anybody_reads_are_counted() -> None:
    differences = (RoundTripDifference(list="l", captured="c", image="", reason="r", code="decision"),) * 2345
    content = render_html(make_lock(), IMAGE, make_verdict(differences=differences))
    assert "And 347 more, in the files beside this page." in content


@pytest.mark.parametrize("part", ["notes", "open", "facts", "details"])
def test_lists_without_end_are_counted_too(part: str) -> None:
    """A verdict of 0.7 MB was a page of 12 MB."""
    many = ("",) * 200_000
    more = {
        "notes": {"notes": many},
        "open": {"smoke": (make_smoke(open=many),)},
        "facts": {"smoke": (make_smoke(fingerprint={"a": [0] * 200_000}),)},
        "details": {"comparisons": (WorkComparison(name="w", verdict="drift", details=many),)},
    }[part]
    content = render_html(make_lock(), IMAGE, make_verdict(**more))
    assert re.search(r"And 198,\d{3} more, in the files beside this page\.", content)
    assert len(content) < LIMIT


def test_the_page_has_the_probes() -> None:
    content = render_html(make_lock(), IMAGE, make_verdict())
    smoke = make_smoke()
    digest = smoke.probes[0].modes["strict"].digest
    assert digest
    cell = (
        f"<td>identical<small>N = 10 in 2, &lt; 30.0%</small><small><code>{digest[:12]}</code></small></td>"
    )
    assert content.count(cell) == 4
    parsed = Page(content)
    for name in (*(p.name for p in smoke.probes), *(c.name for c in smoke.controls), *smoke.comparator):
        assert f"\n{name}" in parsed.text
    assert "\ndefault: drift, N = 10 in 2: 3 different results" in parsed.text
    # The picture has a mark for each mode of each probe, and says so to those who do not see it.
    marks = sum(len(probe.modes) for probe in smoke.probes)
    assert content.count('class="m-same"') == marks + 1  # one in the legend
    assert f"scatter: {len(smoke.probes)} probes in 4 modes" in parsed.text


def test_a_page_without_anything_to_tell() -> None:
    content = render_html(make_lock(rulings=(), environment=()), IMAGE, make_verdict(smoke=()))
    parsed = Page(content)
    for said in (
        "None: nothing was replaced, and nothing is missing.",
        "The image sets no variable of the captured environment.",
        "No determinism test was run, or the image has neither torch nor NumPy.",
        "Every requirement of a package is met by another.",
        "No line differs.",
    ):  # fmt: skip
        assert f"\n{said}" in parsed.text


@pytest.mark.parametrize("file", ["env.txt", "env.nul", "printenv.txt"])
def test_variables_are_told_whatever_their_file_is_called(file: str) -> None:
    lines = (
        ruling("LANG", "", "pinned", "it changes text", kind="locale", file=file),
        ruling("TERM", "", "excluded", "of a terminal", kind="session", file=file),
    )
    settings = (EnvVar(name="LANG", value="C.UTF-8"),)
    content = render_html(make_lock(rulings=lines, environment=settings), IMAGE, make_verdict())
    environment, every_line = (
        content.partition(f'<section id="{id_}"')[2].partition("</section>")[0]
        for id_ in ("environment", "round-trip")
    )
    assert "it changes text" in environment
    assert "of a terminal" in every_line


@pytest.mark.parametrize(("count", "tables"), [(12, 1), (13, 2)])
def test_many_deviations_are_told_by_kind(count: int, tables: int) -> None:
    gone = tuple(ruling(f"a{n}", "", "replaced", "gone", kind="withdrawn") for n in range(count - 1))
    other = ruling("b", "", "unresolved", "never was", kind="unknown-package")
    content = render_html(make_lock(rulings=(*gone, other)), IMAGE, make_verdict())
    found = content.partition('id="deviations"')[2].partition("</section>")[0]
    assert found.count("<table") == tables
    assert ("replaced: withdrawn" in found, "unresolved: unknown-package" in found) == ((tables == 2,) * 2)
    assert found.count("requirements.txt:1") == count


def test_the_sections_are_in_order() -> None:
    titles = re.findall(r'<h2 id="([a-z-]+)-title">', full_page())
    assert titles == [
        "running", "know", "probes", "work", "nodes", "against", "round-trip", "deviations", "environment",
        "packages", "sizes", "build", "conflicts", "cite", "identity",
    ]  # fmt: skip


def test_the_command_of_an_image_with_torch_draws_numbers() -> None:
    drawing = ("python", "-c", "import torch; print(torch.rand(3))")
    assert [job_command(make_lock(**more)) for more in ({}, *OTHER_TORCHES.values())] == [drawing] * 4
    for wheels in ((), (wheel("torch", role="build"),)):
        assert job_command(make_lock(wheels=wheels)) == ("python", "--version")


# Values in attributes that this program makes: numbers, ids, tones and names of sections.
OURS = {
    "answer.tone", "icons[answer.icon]", "section.id", "note.tone", "note.section", "tones[word]", "kind",
    "list.name", "list.id", "letter", "x", "y", "y - 6", "x - 4", "y - 4", "x - 3", "own", "picture.width",
    "picture.height", "label.x", "label.y", "bar.width", "id", "part.x", "part.width", "part.number",
    "loop.index0", "tab.id", "probe.id", "column.row", "strip.id", "strip.height", "block.x", "block.width",
    "block.shade", "column.x", "column.y", "loop.index", "picture.step", "picture.step * modes | length",
}  # fmt: skip


def test_a_captured_value_in_an_attribute_passes_its_filter() -> None:
    """The text of a value may be an element, which an attribute cannot hold."""
    templates = sorted((ROOT / "reprobuild/report/html/templates").iterdir())
    found = {
        expression.strip()
        for path in templates
        for value in re.findall(r'[\w-]+="([^"]*)"', path.read_text())
        for expression in re.findall(r"\{\{(.*?)\}\}", value)
    }
    assert len(templates) > 15
    assert {one for one in found if not one.endswith("| attr")} == OURS
