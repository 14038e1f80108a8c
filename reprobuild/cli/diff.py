"""`reprobuild diff`."""

from __future__ import annotations

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.compare.images.explain import compare_images
from reprobuild.compare.images.tree import LEVELS
from reprobuild.report.difference import render_image_diff


@click.command()
@click.argument("first", metavar="IMAGE")
@click.argument("second", metavar="IMAGE")
@click.option(
    "--level", type=click.Choice(LEVELS[1:]), default="tree", show_default=True,
    help="Level at which two images are equal: what programs see, also the configuration, also the packing.",
)  # fmt: skip
@click.option(
    "--diffoscope", is_flag=True,
    help="Run diffoscope on files that differ, in a sandbox. It executes parsers of their formats.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="List every difference.")
@common.json_option
def command(
    first: str, second: str, level: str, diffoscope: bool, verbose: bool, as_json: bool
) -> int:  # fmt: skip
    """Compare the files of two images, and name the input of each file that differs.

    IMAGE is an output directory, an OCI layout, an archive of `docker save` or OCI, a SIF, a squashfs, or the
    name of an image that Docker has. Exit code 0: equal; 1: they differ.

    \b
    Example:
      reprobuild diff frozen-june frozen
    """
    context = common.make_context(None)
    explanation = compare_images(first, second, context.env, context.say, diffoscope=diffoscope)
    if as_json:
        documents.print_json(msgspec.to_builtins(explanation))
    else:
        common.print_report(render_image_diff(explanation, everything=verbose))
    return 0 if LEVELS.index(explanation.level) >= LEVELS.index(level) else 1
