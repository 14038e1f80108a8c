"""`reprobuild bisect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.cli.run import CommandAfterDashes
from reprobuild.errors import UsageError
from reprobuild.run.options import AUTO, OFF

if TYPE_CHECKING:
    from reprobuild.config.overrides import Decisions
    from reprobuild.context import RunContext


def _decide(captured: Path, store: Path | None, *, offline: bool) -> tuple[Decisions, RunContext]:
    """Return the overrides beside a snapshot, and the context for them."""
    from reprobuild.cli.overrides import make_decisions, unconfirmed_sources

    lists = (
        "packages",
        "sources",
        "services",
        "indexes",
        "archives",
        "debs",
        "channels",
        "bake",
        "drop",
        "accept",
    )
    values = ("python", "base", "platform", "build_image", "system", "profile", "seed", "as_of")
    options: dict[str, Any] = {**dict.fromkeys(lists, ()), **dict.fromkeys(values)}
    decisions, folder = make_decisions(captured, None, **options)
    doubted = unconfirmed_sources(captured, None, **options)
    return decisions, common.make_context(store, offline=offline, folder=folder, doubted=doubted)


class _BisectCommand(CommandAfterDashes):
    """A command whose two names `--since LOCK` replaces."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before = args[: args.index("--")] if "--" in args else args
        if any(word.partition("=")[0] == "--since" for word in before):
            args = ["", "", *args]
        return super().parse_args(ctx, args)


@click.command(cls=_BisectCommand)
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "--since", metavar="LOCK", help="Take LOCK as A, and today's versions of its requirements as B."
)
@click.option(
    "-o", "--output", "update", type=common.PATH, metavar="FILE", help="Write the lock of today's versions."
)
@click.option(
    "--output-file", "artefacts", metavar="PATH|GLOB", multiple=True,
    help="Compare this output of CMD: a file, a directory, or a pattern of files.",
)  # fmt: skip
@click.option(
    "--ignore-key", "ignored", metavar="KEY", multiple=True,
    help="Allow values of this key to differ in output files.",
)  # fmt: skip
@click.option(
    "--metric", "pattern", metavar="REGEX|KEY",
    help="Compare a number: the group of this expression in standard output, or a key of --metric-file.",
)  # fmt: skip
@click.option("--metric-file", "metric_file", metavar="PATH", help="File that CMD writes, with the number.")
@click.option(
    "--tolerance",
    metavar="NUMBER|N%",
    default="0",
    show_default=True,
    help="Distance within which numbers are the same.",
)
@click.option(
    "--noisy", "error_rate", type=click.FloatRange(0, 0.5, min_open=True), metavar="RATE",
    help="The number varies from run to run: run until the answer is wrong with this probability at most.",
)  # fmt: skip
@click.option("--seed", type=common.SEED, help="Seed of CMD. [default: that of each lock, else 42]")
@common.env_option
@common.secret_option
@click.option(
    "-v", "--volume", "volumes", metavar="HOST:CONTAINER[:rw]", multiple=True,
    help="Mount a directory, read-only unless `:rw` is given.",
)  # fmt: skip
@click.option(
    "-w", "--workdir", default="", metavar="DIR", help="Directory in which CMD starts. [default: the image's]"
)
@common.shm_option
@click.option(
    "--choices", type=click.Choice((AUTO, OFF)), default=AUTO, show_default=True,
    help="Use the saved choices of compilers of A and B; they are a difference of their own.",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=click.IntRange(1, 64), default=1, show_default=True, metavar="N",
    help="Run N trials at the same time.",
)  # fmt: skip
@click.option("--afresh", is_flag=True, help="Run trials again that the store remembers.")
@click.option("--trials", "everything", is_flag=True, help="List every trial.")
@click.option(
    "--explain", "page", type=common.PATH, metavar="FILE.html",
    help="Write a page with the trials, and their locks into FILE.trials.",
)  # fmt: skip
@common.verbose_option
@common.gpu_option
@common.engine_option
@common.store_option
@common.offline_option
@common.json_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def command(
    first: str, second: str, artefacts: tuple[str, ...], ignored: tuple[str, ...], pattern: str | None,
    metric_file: str | None, tolerance: str, error_rate: float | None, arguments: tuple[str, ...], jobs: int,
    afresh: bool, everything: bool, page: Path | None, since: str | None, update: Path | None, store: Path | None,
    offline: bool, as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Find the smallest set of differences between A and B that changes the result of CMD.

    A and B are a lock, an output directory, a snapshot, or `here`. Each trial is a fresh container of A with some of
    the differences of B. Results are compared by the exit code, by output files, or by a number. Exit code 125 of CMD
    means that a trial has no result. Exit code 0: a set was found, and proved in both directions; 1: no answer.

    \b
    Example:
      reprobuild bisect monday friday --output-file out.pt -- python train.py --out out.pt
      reprobuild bisect a.lock b.lock --metric 'loss=([0-9.]+)' --tolerance 1e-6 -- python train.py
      reprobuild bisect a.lock b.lock --metric 'img/s: ([0-9.]+)' --noisy 0.01 -- python bench.py
      reprobuild bisect monday friday --explain why.html -- python train.py
      reprobuild bisect --since monday.lock -o today.lock -- python train.py
    """
    from reprobuild.bisect.explanation import explain_bisection, prepare_page
    from reprobuild.bisect.result import render_bisection
    from reprobuild.bisect.sides import bisect_sides, read_judging
    from reprobuild.bisect.trial import TrialCommand
    from reprobuild.compare.environments.open import HERE, Running
    from reprobuild.infra.atomic import write_file
    from reprobuild.report.html.explanation import render_explanation
    from reprobuild.run.options import RunOptions

    metric, judging = read_judging(pattern, metric_file, tolerance, error_rate, artefacts, ignored, jobs)
    trial = TrialCommand(
        arguments=arguments, options=RunOptions(**options), artefacts=artefacts, metric=metric
    )
    if update is not None and since is None:
        raise UsageError(
            "-o is for the lock that --since makes",
            hint="leave -o out, or name one lock: --since LOCK -o FILE",
        )
    trials = None if page is None else prepare_page(page)
    context = common.make_context(store, offline=offline)
    python, env = common.find_active_python() if HERE in (first, second) else ("", context.env)
    running = Running(python=python, env=env)
    with context.store.scratch() as scratch:
        folder = scratch / "sides"
        folder.mkdir()
        result = bisect_sides(
            (first, second) if since is None else (since, None), folder,
            lambda captured: _decide(captured, store, offline=offline), trial, judging, context, running,
            afresh=afresh, jobs=jobs, trials=trials, update=update,
        )  # fmt: skip
    if page is not None:
        write_file(page, render_explanation(explain_bisection(result, trial, store)).encode())
        context.say(f"explained in {page}")
    if as_json:
        documents.print_json(msgspec.to_builtins(result))
    else:
        common.print_report(render_bisection(result, everything=everything))
    return 0 if result.is_proved else 1
