"""The report as one HTML page.

It makes no requests, and is complete without its script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from reprobuild.image.model import Image
from reprobuild.infra.templates import Templates, html_templates
from reprobuild.lock.model import Lock
from reprobuild.report.html import certificate, environment
from reprobuild.report.html.answers import answer_same_environment, answer_same_results
from reprobuild.report.html.build import UNKNOWN_BUILD, BuildFacts, view_build
from reprobuild.report.html.cite import view_citation
from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import MOST_ROWS, TONES, Section, brief_digest, format_count
from reprobuild.report.html.lines import view_round_trip
from reprobuild.report.html.markup import attribute_text, prose, text
from reprobuild.report.html.nodes import view_nodes
from reprobuild.report.html.packages import view_packages
from reprobuild.report.html.plot import MODES, SEEN
from reprobuild.report.html.probes import view_probes
from reprobuild.report.html.remarks import Note, summarise_remarks
from reprobuild.report.html.requirements import view_requirements
from reprobuild.report.html.run import view_run_box
from reprobuild.report.html.sizes import view_sizes
from reprobuild.report.html.title import view_title
from reprobuild.report.units import format_bytes
from reprobuild.verify.verdict import Verdict

_PACKAGE = "reprobuild.report.html"
# The shape of each answer, drawn in a box of 24.
_ICONS = {
    "good": "M5 12.5l4.5 4.5L19 7.5", "note": "M5 12.5l4.5 4.5L19 7.5", "bad": "M7 7l10 10M17 7L7 17",
    "open": "M6 12h12", "none": "M6 12h12", "know": "M12 6.5v7M12 17.4v.1",
}  # fmt: skip


def render_html(
    lock: Lock,
    image: Image,
    verdict: Verdict,
    cluster: Nodes | None = None,
    build: BuildFacts = UNKNOWN_BUILD,
    name: str = "",
) -> str:
    """Return the report as one HTML page.

    Every value is escaped, shortened if it is long, and cannot act.

    Args:
        lock: the inputs of the image, and the resolution of each captured line.
        image: the record in `image.json`.
        verdict: of the check.
        cluster: the result of a check of many nodes, if there was one.
        build: the sizes and times of an output directory.
        name: of the image in engines; empty for its own.
    """
    known, remarks = summarise_remarks(lock, verdict, cluster)
    answers = (answer_same_environment(lock, verdict), answer_same_results(verdict, cluster), known)
    sections = tuple(_list_sections(lock, image, verdict, remarks, cluster, build))
    facts = {
        "title": view_title(lock, image, verdict, build.layers), "image": image, "verdict": verdict, "answers": answers,
        "run": view_run_box(lock, image, verdict, name or image.reference),
        "sections": sections, "titles": {section.id: section.title for section in sections},
        "policy": content_security_policy(),
    }  # fmt: skip
    return page_templates().render("page.html.j2", facts) + "\n"


@cache
def page_templates() -> Templates:
    """Return the templates of all pages."""
    filters: dict[str, Callable[[str], str]] = {
        "attr": lambda value: escape(attribute_text(value)),  # an attribute takes no element
        "prose": prose,
        "whole": lambda value: text(value, longest=None),
        "asset": _read_asset,
    }
    facts = {
        "tones": TONES, "most_rows": MOST_ROWS, "modes": MODES, "seen_words": SEEN, "brief_digest": brief_digest,
        "count": format_count, "format_bytes": format_bytes, "icons": _ICONS,
    }  # fmt: skip
    return html_templates(Path(str(files(_PACKAGE).joinpath("templates"))), text, filters, facts)


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
    cluster: Nodes | None,
    build: BuildFacts,
) -> Iterator[Section]:
    yield certificate.view_remarks(remarks, cluster=cluster is not None)
    yield view_probes(verdict)
    yield certificate.view_workload(verdict)
    if cluster:
        yield view_nodes(cluster)
    if verdict.against:
        yield certificate.view_earlier_verdict(verdict.against, verdict.made)
    yield view_round_trip(lock, verdict)
    yield environment.view_deviations(lock)
    yield environment.view_environment(lock)
    yield view_packages(lock)
    yield view_sizes(lock, build.layers)
    if build.seconds:
        yield view_build(build, verdict)
    yield view_requirements(lock)
    yield view_citation(lock, image, verdict)
    yield certificate.view_identity(lock, image, verdict)


@cache
def _read_asset(name: str) -> str:
    return files(_PACKAGE).joinpath(name).read_text(encoding="utf-8")


def _content_hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


__all__ = ["content_security_policy", "page_templates", "render_html"]
