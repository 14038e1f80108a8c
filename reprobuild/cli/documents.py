"""The one JSON document that a verb prints with `--json`: its answer, or the error that it ended with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprobuild.cli import common


@dataclass
class _Line:
    """One command line: whether it asks for a document, and whether one was printed."""

    asked: bool = False
    printed: bool = False


_line = _Line()


def begin(arguments: Sequence[str]) -> None:
    """Note whether a command line asks for a document; `run` hands its options to the command."""
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    _line.asked = "--json" in before and before[0] != "run"
    _line.printed = False


def print_json(document: Any) -> None:
    """Print one JSON document on standard output, in ASCII: names of files may be no text."""
    common.tell(json.dumps(document, indent=2))
    _line.printed = True


def fail(what: str, hint: str, code: int, refused: Sequence[Mapping[str, object]] = ()) -> None:
    """Print an error as the document, unless the answer was printed before it; `refused` are captured lines."""
    if _line.asked and not _line.printed:
        error = {"code": code, "message": what, "hint": hint}
        print_json({"error": {**error, "refused": refused} if refused else error})
