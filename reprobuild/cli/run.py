"""`reprobuild run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprobuild.cli import common
from reprobuild.cli.interrupt import leave_signals_to_jobs
from reprobuild.errors import UsageError
from reprobuild.run import run, slurm
from reprobuild.run.options import AUTO, CHOICE_MODES, RunOptions


class CommandAfterDashes(click.Command):
    """A command that separates its options from those of CMD."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" not in args and not {"-h", "--help"} & set(args):
            raise click.UsageError("the command to run stands after `--`, and there is no `--`", ctx)
        if "--" in args and not ctx.resilient_parsing:
            self._refuse_strays(ctx, args[: args.index("--")])
        return super().parse_args(ctx, args)

    def _refuse_strays(self, ctx: click.Context, before: list[str]) -> None:
        values, _, _ = self.make_parser(ctx).parse_args(list(before))
        for param in self.params:
            is_name = isinstance(param, click.Argument) and param.nargs == 1
            if is_name and not isinstance(values.get(param.name or ""), str):
                raise click.UsageError(f"missing argument {param.make_metavar(ctx)} before `--`", ctx)
        strays = values.get("arguments")
        if isinstance(strays, tuple) and strays:  # else it is click's value for no arguments
            raise UsageError(
                f"`{strays[0]}` stands before `--`, where names and options of `{ctx.info_name}` stand alone",
                hint="put the whole command after `--`; an option is said again for each value: -v a:/a -v b:/b",
            )


@click.command(cls=CommandAfterDashes)
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option("--seed", type=common.SEED, help="Seed of CMD. [default: drawn and logged]")
@click.option(
    "--profile", metavar="NAME[,NAME]", help="Settings beside the chosen seed. [default: the image's]"
)
@click.option("-i", "--interactive", "stdin", is_flag=True, help="Pass standard input to CMD.")
@click.option("-t", "--tty", "terminal", is_flag=True, help="Give CMD a terminal; with -i, for a shell.")
@click.option(
    "-p", "--publish", "ports", metavar="[ADDRESS:]HOST:CONTAINER", multiple=True,
    help="Publish a TCP port of CMD, for this machine alone without ADDRESS.",
)  # fmt: skip
@common.env_option
@common.secret_option
@click.option(
    "-v", "--volume", "volumes", metavar="HOST:CONTAINER[:ro]", multiple=True,
    help="Mount a directory, read-only with `:ro`.",
)  # fmt: skip
@click.option(
    "-w",
    "--workdir",
    default="",
    metavar="DIR",
    help="Directory in which CMD starts. [default: that of the job in the image]",
)
@click.option(
    "-u", "--user", metavar="caller|image|UID[:GID]",
    help="User of CMD. [default: caller if a directory is mounted for writing, else image]",
)  # fmt: skip
@common.shm_option
@click.option(
    "--ulimit", "limits", metavar="NAME=SOFT[:HARD]", multiple=True,
    help="Limit of memlock, stack, nofile, nproc or core. [default: memlock and stack as training needs]",
)  # fmt: skip
@click.option(
    "--network", metavar="NAME",
    help="Network of the engine. [default: none; host for one of several processes of a job; the engine's with -p]",
)  # fmt: skip
@click.option(
    "--srun-args", metavar="OPTIONS",
    help="Start CMD by srun with these options: through pyxis if it is installed, else on each rank.",
)  # fmt: skip
@click.option(
    "--save-choices", is_flag=True, help="Keep the caches of CMD's compilers in OUT/choices if CMD succeeds."
)
@click.option(
    "--choices", type=click.Choice(CHOICE_MODES), default=AUTO, show_default=True,
    help="Use saved choices of this platform; with `strict`, a missing one is an error.",
)  # fmt: skip
@click.option(
    "--trust-choices", "trusted_choices", metavar="SHA256", multiple=True,
    help="Use saved choices that another party made; they are code.",
)  # fmt: skip
@common.gpu_option
@common.engine_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def command(out: Path, srun_args: str | None, arguments: tuple[str, ...], **options: Any) -> int:
    """Run CMD in the image in OUT, seeded, and return its exit code.

    Variables of the scheduler, the launcher, the devices and the fabric of this site reach CMD. Frozen variables stay,
    and each conflict is shown.

    \b
    Example:
      reprobuild run frozen --seed 7 -- python train.py
      reprobuild run frozen -v data:/data:ro -v runs:/runs --secret WANDB_API_KEY -- python train.py
      reprobuild run frozen -it -- bash
      reprobuild run frozen -p 8888:8888 -- jupyter lab --ip 0.0.0.0 --no-browser
      reprobuild run frozen --save-choices -- python train_compiled.py
      reprobuild run frozen --srun-args '-N 2' -- torchrun --nnodes 2 train.py
    """
    leave_signals_to_jobs()
    context, run_options = common.make_context(None), RunOptions(**options)
    if srun_args is not None:
        return slurm.run(out, arguments, context, common.write_output, run_options, srun_args)
    return run.run(out, arguments, context, common.write_output, run_options)
