"""`reprobuild build`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprobuild.cli import common, documents
from reprobuild.lock.file import read_lock
from reprobuild.output import directory
from reprobuild.pipeline import from_snapshot
from reprobuild.report.text import render_text
from reprobuild.store.roots import gc_root


@click.command()
@common.lock_argument
@common.out_option
@common.store_option
@common.offline_option
@common.image_build_options
@common.json_option
def command(
    lock_path: Path, out: Path, store: Path | None, offline: bool, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Build the image of LOCK.

    The native builder needs no daemon and no root.

    \b
    Example:
      reprobuild build reprobuild.lock -o frozen
    """
    context = common.make_context(store, offline=offline)
    input_lock = read_lock(lock_path)
    with gc_root(input_lock, lock_path, context.store, "build"):
        lock, image = from_snapshot.build_from_lock(
            input_lock, out, context, common.make_build_options(**options)
        )
    if as_json:
        documents.print_json(directory.summary_document(lock, image, None, out))
    else:
        common.print_result(render_text(lock, image, None, out))
