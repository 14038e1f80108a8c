"""`reprobuild fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild import pipeline
from reprobuild.cli import common
from reprobuild.fetch import artefacts
from reprobuild.lock import read_lock


@click.command()
@common.lock_argument
@common.store_option
@common.json_option
def command(lock_path: Path, store: Path | None, as_json: bool) -> None:
    """Bring all that LOCK names into the store, verified; an interrupted download goes on.

    \b
    Example:
      reprobuild fetch frozen/reprobuild.lock
    """
    lock = read_lock(lock_path)
    brought = pipeline.fetch_lock(lock, lock_path, common.make_session(store))
    wanted = len(artefacts(lock))
    if as_json:
        common.print_json({"files": wanted, "fetched": brought})
    else:
        click.echo(f"{wanted} files in the store, {brought} of them fetched now")
