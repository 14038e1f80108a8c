"""The report as one HTML page.

It makes no requests, and is complete without its script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from reprobuild.image.model import Image
from reprobuild.lock.model import Lock
from reprobuild.report.html import certificate, roundtrip
from reprobuild.report.html.cluster import Nodes, render_nodes
from reprobuild.report.html.components import Section
from reprobuild.report.html.markup import Html, tag
from reprobuild.report.html.packages import render_packages
from reprobuild.report.html.probes import render_probes
from reprobuild.report.html.run import render_commands
from reprobuild.report.html.summary import (
    KNOW,
    Note,
    ReportAnswer,
    answer_same_environment,
    answer_same_results,
    summarise_remarks,
)
from reprobuild.verify.verdict import Verdict

# The shape of each answer, drawn in a box of 24.
_ICONS = {
    "good": "M5 12.5l4.5 4.5L19 7.5", "note": "M5 12.5l4.5 4.5L19 7.5", "bad": "M7 7l10 10M17 7L7 17",
    "open": "M6 12h12", "none": "M6 12h12", "know": "M12 6.5v7M12 17.4v.1",
}  # fmt: skip


def render_html(lock: Lock, image: Image, verdict: Verdict, fleet: Nodes | None = None) -> str:
    """Return the report as one HTML page.

    Every value is escaped, shortened if it is long, and cannot act.

    Args:
        lock: the inputs of the image, and the resolution of each captured line.
        image: the record in `image.json`.
        verdict: of the check.
        fleet: the result of a check of many nodes, if there was one.
    """
    known, remarks = summarise_remarks(lock, verdict, fleet)
    answers = (answer_same_environment(lock, verdict), answer_same_results(verdict, fleet), known)
    sections = tuple(_list_sections(lock, image, verdict, remarks, fleet))
    title = f"{image.reference}: report"
    head = tag(
        "head", tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=content_security_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"), tag("meta", name="referrer", content="no-referrer"),
        tag("title", title), tag("link", rel="icon", href="data:,"), tag("style", _read_asset("style.css")),
    )  # fmt: skip
    body = tag(
        "body", tag("a", "Skip to the report", href="#report", class_="skip"), _render_header(image, verdict, answers),
        tag("div", _render_contents(sections),
            tag("main", *(section.render() for section in sections), id="report", tabindex="-1"), class_="layout"),
        tag("footer", tag("p", f"Made by reprobuild {verdict.program}. verdict.json has all of the check, "
                               "reprobuild.lock all inputs by their sha256.")),
        tag("script", _read_asset("script.js")),
    )  # fmt: skip
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def content_security_policy() -> str:
    """Return the page's content security policy.

    A browser may use the page's own style and script, known by their hashes, and no more.

    https://www.w3.org/TR/CSP3/#grammardef-hash-source
    """
    hashes = {name: _content_hash(_read_asset(name)) for name in ("style.css", "script.js")}
    return (
        f"default-src 'none'; style-src '{hashes['style.css']}'; script-src '{hashes['script.js']}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _list_sections(
    lock: Lock,
    image: Image,
    verdict: Verdict,
    remarks: Sequence[Note],
    fleet: Nodes | None,
) -> Iterator[Section]:
    yield certificate.render_remarks(remarks, fleet=fleet is not None)
    yield roundtrip.render_round_trip(verdict)
    yield roundtrip.render_deviations(lock)
    yield roundtrip.render_environment(lock)
    yield render_packages(lock)
    yield render_probes(verdict)
    yield certificate.render_workload(verdict)
    if fleet:
        yield render_nodes(fleet)
    if verdict.against:
        yield certificate.render_earlier_verdict(verdict.against)
    yield render_commands(lock, image, verdict)
    yield roundtrip.render_conflicts(lock)
    yield roundtrip.render_captured_lines(lock)
    yield certificate.render_identity(lock, image, verdict)


def _render_header(image: Image, verdict: Verdict, answers: Sequence[ReportAnswer]) -> Html:
    summary = f"Checked {verdict.made} with seed {verdict.seed} and profile {verdict.profile}"
    summary += f", by {verdict.engine}." if verdict.engine else "."
    return tag(
        "header", tag("p", "reprobuild report", class_="brand"), tag("h1", image.reference),
        tag("p", summary, class_="muted"),
        tag("div", *(_render_answer(answer) for answer in answers), class_="answers"),
    )  # fmt: skip


def _render_answer(answer: ReportAnswer) -> Html:
    shape = "know" if answer.question == KNOW and answer.tone != "good" else answer.tone
    icon = tag(
        "svg", tag("path", d=_ICONS[shape]), viewBox="0 0 24 24", width="28", height="28", aria_hidden="true"
    )
    return tag(
        "div", tag("h2", answer.question), tag("p", icon, tag("strong", answer.word), class_="word"),
        tag("p", answer.sentence), class_=f"answer {answer.tone}",
    )  # fmt: skip


def _render_contents(sections: Sequence[Section]) -> Html:
    links = [tag("li", tag("a", section.title, href=f"#{section.id}")) for section in sections]
    return tag("nav", tag("ul", *links), class_="contents", aria_label="Sections")


@cache
def _read_asset(name: str) -> Html:
    """Return a file of this package as markup.

    It is ours, so no value is in it.
    """
    return Html(files("reprobuild.report.html").joinpath(name).read_text(encoding="utf-8"))


def _content_hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


__all__ = ["content_security_policy", "render_html"]
