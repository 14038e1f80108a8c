"""The answer of `show` to "can this be frozen?"."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from reprobuild.infra.display import escape_text
from reprobuild.infra.shell_words import as_path, escape_breaks
from reprobuild.resolve.readiness import SnapshotQuestion
from reprobuild.resolve.sources.captured_checks import FileError


def render_readiness(
    questions: Sequence[SnapshotQuestion],
    path: Path,
    user_options: Sequence[str] = (),
    errors: Sequence[FileError] = (),
) -> str:
    """Return the answer, the open questions with their options, and the next command.

    Args:
        path: the snapshot as the user named it.
        user_options: options of the user that answered questions; the next command repeats them.
        errors: errors of the snapshot's files, which no option answers.
    """
    words = ["reprobuild", "from-snapshot", as_path(path), "-o", "frozen", *user_options]
    command = escape_breaks(shlex.join(words))
    if not questions and not errors:
        return f"can be frozen: yes, if indexes and archives still have each version; next: {command}"
    answer = "no" if errors else "not yet"
    counts = _count(len(errors), "error"), _count(len(questions), "open question")
    lines = [f"can be frozen: {answer}, {' and '.join(filter(None, counts))}"]
    for err in errors:
        lines += [f"  {escape_text(str(err))}", f"    hint: {escape_text(err.hint)}"]
    for question in questions:
        answer = f": {' '.join(question.options)}" if question.options else ""
        lines.append(f"  {escape_text(question.text)}{answer}")
    options = dict.fromkeys(option for question in questions for option in question.options)
    answered = not errors and all(question.options for question in questions)
    first = "" if answered else "change the snapshot as above, then "
    return "\n".join([*lines, f"next: {first}{' '.join([command, *options])}"])


def _count(number: int, word: str) -> str:
    """Return a number with its word, or an empty text for 0."""
    return f"{number} {word}{'s' * (number > 1)}" if number else ""
