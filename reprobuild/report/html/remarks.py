"""The remarks on top of the page, and the answer that sums them up."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from reprobuild.lock.model import Lock
from reprobuild.lock.requirements import find_conflicts
from reprobuild.report.html.answers import KNOW, ReportAnswer, list_drifting
from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import Tone, format_count
from reprobuild.report.html.sentences import is_or_are, join_first, was_or_were
from reprobuild.verify.determinism.summary import applicable_controls, describe_excused
from reprobuild.verify.verdict import Verdict

# No check on one machine covers these.
NEVER = (
    "Several machines; models of GPU and processor, drivers and thread counts other than those of this check.",
    "What no probe computes: your own work is compared only if the lock or --workload names a workload.",
)


class Note(Struct, frozen=True, kw_only=True):
    """One remark, with its section and a short form."""

    tone: Tone
    said: str
    section: str
    brief: str = ""


def summarise_remarks(
    lock: Lock, verdict: Verdict, cluster: Nodes | None = None
) -> tuple[ReportAnswer, tuple[Note, ...]]:
    """Summarise the remarks in an answer, and return both."""
    remarks = (*_node_remarks(cluster), *_list_remarks(lock, verdict))
    if not remarks:
        sentence = "The check covered all that a check on one machine can cover."
        return ReportAnswer(question=KNOW, tone="good", word="Nothing unusual", sentence=sentence), ()
    # Errors come first, then drift with the image's own profile: its jobs run with that.
    briefs = [remark.brief for remark in remarks if remark.brief and remark.tone == "bad"]
    if loose := list_drifting(verdict):
        verb = "drifts" if len(loose) == 1 else "drift"
        arrays = any(smoke.libraries for smoke in verdict.smoke)
        how = "several threads" if arrays else f"profile {verdict.profile}"
        briefs.append(f"{format_count(len(loose), 'probe')} {verb} with {how}")
    briefs += [remark.brief for remark in remarks if remark.brief and remark.tone != "bad"]
    sentence = f"{join_first(briefs)}." if briefs else remarks[0].said
    tone: Tone = "bad" if any(remark.tone == "bad" for remark in remarks) else "note"
    word = format_count(len(remarks), "thing")
    return ReportAnswer(
        question=KNOW, tone=tone, word=word, sentence=sentence[0].upper() + sentence[1:]
    ), remarks


def _list_remarks(lock: Lock, verdict: Verdict) -> Iterator[Note]:
    """Yield the remarks, the most important first."""
    yield from _doubt_remarks(verdict)
    if conflict_lines := find_conflicts(lock):
        brief = f"{format_count(len(conflict_lines), 'requirement')} {is_or_are(len(conflict_lines))} not met"
        sentence = f"{brief} by the packages, as when they were captured."
        yield Note(tone="note", said=sentence, brief=brief, section="conflicts")
    if lock.deviations:
        names = [ruling.subject for ruling in lock.deviations]
        brief = format_count(len(names), "deviation")
        yield Note(tone="note", said=f"Not as captured, and accepted: {join_first(names)}.", brief=brief,
                     section="deviations")  # fmt: skip
    if secrets := [ruling.subject for ruling in lock.rulings if ruling.kind == "secret"]:
        brief = f"{format_count(len(secrets), 'secret')} {was_or_were(len(secrets))} withheld"
        sentence = (
            f"Secrets are not in the image, and are given to a job when it is run: {join_first(secrets)}."
        )
        yield Note(tone="none", said=sentence, brief=brief, section="round-trip")


def _node_remarks(cluster: Nodes | None) -> Iterator[Note]:
    """Yield the remarks on many nodes."""
    if cluster is None:
        return
    if number := len({row.node for row in cluster.wrong}):
        brief = f"{format_count(number, 'node')} {'differs' if number == 1 else 'differ'} from others of one platform"
        sentence = (
            f"{brief}, or {'drifts' if number == 1 else 'drift'}: "
            f"{join_first([row.node for row in cluster.wrong])}."
        )
        yield Note(tone="bad", said=sentence, brief=brief, section="nodes")
    if cluster.verdict == "inconclusive":
        brief = f"the check of {format_count(cluster.asked, 'node')} is inconclusive"
        sentence = f"{brief[0].upper()}{brief[1:]}: not all that it asked for was answered and compared."
        yield Note(tone="open", said=sentence, brief=brief, section="nodes")
    if number := len({row.node for row in cluster.lacking}):
        brief = (
            f"{format_count(number, 'node')} {'lacks' if number == 1 else 'lack'} answers that others gave"
        )
        sentence = f"{brief}: {join_first([row.node for row in cluster.lacking])}."
        yield Note(tone="open", said=sentence, brief=brief, section="nodes")
    if cluster.silent:
        brief = f"{format_count(len(cluster.silent), 'node')} gave no answer"
        sentence = f"{brief}: {join_first([row.node for row in cluster.silent])}."
        yield Note(tone="open", said=sentence, brief=brief, section="nodes")


def _doubt_remarks(verdict: Verdict) -> Iterator[Note]:
    """Yield the remarks on doubts that the check leaves."""
    drifts = [probe.name for smoke in verdict.smoke for probe in smoke.probes if probe.verdict == "drift"]
    if drifts:
        how = "" if any(smoke.libraries for smoke in verdict.smoke) else " in strict mode"
        brief = f"{format_count(len(drifts), 'probe')} {'drifts' if len(drifts) == 1 else 'drift'}{how}"
        yield Note(tone="bad", said=f"{brief}: {join_first(drifts)}.", brief=brief, section="probes")
    controls = [control for smoke in verdict.smoke for control in applicable_controls(smoke)]
    weak = [control.name for control in controls if control.verdict != "effective"]
    if weak:
        brief = f"{format_count(len(weak), 'control')} did not show that the check can fail"
        yield Note(tone="bad", said=f"{brief}: {join_first(weak)}.", brief=brief, section="probes")
    for work in verdict.comparisons:
        if work.counts and work.verdict != "identical":
            brief = f"your work, {work.name}: {work.verdict}"
            yield Note(tone="bad" if work.verdict == "drift" else "open", said=f"{brief}.", brief=brief,
                         section="work")  # fmt: skip
    if verdict.trace and verdict.trace.kind:
        brief = f"your work drifts by {verdict.trace.subject} ({verdict.trace.kind})"
        yield Note(tone="bad", said=_end_sentence(f"Y{brief[1:]}"), brief=brief, section="work")
    for work in verdict.comparisons:
        for line in work.warnings:
            brief = f"your work, {work.name}: {line}"
            yield Note(tone="open", said=_end_sentence(f"Y{brief[1:]}"), brief=brief, section="work")
    if words := describe_excused(verdict.comparisons):
        yield Note(tone="note", said=_end_sentence(f"Your work: {words[2:]}"), section="work")
    for note in verdict.notes:
        yield Note(tone="note", said=_end_sentence(note), section="probes")
    for smoke in verdict.smoke:
        for reason in smoke.open:
            yield Note(tone="open", said=_end_sentence(f"{smoke.device}: {reason}"), section="probes")
    if names := [name for smoke in verdict.smoke for name in smoke.left_out]:
        brief = f"{format_count(len(names), 'probe')} {was_or_were(len(names))} left out"
        yield Note(tone="none", said=f"Only --thorough runs these probes: {join_first(names)}.", brief=brief,
                     section="probes")  # fmt: skip


def _end_sentence(note: str) -> str:
    return note if note.endswith(".") else f"{note}."
