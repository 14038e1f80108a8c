"""`reprobuild lock`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprobuild.cli import common, documents
from reprobuild.errors import UsageError


@click.command()
@common.snapshot_argument
@click.option(
    "-o", "--output", "target", type=common.PATH, default=Path("reprobuild.lock"), help="File to write."
)
@common.decision_options
@common.store_option
@common.verbose_option
@common.json_option
def command(
    directory: Path,
    target: Path,
    decisions_path: Path | None,
    store: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Pin every line of the snapshot in DIR by sha256.

    \b
    Example:
      reprobuild lock repro/4242 -o reprobuild.lock
    """
    if target.is_dir():
        raise UsageError(
            f"{target} is a directory", hint=f"name a file in it: -o {target / 'reprobuild.lock'}"
        )
    with common.start_pip_query() as pip:  # its answer takes as long as the imports below
        from reprobuild.api.commands import lock as step
        from reprobuild.cli.overrides import make_decisions, unconfirmed_sources
        from reprobuild.lock.requirements import find_conflicts
        from reprobuild.report.text import render_resolutions

        decisions, folder = make_decisions(directory, decisions_path, **options)
        doubted = unconfirmed_sources(directory, decisions_path, **options)
        context = common.make_context(store, folder=folder, pip=pip, doubted=doubted)
        lock = step.lock(directory, target, decisions, context=context)
    if as_json:
        documents.print_json(
            {"lock": f"sha256:{lock.digest}", "path": str(target), "conflicts": list(find_conflicts(lock))}
        )
    else:
        common.print_report(render_resolutions(lock))
