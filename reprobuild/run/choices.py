"""Selection of saved choices for a run."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct, structs

from reprobuild.engines.gpu import gpu_ids
from reprobuild.engines.image_records import open_user_directory
from reprobuild.engines.model import Task
from reprobuild.errors import InconclusiveError, ReproError, UsageError
from reprobuild.image.choices.caches import CompilerCache, find_caches
from reprobuild.image.choices.platform import ChoicePlatform, VisibleGpus, find_platform, list_differences
from reprobuild.image.choices.record import CHOICES, ChoiceFile, is_accepted, read_choices, remember_accepted
from reprobuild.infra.atomic import private_directory
from reprobuild.infra.display import display_error
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.strings import Sha256, is_valid
from reprobuild.infra.untrusted.write_below import refuse_link
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK
from reprobuild.resolve.cuda.nvidia_smi import query_gpus
from reprobuild.run.choice_session import ChoiceSession, refuse_without_caches
from reprobuild.run.options import OFF, STRICT, RunOptions
from reprobuild.store.keyring import StoreKeyring

Say = Callable[[str], None]
FOLDER = "reprobuild-choices"  # in the user's cache: no other user can exchange its code


class ChoiceUse(Struct, frozen=True, kw_only=True):
    """The image of a run with choices, and the options.

    `image` is the digest of its configuration, which was compared with that of its layout; it is empty if the directory
    has no layout. `known` are the keys that the user trusts, beside which accepted choices are recorded.
    """

    out: Path
    lock: Lock
    image: str
    known: StoreKeyring
    options: RunOptions
    say: Say

    @contextlib.contextmanager
    def open(
        self, task: Task, frozen: Mapping[str, str], env: Mapping[str, str]
    ) -> Iterator[ChoiceSession | None]:
        """Yield a session for a task, or None if no cache is mounted.

        Args:
            task: the task.
            frozen: the variables of the image.
            env: the environment of this process.

        Raises:
            UsageError: saved choices are required and do not fit, or a record is damaged.
            BuildError: an archive is damaged.
            EngineError: the user has no private directory for caches.
        """
        options = self.options
        files = () if options.choices == OFF else read_choices(self.out)
        if not files and not options.save_choices:
            if options.choices == STRICT:
                raise UsageError(
                    f"--choices strict: {self.out} has no saved choices",
                    hint=f"save those of a run: `reprobuild run {quote_path(self.out)} --save-choices -- CMD`",
                )
            yield None
            return
        caches = self._find_caches(task, frozen)
        if options.save_choices:
            refuse_link(self.out / CHOICES, "the choices")
            refuse_without_caches(caches)
            self._refuse_unknown_image()
        platform = find_run_platform(self.lock, task, frozen, env)
        used = self._select(files, platform)
        if used is None and not options.save_choices:
            yield None
            return
        with private_directory(open_user_directory(env, FOLDER, "choices of compilers")) as folder:
            session = ChoiceSession(self.lock, self.image, folder, caches, platform, used)
            if used:
                self.say(f"choices {used.name}: {describe_choices(used)}")
            yield session

    def find_used(self, task: Task, frozen: Mapping[str, str], env: Mapping[str, str]) -> ChoiceFile | None:
        """Return the saved choices that a task would begin with, or None, with the reasons in the log.

        Args:
            task, frozen, env: as `open` has them.

        Raises:
            UsageError: a record is damaged.
        """
        files = () if self.options.choices == OFF else read_choices(self.out)
        if not files:
            return None
        lenient = structs.replace(self, options=RunOptions())
        return lenient._select(files, find_run_platform(self.lock, task, frozen, env))

    def _refuse_unknown_image(self) -> None:
        """Refuse to save choices of an image that is known to the engine alone."""
        if not self.image:
            raise UsageError(
                f"--save-choices: {self.out} holds no layers, so that the choices cannot name the image",
                hint=f"make them: `reprobuild build {quote_path(self.out / LOCK)} -o {quote_path(self.out)}`",
            )

    def _find_caches(self, task: Task, frozen: Mapping[str, str]) -> dict[str, CompilerCache]:
        """Return the caches of the image, without those that the user places."""
        caches = {}
        for name, cache in find_caches(self.lock).items():
            if cache.variable in task.environment:
                self.say(f"{cache.variable} is given, so the choices of {name} are neither used nor saved")
                continue
            if cache.variable in frozen:
                self.say(f"{cache.variable}: the place of saved choices is used, and not the frozen one")
            caches[name] = cache
        return caches

    def _select(self, files: tuple[ChoiceFile, ...], platform: ChoicePlatform) -> ChoiceFile | None:
        """Return the choices for a platform, or None with the reason in the log.

        Raises:
            UsageError: they are required, and there are none.
        """
        reasons = []
        trusted = _read_trusted(self.options.trusted_choices, files)
        for file in files:
            if file.saved.lock != self.lock.digest:
                reasons.append(
                    f"choices {file.name} are of another image, with the lock {file.saved.lock[:12]}"
                )
            elif file.saved.image != self.image:
                here = f"this one is {self.image[:19]}" if self.image else "the directory holds no layers"
                reasons.append(
                    f"choices {file.name} are of another image with the same lock, {file.saved.image[:19]}; {here}"
                )
            elif differences := list_differences(file.saved.platform, platform):
                reasons.append(f"choices {file.name} are of another platform: {'; '.join(differences)}")
            elif not self._is_trusted(file, trusted):
                reasons.append(
                    f"choices {file.name} were not saved here, and they are code: `reprobuild run "
                    f"{quote_path(self.out)} --trust-choices {file.digest} -- CMD` accepts them"
                )
            else:
                return file
        if self.options.choices == STRICT and not self.options.save_choices:
            raise UsageError(
                f"--choices strict: {'; '.join(reasons)}",
                hint="save choices on this platform with --save-choices, or run with --choices auto",
            )
        for reason in reasons:
            self.say(f"not used: {reason}")
        return None

    def _is_trusted(self, file: ChoiceFile, trusted: frozenset[str]) -> bool:
        """Return whether choices were saved here, or the user accepted them, now or before."""
        if file.digest in trusted:
            remember_accepted(file, self.known)
            return True
        return is_accepted(file, self.known)

    def finish(self, session: ChoiceSession, code: int) -> None:
        """Report the misses of a run, and save its choices if it was asked for and the run succeeded.

        A failure to save is reported, and no error: the command has succeeded.

        Raises:
            InconclusiveError: the saved choices are required to be complete, and were not.
        """
        saving = self.options.save_choices and not code
        try:
            misses = session.find_misses()
            saved = session.save(self.out, self.known) if saving else None
        except (ReproError, OSError) as err:
            if self.options.choices == STRICT and not code:
                raise
            self.say(f"warning: the choices of this run are not known, and not saved: {display_error(err)}")
            return
        if session.used:
            self.say(f"choices {session.used.name}: {misses if misses else 'no miss'}")
        if self.options.save_choices:
            self.say(_describe_saved(saved, code))
        elif misses and self.options.choices == STRICT and not code:
            raise InconclusiveError(
                f"--choices strict: the run was not one of its saved choices alone: {misses}",
                hint="add the new ones with --save-choices, if this is the same command on the same data",
            )


def _read_trusted(digests: tuple[str, ...], files: tuple[ChoiceFile, ...]) -> frozenset[str]:
    """Return the digests of `--trust-choices`.

    Raises:
        UsageError: one is no digest, or of no choices.
    """
    known = frozenset(file.digest for file in files)
    for digest in digests:
        if not is_valid(digest, Sha256) or digest not in known:
            raise UsageError(
                f"--trust-choices {digest}: there are no such choices",
                hint=f"those of this directory: {', '.join(sorted(known)) or 'none'}",
            )
    return frozenset(digests)


def find_run_platform(
    lock: Lock, task: Task, frozen: Mapping[str, str], env: Mapping[str, str]
) -> ChoicePlatform:
    """Return the platform of a task in a lock's image; `frozen` are the variables of the image."""
    return find_platform(lock, _find_gpus(env, task.gpus), {**frozen, **task.environment})


def _find_gpus(env: Mapping[str, str], option: str) -> VisibleGpus | None:
    """Return the GPUs of this machine that a run gets, or None for a run without a GPU."""
    if not option:
        return None
    here = query_gpus(env)
    ids = {part for name in gpu_ids(option) for part in (name, re.sub(r".*=", "", name))}
    chosen = tuple(gpu for gpu in here.found if {gpu.index, gpu.uuid} & ids) or here.found
    return VisibleGpus(
        models=tuple(f"{gpu.name} {gpu.capability}".strip() for gpu in chosen), driver=here.driver
    )


def _describe_saved(file: ChoiceFile | None, code: int) -> str:
    """Return the message on the choices of a command that ended with a code."""
    if code:
        return f"the choices are not saved: the command ended with {code}"
    if file is None:
        return "no choices are saved: the command compiled and measured nothing"
    archive = file.saved.archive
    return f"choices {file.name} saved: {archive.files} files, {archive.size} bytes packed"


def describe_choices(file: ChoiceFile) -> str:
    """Return the sizes of the caches of saved choices."""
    caches = [
        f"{name} ({size.measured} measurements, {size.compiled} compiled files)"
        for name, size in sorted(file.saved.caches.items())
        if size.files
    ]
    return ", ".join(caches)
