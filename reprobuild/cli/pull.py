"""`reprobuild pull`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild.cli import common, documents
from reprobuild.distribute.pull import pull
from reprobuild.distribute.text import render_pulled


@click.command()
@click.argument("reference", metavar="REF")
@common.out_option
@click.option(
    "--platform", metavar="OS/ARCH", default="", help="Platform of an image that has several, as linux/amd64."
)
@common.service_option
@common.store_option
@common.json_option
def command(
    reference: str, out: Path, platform: str, services: tuple[str, ...], store: Path | None, as_json: bool
) -> int:
    """Pull an image and its attachments from a registry into an output directory.

    `verify`, `run` and `build` read that directory. An interrupted pull is continued.

    \b
    Example:
      reprobuild pull registry.example/team/train:1 -o frozen
    """
    context, named = common.make_context(store), common.parse_pairs("--service", services)
    pulled = pull(reference, out, context, named, platform)
    if as_json:
        documents.print_json(pulled.document)
    else:
        common.print_report(render_pulled(pulled))
    return 0
