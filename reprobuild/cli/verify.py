"""`reprobuild verify`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild import pipeline
from reprobuild.checks import Checks, verify
from reprobuild.cli import common
from reprobuild.report.text import render_text
from reprobuild.verify.work import work_of_options


@click.command()
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option(
    "--against", metavar="CERT", type=common.PATH,
    help="Compare with an earlier verdict.json, or that of a folder of results.",
)  # fmt: skip
@click.option(
    "--command", "work", metavar="LINE", help="Your own work: a line for the image's /bin/sh, run twice."
)
@click.option(
    "--artefact", "artefacts", metavar="PATH|GLOB", multiple=True,
    help="What the command writes alike both times: a file, a folder, or a pattern of files.",
)  # fmt: skip
@click.option(
    "--distinct", metavar="GLOB", multiple=True,
    help="Artefacts of one run that must differ from one another, as those of ranks.",
)  # fmt: skip
@click.option("--ignore", "ignored", metavar="KEY", multiple=True, help="Values of this key may differ.")
@common.thorough_option
@common.gpu_option
@common.engine_option
@common.scope_option
@common.control_option
@common.smoke_option
@common.store_option
@common.json_option
def command(
    out: Path, against: Path | None, thorough: bool, gpus: str, engine: str | None, scope: str, control: bool,
    smoke: bool, store: Path | None, as_json: bool, work: str | None, artefacts: tuple[str, ...],
    distinct: tuple[str, ...], ignored: tuple[str, ...],
) -> int:  # fmt: skip
    """Check the image in OUT again, now, on this machine.

    \b
    Example:
      reprobuild verify frozen --against frozen/verdict.json
      reprobuild verify frozen --command 'python train.py --steps 20' --artefact out.ckpt
    """
    lock, image = pipeline.read_image(out)
    checks = Checks(
        engine=engine,
        control=control,
        smoke=smoke,
        cpu_only=scope == "cpu",
        gpus=gpus,
        thorough=thorough,
        against=against,
        work=work_of_options(work, artefacts, distinct, ignored),
        ignored=ignored,
    )
    verdict = verify(lock, image, out, common.make_session(store), checks)
    if as_json:
        common.print_json(pipeline.summary(lock, image, verdict, out))
    else:
        click.echo(render_text(lock, image, verdict, out))
    return verdict.exit_code
