"""Compare two environments."""

from __future__ import annotations

import sys

from reprobuild.api.context import open_context, process_environment
from reprobuild.api.results import ComparisonResult
from reprobuild.compare.environments import open as environments
from reprobuild.context import RunContext


def compare(first: str, second: str, *, context: RunContext | None = None) -> ComparisonResult:
    """Compare two environments, the likeliest culprit of other results first.

    Args:
        first, second: a snapshot, lock, output directory or image, or `here` for this process.
        context: the environment in which the names are read; by default this process's.

    Raises:
        ReproError: one of the two cannot be read.
    """
    context = context or open_context()
    here = environments.Running(python=sys.executable, env=process_environment())
    return ComparisonResult(comparison=environments.compare(first, second, here, context.env, context.say))
