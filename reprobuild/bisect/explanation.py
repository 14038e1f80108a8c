"""The facts of the page that explains a bisection: the answers, the matrix of trials, and how to repeat each of them.

`reprobuild/report/html/explanation.py` renders them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reprobuild.bisect.atoms import Atom
from reprobuild.bisect.result import BisectionResult, TrialRecord, answer_words, describe_value, removed_names
from reprobuild.bisect.trial import TrialCommand
from reprobuild.errors import UsageError
from reprobuild.infra.escape import escape_text
from reprobuild.infra.untrusted.write_below import refuse_link
from reprobuild.run.options import make_volume_absolute
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.container import OUTPUTS, expand_output
from reprobuild.verify.workload.judge import LONGEST, display_line
from reprobuild_portable import secrets

MOST_COLUMNS = 60
_UNSHOWN = "# It has secrets or unprintable characters, which are not shown: put them in."


class ExplainedAnswer(Struct, frozen=True, kw_only=True):
    """An answer: the question, a word, a sentence, and the tone, which has a picture."""

    question: str
    tone: Literal["good", "note", "bad", "open"]
    word: str
    sentence: str

    @property
    def icon(self) -> str:
        """The name of its picture."""
        return self.tone


class ExplainedDifference(Struct, frozen=True, kw_only=True):
    """A difference of the two environments, as a person reads it.

    Attributes:
        kind, name, first, second, reason: as those of an `Atom`.
        names: all further things in it.
    """

    kind: str
    name: str
    first: str
    second: str
    reason: str = ""
    names: tuple[str, ...] = ()


class MixtureColumn(Struct, frozen=True, kw_only=True):
    """Differences that had the same side in each trial."""

    name: str
    differences: tuple[ExplainedDifference, ...]
    guilty: bool


class MixtureLine(Struct, frozen=True, kw_only=True):
    """A trial.

    Attributes:
        name: `A`, `B` or the number of the trial.
        sides: the side of each column's differences.
        answer: whose result it has, in words.
        result: the result, or why there is none.
        origin: whether it was run or remembered.
        seconds, setup: of the command, and before it.
        runs: how often the command ran.
        commands: the lines that repeat it; empty without a lock.
    """

    name: str
    sides: tuple[Literal["A", "B"], ...]
    answer: str
    result: str
    origin: str
    seconds: str
    setup: str
    runs: int
    commands: str


class Explanation(Struct, frozen=True, kw_only=True):
    """The facts of a page.

    Attributes:
        answers: the guilty set, and the two proofs.
        machines: differences that no mixture can have.
        groups: the guilty differences; each group changes the result without the former ones.
        columns: of the matrix; `more_columns` have no room.
        trials: the lines of the matrix, with A and B.
        facts: on the whole search, by name.
        hint: the remedy if there is no answer.
    """

    first: str
    second: str
    answers: tuple[ExplainedAnswer, ...]
    machines: tuple[ExplainedDifference, ...]
    groups: tuple[tuple[ExplainedDifference, ...], ...]
    columns: tuple[MixtureColumn, ...]
    more_columns: int
    trials: tuple[MixtureLine, ...]
    facts: tuple[tuple[str, str], ...]
    hint: str


def prepare_page(page: Path) -> Path:
    """Make and return the directory for the locks of a page's trials.

    Raises:
        UsageError: the path is not that of a page, or the directory is a link.
    """
    if page.suffix != ".html" or page.is_dir():
        raise UsageError(f"--explain {page}: not the name of a page", hint="for example --explain why.html")
    folder = page.with_suffix(".trials")
    refuse_link(folder, "the locks of trials")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def explain_bisection(
    result: BisectionResult, command: TrialCommand, store: Path | None = None
) -> Explanation:
    """Return the facts of the page.

    Args:
        result: its trials have locks.
        command: of each trial.
        store: the store that the user named.
    """
    records = (*result.sides, *result.trials)
    groups = _group_differences(result, records)
    shown = groups[:MOST_COLUMNS]
    names = [*"AB"[: len(result.sides)], *(f"{number}" for number in range(1, len(result.trials) + 1))]
    return Explanation(
        first=display_line(result.first), second=display_line(result.second), answers=tuple(_answers(result)),
        machines=tuple(
            ExplainedDifference(
                kind=item.kind, name=display_line(item.name), first=describe_value(item.one, LONGEST),
                second=describe_value(item.other, LONGEST),
            )
            for item in result.untestable
        ),
        groups=tuple(tuple(_explain_atom(result.differences[number]) for number in group) for group in result.groups),
        columns=tuple(_make_column(result, group) for group in groups), more_columns=len(groups) - len(shown),
        trials=tuple(
            _make_line(name, record, shown, _repeat(record, result, command, store))
            for name, record in zip(names, records, strict=True)
        ),
        facts=tuple(_facts(result)), hint=display_line(result.hint),
    )  # fmt: skip


def _answers(result: BisectionResult) -> Iterator[ExplainedAnswer]:
    if result.reason:
        yield ExplainedAnswer(
            question="Which difference does it?", tone="open", word="no answer", sentence=display_line(result.reason)
        )  # fmt: skip
        return
    count = len(result.guilty)
    names = ", ".join(display_line(result.differences[number].name) for number in result.guilty)
    yield ExplainedAnswer(
        question="Which difference does it?", tone="note", word=f"{count} of {len(result.differences)}",
        sentence=names,
    )  # fmt: skip
    it = "it" if count == 1 else "them"
    more = removed_names(result)
    backward = f"B without {it}{f' and what needs {it} ({more})' if more else ''}"
    for mixture, side, answer in ((f"A with {it}", "B", result.forward), (backward, "A", result.backward)):
        yield ExplainedAnswer(
            question=f"{mixture[0]} {'with' if side == 'B' else 'without'} {it} gives the result of {side}?",
            tone="good" if answer == side else "bad", word="proved" if answer == side else "NOT proved",
            sentence=f"{mixture}: {answer_words(answer)}.",
        )  # fmt: skip


def _group_differences(result: BisectionResult, records: Sequence[TrialRecord]) -> list[list[int]]:
    """Return the differences that had the same side in each trial, the guilty ones first."""
    chosen = [set(record.differences) for record in records]
    guilty, groups = set(result.guilty), dict[tuple[bool, ...], list[int]]()
    for number in range(len(result.differences)):
        pattern = number not in guilty, *(number in numbers for numbers in chosen)
        groups.setdefault(pattern, []).append(number)
    return sorted(groups.values(), key=lambda group: (group[0] not in guilty, group[0]))


def _make_column(result: BisectionResult, group: Sequence[int]) -> MixtureColumn:
    differences = tuple(_explain_atom(result.differences[number]) for number in group)
    more = f" and {len(group) - 1:,} more" if len(group) > 1 else ""
    return MixtureColumn(
        name=f"{differences[0].name}{more}", differences=differences, guilty=group[0] in result.guilty
    )


def _explain_atom(atom: Atom) -> ExplainedDifference:
    return ExplainedDifference(
        kind=atom.kind, name=display_line(atom.name), first=describe_value(atom.first, LONGEST),
        second=describe_value(atom.second, LONGEST), reason=display_line(atom.reason),
        names=tuple(display_line(name) for name in atom.names if name != atom.name),
    )  # fmt: skip


def _make_line(
    name: str, record: TrialRecord, groups: Sequence[Sequence[int]], commands: str
) -> MixtureLine:  # fmt: skip
    chosen = set(record.differences)
    origin = {0: "run", record.runs: "remembered"}.get(record.remembered, f"{record.remembered} remembered")
    return MixtureLine(
        name=name, sides=tuple("B" if group[0] in chosen else "A" for group in groups), commands=commands,
        answer=answer_words(record.answer), result=display_line(record.why or record.result), origin=origin,
        runs=record.runs, seconds=f"{record.seconds:.1f}", setup=f"{record.setup:.1f}",
    )  # fmt: skip


def _facts(result: BisectionResult) -> Iterator[tuple[str, str]]:
    yield "A", display_line(result.first)
    yield "B", display_line(result.second)
    yield "Command", hide_secrets(shlex.join(result.command))
    yield "Compared by", result.oracle
    yield "Engine", result.engine
    yield "Differences", f"{len(result.differences):,}"
    yield "Runs", f"{result.runs:,}, {result.remembered:,} of them remembered"
    yield "Seconds", f"{result.seconds:.1f}"


def _repeat(record: TrialRecord, result: BisectionResult, command: TrialCommand, store: Path | None) -> str:
    """Return the lines that repeat a trial in the directory of the page; empty without a lock."""
    if not record.lock:
        return ""
    path = Path(record.lock)
    out = f"{path.parent.name}/{path.stem}"
    out = f"./{out}" if out.startswith("-") else out
    build = ["reprobuild", "build", f"{out}.lock", "-o", out]
    build += [] if store is None else ["--store", str(store.absolute())]
    run = [
        "reprobuild",
        "run",
        out,
        "--engine",
        result.engine,
        "--seed",
        f"{record.seed}",
        *_options(command),
    ]
    lines, arguments = [shlex.join(build)], command.arguments
    if command.collected:
        arguments = tuple(map(expand_output, arguments))
        lines.append(shlex.join(["mkdir", "-p", f"{out}.out"]))
        run += ["-e", "REPROBUILD_RECORD=0", "-v", f"{out}.out:{OUTPUTS}"]
    # An option is looked at by itself: `--secret NAME` is followed by no secret.
    shown = [*map(hide_secrets, run)], hide_secrets(shlex.join(arguments))
    is_whole = shown == (run, shlex.join(arguments)) and escape_text(shown[1], lines=True) == shown[1]
    lines.append(f"{shlex.join(shown[0])} -- \\\n    {shown[1]}")
    if used := _find_used_choices(record, result):
        lines.insert(
            0, f"# The trial also had the saved choices of compilers {used}: these lines do not use them."
        )
    return "\n".join(lines if is_whole else (_UNSHOWN, *lines))


def _find_used_choices(record: TrialRecord, result: BisectionResult) -> str:
    """Return the saved choices of a trial, if A and B have different ones."""
    for number, atom in enumerate(result.differences):
        if atom.kind == "choices":
            return (atom.second if number in record.differences else atom.first) or ""
    return ""


def _options(command: TrialCommand) -> Iterator[str]:
    """Yield the options of `run` for the conditions of a trial."""
    options = command.options
    if options.gpus != "auto":
        yield from ("--gpu", options.gpus)
    for variable in options.variables:
        name, equals, value = variable.partition("=")
        is_secret = bool(equals) and secrets.secret_variable(name, value) is not None
        yield from ("--secret", name) if is_secret else ("-e", variable)
    for name in options.hidden:
        yield from ("--secret", name)
    for volume in command.volumes:
        yield from ("-v", make_volume_absolute(volume))
    if options.workdir:
        yield from ("-w", options.workdir)
    if options.shm_size:
        yield from ("--shm-size", options.shm_size)
