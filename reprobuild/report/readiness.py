"""The answer of `show` to "can this be frozen?"."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from reprobuild.infra.display import escape_text
from reprobuild.resolve.readiness import SnapshotQuestion


def render_readiness(
    questions: Sequence[SnapshotQuestion], path: Path, user_options: Sequence[str] = ()
) -> str:
    """Return the answer, the open questions with their options, and the next command.

    Args:
        path: the snapshot as the user named it.
        user_options: options of the user that answered questions; the next command repeats them.
    """
    command = shlex.join(["reprobuild", "from-snapshot", str(path), "-o", "frozen", *user_options])
    if not questions:
        return f"can be frozen: yes; next: {command}"
    count = f"{len(questions)} open question" + "s" * (len(questions) > 1)
    lines = [f"can be frozen: not yet, {count}"]
    for question in questions:
        answer = f": {' '.join(question.options)}" if question.options else ""
        lines.append(f"  {escape_text(question.text)}{answer}")
    options = [option for question in questions for option in question.options]
    first = "" if all(question.options for question in questions) else "change the snapshot as above, then "
    return "\n".join([*lines, f"next: {first}{' '.join([command, *options])}"])
