"""Trials: the command in a fresh container of a mixture.

A trial that ended is remembered in the store, by what it consists of: the lock of the mixture, the command with its
conditions, and this machine. A search that was killed goes on with those. Image names belong to one process at a time,
so that two searches do not disturb each other.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.bisect.metric import Metric
from reprobuild.bisect.oracle import Outcome, Runs
from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Task
from reprobuild.errors import BuildError, InconclusiveError, LockError
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.flock import machine_name, try_lock
from reprobuild.infra.progress import CountedSteps
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.lock.model import Lock
from reprobuild.pipeline.trial_image import image_key, load_trial_image
from reprobuild.run.choice_pair import MixtureChoices
from reprobuild.run.options import RunOptions, read_volumes
from reprobuild.run.run import prepare
from reprobuild.verify.check import check_seed
from reprobuild.verify.workload.conditions import Mount
from reprobuild.verify.workload.container import INDEX, OUTPUTS, collecting_command, expand_output, read_index
from reprobuild.verify.workload.holes import describe_holes, find_holes
from reprobuild.verify.workload.judge import display_line
from reprobuild.verify.workload.mounts import Mounts
from reprobuild_portable.host import fcntl

MOST_SEARCHES = 64  # of one user at once
_NO_CHOICES = MixtureChoices()


class TrialCommand(Struct, frozen=True, kw_only=True):
    """The command of each trial, and its outputs.

    Attributes:
        arguments: the command; `{out}` represents an existing, empty directory.
        options: of its containers; the seed is that of the lock if it is None.
        artefacts: the output files to collect.
        metric: the number to read, or None.
    """

    arguments: tuple[str, ...]
    options: RunOptions
    artefacts: tuple[str, ...] = ()
    metric: Metric | None = None

    @property
    def collected(self) -> tuple[str, ...]:
        """All files to collect from the container."""
        more = (self.metric.file,) if self.metric and self.metric.file else ()
        return (*self.artefacts, *more)

    @property
    def volumes(self) -> tuple[str, ...]:
        """Its mounts, read-only without `:rw`."""
        return tuple(text if text.endswith((":ro", ":rw")) else f"{text}:ro" for text in self.options.volumes)


@contextlib.contextmanager
def reserve_name(context: RunContext) -> Iterator[str]:
    """Yield the name of this search's images; no other process uses it."""
    folder = context.store.root / "making"
    folder.mkdir(parents=True, exist_ok=True)
    mark = hashlib.sha256(os.fsencode(context.store.root)).hexdigest()[:8]
    for number in range(MOST_SEARCHES):
        place = folder / hashlib.sha256(f"bisect {number}".encode()).hexdigest()
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            if try_lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield f"reprobuild-bisect:{mark}-{number}"
                return
        finally:
            os.close(descriptor)
    raise InconclusiveError(
        f"{MOST_SEARCHES} searches use the store {context.store.root}", hint="wait until one of them ends"
    )


