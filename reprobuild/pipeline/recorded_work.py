"""The workload of a check under the recorder of a trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import Struct

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.trace.containers import TracedContainers
from reprobuild.verify.workload.work import Work, make_work_task


class RecordedWork(Struct, frozen=True, kw_only=True):
    """A workload and the conditions of its recorded runs.

    Attributes:
        work: the workload.
        seed: of the check.
        context: of the runs.
        engine: that has the image.
        name: of the image in the engine.
        wrap: gives each run's task what it needs for its time.
    """

    work: Work
    seed: int
    context: RunContext
    engine: Engine
    name: str
    wrap: Callable[[Task], AbstractContextManager[Task]]

    def open(self, gpus: str) -> AbstractContextManager[TracedContainers]:
        """Return the containers of the workload with the GPUs that it may use, as `Task.gpus` has them."""

        def make_task(words: tuple[str, ...]) -> Task:
            return make_work_task(self.work, self.seed, words, gpus)

        return TracedContainers(
            self.work, make_task, self.context, self.engine, self.name, wrap=self.wrap
        ).open()
