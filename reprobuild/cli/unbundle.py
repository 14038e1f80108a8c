"""`reprobuild unbundle`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.distribute.text import render_checked, render_unbundled
from reprobuild.distribute.unbundle import check_bundle, unbundle


@click.command()
@click.argument("file", metavar="FILE", type=common.PATH)
@common.out_option
@click.option(
    "--allowed-signers", "signers", metavar="FILE", type=common.PATH,
    help="Require a signature of one of these signers, as ssh-keygen(1) lists them.",
)  # fmt: skip
@click.option(
    "--check", "check_only", is_flag=True, help="Compare every byte with the manifest, and unpack nothing."
)
@common.store_option
@common.json_option
def command(
    file: Path, out: Path, signers: Path | None, check_only: bool, store: Path | None, as_json: bool
) -> None:
    """Unpack a bundle into OUT, verify its checksums, and put its inputs into the store.

    FILE may be the common beginning of the names of its parts. An interrupted run is continued.

    \b
    Example:
      reprobuild unbundle frozen.tar -o frozen
    """
    context = common.make_context(store)
    if check_only:
        checked = check_bundle(file, context.env, signers=signers, say=context.say)
        if as_json:
            documents.print_json(msgspec.to_builtins(checked))
        else:
            common.print_report(render_checked(checked))
        return
    done = unbundle(
        file, out, context.store, context.env, signers=signers, say=context.say, progress=context.progress
    )
    if as_json:
        documents.print_json(msgspec.to_builtins(done))
    else:
        common.print_report(render_unbundled(done))
