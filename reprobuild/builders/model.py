"""The interface of a builder: a module with these functions.

The registry of this package lists the builders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from reprobuild.errors import BuildError, ReproError
from reprobuild.image.oci.foreign import ForeignImage
from reprobuild.infra import proc

Say = Callable[[str], None]
BUILD_SECONDS = 6 * 3600
ANSWER_SECONDS = 60  # for a program to report its version or abilities
FAILED = "the lines above are the builder's own; `reprobuild build` makes a file of context/ that was changed again"


class Builder(Protocol):
    """A module that builds the rendered recipe."""

    NAME: str

    def version(self, env: Mapping[str, str]) -> str | None:
        """Return the version of the builder, or None if unavailable."""
        ...

    def build(
        self, folder: Path, scratch: Path, *, platform: str, epoch: int, env: Mapping[str, str], say: Say
    ) -> AbstractContextManager[ForeignImage]:
        """Build without network, and yield the image for reading.

        Args:
            folder: holds Dockerfile, Apptainer.def and context/.
            scratch: an empty directory on the file system of the output directory, removed afterwards.
            platform: `os/architecture[/variant]`.
            epoch: the time for files, as far as the builder can set it; adoption sets the others.
            env: the user's environment.
            say: called with the versions in use, and with limitations.
        """
        ...


def build_error(builder: str, err: proc.ProcessFailedError, engine_error: ReproError | None) -> ReproError:
    """Return the error for a failed build.

    It is `engine_error` if the engine went away, else a `BuildError` for the recipe.
    """
    if engine_error is not None:
        return engine_error
    return BuildError(f"{builder}: {err}", hint=FAILED)
