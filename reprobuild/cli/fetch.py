"""`reprobuild fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.lock.file import read_lock
from reprobuild.pipeline.fetch_inputs import fetch_lock
from reprobuild.store.fetch import list_artefacts


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
    context = common.make_context(store, caches=caches)
    fetch_count = fetch_lock(lock, lock_path, context)
    file_count = len(list_artefacts(lock))
    if as_json:
        documents.print_json({"files": file_count, "fetched": fetch_count})
    else:
        common.print_report(f"{file_count} files in the store, {fetch_count} of them fetched now")
