"""The page that explains a bisection."""

from __future__ import annotations

from msgspec import Struct

from reprobuild.report.html.components import Section
from reprobuild.report.html.page import content_security_policy, page_templates

_SECTIONS = (
    ("guilty", "The guilty differences", "", "No difference is accused."),
    ("mixtures", "Trials", "Each row is A with the differences of B that it marks.", ""),
    ("together", "Differences", "Those of one column had the same side in each trial.", ""),
    ("repeat", "Repeat a trial", "Run the commands in the directory of this page.", ""),
    ("search", "The search", "", ""),
)


def render_explanation(facts: Struct) -> str:
    """Return the page of a bisection; `reprobuild/bisect/explanation.py` defines its facts."""
    sections = tuple(
        Section(id=name, title=title, lead=lead, note=note, view=facts)
        for name, title, lead, note in _SECTIONS
    )
    document = {"page": facts, "sections": sections, "policy": content_security_policy()}
    return page_templates().render("explanation.html.j2", document) + "\n"
