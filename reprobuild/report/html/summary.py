"""The three answers and the remarks on top of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.lock.model import Lock
from reprobuild.lock.requirements import find_conflicts
from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import Tone, format_count
from reprobuild.snapshot.file_kinds import field_of
from reprobuild.verify.determinism.summary import (
    applicable_controls,
    describe_excused,
    describe_probes,
    drifting_probes,
)
from reprobuild.verify.verdict import Code, Smoke, Verdict

# Names in a sentence; a table has the rest.
NAMED = 3
SAME, COMPUTE, KNOW = (
    "Is this the same environment?",
    "Does it compute the same numbers?",
    "What should I know?",
)
_TIMES = {2: "twice"}
SCOPES = {"cpu": "the CPU", "gpu": "the GPU", "collectives": "sums between processes"}
_OPEN = {
    "inconclusive": "gave no clear answer for", "not-covered": "did not cover", "not-run": "did not run for",
}  # fmt: skip
# The lists of packages, and the name of their packages.
_PACKAGE_FIELDS = {"requirements": "Python", "conda": "conda", "packages": "system"}
# Reasons for a difference, in a sentence.
_REASONS: dict[Code, str] = {
    "site-variable": "variables of the session, the scheduler and the site", "host-only": "parts of the host",
    "not-needed": "packages that nothing needs", "base-provided": "parts of the base image",
    "secret-withheld": "secrets", "not-baked": "variables without effect on the results",
    "path-rewritten": "paths of the captured machine", "decision": "your decisions",
    "solved-version": "versions as of a date", "replaced-version": "accepted replacements",
    "unrecoverable": "accepted losses",
}  # fmt: skip
# No check on one machine covers these.
NEVER = (
    "Several machines; models of GPU and processor, drivers and thread counts other than those of this check.",
    "What no probe computes: your own work is compared only if the lock or --workload names a workload.",
)


class ReportAnswer(Struct, frozen=True, kw_only=True):
    """One answer: the question, a word, and a sentence."""

    question: str
    tone: Tone
    word: str
    sentence: str

    @property
    def icon(self) -> str:
        """The name of its picture."""
        return "know" if self.question == KNOW and self.tone != "good" else self.tone


class Note(Struct, frozen=True, kw_only=True):
    """One remark, with its section and a short form."""

    tone: Tone
    said: str
    section: str
    brief: str = ""


def answer_same_environment(lock: Lock, verdict: Verdict) -> ReportAnswer:
    """Answer whether the image is the captured environment."""
    if verdict.round_trip == "not-run":
        sentence = "The image was not compared with everything that was captured."
        return ReportAnswer(question=SAME, tone="open", word="Not known", sentence=sentence)
    if verdict.round_trip == "residue":
        bare = sum(difference.code == "unexplained" for difference in verdict.differences)
        sentence = (
            f"{format_count(bare, 'difference')} between the image and what was captured "
            f"{_is_or_are(bare)} not explained."
        )
        return ReportAnswer(question=SAME, tone="bad", word="Not quite", sentence=sentence)
    matches = describe_matches(lock)
    if verdict.round_trip == "exact":
        word, sentence = "Yes", "The image repeats every line of what was captured"
        sentence = f"{matches}. {sentence}" if matches else sentence
    else:
        word, sentence = (
            "Yes, explained",
            " ".join((f"{matches}." if matches else "", _describe_left(verdict))),
        )
    sentence = sentence.strip()
    if lock.solved:
        number = len(lock.solved)
        sentence += f"; {format_count(number, 'version')} {_was_or_were(number)} chosen, not captured"
    if lock.deviations:
        number = len(lock.deviations)
        sentence += f"; {format_count(number, 'deviation')} {_was_or_were(number)} accepted by name"
    if not (lock.solved or lock.deviations):
        return ReportAnswer(question=SAME, tone="good", word=word, sentence=f"{sentence}.")
    word = "Yes, with deviations" if lock.deviations else "Yes, with chosen versions"
    return ReportAnswer(question=SAME, tone="note", word=word, sentence=f"{sentence}.")


def describe_matches(lock: Lock) -> str:
    """Describe the packages that the image has as they were captured; empty without a list of packages."""
    fields = [field_of(ruling.file) for ruling in lock.rulings if ruling.outcome == "pinned"]
    counts = [(fields.count(field), name) for field, name in _PACKAGE_FIELDS.items()]
    words = [f"{number:,} {name}" for number, name in counts if number]
    if not words:
        return ""
    number = sum(number for number, _ in counts)
    start = "" if lock.deviations or lock.solved else "All "
    return f"{start}{_join_words(words)} {'package matches' if number == 1 else 'packages match'}"


def _describe_left(verdict: Verdict) -> str:
    """Describe the lines that the image does not repeat, with their most frequent reasons."""
    counts = Counter(difference.code for difference in verdict.differences)
    reasons = [_REASONS.get(code, "lines spelled differently") for code, _ in counts.most_common(2)]
    number = len(verdict.differences)
    return (
        f"{format_count(number, 'line')} {_was_or_were(number)} left out or changed on purpose: "
        f"{', '.join(reasons)}{', and others' if len(counts) > 2 else ''}"
    )


def answer_same_results(verdict: Verdict, cluster: Nodes | None = None) -> ReportAnswer:
    """Answer whether two runs on one machine gave equal bytes."""
    tone, word, sentence = _rate_results(verdict)
    if cluster and cluster.verdict == "differ" and word != "No":
        tone, word = "bad", "Not on every node"
        sentence = (
            "Nodes of one platform gave different bytes, or drift: "
            f"{_join_first([row.node for row in cluster.wrong])}."
        )
    elif cluster and cluster.verdict == "inconclusive" and word.startswith("Yes"):
        tone, word = "open", "Known in part"
        sentence = (
            f"{sentence[:-1]}; whether {format_count(cluster.asked, 'node')} compute the same is not known."
        )
    elif cluster and cluster.verdict == "same" and word.startswith("Yes"):
        sentence = f"{sentence[:-1]}; {cluster.asked:,} nodes agree, each with those of its platform."
    return ReportAnswer(question=COMPUTE, tone=tone, word=word, sentence=sentence)


def _rate_results(verdict: Verdict) -> tuple[Tone, str, str]:
    scopes = {name: getattr(verdict.determinism, name) for name in SCOPES}
    before = verdict.against
    if before and before.verdict == "differ":
        failed = f"{len(before.failed):,} of {before.compared:,} digests"
        return "bad", "No", f"{failed} differ from the certificate of {before.made}, on the same platform."
    if drifts := [SCOPES[name] for name, scope_verdict in scopes.items() if scope_verdict == "drift"]:
        return (
            "bad",
            "No",
            f"Two runs on one machine, with one seed, differed in their bytes: {_join_words(drifts)}.",
        )
    same = [SCOPES[name] for name, scope_verdict in scopes.items() if scope_verdict == "identical"]
    unknown = [
        f"{_OPEN[scope_verdict]} {SCOPES[name]}"
        for name, scope_verdict in scopes.items()
        if scope_verdict in _OPEN
    ]
    if unknown:
        start = f"{_describe_sameness(verdict)} ({_join_words(same)}), but the check" if same else "The check"
        return "open", "Known in part" if same else "Not known", f"{start} {_join_words(unknown)}."
    if not same:
        return "open", "Not known", "Nothing that the image holds could be checked."
    loose = _drifting_names(verdict)
    if loose and any(smoke.libraries for smoke in verdict.smoke):
        verb = "drifts" if len(loose) == 1 else "drift"
        sentence = (
            f"{_describe_sameness(verdict)}; with several threads {_join_first(loose)} {verb}, where "
            "its library promises nothing."
        )
        return "note", "Yes, with an exception", sentence
    if loose:
        sentence = (
            f"{_describe_sameness(verdict)} in strict mode; with the image's own profile, {verdict.profile}, "
        )
        sentence += f"{_join_first(loose)} {'drifts' if len(loose) == 1 else 'drift'}."
        return "note", "Yes, in strict mode", sentence
    return "good", "Yes, on this machine", f"{_describe_sameness(verdict)}: {_join_words(same)}."


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
    if loose := _drifting_names(verdict):
        verb = "drifts" if len(loose) == 1 else "drift"
        arrays = any(smoke.libraries for smoke in verdict.smoke)
        how = "several threads" if arrays else f"profile {verdict.profile}"
        briefs.append(f"{format_count(len(loose), 'probe')} {verb} with {how}")
    briefs += [remark.brief for remark in remarks if remark.brief and remark.tone != "bad"]
    sentence = f"{_join_first(briefs)}." if briefs else remarks[0].said
    tone: Tone = "bad" if any(remark.tone == "bad" for remark in remarks) else "note"
    word = format_count(len(remarks), "thing")
    return ReportAnswer(
        question=KNOW, tone=tone, word=word, sentence=sentence[0].upper() + sentence[1:]
    ), remarks


def _list_remarks(lock: Lock, verdict: Verdict) -> Iterator[Note]:
    """Yield the remarks, the most important first."""
    yield from _doubt_remarks(verdict)
    if conflict_lines := find_conflicts(lock):
        brief = (
            f"{format_count(len(conflict_lines), 'requirement')} {_is_or_are(len(conflict_lines))} not met"
        )
        sentence = f"{brief} by the packages, as when they were captured."
        yield Note(tone="note", said=sentence, brief=brief, section="conflicts")
    if lock.deviations:
        names = [ruling.subject for ruling in lock.deviations]
        brief = format_count(len(names), "deviation")
        yield Note(tone="note", said=f"Not as captured, and accepted: {_join_first(names)}.", brief=brief,
                     section="deviations")  # fmt: skip
    if secrets := [ruling.subject for ruling in lock.rulings if ruling.kind == "secret"]:
        brief = f"{format_count(len(secrets), 'secret')} {_was_or_were(len(secrets))} withheld"
        sentence = (
            f"Secrets are not in the image, and are given to a job when it is run: {_join_first(secrets)}."
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
            f"{_join_first([row.node for row in cluster.wrong])}."
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
        sentence = f"{brief}: {_join_first([row.node for row in cluster.lacking])}."
        yield Note(tone="open", said=sentence, brief=brief, section="nodes")
    if cluster.silent:
        brief = f"{format_count(len(cluster.silent), 'node')} gave no answer"
        sentence = f"{brief}: {_join_first([row.node for row in cluster.silent])}."
        yield Note(tone="open", said=sentence, brief=brief, section="nodes")


def _doubt_remarks(verdict: Verdict) -> Iterator[Note]:
    """Yield the remarks on doubts that the check leaves."""
    drifts = [probe.name for smoke in verdict.smoke for probe in smoke.probes if probe.verdict == "drift"]
    if drifts:
        how = "" if any(smoke.libraries for smoke in verdict.smoke) else " in strict mode"
        brief = f"{format_count(len(drifts), 'probe')} {'drifts' if len(drifts) == 1 else 'drift'}{how}"
        yield Note(tone="bad", said=f"{brief}: {_join_first(drifts)}.", brief=brief, section="probes")
    controls = [control for smoke in verdict.smoke for control in applicable_controls(smoke)]
    weak = [control.name for control in controls if control.verdict != "effective"]
    if weak:
        brief = f"{format_count(len(weak), 'control')} did not show that the check can fail"
        yield Note(tone="bad", said=f"{brief}: {_join_first(weak)}.", brief=brief, section="probes")
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
        brief = f"{format_count(len(names), 'probe')} {_was_or_were(len(names))} left out"
        yield Note(tone="none", said=f"Only --thorough runs these probes: {_join_first(names)}.", brief=brief,
                     section="probes")  # fmt: skip


def _drifting_names(verdict: Verdict) -> list[str]:
    return [probe.name for smoke in verdict.smoke for probe in drifting_probes(smoke)]


def _describe_sameness(verdict: Verdict) -> str:
    number = sum(probe.verdict == "identical" for smoke in verdict.smoke for probe in smoke.probes)
    names = [describe_probes(smoke) for smoke in verdict.smoke if smoke.libraries]
    of = f" ({'; '.join(names)})" if names else ""
    probes = f"{format_count(number, 'probe')}{of} gave the same bytes in every run"
    if not verdict.work or any(c.counts and c.verdict != "identical" for c in verdict.comparisons):
        return probes if number else "Your work gave the same bytes in every run"
    repeats = f"Your run gave the same bytes {_TIMES.get(verdict.work.runs, f'{verdict.work.runs:,} times')}"
    return f"{repeats}, in fresh containers. {probes}" if number else f"{repeats}, in fresh containers"


def _end_sentence(note: str) -> str:
    return note if note.endswith(".") else f"{note}."


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _was_or_were(number: int) -> str:
    return "was" if number == 1 else "were"


def _join_first(names: Sequence[str]) -> str:
    """Return the first of some names, and the number of the others."""
    more = len(names) - NAMED
    return _join_words([*names[:NAMED], f"{more} more"] if more > 0 else names)


def _join_words(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def describe_coverage(smoke: Smoke) -> str:
    """Describe the determinism tests of one device in a sentence."""
    if not smoke.probes:
        return "No probe answered."
    least = min(
        (mode.runs for probe in smoke.probes if (mode := probe.modes.get("strict")) and mode.runs), default=0
    )
    same = sum(probe.verdict == "identical" for probe in smoke.probes)
    again = f", each in {least} runs or more and again in a second container" if least else ""
    how = f" ({describe_probes(smoke)})" if smoke.libraries else " in strict mode"
    return f"{same} of {format_count(len(smoke.probes), 'probe')} gave the same bytes{how}{again}."
