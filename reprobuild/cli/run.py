"""`reprobuild run`."""

from __future__ import annotations

from pathlib import Path

import click

from reprobuild import pipeline
from reprobuild.cli import common


class _Command(click.Command):
    """One whose own options and those of the user's command cannot be taken for each other."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args and not {"-h", "--help"} & set(args):
            raise click.UsageError("the command to run stands after `--`, and there is no `--`", ctx)
        return super().parse_args(ctx, args)


@click.command(cls=_Command)
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), help="Seed; without one, one is drawn and logged.")
@click.option("--env", "variables", metavar="NAME[=VALUE]", multiple=True, help="Pass a variable.")
@click.option("-v", "--volume", "volumes", metavar="HOST:CONTAINER", multiple=True, help="Mount a folder.")
@click.option("--network", default="none", show_default=True, help="The engine's name of a network.")
@common.gpu_option
@common.engine_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def command(
    out: Path, seed: int | None, variables: tuple[str, ...], volumes: tuple[str, ...], network: str,
    gpus: str, engine: str | None, arguments: tuple[str, ...],
) -> int:  # fmt: skip
    """Run CMD in the image in OUT, seeded; its exit code is this one's.

    \b
    Example:
      reprobuild run frozen --seed 7 -- python train.py
    """
    return pipeline.run(
        out, arguments, common.make_session(None), common.hand_on,
        seed=seed, variables=variables, volumes=volumes, network=network, engine=engine,
        gpus=gpus,
    )  # fmt: skip
