"""The result of a bisection, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.bisect.atoms import Atom
from reprobuild.bisect.search import Answer
from reprobuild.compare.environments.comparison import EnvironmentDifference
from reprobuild.infra.columns import align
from reprobuild.verify.workload.judge import display_line

SHOWN = 40  # names in one line, and trials
SHOWN_OF_HUNK = 10  # lines of each side
LONGEST = 60
_ABSENT = "(absent)"


class TrialRecord(Struct, frozen=True, kw_only=True):
    """A tested mixture: A with some differences.

    Attributes:
        differences: their numbers, from 0.
        answer: whose result it has.
        runs: how often the command ran in it.
        remembered: how many of these runs an earlier search had made.
        seconds: of these runs.
        setup: seconds until the first of them began.
        why: the reason if it is untestable.
        result: the result of the command in words.
        seed: of the command.
        lock: the path of its lock, if that was written.
    """

    differences: tuple[int, ...]
    answer: Answer
    runs: int = 1
    remembered: int = 0
    seconds: float = 0.0
    setup: float = 0.0
    why: str = ""
    result: str = ""
    seed: int = 0
    lock: str = ""


class BisectionResult(Struct, frozen=True, kw_only=True):
    """The smallest set of differences that changes the result of a command.

    Attributes:
        first, second: the names of A and B, as the user gave them.
        command: the command, without secrets.
        oracle: what the results are compared by.
        engine: the engine that ran the command.
        untestable: differences that no mixture can have: GPU, driver, kernel, processor.
        differences: those that can be applied alone, the likeliest first.
        guilty: the numbers of the smallest set; empty without an answer.
        required: pairs of the set: the first cannot be left out, as the second requires it.
        groups: parts of it; the first suffices alone, each other one changes the result without the former ones.
        forward: the result of A with the set; `B` if it is proved.
        backward: the result of B without the set; `A` if it is proved.
        removed: the set, with the differences that cannot stay without it.
        sides: A and B alone.
        trials: the tested mixtures, in order.
        runs: how often the command ran, with those of A and B.
        remembered: how many of these runs an earlier search had made.
        seconds: of the whole search.
        reason: why there is no answer; empty with an answer.
        hint: the remedy.
        version: of these fields.
    """

    first: str
    second: str
    command: tuple[str, ...]
    oracle: str
    engine: str = ""
    untestable: tuple[EnvironmentDifference, ...] = ()
    differences: tuple[Atom, ...] = ()
    guilty: tuple[int, ...] = ()
    required: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()
    forward: Answer = "untestable"
    backward: Answer = "untestable"
    removed: tuple[int, ...] = ()
    sides: tuple[TrialRecord, ...] = ()
    trials: tuple[TrialRecord, ...] = ()
    runs: int = 0
    remembered: int = 0
    seconds: float = 0.0
    reason: str = ""
    hint: str = ""
    version: Literal[1] = 1

    @property
    def is_proved(self) -> bool:
        """Whether a set was found, and both directions were tested."""
        return bool(self.guilty) and self.forward == "B" and self.backward == "A"


def render_bisection(result: BisectionResult, *, everything: bool = False) -> str:
    """Return the report of `bisect`; `everything` lists each trial."""
    lines = list(_untestable_lines(result.untestable))
    if result.reason:
        lines += [f"no answer: {display_line(result.reason)}", f"  hint: {result.hint}"]
    else:
        lines += [*_guilty_lines(result), "", *_proof_lines(result)]
    lines += ["", *_scope_lines(result)]
    failed = [trial for trial in result.trials if trial.answer == "untestable"]
    if failed:
        lines += ["", f"untestable mixtures: {len(failed)}, which accuse no difference"]
        lines += [
            f"  {len(trial.differences)} differences: {display_line(trial.why)}" for trial in failed[:SHOWN]
        ]
    if everything and result.trials:
        lines += ["", "trials: A with some of the differences", *_trial_lines(result)]
    return "\n".join(lines).rstrip()


def _untestable_lines(differences: Sequence[EnvironmentDifference]) -> Iterator[str]:
    if differences:
        yield f"cannot be tested: {len(differences)} differences of the machines, which may be the cause, too"
        rows = [
            [
                f"  {item.kind}",
                display_line(item.name),
                describe_value(item.one),
                "->",
                describe_value(item.other),
            ]
            for item in differences[:SHOWN]
        ]
        yield from align(rows)
        yield ""


def _guilty_lines(result: BisectionResult) -> Iterator[str]:
    count, required = len(result.guilty), dict(result.required)
    yield f"guilty: {count} of {len(result.differences)} differences" + (", together" if count > 1 else "")
    for number, group in enumerate(result.groups):
        if number:
            yield "and, hidden behind the former:"
        rows = align(
            [
                _atom_row(
                    result.differences[index],
                    result.differences[required[index]] if index in required else None,
                )
                for index in group
            ]
        )
        for index, row in zip(group, rows, strict=True):
            yield row.rstrip()
            yield from _hunk_lines(result.differences[index])


def _hunk_lines(atom: Atom) -> Iterator[str]:
    """Yield the lines of a hunk in A and in B, as `diff` marks them."""
    if atom.kind != "hunk":
        return
    for mark, text in (("-", atom.first), ("+", atom.second)):
        lines = (text or "").splitlines()
        for line in lines[:SHOWN_OF_HUNK]:
            yield f"    {mark} {display_line(line)}".rstrip()
        if len(lines) > SHOWN_OF_HUNK:
            yield f"    {mark} ... and {len(lines) - SHOWN_OF_HUNK} more"


def _atom_row(atom: Atom, requiring: Atom | None) -> list[str]:
    more = [display_line(name) for name in atom.names if name != atom.name]
    beside = f"(with {', '.join(more[:SHOWN])})" if more else ""
    if requiring:
        beside = f"{beside} (required by {display_line(requiring.name)})".lstrip()
    values = [describe_value(atom.first), "->", describe_value(atom.second)]
    return [
        f"  {atom.kind}",
        display_line(atom.name),
        *(["", "", ""] if atom.kind == "hunk" else values),
        beside,
    ]


def describe_value(value: str | None, longest: int = LONGEST) -> str:
    """Return a value of A or B in one line."""
    if value is None:
        return _ABSENT
    line = display_line(value)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def _proof_lines(result: BisectionResult) -> Iterator[str]:
    it = "it" if len(result.guilty) == 1 else "them"
    forward = "proved" if result.forward == "B" else f"NOT proved ({answer_words(result.forward)})"
    backward = "proved" if result.backward == "A" else f"NOT proved ({answer_words(result.backward)})"
    names = removed_names(result)
    beside = f" and what needs {it} ({names})" if names else ""
    yield f"A with {it} gives the result of B: {forward}"
    yield f"B without {it}{beside} gives the result of A: {backward}"


def removed_names(result: BisectionResult) -> str:
    """Return the names of the differences that cannot stay without the guilty ones."""
    more = set(result.removed) - set(result.guilty)
    return ", ".join(display_line(result.differences[number].name) for number in sorted(more))


def answer_words(answer: Answer) -> str:
    """Return whose result a mixture has, in words."""
    return {"A": "the result of A", "B": "the result of B", "other": "another result"}.get(answer, answer)


def _scope_lines(result: BisectionResult) -> Iterator[str]:
    yield f"A  {display_line(result.first)}"
    yield f"B  {display_line(result.second)}"
    remembered = f", {result.remembered} of them remembered" if result.remembered else ""
    yield (
        f"{result.runs} runs{remembered}, in {result.seconds:.1f} s; {len(result.differences)} differences; "
        f"compared by: {result.oracle}"
    )


def _trial_lines(result: BisectionResult) -> list[str]:
    rows = [["  with", "result", "runs", "seconds", "set-up"]]
    for trial in result.trials:
        names = [display_line(result.differences[number].name) for number in trial.differences]
        text = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        rows.append(
            [
                f"  {text}",
                answer_words(trial.answer),
                str(trial.runs),
                f"{trial.seconds:.1f}",
                f"{trial.setup:.1f}",
            ]
        )
    return align(rows)
