"""What every builder offers: a module with these functions, listed in the registry of this package."""

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
ANSWER_SECONDS = 60  # for a program to say of itself what it is or can
FAILED = "the lines above are the builder's own; `reprobuild build` makes a file of context/ that was changed again"


class Builder(Protocol):
    """A module that builds the rendered recipe."""

    NAME: str

    def version(self, env: Mapping[str, str]) -> str | None:
        """Return the version of what answers, or None when nothing does."""
        ...

    def build(
        self, folder: Path, scratch: Path, *, platform: str, epoch: int, env: Mapping[str, str], say: Say
    ) -> AbstractContextManager[ForeignImage]:
        """Build without network, and give what was made while it is read.

        Args:
            folder: holds Dockerfile, Apptainer.def and context/.
            scratch: an empty folder on the file system of the results, removed afterwards.
            platform: `os/architecture[/variant]`.
            epoch: the time to give to what the builder can give one; adoption sets the others.
            env: the user's environment.
            say: is told what is used, and what it cannot do.
        """
        ...


def failed(builder: str, err: proc.ProcessFailedError, gone: ReproError | None) -> ReproError:
    """Return the error for a build that failed: `gone` where the engine is no longer there, else the recipe's."""
    if gone is not None:
        return gone
    return BuildError(f"{builder}: {err}", hint=FAILED)
