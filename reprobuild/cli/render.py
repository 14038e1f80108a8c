"""`reprobuild render`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.infra.atomic import write_file
from reprobuild.lock.file import read_lock
from reprobuild.lock.sealed import require_sealed
from reprobuild.recipe.render import render_recipe


@click.command()
@common.lock_argument
@common.out_option
@common.json_option
def command(lock_path: Path, out: Path, as_json: bool) -> None:
    """Write the recipe of a sealed LOCK as text files that people read.

    \b
    Example:
      reprobuild render frozen/reprobuild.lock -o recipe
    """
    texts = render_recipe(require_sealed(read_lock(lock_path)))
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_file(out / name, text.encode())
    if as_json:
        documents.print_json({"files": sorted(str(out / name) for name in texts)})
    else:
        common.print_result("\n".join(sorted(str(out / name) for name in texts)))
