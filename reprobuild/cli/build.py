"""`reprobuild build`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild import pipeline
from reprobuild.cli import common
from reprobuild.image.squash import Compressor
from reprobuild.lock import read_lock
from reprobuild.report.text import render_text


@click.command()
@common.lock_argument
@common.out_option
@common.store_option
@common.offline_option
@common.tag_option
@common.sif_option
@common.sqsh_option
@common.squashfs_option
@common.builder_option
@common.json_option
def command(
    lock_path: Path, out: Path, store: Path | None, offline: bool, tag: str | None, sif: bool, sqsh: bool,
    compressor: Compressor, builder: str, as_json: bool,
) -> None:  # fmt: skip
    """Build the image of LOCK from the store; the native builder needs no daemon and no root.

    \b
    Example:
      reprobuild build reprobuild.lock -o frozen
    """
    session = common.make_session(store, offline=offline)
    lock, image = pipeline.build(
        read_lock(lock_path), out, session, tag=tag, builder=builder, singles=common.singles(sif=sif, sqsh=sqsh),
        compressor=compressor,
    )  # fmt: skip
    if as_json:
        common.print_json(pipeline.summary(lock, image, None, out))
    else:
        click.echo(render_text(lock, image, None))
