"""`reprobuild build`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprobuild.api.commands.build import build
from reprobuild.cli import common, documents


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
    result = build(lock_path, out, options=common.make_build_options(**options), context=context)
    documents.print_build_result(result, as_json)
