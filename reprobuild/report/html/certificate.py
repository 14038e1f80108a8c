"""Further sections of a verdict's page.

They are the workload, an earlier check, the identity of the image, and the availability of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from reprobuild.image.model import Image
from reprobuild.lock.model import Lock
from reprobuild.report.html.components import (
    Section,
    bullet_list,
    chip,
    code_element,
    fact_list,
    short_digest,
    table,
)
from reprobuild.report.html.markup import Html, join, tag
from reprobuild.report.html.summary import NEVER, Note
from reprobuild.report.units import format_bytes
from reprobuild.verify.determinism.summary import describe_work_bound
from reprobuild.verify.verdict import Against, Verdict


def render_remarks(notes: Sequence[Note], *, fleet: bool) -> Section:
    """Return the section of remarks and limits of the check.

    Each remark links to the section that has more.
    """
    items = [
        tag("li", remark.said, " ", tag("a", "More", href=f"#{remark.section}", aria_label=f"More: {remark.section}"),
            class_=f"tone {remark.tone}")
        for remark in notes
    ]  # fmt: skip
    title = "What this check cannot cover" if fleet else "What no check on one machine covers"
    never = join((tag("h3", title), bullet_list(NEVER[fleet:])))
    parts = ((tag("ul", *items, class_="remarks"),) if items else ()) + (never,)
    return Section(id="know", title="What to know", parts=parts)


def render_workload(verdict: Verdict) -> Section:
    """Return the section that compares the workload's runs."""
    rows = [
        (c.name, chip(c.verdict), join((c.detail, *([bullet_list(c.details)] if c.details else []))))
        for c in verdict.comparisons
    ]
    work_table = (table("Your own work", ("work", "answer", "detail"), rows),) if rows else ()
    runs = (tag("p", f"{describe_work_bound(verdict.work.runs)}."),) if rows and verdict.work else ()
    mounts = [
        (m.place, short_digest(m.digest) if m.digest else m.why, f"{m.paths:,}", format_bytes(m.size))
        for m in (verdict.work.mounts if verdict.work else ())
    ]
    mount_table = (table("What it mounted", ("mount", "digest", "paths", "size"), mounts),) if mounts else ()
    note = "None was compared: no workload is in the lock, and none was given to verify."
    return Section(id="work", title="Your own work", parts=(*runs, *work_table, *mount_table), note=note)


def render_earlier_verdict(comparison: Against) -> Section:
    """Return the section that compares with an earlier verdict."""
    lists = (
        ("failed", comparison.failed), ("platform", comparison.platform), ("expected there", comparison.other),
        ("other mounts", comparison.mounts), ("not comparable", comparison.unmatched),
        ("changes no result", comparison.beside),
    )  # fmt: skip
    rows = [
        (d.name, d.scope, kind, *(_render_digest(value) for value in (d.then, d.now)))
        for kind, items in lists
        for d in items
    ]
    lead = tag(
        "p",
        f"The certificate of {comparison.made}, {comparison.compared:,} digests compared: ",
        chip(comparison.verdict),
        ".",
    )
    head = ("what", "scope", "", "then", "now")
    differences = (table("Differences from the earlier certificate", head, rows),) if rows else ()
    return Section(id="against", title="Against an earlier certificate", parts=(lead, *differences))


def _render_digest(value: str | None) -> Html:
    return tag("span", "nothing", class_="muted") if value is None else short_digest(value)


def render_identity(lock: Lock, image: Image, verdict: Verdict) -> Section:
    """Return the section that identifies image, lock and check."""
    pairs: list[tuple[str, str]] = [
        ("reference", code_element(image.reference)), ("tree", code_element(image.tree)),
        ("manifest", code_element(image.manifest)),
        ("config", code_element(image.config)), ("lock", code_element(f"sha256:{lock.digest}")),
        ("snapshot", code_element(f"sha256:{lock.snapshot}")), ("builder", image.builder), ("platform", lock.platform),
    ]  # fmt: skip
    pairs += [
        (name, code_element(value)) for name, value in (("sif", image.sif), ("sqsh", image.sqsh)) if value
    ]
    pairs += [
        ("Python", f"{lock.interpreter.version}: {lock.interpreter.evidence}"), ("seed", str(verdict.seed)),
        ("profile", verdict.profile), ("engine of the check", verdict.engine or "not told"),
        ("GPUs asked for", verdict.gpus or "none"), ("checked", f"{verdict.made}, by reprobuild {verdict.program}"),
    ]  # fmt: skip
    return Section(id="identity", title="Image and check", parts=(fact_list(pairs),))
