"""`reprobuild compare`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild import pipeline
from reprobuild.cli import common
from reprobuild.report.text import render_differences


@click.command()
@click.argument("one", metavar="A", type=common.PATH)
@click.argument("other", metavar="B", type=common.PATH)
@common.json_option
def command(one: Path, other: Path, as_json: bool) -> int:
    """Show what differs between two locks, two folders of results or two snapshots.

    \b
    Example:
      reprobuild compare frozen-june frozen
    """
    differences = pipeline.compare(one, other)
    if as_json:
        common.print_json(msgspec.to_builtins(differences))
    else:
        click.echo(render_differences(differences))
    return 1 if differences else 0
