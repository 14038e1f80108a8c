"""The answers on top of the page: whether the environment and its results are the same."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from reprobuild.lock.model import Lock
from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import Tone, format_count
from reprobuild.report.html.sentences import is_or_are, join_first, join_words, was_or_were
from reprobuild.snapshot.file_kinds import field_of
from reprobuild.verify.determinism.summary import describe_probes, drifting_probes
from reprobuild.verify.verdict import Code, Verdict

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


def answer_same_environment(lock: Lock, verdict: Verdict) -> ReportAnswer:
    """Answer whether the image is the captured environment."""
    if verdict.round_trip == "not-run":
        sentence = "The image was not compared with everything that was captured."
        return ReportAnswer(question=SAME, tone="open", word="Not known", sentence=sentence)
    if verdict.round_trip == "residue":
        bare = sum(difference.code == "unexplained" for difference in verdict.differences)
        sentence = (
            f"{format_count(bare, 'difference')} between the image and what was captured "
            f"{is_or_are(bare)} not explained."
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
        sentence += f"; {format_count(number, 'version')} {was_or_were(number)} chosen, not captured"
    if lock.deviations:
        number = len(lock.deviations)
        sentence += f"; {format_count(number, 'deviation')} {was_or_were(number)} accepted by name"
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
    return f"{start}{join_words(words)} {'package matches' if number == 1 else 'packages match'}"


def _describe_left(verdict: Verdict) -> str:
    """Describe the lines that the image does not repeat, with their most frequent reasons."""
    counts = Counter(difference.code for difference in verdict.differences)
    reasons = [_REASONS.get(code, "lines spelled differently") for code, _ in counts.most_common(2)]
    number = len(verdict.differences)
    return (
        f"{format_count(number, 'line')} {was_or_were(number)} left out or changed on purpose: "
        f"{', '.join(reasons)}{', and others' if len(counts) > 2 else ''}"
    )


def answer_same_results(verdict: Verdict, cluster: Nodes | None = None) -> ReportAnswer:
    """Answer whether two runs on one machine gave equal bytes."""
    tone, word, sentence = _rate_results(verdict)
    if cluster and cluster.verdict == "differ" and word != "No":
        tone, word = "bad", "Not on every node"
        sentence = (
            "Nodes of one platform gave different bytes, or drift: "
            f"{join_first([row.node for row in cluster.wrong])}."
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
        return "bad", "No", f"{failed} differ from the verdict of {before.made}, on the same platform."
    if drifts := [SCOPES[name] for name, scope_verdict in scopes.items() if scope_verdict == "drift"]:
        return (
            "bad",
            "No",
            f"Two runs on one machine, with one seed, differed in their bytes: {join_words(drifts)}.",
        )
    same = [SCOPES[name] for name, scope_verdict in scopes.items() if scope_verdict == "identical"]
    unknown = [
        f"{_OPEN[scope_verdict]} {SCOPES[name]}"
        for name, scope_verdict in scopes.items()
        if scope_verdict in _OPEN
    ]
    if unknown:
        start = f"{_describe_sameness(verdict)} ({join_words(same)}), but the check" if same else "The check"
        return "open", "Known in part" if same else "Not known", f"{start} {join_words(unknown)}."
    if not same:
        return "open", "Not known", "Nothing that the image holds could be checked."
    loose = list_drifting(verdict)
    if loose and any(smoke.libraries for smoke in verdict.smoke):
        verb = "drifts" if len(loose) == 1 else "drift"
        sentence = (
            f"{_describe_sameness(verdict)}; with several threads {join_first(loose)} {verb}, where "
            "its library promises nothing."
        )
        return "note", "Yes, with an exception", sentence
    if loose:
        sentence = (
            f"{_describe_sameness(verdict)} in strict mode; with the image's own profile, {verdict.profile}, "
        )
        sentence += f"{join_first(loose)} {'drifts' if len(loose) == 1 else 'drift'}."
        return "note", "Yes, in strict mode", sentence
    return "good", "Yes, on this machine", f"{_describe_sameness(verdict)}: {join_words(same)}."


def list_drifting(verdict: Verdict) -> list[str]:
    """Return the names of the probes that drift."""
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
