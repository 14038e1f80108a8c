"""The saved choices of two environments, for mixtures of them.

Choices belong to a platform and its packages. A mixture of another platform has no result, because its compilers would
measure again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines.image_records import open_user_directory
from reprobuild.engines.model import Task
from reprobuild.image.choices.caches import find_caches
from reprobuild.image.choices.platform import list_differences
from reprobuild.image.choices.record import ChoiceFile
from reprobuild.infra.atomic import private_directory
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, read_config_digest, read_image
from reprobuild.run.choice_session import ChoiceSession
from reprobuild.run.choices import FOLDER, ChoiceUse, describe_choices, find_run_platform
from reprobuild.run.options import RunOptions
from reprobuild.run.run import image_variables, prepare


class MixtureChoices(Struct, frozen=True, kw_only=True):
    """The saved choices of a mixture: the first one that fits its platform is used."""

    files: tuple[ChoiceFile, ...] = ()

    @property
    def digests(self) -> tuple[str, ...]:
        """The sha256 of each record."""
        return tuple(file.digest for file in self.files)

    def explain_misfit(self, lock: Lock, task: Task, env: Mapping[str, str]) -> str:
        """Return why the choices do not fit a task in a lock's image, or ""."""
        if not self.files:
            return ""
        platform = find_run_platform(lock, task, image_variables(lock), env)
        reasons = []
        for file in self.files:
            differences = list_differences(file.saved.platform, platform)
            if not differences:
                return ""
            reasons.append(f"the saved choices {file.name} are of another platform: {'; '.join(differences)}")
        return "; ".join(reasons)

    @contextlib.contextmanager
    def mount(self, lock: Lock, task: Task, env: Mapping[str, str]) -> Iterator[Task]:
        """Yield a task with a copy of the choices that fit it, or the task itself without any.

        Raises:
            BuildError: an archive is damaged.
            EngineError: the user has no private directory for caches.
        """
        if not self.files:
            yield task
            return
        platform = find_run_platform(lock, task, image_variables(lock), env)
        used = next(
            (file for file in self.files if not list_differences(file.saved.platform, platform)), None
        )
        if used is None:
            yield task
            return
        with private_directory(open_user_directory(env, FOLDER, "choices of compilers")) as folder:
            yield ChoiceSession(lock, used.saved.image, folder, find_caches(lock), platform, used).mount(task)


class ChoicePair(Struct, frozen=True, kw_only=True):
    """The saved choices of A and of B that fit this machine; None for a side without choices."""

    first: ChoiceFile | None = None
    second: ChoiceFile | None = None

    def __bool__(self) -> bool:
        return self.first is not None or self.second is not None

    @property
    def differ(self) -> bool:
        """Whether A and B have other caches."""
        archives = [side and side.saved.archive.sha256 for side in (self.first, self.second)]
        return archives[0] != archives[1]

    def choose(self, *, second: bool) -> MixtureChoices:
        """Return the choices of a mixture, with the caches of A or of B.

        Equal caches have a record for each platform.
        """
        files = (self.first, self.second) if not self.differ else ((self.second if second else self.first),)
        return MixtureChoices(files=tuple(file for file in files if file is not None))

    def describe(self) -> tuple[str | None, str | None]:
        """Return the values of the difference in A and in B."""
        first, second = (
            None if side is None else f"{side.name}: {describe_choices(side)}"
            for side in (self.first, self.second)
        )
        return first, second


def find_choices(names: tuple[str, str | None], options: RunOptions, context: RunContext) -> ChoicePair:
    """Return the saved choices of two sides.

    Today's versions of A (None) have no choices, so that no side gets any.

    Raises:
        UsageError: a record is damaged.
    """
    if names[1] is None:
        return ChoicePair()
    first, second = (_find_side_choices(name, options, context) for name in (names[0], names[1]))
    return ChoicePair(first=first, second=second)


def _find_side_choices(name: str, options: RunOptions, context: RunContext) -> ChoiceFile | None:
    """Return the saved choices of an output directory that fit a run; the log has the reasons against the others."""
    out = Path(name)
    if not (out / LOCK).is_file() or not (out / "image.json").is_file():
        return None
    lock, image = read_image(out)
    use = ChoiceUse(
        out=out, lock=lock, image=read_config_digest(out, image), known=context.store.known, options=options,
        say=context.say,
    )  # fmt: skip
    return use.find_used(prepare(lock, (), options, context.env).task, image_variables(lock), context.env)
