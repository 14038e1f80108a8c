"""Build the image of a lock."""

from __future__ import annotations

from pathlib import Path

from reprobuild.api.context import open_context
from reprobuild.api.results import BuildResult
from reprobuild.context import RunContext
from reprobuild.lock.file import read_lock
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.from_lock import build_from_lock
from reprobuild.store.roots import gc_root

BUILD_OPTIONS = BuildOptions()


def build(
    lock_path: Path | str,
    out: Path | str,
    *,
    options: BuildOptions = BUILD_OPTIONS,
    context: RunContext | None = None,
) -> BuildResult:
    """Build the image of a lock into an output directory.

    Raises:
        FetchError: a file is unavailable.
        BuildError: the build failed.
    """
    context, path = context or open_context(), Path(lock_path)
    input_lock = read_lock(path)
    with gc_root(input_lock, path, context.store, "build"):
        sealed, image = build_from_lock(input_lock, Path(out), context, options)
    return BuildResult(lock=sealed, image=image, verdict=None, out=Path(out))