class Laboratory:
    """The trials of one search."""

    def __init__(
        self, command: TrialCommand, engine: Engine, context: RunContext, name: str, *, afresh: bool = False,
        together: bool = False,
    ) -> None:  # fmt: skip
        """Read the contents of the mounts.

        Args:
            command, engine, context: of the trials.
            name: of their images.
            afresh: repeat remembered trials.
            together: threads run trials, and the main thread calls `save`.
        """
        self.command, self.engine, self.context = command, engine, context
        self.cancel = CancelToken()
        self._name, self._afresh, self._together = name, afresh, together
        self._loaded: dict[str, str] = {}
        self._guards: dict[str, threading.Lock] = {}
        self._unsaved: deque[tuple[str, Outcome]] = deque()
        volumes, _ = read_volumes(command.options.volumes)
        read_only = frozenset(
            inside for text, (_, inside) in zip(command.options.volumes, volumes, strict=True)
            if not text.endswith(":rw")
        )  # fmt: skip
        self._mounts = Mounts(volumes, read_only, context.say)

    def image_name(self, lock: Lock, part: str, say: Callable[[str], None] | None = None) -> str:
        """Load a lock's image if necessary, and return its name in the engine.

        Args:
            lock, part: as `runs` has them.
            say: gets the steps; that of the context by default.

        Raises:
            LockError, BuildError: the lock gives no image.
        """
        name, key = f"{self._name}-{part}", image_key(lock, self.context)
        with self._guards.setdefault(name, threading.Lock()):
            if self._loaded.get(name) != key:
                self._loaded.pop(name, None)
                context = msgspec.structs.replace(self.context, say=say or self.context.say)
                load_trial_image(lock, name, self.engine, context)
                self._loaded[name] = key
        return name

    def runs(
        self, lock: Lock, part: str = "trial", title: str = "the command", choices: MixtureChoices = _NO_CHOICES
    ) -> Runs:  # fmt: skip
        """Return the runs of a lock's image.

        Args:
            lock: of the image.
            part: of its name in the engine: `a`, `b` or `trial`; no other thread uses it.
            title: names it in steps.
            choices: saved choices of compilers, of which one must fit; empty for none.
        """
        image = image_key(lock, self.context)

        def run(number: int) -> Outcome:
            key = self._key(lock, image, number, choices)
            outcome = None if self._afresh else self._recall(key)
            if outcome is None:
                self.cancel.check()
                outcome = self._run(lock, part, title, choices)
                self.cancel.check()
                self._unsaved.append((key, outcome))
                if not self._together:
                    self.save()
            return outcome

        return run

    def save(self) -> None:
        """Remember the trials that ended.

        The main thread calls it: after a signal it does not, so that no program is remembered which the signal ended.
        """
        while self._unsaved:
            key, outcome = self._unsaved.popleft()
            self.context.store.remember(key, msgspec.to_builtins(outcome))

    def seed(self, lock: Lock) -> int:
        """Return the seed of the command in a lock's image."""
        seed = self.command.options.seed
        return check_seed(lock) if seed is None else seed

    def _task(self, lock: Lock, arguments: tuple[str, ...]) -> Task:
        """Return the task of a trial."""
        options = msgspec.structs.replace(
            self.command.options, volumes=self.command.volumes, seed=self.seed(lock)
        )
        return prepare(lock, arguments, options, self.context.env).task

    def _key(self, lock: Lock, image: str, number: int, choices: MixtureChoices) -> str:
        options = msgspec.to_builtins(self.command.options)
        task = self._task(lock, ())
        visible = {
            name: self.context.store.conceal(value) if name in task.hidden else value
            for name, value in task.environment.items()
        }
        facts = [
            "trial, 2", image, self.command.arguments, self.command.collected, sorted(visible.items()),
            sorted(task.hidden), options, [_mount_facts(record) for record in self._mounts.records],
            msgspec.to_builtins(self.command.metric), self.engine.NAME, machine_name(), number,
            *([choices.digests] if choices.files else []),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=list).encode()).hexdigest()

    def _recall(self, key: str) -> Outcome | None:
        """Return a remembered outcome with all its files, or None."""
        try:
            outcome = decode_value(self.context.store.recall(key), Outcome)
        except msgspec.ValidationError:
            return None
        if not all(map(self.context.store.has, outcome.files.values())):
            return None
        return msgspec.structs.replace(outcome, remembered=True)

    def _run(self, lock: Lock, part: str, title: str, choices: MixtureChoices) -> Outcome:
        """Run the command once in a new container.

        Raises:
            InconclusiveError: a mount changed since the search began.
        """
        began = time.monotonic()
        if why := choices.explain_misfit(lock, self._task(lock, ()), self.context.env):
            return Outcome(code=None, why=display_line(why))
        say = CountedSteps(self.context.say)
        try:
            name = self.image_name(lock, part, say)
        except (LockError, BuildError) as err:
            return Outcome(code=None, why=display_line(str(err)), setup=time.monotonic() - began)
        setup = time.monotonic() - began
        self.cancel.check()
        if say.count:  # the last step of the image is over
            self.context.say(f"running {title}")
        if changed := self._mounts.changed(writable=False):
            raise InconclusiveError(
                f"{changed[0]} while the search ran", hint="mount a copy that no other program changes"
            )
        return msgspec.structs.replace(self._run_container(lock, name, choices), setup=setup)

    def _run_container(self, lock: Lock, name: str, choices: MixtureChoices) -> Outcome:
        collected = self.command.collected
        arguments = self.command.arguments
        if collected:
            arguments = collecting_command(collected, arguments)
        task = msgspec.structs.replace(self._task(lock, arguments), cancel=self.cancel)
        began = time.monotonic()
        with self.context.store.scratch() as scratch:
            folder = scratch / "outputs"
            if collected:
                folder.mkdir()
                environment = {**task.environment, "REPROBUILD_RECORD": "0"}
                task = msgspec.structs.replace(task, environment=environment, outputs=OUTPUTS, kept=folder)
            with choices.mount(lock, task, self.context.env) as mounted:
                done = self.engine.run(name, mounted, self.context.env)
            seconds = time.monotonic() - began
            if not collected:
                number = self.command.metric.read_output(done.stdout) if self.command.metric else None
                return Outcome(code=done.code, number=number, seconds=seconds)
            return self._collect(folder, done.stdout, done.code, seconds)

    def _collect(self, folder: Path, output: bytes, code: int, seconds: float) -> Outcome:
        """Keep the files of a run in the store."""
        index, metric = read_index(folder), self.command.metric
        if index is None or index.failed:
            why = display_line(index.failed) if index else "the container left no list of its files"
            return Outcome(code=code if code else None, why=why, seconds=seconds)
        if holes := find_holes(folder, index):
            why = f"it wrote {describe_holes(holes)}"
            return Outcome(code=code if code else None, why=why, seconds=seconds)
        number = None
        if metric and metric.file:
            pattern = expand_output(metric.file)
            stored = [entry.stored for entry in index.files if entry.pattern == pattern and entry.stored]
            number = metric.read_file(folder / stored[0]) if stored else None
        elif metric:
            number = metric.read_output(output)
        names = [INDEX, *sorted({entry.stored for entry in index.files if entry.stored})]
        store = self.context.store
        if not self.command.artefacts:
            return Outcome(code=index.code, number=number, seconds=seconds)
        files = {name: store.adopt(folder / name) for name in names}
        rows = [(entry.path, entry.kind, entry.link, files.get(entry.stored, "")) for entry in index.files]
        content = hashlib.sha256(json.dumps(sorted(rows)).encode()).hexdigest()
        return Outcome(code=index.code, number=number, content=content, files=files, seconds=seconds)


def _mount_facts(mount: Mount) -> list[str]:
    """Return a mount's facts for the key of a trial.

    A mount without a digest is of this moment alone. A writable one changes with each trial, as the user allowed.
    """
    if mount.writable:
        return [mount.place]
    return [mount.place, mount.digest or f"{time.time_ns()}"]
