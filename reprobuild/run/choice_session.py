"""A run with the caches of its compilers, mounted from a private directory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.engines.model import Task
from reprobuild.errors import BuildError, UsageError
from reprobuild.image.choices.archive import ChoiceArchive, hash_files, pack, read_files, unpack
from reprobuild.image.choices.caches import MOUNT, CompilerCache, matches
from reprobuild.image.choices.generated import find_new_code, identify_code
from reprobuild.image.choices.measurements import (
    MeasuredFile,
    display_measurement,
    find_new_measurements,
    read_measured_files,
)
from reprobuild.image.choices.platform import ChoicePlatform
from reprobuild.image.choices.record import (
    CHOICES,
    CacheSize,
    ChoiceFile,
    SavedChoices,
    make_choice_file,
    read_choices,
    refuse_too_many,
    remember_accepted,
)
from reprobuild.infra.atomic import private_directory
from reprobuild.infra.untrusted.write_below import open_below, write_below
from reprobuild.lock.model import Lock
from reprobuild.store.keyring import StoreKeyring

USED = "REPROBUILD_CHOICES"  # the record of a job has this variable
_SHOWN = 5


class CacheState(Struct, frozen=True, kw_only=True):
    """The files of a cache's directory, by path.

    All files and compiled units have their hashes, and generated code has the hashes of `identify_code`.
    """

    hashes: dict[str, str] = {}
    measured: dict[str, MeasuredFile] = {}
    compiled: dict[str, str] = {}
    generated: dict[str, str] = {}


class Misses(Struct, frozen=True, kw_only=True):
    """The measurements and compiled units of a run that its saved choices did not have, or had otherwise.

    Generated code counts as compiled.
    """

    measured: tuple[str, ...]
    compiled: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.measured or self.compiled)

    def __str__(self) -> str:
        count = f"{len(self.measured)} new measurements, {len(self.compiled)} newly compiled files"
        shown = [display_measurement(line) for line in (*self.measured, *self.compiled)[:_SHOWN]]
        more = len(self.measured) + len(self.compiled) - len(shown)
        return "; ".join((count, *shown, *([f"and {more} more"] if more else ())))


class ChoiceSession:
    """The caches of one run.

    Args:
        lock: of the image.
        image: the digest of its configuration.
        folder: an empty private directory, which the container gets for writing.
        caches: the caches of the image, by consumer.
        platform: that of the run.
        used: the saved choices that the run begins with, if any.
    """

    def __init__(
        self,
        lock: Lock,
        image: str,
        folder: Path,
        caches: Mapping[str, CompilerCache],
        platform: ChoicePlatform,
        used: ChoiceFile | None,
    ) -> None:
        self._lock, self._image, self._folder = lock, image, folder
        self._caches, self._platform, self.used = caches, platform, used
        for name in caches:
            (folder / name).mkdir()
        if used:
            origin = f"the choices {used.name} ({used.archive})"
            unpack(used.open_archive, used.saved.archive, folder, lock.epoch, origin)
        self._before = self._read_state()

    def mount(self, task: Task) -> Task:
        """Return a task with the caches, and the variables that lead to them.

        The user of the caches is the caller, who then owns the new files.
        """
        variables: dict[str, str] = {}
        for name, cache in self._caches.items():
            variables |= cache.variables(name)
        used = self.used.digest if self.used else "none"
        return msgspec.structs.replace(
            task,
            volumes=(*task.volumes, (str(self._folder), MOUNT)),
            environment={**variables, **task.environment, USED: used},
            user=task.user or "caller",
        )

    def find_misses(self) -> Misses:
        """Return the misses of the run, after its end.

        Raises:
            UsageError: see `hash_files`.
        """
        before, after = self._before, self._read_state()
        compiled = [path for path, sha256 in after.compiled.items() if before.compiled.get(path) != sha256]
        generated = find_new_code(before.generated, after.generated)
        return Misses(
            measured=find_new_measurements(before.measured, after.measured),
            compiled=tuple(sorted((*compiled, *generated))),
        )

    def save(self, out: Path, known: StoreKeyring) -> ChoiceFile | None:
        """Save the caches into an output directory; return them, or None if they are empty.

        They replace those of the same platform, and those of other images.

        Raises:
            UsageError: see `hash_files`; there are choices of too many platforms; or no run could use these.
            BuildError: the directory of choices is a link.
            OSError: the output directory cannot be written.
        """
        state = self._read_state()
        if not state.hashes:
            return None
        files = read_choices(out)
        former = [
            file
            for file in files
            if file.saved.platform == self._platform
            or (file.saved.lock, file.saved.image) != (self._lock.digest, self._image)
        ]
        folder = out / CHOICES
        refuse_too_many(folder, len(files) - len(former) + 1)
        with private_directory(self._folder.parent) as scratch:
            archive = pack(self._folder, state.hashes, scratch / "archive", self._lock.epoch)
            _check_archive(scratch / "archive", archive)
            saved = SavedChoices(
                lock=self._lock.digest,
                image=self._image,
                archive=archive,
                platform=self._platform,
                caches={name: self._size(name, state) for name in self._caches},
            )
            file = make_choice_file(saved, folder)
            with (
                (scratch / "archive").open("rb") as source,
                open_below(out, f"{CHOICES}/{file.archive.name}", replace=True) as target,
            ):
                shutil.copyfileobj(source, target)
        write_below(out, f"{CHOICES}/{file.record.name}", file.document, replace=True)
        remember_accepted(file, known)
        _remove_former(former, read_choices(out), file)
        return file

    def _read_state(self) -> CacheState:
        hashes = hash_files(self._folder, self._is_kept)
        groups: dict[str, dict[str, str]] = {name: {} for name in ("measured", "compiled", "generated", "")}
        for path, sha256 in hashes.items():
            groups[self._group(path)][path] = sha256
        return CacheState(
            hashes=hashes,
            measured=read_measured_files(self._folder, groups["measured"]),
            compiled=groups["compiled"],
            generated=identify_code(self._folder, groups["generated"]),
        )

    def _is_kept(self, path: str) -> bool:
        name, _, below = path.partition("/")
        if (
            not below
        ):  # a command can put a file in the place of a cache's directory, which the next run makes
            return False
        return name in self._caches and not matches(self._caches[name].left_out, below)

    def _group(self, path: str) -> str:
        name, _, below = path.partition("/")
        cache = self._caches[name]
        table = {"measured": cache.measured, "compiled": cache.compiled, "generated": cache.generated}
        return next((group for group, patterns in table.items() if matches(patterns, below)), "")

    def _size(self, name: str, state: CacheState) -> CacheSize:
        above = f"{name}/"
        return CacheSize(
            measured=sum(len(file.values) for path, file in state.measured.items() if path.startswith(above)),
            compiled=sum(path.startswith(above) for path in state.compiled),
            files=sum(path.startswith(above) for path in state.hashes),
        )


def _check_archive(path: Path, archive: ChoiceArchive) -> None:
    """Read an archive as the next run does: a command can choose names that an archive must not have.

    Raises:
        UsageError: it would be refused.
    """
    try:
        for _ in read_files(path.open, archive, "its archive"):
            pass
    except BuildError as err:
        raise UsageError(
            f"no run could use the caches of this one: {err}",
            hint="run without --save-choices, or let the command make no such files in its caches",
        ) from None


def _remove_former(former: Sequence[ChoiceFile], all_files: Sequence[ChoiceFile], file: ChoiceFile) -> None:
    """Remove replaced choices, and their archives that no other record names."""
    replaced = {old.digest for old in former} - {file.digest}
    needed = {remaining.archive for remaining in all_files if remaining.digest not in replaced}
    for old in former:
        if old.digest in replaced:
            old.record.unlink(missing_ok=True)
        if old.archive not in needed:
            old.archive.unlink(missing_ok=True)


def refuse_without_caches(caches: Mapping[str, CompilerCache]) -> None:
    """Refuse to save choices of an image without a compiler.

    Raises:
        UsageError: no consumer of the table is in the image.
    """
    if not caches:
        raise UsageError(
            "--save-choices: no package of this image keeps choices of a compiler",
            hint="run without it; docs/choices.md lists the packages",
        )
