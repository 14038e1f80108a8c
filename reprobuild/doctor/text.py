"""The text of a diagnosis.

It has a line for each finding, its meaning, its fix, and a last line.
"""

from __future__ import annotations

import itertools
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec

from reprobuild.doctor.model import Diagnosis, DoctorFinding, State
from reprobuild.report.difference import safe_text
from reprobuild_portable import secrets

_TEXTS = ("name", "seen", "meaning", "fix")
_LONGEST = 600
_MANY = 4  # a group of so many equal findings is printed as one
_STATE, _COLUMN, _NARROWEST = 11, 24, 60
_COMMAND = re.compile("`[^`]*`")
_BOUND = "\N{NO-BREAK SPACE}"  # `textwrap` breaks lines at ASCII blanks only
_ENDS: dict[State, str] = {
    "problem": "it is not ready",
    "unknown": "it may not do, as some findings could not be judged",
    "warning": "it is ready, with the warnings above",
    "ok": "it is ready",
}
_WORDS: dict[State, Callable[[int], str]] = {
    "problem": lambda count: "problem" if count == 1 else "problems",
    "unknown": lambda _: "unknown",
    "warning": lambda count: "warning" if count == 1 else "warnings",
    "not-asked": lambda _: "not asked",
    "ok": lambda _: "ok",
}


def without_logins(diagnosis: Diagnosis) -> Diagnosis:
    """Return a diagnosis without the logins of addresses.

    A path of the user may look like such an address.
    """

    def cut(finding: DoctorFinding) -> DoctorFinding:
        texts = {name: secrets.without_logins(getattr(finding, name)) for name in _TEXTS}
        return msgspec.structs.replace(finding, **texts)

    return msgspec.structs.replace(diagnosis, findings=tuple(map(cut, diagnosis.findings)))


def render_diagnosis(diagnosis: Diagnosis, subject: str, width: int = 0) -> str:
    """Return the lines of a diagnosis.

    Args:
        diagnosis: the findings.
        subject: the subject of the last line: "this machine", "this machine for frozen".
        width: of the terminal, in columns; 0 leaves each text on one line.
    """
    findings = _merge_similar(diagnosis.findings)
    column = min(_COLUMN, max((len(finding.name) for finding in findings), default=0))
    lines: list[str] = []
    for finding, after in zip(findings, (*findings[1:], None), strict=True):
        lines += _finding_lines(finding, after, column, width)
    counts = Counter(finding.state for finding in findings)  # those that the reader sees
    summary = ", ".join(
        f"{counts[state]} {word(counts[state])}" for state, word in _WORDS.items() if counts[state]
    )
    return "\n".join([*lines, "", f"{subject}: {_ENDS[diagnosis.state]} ({summary})"])


def _advice_key(finding: DoctorFinding) -> tuple[str, ...]:
    return finding.state, finding.meaning, finding.fix


def _merge_similar(findings: Sequence[DoctorFinding]) -> list[DoctorFinding]:
    """Return the findings, with long runs of similar ones merged.

    Without a network every service gives the same finding.
    """
    result: list[DoctorFinding] = []
    for _, group in itertools.groupby(
        findings, lambda finding: (*_advice_key(finding), finding.name.partition(" ")[0])
    ):
        row = list(group)
        if len(row) < _MANY or not row[0].meaning:
            result += row
            continue
        kind = row[0].name.partition(" ")[0]
        names = ", ".join(finding.name.partition(" ")[2] for finding in row)
        result.append(
            msgspec.structs.replace(
                row[0], name=f"{len(row)} {kind}s", seen=f"{names}; the first: {row[0].seen}"
            )
        )
    return result


def _finding_lines(
    finding: DoctorFinding, after: DoctorFinding | None, column: int, width: int
) -> Iterator[str]:
    """Yield the lines of one finding.

    A meaning or a fix that the next finding repeats is left to that one.
    """
    parts = [("", f"{finding.state:<{_STATE}}{safe_text(finding.name):<{column}}  ", finding.seen)]
    if after is None or _advice_key(after) != _advice_key(finding):
        parts.append((" " * _STATE, "", finding.meaning))
    if after is None or (after.state, after.fix) != (finding.state, finding.fix):
        parts.append((" " * _STATE, "fix: ", finding.fix))
    for indent, before, text in parts:
        if not text:
            continue
        wrapped = textwrap.wrap(
            _COMMAND.sub(_bind, safe_text(text, _LONGEST)), max(width, _NARROWEST) if width else sys.maxsize,
            initial_indent=indent + before, subsequent_indent=" " * (_STATE + (len(before) if indent else column + 2)),
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
        yield from (line.replace(_BOUND, " ") for line in wrapped)


def _bind(command: re.Match[str]) -> str:
    """Return a command whose blanks do not end a line, so that it can be copied."""
    return command[0].replace(" ", _BOUND)
