"""Further sections of a verdict's page.

They are the workload, an earlier check, the identity of the image, and the remarks.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from reprobuild.image.model import Image
from reprobuild.lock.model import Lock
from reprobuild.report.drift_trace import trace_rows
from reprobuild.report.html.components import Section
from reprobuild.report.html.matrix import Matrix, compare_certificates
from reprobuild.report.html.remarks import NEVER, Note
from reprobuild.verify.determinism.summary import describe_work_bound
from reprobuild.verify.verdict import Against, Deviation, Verdict, WorkComparison
from reprobuild.verify.workload.conditions import Mount


class RemarksView(Struct, frozen=True, kw_only=True):
    """The remarks, and the limits of the check."""

    notes: Sequence[Note]
    limits_title: str
    limits: Sequence[str]


def view_remarks(notes: Sequence[Note], *, cluster: bool) -> Section:
    """Return the section of remarks and limits of the check."""
    title = "What this check cannot cover" if cluster else "What no check on one machine covers"
    view = RemarksView(notes=notes, limits_title=title, limits=NEVER[cluster:])
    return Section(id="know", title="What to know", view=view)


class WorkloadView(Struct, frozen=True, kw_only=True):
    """The comparison of the workload's runs.

    `command` and `bound` are empty without one, `trace` without a traced drift.
    """

    command: str
    bound: str
    comparisons: Sequence[WorkComparison]
    trace: Sequence[tuple[str, str]]
    mounts: Sequence[Mount]


def view_workload(verdict: Verdict) -> Section:
    """Return the section that compares the workload's runs."""
    work = verdict.work
    view = WorkloadView(
        command=work.command if verdict.comparisons and work else "",
        bound=describe_work_bound(work.runs) if verdict.comparisons and work else "",
        comparisons=verdict.comparisons,
        trace=trace_rows(verdict.trace) if verdict.trace else (),
        mounts=work.mounts if work else (),
    )
    note = "None was compared: no workload is in the lock, and none was given to verify."
    return Section(id="work", title="Your own work", note=note, view=view)


class DeviationRow(Struct, frozen=True, kw_only=True):
    """One difference from an earlier verdict, and its kind in words."""

    kind: str
    deviation: Deviation


class EarlierView(Struct, frozen=True, kw_only=True):
    """The comparison with an earlier verdict."""

    made: str
    compared: int
    verdict: str
    rows: Sequence[DeviationRow]
    matrix: Matrix | None


def view_earlier_verdict(comparison: Against, now: str) -> Section:
    """Return the section that compares with an earlier verdict; `now` is the time of this check."""
    lists = (
        ("failed", comparison.failed), ("platform", comparison.platform), ("expected there", comparison.other),
        ("other mounts", comparison.mounts), ("not comparable", comparison.unmatched),
        ("changes no result", comparison.beside),
    )  # fmt: skip
    view = EarlierView(
        made=comparison.made,
        compared=comparison.compared,
        verdict=comparison.verdict,
        rows=[DeviationRow(kind=kind, deviation=item) for kind, items in lists for item in items],
        matrix=compare_certificates(comparison, now),
    )
    return Section(id="against", title="Against an earlier verdict", view=view)


class IdentityFact(Struct, frozen=True):
    """A fact of the image or the check; `code` is true for a digest, a name or a file."""

    name: str
    value: str
    code: bool = False


class IdentityView(Struct, frozen=True, kw_only=True):
    """The facts that identify image, lock and check."""

    facts: Sequence[IdentityFact]


def view_identity(lock: Lock, image: Image, verdict: Verdict) -> Section:
    """Return the section that identifies image, lock and check."""
    facts = [
        *(
            IdentityFact(name, value, code=True)
            for name, value in (
                ("reference", image.reference), ("tree", image.tree), ("manifest", image.manifest),
                ("config", image.config), ("lock", f"sha256:{lock.digest}"), ("snapshot", f"sha256:{lock.snapshot}"),
            )
        ),
        IdentityFact("builder", image.builder), IdentityFact("platform", lock.platform),
        *(IdentityFact(name, value, code=True) for name, value in (("sif", image.sif), ("sqsh", image.sqsh)) if value),
        IdentityFact("Python", f"{lock.interpreter.version}: {lock.interpreter.evidence}"),
        IdentityFact("seed", str(verdict.seed)), IdentityFact("profile", verdict.profile),
        IdentityFact("engine of the check", verdict.engine or "not told"),
        IdentityFact("GPUs asked for", verdict.gpus or "none"),
        IdentityFact("checked", f"{verdict.made}, by reprobuild {verdict.program}"),
    ]  # fmt: skip
    return Section(id="identity", title="Image and check", view=IdentityView(facts=facts))
