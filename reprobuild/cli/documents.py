"""The JSON document that a command prints with `--json`.

It is the answer, or the error that ended the command.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from reprobuild.cli import common

if TYPE_CHECKING:
    from reprobuild.api.results import BuildResult

# Of the fields of every document without a version of its own. docs/json.md describes them.
VERSION: Final = 1


@dataclass
class _Line:
    """One command line: document requested, document printed, and its start by the monotonic clock."""

    asked: bool = False
    printed: bool = False
    began: float = field(default_factory=time.monotonic)


_line = _Line()


def record_json_request(arguments: Sequence[str]) -> None:
    """Record whether a command line asks for a document.

    `run` passes its options to the user's command.
    """
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    _line.asked = "--json" in before and before[0] != "run"
    _line.printed, _line.began = False, time.monotonic()


def print_json(document: Mapping[str, Any]) -> None:
    """Print the document of a command, with a version first: its own, or else `VERSION`."""
    print_manifest({"version": VERSION, **document})


def print_manifest(document: Mapping[str, Any]) -> None:
    """Print one JSON document on standard output, in ASCII; another program defines its fields.

    Names of files may not be text. `##` begins commands of CI servers, and has another spelling in JSON.
    """
    common.print_result(json.dumps(document, indent=2).replace("##", "#\\u0023"))
    _line.printed = True


def print_build_result(result: BuildResult, as_json: bool) -> None:
    """Print an image and its verdict, as text or as one document."""
    from reprobuild.output.directory import summary_document  # small commands must start quickly

    if as_json:
        print_json(summary_document(result.lock, result.image, result.verdict, result.out))
    else:
        common.print_report(result.render(time.monotonic() - _line.began))


def print_json_error(
    message: str, hint: str, code: int, refused: Sequence[Mapping[str, object]] = ()
) -> None:
    """Print an error as the document.

    It is not printed after the answer. `refused` are captured lines.
    """
    if _line.asked and not _line.printed:
        from reprobuild_portable.secrets.redact import cut_secrets  # small commands must start quickly

        def clean(value: object) -> object:
            return cut_secrets(value) if isinstance(value, str) else value

        error = {"code": code, "message": cut_secrets(message), "hint": cut_secrets(hint)}
        lines = [{name: clean(value) for name, value in line.items()} for line in refused]
        print_json({"error": {**error, "refused": lines} if lines else error})
