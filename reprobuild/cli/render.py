"""`reprobuild render`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.lock.file import read_lock
from reprobuild.lock.sealed import require_sealed
from reprobuild.output.occupied import refuse_files_of_others
from reprobuild.pipeline.render import render_from_network
from reprobuild.recipe.render import render_recipe


@click.command()
@common.lock_argument
@common.out_option
@click.option("--online", is_flag=True, help="Write a recipe that downloads its inputs, to OUT/online.")
@click.option(
    "--snapshot", type=common.PATH, help="With --online: the snapshot, which has the changes of each source."
)
@common.store_option
@common.json_option
def command(
    lock_path: Path, out: Path, online: bool, snapshot: Path | None, store: Path | None, as_json: bool
) -> None:
    """Write the recipe of a sealed LOCK as text files that people read.

    With `--online`, the recipe needs no other file: it downloads packages by
    version and hash, and names the facts of the lock that it cannot promise.

    \b
    Example:
      reprobuild render frozen/reprobuild.lock -o recipe
      reprobuild render frozen/reprobuild.lock --online --snapshot repro/4242
    """
    lock = require_sealed(read_lock(lock_path))
    if snapshot and not online:
        raise UsageError(
            "`--snapshot` is for an online recipe", hint="add `--online`, or leave `--snapshot` out"
        )
    if not online:
        refuse_files_of_others(out, requirements=True)
        paths = _write_texts(out, render_recipe(lock))
        documents.print_json({"files": paths}) if as_json else common.print_result("\n".join(paths))
        return
    recipe = render_from_network(lock, common.make_context(store, offline=True).store, snapshot)
    paths = _write_texts(out, recipe.texts, "online/")
    if as_json:
        gaps = [{"subject": gap.subject, "reason": gap.reason} for gap in recipe.gaps]
        documents.print_json({"files": paths, "gaps": gaps})
    else:
        lines = [f"gap: {display_text(gap.subject)}: {display_text(gap.reason)}" for gap in recipe.gaps]
        common.print_result("\n".join([*paths, *lines]))


def _write_texts(out: Path, texts: Mapping[str, str], folder: str = "") -> list[str]:
    """Write texts below a directory that may be of someone else: no link in it is followed."""
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_below(out, f"{folder}{name}", text.encode(), replace=True)
    return sorted(str(out / folder / name) for name in texts)
