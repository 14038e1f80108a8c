"""`reprobuild rebuild`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.pipeline.rebuild import rebuild
from reprobuild.pipeline.rebuild.text import render_rebuilt


@click.command()
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option("-o", "--output", "target", type=common.PATH, help="New directory. [default: OUT-rebuilt]")
@click.option(
    "--level", type=click.Choice(rebuild.ACCEPTED), default="all", show_default=True,
    help="Level at which both are equal: what programs see, the configuration, the packing, also SIF and squashfs.",
)  # fmt: skip
@click.option(
    "--builder", type=click.Choice(["native", "docker", "podman", "apptainer"]),
    help="Builder of the image. [default: that of the first image if it was built here, else native]",
)  # fmt: skip
@click.option(
    "--afresh",
    is_flag=True,
    help="Make the outputs of steps again that this store did not make: base, wheels, bytecode.",
)
@common.store_option
@common.offline_option
@click.option("-v", "--verbose", is_flag=True, help="List every difference.")
@common.json_option
def command(
    out: Path, target: Path | None, level: rebuild.Level, builder: str | None, afresh: bool, store: Path | None,
    offline: bool, verbose: bool, as_json: bool,
) -> int:  # fmt: skip
    """Build the image in OUT again from its lock, in a new directory, and compare.

    Inputs come from the store, from OUT, or else from the network. Exit code 0: the images are equal; 1: they differ,
    and the reasons are listed; 9: a file could not be made here.

    \b
    Example:
      reprobuild rebuild frozen --offline
      reprobuild rebuild frozen -o again --level tree
    """
    context = common.make_context(store, offline=offline)
    result = rebuild.rebuild(out, target, context, builder, afresh=afresh)
    if as_json:
        documents.print_json({**msgspec.to_builtins(result), "same": result.is_same(level)})
    else:
        common.print_report(render_rebuilt(result, level, everything=verbose))
    return result.exit_code(level)
