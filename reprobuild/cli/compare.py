"""`reprobuild compare`."""

from __future__ import annotations

import sys

import click
import msgspec

from reprobuild.cli import common, console, documents
from reprobuild.compare.environments.open import Running, compare
from reprobuild.report.comparison import render_comparison


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option(
    "-v",
    "--verbose",
    "everything",
    is_flag=True,
    help="List every difference, also the noise of session and job.",
)
@common.json_option
def command(first: str, second: str, everything: bool, as_json: bool) -> int:
    """Compare two environments, and list their differences, the likeliest culprit first.

    A and B are any two of: a snapshot, a lock, an output directory (its lock), an image (OCI layout, archive of
    `docker save` or OCI, SIF, squashfs, or the name of an image that Docker has), and the word `here`, the
    running environment. Exit code 0: the same but for session and job; 1: they differ.

    \b
    Example:
      reprobuild compare repro/4242 here
    """
    context = common.make_context(None)
    python, env = common.find_active_python()
    comparison = compare(first, second, Running(python=python, env=env), context.env, context.say)
    if as_json:
        documents.print_json(msgspec.to_builtins(comparison))
    else:
        common.print_report(
            render_comparison(comparison, everything=everything, width=console.terminal_width(sys.stdout))
        )
    return 0 if comparison.is_same else 1
