"""`reprobuild verify`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild import pipeline
from reprobuild.checks import Checks, verify
from reprobuild.cli import common
from reprobuild.report.text import render_text


@click.command()
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option(
    "--against", metavar="CERT", type=common.PATH,
    help="Compare with an earlier verdict.json, or that of a folder of results.",
)  # fmt: skip
@common.thorough_option
@common.gpu_option
@common.engine_option
@common.scope_option
@common.control_option
@common.store_option
@common.json_option
def command(
    out: Path, against: Path | None, thorough: bool, gpus: str, engine: str | None, scope: str, control: bool,
    store: Path | None, as_json: bool,
) -> int:  # fmt: skip
    """Check the image in OUT again, now, on this machine.

    \b
    Example:
      reprobuild verify frozen --against frozen/verdict.json
    """
    lock, image = pipeline.read_image(out)
    checks = Checks(
        engine=engine, control=control, cpu_only=scope == "cpu", gpus=gpus, thorough=thorough, against=against
    )
    verdict = verify(lock, image, out, common.make_session(store), checks)
    if as_json:
        common.print_json(pipeline.summary(lock, image, verdict, out))
    else:
        click.echo(render_text(lock, image, verdict, out))
    return verdict.exit_code
