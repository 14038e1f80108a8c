"""`reprobuild verify`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from reprobuild.api.commands.verify import verify
from reprobuild.cli import common, documents
from reprobuild.errors import UsageError
from reprobuild.pipeline.drift_trace import MODES as TRACE_MODES
from reprobuild.pipeline.verify_options import VerifyOptions, select_parts
from reprobuild.pipeline.work_conditions import conditions
from reprobuild.run.options import AUTO, CHOICE_MODES, RunOptions
from reprobuild.verify.verdict import PARTS, Part
from reprobuild.verify.workload.conditions import BUDGET_RUNS, BUDGET_SECONDS, MOST_RUNS
from reprobuild.verify.workload.disturbances import ALL, DISTURBANCES, select_disturbances
from reprobuild.verify.workload.work import work_of_options


class _Command(click.Command):
    """A command that refuses a workload without quotes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--workload" in args and not ctx.resilient_parsing:
            _refuse_unquoted(args)
        return super().parse_args(ctx, args)


def _refuse_unquoted(words: list[str]) -> None:
    """Refuse a command line in which OUT would be the second word of the workload.

    Raises:
        UsageError: it stands after the first word, and is not a directory.
    """
    begin = words.index("--workload") + 1
    first, *others = words[begin : begin + 2] or [""]
    if (
        others
        and begin == 1
        and not others[0].startswith("-")
        and " " not in first
        and not Path(others[0]).is_dir()
    ):
        command = shlex.quote(f"{first} {others[0]}")
        raise UsageError(
            f"there is no directory {others[0]}",
            hint=f"name the output directory first, and quote the whole command: "
            f"`reprobuild verify OUT --workload {command}`",
        )


@click.command(cls=_Command)
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option(
    "--against", metavar="CERT", type=common.PATH,
    help="Compare with an earlier verdict.json, or with that of an output directory.",
)  # fmt: skip
@click.option(
    "--same-platform", is_flag=True,
    help="End with exit code 9 if the machine of CERT is another platform, on which other digests are no failure.",
)  # fmt: skip
@click.option(
    "--workload",
    "work",
    metavar="CMD",
    help="Run this command several times, by /bin/sh in fresh containers, and compare its output files.",
)
@click.option(
    "--output-file", "artefacts", metavar="PATH|GLOB", multiple=True,
    help="Compare this output of the workload: a file, a directory, or a pattern of files.",
)  # fmt: skip
@click.option(
    "--expect-different", "distinct", metavar="GLOB", multiple=True,
    help="Require that these files of one run differ from one another, as those of ranks do.",
)  # fmt: skip
@click.option(
    "--ignore-key", "ignored", metavar="KEY", multiple=True,
    help="Allow values of this key to differ; in a text, the number after it, or each # in it.",
)  # fmt: skip
@click.option(
    "--runs", type=click.IntRange(2, MOST_RUNS), metavar="N",
    help="Number of containers that run the workload. "
    f"[default: 2, and more in the first {BUDGET_SECONDS:g} s, at most {BUDGET_RUNS}]",
)  # fmt: skip
@click.option(
    "--disturb", "disturbances", type=click.Choice((ALL, *DISTURBANCES)), multiple=True,
    help="Also run the workload under this disturbance, which must not change its output files; `all` for each.",
)  # fmt: skip
@click.option(
    "--resume", type=click.IntRange(min=1), metavar="STEP",
    help="Also stop the workload after so many steps of its optimizer, resume it, and compare.",
)  # fmt: skip
@click.option(
    "--resume-command", metavar="CMD", default="",
    help="Command that resumes the workload. [default: the workload itself]",
)  # fmt: skip
@click.option(
    "--trace", type=click.Choice(TRACE_MODES), default=AUTO, show_default=True,
    help="If the workload drifts, run it some ten times more to find the cause; `auto` for runs of up to 60 s.",
)  # fmt: skip
@click.option(
    "--seed",
    type=common.SEED,
    help="Seed of the workload. [default: that of the lock, else 42]",
)
@click.option(
    "-e", "--env", "variables", metavar="NAME[=VALUE]", multiple=True, help="Pass a variable to the workload."
)
@click.option(
    "--secret", "hidden", metavar="NAME", multiple=True,
    help="Pass a variable without its value on any command line or in the verdict file.",
)  # fmt: skip
@click.option(
    "-v", "--volume", "volumes", metavar="HOST:CONTAINER[:rw]", multiple=True,
    help="Mount a directory for the workload, read-only unless `:rw` is given.",
)  # fmt: skip
@click.option(
    "-w",
    "--workdir",
    default="",
    metavar="DIR",
    help="Directory in which the workload starts. [default: the image's]",
)
@click.option("--shm-size", metavar="SIZE", help="Shared memory of the workload, as 8g. [default: 1g]")
@click.option(
    "--choices", type=click.Choice(CHOICE_MODES), default=AUTO, show_default=True,
    help="Use saved choices of this platform for the workload; with `strict`, a missing one is an error.",
)  # fmt: skip
@click.option(
    "--only", "parts", type=click.Choice(PARTS), multiple=True,
    help="Run only this part; the exit code is 0 if each part that runs passes.",
)  # fmt: skip
@common.probe_option
@common.thorough_option
@common.gpu_option
@common.engine_option
@common.cpu_only_option
@common.controls_option
@common.probes_option
@common.store_option
@common.json_option
def command(
    out: Path, against: Path | None, same_platform: bool, thorough: bool, gpus: str, engine: str | None,
    cpu_only: bool, no_controls: bool, no_probes: bool, store: Path | None, as_json: bool, work: str | None,
    artefacts: tuple[str, ...], distinct: tuple[str, ...], ignored: tuple[str, ...], probes: tuple[str, ...],
    seed: int | None, variables: tuple[str, ...], hidden: tuple[str, ...], volumes: tuple[str, ...], workdir: str,
    shm_size: str | None, runs: int | None, parts: tuple[Part, ...], choices: str, resume: int | None,
    resume_command: str, trace: str, disturbances: tuple[str, ...],
) -> int:  # fmt: skip
    """Verify the image in OUT again on this machine.

    \b
    Example:
      reprobuild verify frozen --against frozen/verdict.json
      reprobuild verify frozen --workload 'python train.py --steps 20' --output-file out.ckpt
      reprobuild verify frozen --workload 'python train.py' --output-file out.ckpt --resume 10
      reprobuild verify frozen --workload 'python train.py' --output-file out.ckpt --disturb all
      reprobuild verify frozen --only round-trip
      reprobuild verify frozen -v data:/data --env DATA=/data --workload 'python train.py' --output-file out.ckpt
    """
    run_options = RunOptions(
        seed=seed, variables=variables, hidden=hidden, volumes=volumes, shm_size=shm_size
    )
    checks = VerifyOptions(
        engine=engine,
        controls=not no_controls,
        parts=select_parts(parts, no_probes=no_probes),
        named=bool(parts),
        cpu_only=cpu_only,
        gpus=gpus,
        thorough=thorough,
        choices=choices,
        against=against,
        same_platform=same_platform,
        work=work_of_options(
            work, artefacts, distinct, ignored, conditions(run_options, os.environ), workdir, runs
        ),
        ignored=ignored,
        runs=runs,
        disturbances=select_disturbances(disturbances),
        resume=resume or 0,
        resume_command=resume_command,
        trace=trace,
        probes=probes,
    )
    context = common.make_context(store)
    result = verify(out, check=checks, context=context)
    documents.print_build_result(result, as_json)
    return result.exit_code
