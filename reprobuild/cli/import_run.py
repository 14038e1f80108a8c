"""`reprobuild import`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.api.commands.read import import_snapshot
from reprobuild.cli import common, documents
from reprobuild.report.imported import render_import
from reprobuild.snapshot.importers.own_snapshot import describe_own_snapshot, find_own_snapshot


@click.command()
@click.argument("path", metavar="PATH", type=common.PATH)
@click.option(
    "-o", "--output", "out", type=common.PATH, default=Path("snapshot"), show_default=True,
    help="New directory to write.",
)  # fmt: skip
@common.json_option
def command(path: Path, out: Path, as_json: bool) -> None:
    """Write a tracker's run, a lock file or an archive as a snapshot.

    PATH is a run of W&B or MLflow, an MLflow model, a lock of uv, pixi, conda-lock, poetry, pdm or pipenv, a
    pylock.toml, a report of `pip inspect`, a requirements.txt, or a snapshot in a .tar.gz or .zip. Each command that
    takes a snapshot takes such a PATH, too.

    \b
    Example:
      reprobuild import wandb/run-20260118_150613-bm15x271 -o repro/4242
    """
    if nested := find_own_snapshot(path):
        common.print_note(describe_own_snapshot(nested))
    facts = import_snapshot(path, out)
    if as_json:
        documents.print_json(msgspec.to_builtins(facts))
    else:
        common.print_report(render_import(facts, out))
