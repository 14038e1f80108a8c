"""`reprobuild show`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.cli.mistakes import is_secret
from reprobuild.cli.overrides import confirming_options, make_decisions, typed_options
from reprobuild.config.services import change_addresses, read_site_services
from reprobuild.infra.display import display_document, display_message
from reprobuild.report.code import find_code
from reprobuild.report.readiness import render_readiness
from reprobuild.report.text import render_snapshot
from reprobuild.report.triage import render_triage
from reprobuild.resolve.cuda.evidence import determine_cuda
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.interpreter.other_pip import find_other_pip
from reprobuild.resolve.readiness import list_questions
from reprobuild.resolve.sources.captured_checks import list_file_errors
from reprobuild.resolve.vendor.hints import find_origin
from reprobuild.snapshot.importers.import_snapshot import open_snapshot
from reprobuild.snapshot.read import read_snapshot

# Values of variables and reports, and the bytes of patches: a reader of snapshots keeps none with a secret.
_SEARCHED = frozenset({"value", "content"})


@click.command()
@common.snapshot_argument
@common.decision_options
@common.json_option
def command(directory: Path, decisions_path: Path | None, as_json: bool, **options: Any) -> None:
    """Show the snapshot in DIR: its lines, its gaps, and the variables for the image.

    \b
    Example:
      reprobuild show repro/4242
    """
    with open_snapshot(directory, common.print_note) as captured:
        snapshot = read_snapshot(captured)
        decisions, _ = make_decisions(directory, decisions_path, follow=False, **options)
        errors = list_file_errors(snapshot, captured, decisions.drop)
    origin = find_origin(snapshot, change_addresses(read_site_services(os.environ), decisions.services))
    questions = list_questions(snapshot, decisions)
    rulings = triage_snapshot(snapshot, decisions).rulings
    if as_json:
        document = display_document(
            {
                **msgspec.to_builtins(snapshot),
                "rulings": msgspec.to_builtins(rulings),
                "code": msgspec.to_builtins(find_code(snapshot, decisions.drop)),
                "cuda": msgspec.to_builtins(determine_cuda(snapshot)),
                "image": msgspec.to_builtins(origin),
                "questions": msgspec.to_builtins(questions),
                "errors": [{"message": str(err), "hint": err.hint} for err in errors],
                "other_pip": msgspec.to_builtins(find_other_pip(snapshot)),
            },
            _SEARCHED,
        )
        documents.print_json(document)
    else:
        _print_lines(render_snapshot(snapshot, decisions.drop, origin))
        _print_lines(render_triage(rulings))
        user_options = typed_options(click.get_current_context())
        if any(map(is_secret, user_options)):
            user_options = []
        user_options += confirming_options(directory, decisions_path)
        _print_lines(render_readiness(questions, directory, user_options, errors))


def _print_lines(text: str) -> None:
    """Print a report without the secrets that names and paths of another party may have."""
    common.print_report("\n".join(map(display_message, text.split("\n"))))
