"""`reprobuild trace`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from reprobuild.cli import common, documents
from reprobuild.cli.run import CommandAfterDashes
from reprobuild.errors import UsageError


def _check_pattern(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        re.compile(value)
    except re.error as err:
        raise UsageError(
            f"--steps {value}: not a regular expression: {err}", hint="for example --steps 'epoch [0-9]+'"
        ) from None
    return value


pattern_option = click.option(
    "--steps", "pattern", metavar="REGEX", default="", callback=_check_pattern,
    help="End a step with each printed line that matches. [default: the steps of the optimizer]",
)  # fmt: skip


def container_options(function: common.F) -> common.F:
    """Add the options of the containers of a traced command."""
    for option in reversed([
        click.option("--seed", type=common.SEED, help="Seed of CMD. [default: that of the lock, else 42]"),
        click.option("--profile", metavar="NAME[,NAME]", help="Settings beside the seed. [default: the image's]"),
        common.env_option,
        common.secret_option,
        click.option(
            "-v", "--volume", "volumes", metavar="HOST:CONTAINER[:ro]", multiple=True,
            help="Mount a directory, read-only with `:ro`.",
        ),
        click.option(
            "-w", "--workdir", default="", metavar="DIR",
            help="Directory in which CMD starts. [default: the image's]",
        ),
        common.shm_option,
        common.gpu_option,
        common.engine_option,
    ]):  # fmt: skip
        function = option(function)
    return function


@click.command(cls=CommandAfterDashes)
@click.argument("out", metavar="OUT", type=common.PATH)
@click.option(
    "--runs", type=click.IntRange(2, 1000), default=2, show_default=True, metavar="N",
    help="Compare the steps of N runs before CMD counts as the same.",
)  # fmt: skip
@pattern_option
@click.option(
    "--against", type=common.PATH, metavar="DIR", help="Compare with the logs of another trace, from --save."
)
@click.option("--save", type=common.PATH, metavar="DIR", help="Write the logs of the first run of CMD.")
@click.option(
    "--output-file", "artefacts", metavar="PATH|GLOB", multiple=True,
    help="Compare this output of CMD, too: a file, a directory, or a pattern of files.",
)  # fmt: skip
@click.option(
    "--ignore-key", "ignored", metavar="KEY", multiple=True,
    help="Allow values of this key to differ in output files.",
)  # fmt: skip
@container_options
@common.store_option
@common.json_option
@click.argument("arguments", metavar="-- CMD...", nargs=-1, required=True)
def command(
    out: Path, runs: int, pattern: str, against: Path | None, save: Path | None, artefacts: tuple[str, ...],
    ignored: tuple[str, ...], store: Path | None, arguments: tuple[str, ...], as_json: bool, **options: Any,
) -> int:  # fmt: skip
    """Find where two runs of CMD part: the first step and operation that differ.

    CMD runs in fresh containers of the image in OUT, with one seed. A recorder takes digests of batches, losses,
    gradients, parameters and generators at each step; then of each operation, or of each line of your code, where the
    runs differ. Exit code 0: no difference; 8: the runs differ.

    \b
    Example:
      reprobuild trace frozen -- python train.py --steps 20
      reprobuild trace frozen --runs 10 -v data:/data:ro -- python train.py
      reprobuild trace frozen --save monday -- python train.py
      reprobuild trace elsewhere --against monday -- python train.py
      reprobuild trace frozen --output-file result.json -- python fit.py
    """
    from reprobuild.run.options import RunOptions
    from reprobuild.trace.command import TraceOptions, trace_command
    from reprobuild.trace.result import render_trace

    trace_options = TraceOptions(
        runs=runs, pattern=pattern, against=against, save=save, artefacts=artefacts, ignored=ignored
    )
    result = trace_command(out, arguments, common.make_context(store), RunOptions(**options), trace_options)
    if as_json:
        documents.print_json(msgspec.to_builtins(result))
    else:
        common.print_report(render_trace(result))
    return 8 if result.findings.differs else 0
