"""The section on citing: a sentence, an entry for BibTeX, and the badge."""

from __future__ import annotations

import re

from msgspec import Struct

from reprobuild.image.model import Image
from reprobuild.lock.model import Lock
from reprobuild.report.html.components import BRIEF, Section
from reprobuild.report.html.title import find_project
from reprobuild.verify.verdict import Verdict

# All else means something to TeX, or may.
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9.+-]+")
_MONTH = re.compile(r"(\d{4})-\d{2}-\d{2}T")


class CiteView(Struct, frozen=True, kw_only=True):
    """The sentence, and the entry with a line for each field."""

    sentence: str
    bibtex: str


def view_citation(lock: Lock, image: Image, verdict: Verdict) -> Section:
    """Return the section with the text for a paper."""
    view = CiteView(
        sentence=_write_sentence(lock, image, verdict), bibtex=_write_bibtex(lock, image, verdict)
    )
    return Section(id="cite", title="How to cite it", view=view)


def _write_sentence(lock: Lock, image: Image, verdict: Verdict) -> str:
    project = find_project(lock)
    subject = (
        f"The environment of {project.name} at commit {project.commit}" if project else "The environment"
    )
    return (
        f"{subject} was frozen with reprobuild {verdict.program} as a container image "
        f"(lock sha256:{lock.digest}, image {image.manifest})."
    )


def _write_bibtex(lock: Lock, image: Image, verdict: Verdict) -> str:
    project = find_project(lock)
    name = _NOT_PLAIN.sub("-", project.name) if project else "environment"
    year = _MONTH.match(verdict.made)
    fields = {
        "title": f"Frozen environment of {name}",
        "howpublished": f"Container image, {_NOT_PLAIN.sub(':', image.manifest)}",
        "note": f"Made with reprobuild {_NOT_PLAIN.sub('', verdict.program)}, lock sha256:{lock.digest}",
        **({"year": year[1]} if year else {}),
    }
    lines = [f"  {field} = {{{value}}}," for field, value in fields.items()]
    return "\n".join((f"@misc{{reprobuild-{lock.digest[:BRIEF]},", *lines, "}"))
