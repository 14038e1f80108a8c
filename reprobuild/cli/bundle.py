"""`reprobuild bundle`."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.distribute.bundle import BundleOptions, bundle, parse_size
from reprobuild.distribute.bundle_contents import parse_parts
from reprobuild.distribute.text import render_bundled


@click.command()
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option(
    "-o", "--output", "target", metavar="FILE", type=common.PATH, required=True, help="File to write."
)
@click.option(
    "--include", "parts", metavar="PART[,PART]", default="",
    help="Include wheels, debs (with both the image can be made again offline), context (for docker build), "
    "reprobuild, or all of these; sif is OUT/image.sif.",
)  # fmt: skip
@click.option("--split", metavar="SIZE", help="Write parts of this size, as 4G: FILE.001, FILE.002, ...")
@click.option("--sign", "key", metavar="KEY", type=common.PATH, help="Sign with this SSH key.")
@common.store_option
@common.json_option
def command(
    out: Path, target: Path, parts: str, split: str | None, key: Path | None, store: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write OUT as one file with checksums.

    `reprobuild unbundle` unpacks it, as does unbundle.py, which is written beside it.

    \b
    Example:
      reprobuild bundle frozen -o frozen.tar --include wheels,debs
    """
    context = common.make_context(store)
    options = BundleOptions(parts=parse_parts(parts), key=key, split=parse_size(split) if split else 0)
    done = bundle(
        out, target, context.store, options, context.env, say=context.say, progress=context.progress
    )
    if as_json:
        documents.print_json(msgspec.to_builtins(done))
    else:
        common.print_report(render_bundled(done))
