"""`reprobuild show`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.cli import common
from reprobuild.report.text import render_snapshot
from reprobuild.snapshot import read_snapshot


@click.command()
@common.snapshot_argument
@common.json_option
def command(directory: Path, as_json: bool) -> None:
    """Show what is in the snapshot in DIR, what is missing, and what was not understood.

    \b
    Example:
      reprobuild show repro/4242
    """
    snapshot = read_snapshot(directory)
    if as_json:
        common.print_json(msgspec.to_builtins(snapshot))
    else:
        click.echo(render_snapshot(snapshot))
