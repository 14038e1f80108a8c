"""`reprobuild fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.lock.file import read_lock
from reprobuild.pipeline import from_snapshot
from reprobuild.store.fetch import artefacts


@click.command()
@common.lock_argument
@common.store_option
@click.option("--caches/--no-caches", default=True, help="Use files from the caches of pip, conda and apt.")
@common.json_option
def command(lock_path: Path, store: Path | None, caches: bool, as_json: bool) -> None:
    """Fetch every input of LOCK into the store.

    An interrupted download is continued.

    \b
    Example:
      reprobuild fetch frozen/reprobuild.lock
    """
    lock = read_lock(lock_path)
    session = common.make_session(store, caches=caches)
    brought = from_snapshot.fetch_lock(lock, lock_path, session)
    wanted = len(artefacts(lock))
    if as_json:
        documents.print_json({"files": wanted, "fetched": brought})
    else:
        common.tell(f"{wanted} files in the store, {brought} of them fetched now")
