"""The command `rebuild`: make an image again and compare it.

The image of an output directory is made again from its lock and compared with the digests stated there.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.builders.registry import BUILDERS
from reprobuild.compare.images.explain import ImageDiff, compare_images
from reprobuild.compare.images.tree import LEVELS
from reprobuild.context import RunContext
from reprobuild.errors import BuildError, EngineError, InconclusiveError, UsageError
from reprobuild.image.engine_name import own_name, received_name
from reprobuild.image.formats.single_file import KINDS, Kind, single_file_name
from reprobuild.image.formats.squashfs_read import compressor_of
from reprobuild.image.formats.squashfs_write import Compressor, find_program
from reprobuild.image.model import NATIVE, Image
from reprobuild.infra.untrusted.regular_files import has_content, read_plain
from reprobuild.lock.diff import Change, compare_locks
from reprobuild.lock.model import Lock, SealedLock, unseal
from reprobuild.output.directory import LOCK, engine_name, is_built_here, read_image
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.from_lock import build_from_lock
from reprobuild.pipeline.rebuild.causes import RECIPE, explain_differences
from reprobuild.pipeline.rebuild.integrity import Integrity, read_integrity
from reprobuild.pipeline.rebuild.resume import prepare_directory
from reprobuild.realise.realise import is_realised, list_foreign_outputs
from reprobuild.store.fetch import list_image_files
from reprobuild.store.roots import gc_root
from reprobuild.store.salvage import take_context

Level = Literal["tree", "config", "manifest", "all"]
# Levels at which two images count as equal: the tree for programs, then the configuration, the packing, the files.
ACCEPTED: tuple[Level, ...] = ("tree", "config", "manifest", "all")
SUFFIX = "-rebuilt"
_LARGEST_TEXT = 64 << 20  # of a recipe that was just rendered


class Row(Struct, frozen=True, kw_only=True):
    """One digest, as stated and as rebuilt.

    `now` is empty if the form was not made.

    `damage` is the reason if the directory's own bytes do not match the stated digest; such a digest always differs.
    """

    name: str
    then: str
    now: str
    damage: str = ""

    @property
    def differs(self) -> bool:
        """Whether the stated digest differs from the new one or its bytes."""
        return bool(self.damage) or (self.now != "" and self.then != self.now)


class RebuildResult(Struct, frozen=True, kw_only=True):
    """The result of a rebuild.

    `builders` are the stated builder of the first image and that of the new one.
    `rows` are the digests of `tree`, `config`, `manifest` and the single files; `lock` is that of the sealed lock.
    `inputs` are the differences of the two locks, `recipe` the recipe files that differ, `reasons` a summary in words,
    and `explanation` the differences file by file, if both images could be read. `not_made` has the reason for each
    single file that was not made, `absent` the digests without bytes in the output directory. `taken` has the realised
    outputs that are as the first image's lock states them, and that this store did not make.
    """

    out: str
    rebuilt: str
    builders: tuple[str, str]
    lock: Row
    rows: tuple[Row, ...]
    inputs: tuple[Change, ...] = ()
    recipe: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    not_made: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    taken: tuple[str, ...] = ()
    explanation: ImageDiff | None = None

    def counted(self, level: Level) -> tuple[Row, ...]:
        """Return the digests up to a level."""
        return self.rows if level == "all" else self.rows[: LEVELS.index(level)]

    def is_same(self, level: Level = "all") -> bool:
        """Return whether all digests up to a level are equal.

        Digests of forms that were not made are ignored.
        """
        return not any(row.differs for row in self.counted(level))

    def exit_code(self, level: Level = "all") -> int:
        """Return the exit code for the digests up to a level.

        It is 0 if all are equal, 1 if one differs, and 9 if one was not made.
        """
        if not self.is_same(level):
            return 1
        return 0 if all(row.now for row in self.counted(level)) else InconclusiveError.exit_code


def rebuild(
    out: Path, target: Path | None, context: RunContext, builder: str | None = None, *, afresh: bool = False
) -> RebuildResult:
    """Rebuild an image from its lock and compare the digests.

    The rebuild takes place in a fresh directory.

    Files that the store lacks are taken from the directory's own context, and fetched only if the context also lacks
    them. Realised outputs are used if they are kept, else made again. Each layer is laid out and packed again: one that
    the store remembers would be compared with itself.

    Args:
        out: the output directory; it is not changed.
        target: the new directory; None for one beside it. An interrupted rebuild in it is resumed.
        context: its net decides whether anything may be fetched.
        builder: the program that makes the image; None for the one that made the first image, if it was built here,
            else the native builder.
        afresh: realised outputs that the store did not make are made again, even if they are kept.

    Raises:
        UsageError: the directory holds no image, or the new directory has other contents.
        FetchError: an input is no longer available.
        BuildError, EngineError: see `pipeline.build`.
    """
    lock, image = read_image(out)
    path = out.absolute()
    new = target or path.with_name(path.name + SUFFIX)
    builder = builder or _choose_builder(out, image, context)
    with prepare_directory(new, lock, links=target is not None):
        context.say(f"reading the image in {out}")
        integrity = read_integrity(out, image)
        before = unseal(lock) if afresh else lock
        sealed, new_image, not_made = _rebuild_image(out, new, (before, image), context, builder)
    result = _compare((out, new), (lock, sealed), (image, new_image), integrity)
    taken = list_foreign_outputs(sealed, context.store)
    return _add_reasons(msgspec.structs.replace(result, not_made=not_made, taken=taken), context)


def _choose_builder(out: Path, image: Image, context: RunContext) -> str:
    """Return the builder of an image that was built here, else the native one.

    Other builders run code of the lock outside the sandbox, and only the user may choose that.
    """
    if image.builder == NATIVE or is_built_here(image, out, context.store):
        return image.builder
    option = (
        f"; `--builder {shlex.quote(image.builder)}` uses that builder, which runs code of the lock outside the sandbox"
        if image.builder in BUILDERS else ""
    )  # fmt: skip
    context.say(
        f"{out} states the builder {image.builder!r} and was not built here: the native builder makes the image{option}"
    )
    return NATIVE


def _rebuild_image(
    out: Path, new: Path, before: tuple[Lock, Image], context: RunContext, builder: str
) -> tuple[SealedLock, Image, tuple[str, ...]]:
    """Rebuild the image and its single files.

    Return the sealed lock, the image, and a reason for each single file that was not made.
    """
    lock, image = before
    if taken := take_context(out, lock, context.store):
        context.say(f"{taken} files that the store lacks were taken from {out / 'context'}")
    _report_needs(lock, context)
    context.say("each layer is laid out and packed again: this takes as long as a first build")
    kinds, not_made = _choose_singles(image, context.env)
    making = BuildOptions(
        tag=_chosen_name(image, lock, out, context), builder=builder, singles=kinds,
        compressor=_compressor(out, kinds), afresh=True,
    )  # fmt: skip
    with gc_root(lock, new / LOCK, context.store, "rebuild"):
        return *build_from_lock(lock, new, context, making, exact=False), not_made


def _report_needs(lock: Lock, context: RunContext) -> None:
    store = context.store
    if not isinstance(lock, SealedLock):
        context.say("outputs of steps that this store did not make are made again, and compared")
        return
    if not is_realised(lock, store):
        context.say("outputs of what was run once are not kept here: they are made again, and compared")
        return
    missing = [file.filename for file in list_image_files(lock) if not store.has(file.sha256, file.size)]
    context.say(f"to fetch: {len(missing)} files" if missing else "every input is here: no network is needed")


def _chosen_name(image: Image, lock: Lock, out: Path, context: RunContext) -> str | None:
    """Return the image's name if the user chose it here.

    Return None for a name that follows from the lock; a foreign directory's own name counts no more than in an engine.
    """
    name = engine_name(lock, image, out, context.store, context.say)
    return None if name in (own_name(lock.digest), received_name(lock.digest, image.manifest)) else name


def _choose_singles(image: Image, env: Mapping[str, str]) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Return the single files to make, and reasons against the others."""
    kinds = tuple(kind for kind in KINDS if getattr(image, kind))
    try:
        if kinds:
            find_program(env)
    except EngineError as err:
        return (), tuple(f"{single_file_name(kind)} was not made: {err}" for kind in kinds)
    return kinds, ()


def _compressor(out: Path, kinds: tuple[Kind, ...]) -> Compressor:
    """Return the compressor of the directory's own single files."""
    compressors = [
        compressor_of(out / single_file_name(kind))
        for kind in kinds
        if (out / single_file_name(kind)).is_file()
    ]
    return next((compressor for compressor in compressors if compressor), "zstd")


def _compare(
    folders: tuple[Path, Path], locks: tuple[Lock, Lock], images: tuple[Image, Image], integrity: Integrity
) -> RebuildResult:
    """Compare the digests of both images.

    `integrity` is the result of reading the first one.
    """
    names = [*LEVELS[1:], *(kind for kind in KINDS if getattr(images[0], kind))]
    then, now = images
    rows = tuple(
        Row(
            name=name, then=getattr(then, name), now=getattr(now, name), damage=integrity.damage.get(name, ""),
        )
        for name in names
    )  # fmt: skip
    return RebuildResult(
        out=str(folders[0]), rebuilt=str(folders[1]), builders=(then.builder, now.builder), rows=rows,
        absent=integrity.absent,
        lock=Row(name="lock", then=f"sha256:{locks[0].digest}", now=f"sha256:{locks[1].digest}"),
        inputs=tuple(compare_locks(*locks)), recipe=_differing_recipe_files(*folders),
    )  # fmt: skip


def _add_reasons(result: RebuildResult, context: RunContext) -> RebuildResult:
    """Add the reasons for all differences to a comparison.

    A first image that is damaged is not read again.
    """
    explanation, why = None, ""
    if any(row.damage for row in result.rows if row.name == "tree"):
        why = f"the image in {result.out} is damaged"
    elif not result.is_same("manifest"):
        try:
            explanation = compare_images(result.out, result.rebuilt, context.env, context.say)
        except (UsageError, EngineError, BuildError) as err:  # of the first image, which may be missing
            why = str(err)
    if explanation:
        result = msgspec.structs.replace(result, rows=_read_rows(result.rows, explanation.one.tree))
    elif why and "tree" not in result.absent:
        result = msgspec.structs.replace(result, rows=_mark_unread_rows(result.rows, why))
    differing = [row.name for row in result.rows if row.now and row.then != row.now]
    damage = tuple(row.damage for row in result.rows if row.damage)
    return msgspec.structs.replace(
        result, explanation=explanation,
        reasons=(*damage, *explain_differences(differing, result.inputs, result.recipe, why, result.builders)),
    )  # fmt: skip


def _read_rows(rows: tuple[Row, ...], tree: str) -> tuple[Row, ...]:
    """Compare the rows with the tree in the first image's layers."""
    damage = f"the layers hold the tree {tree}, and image.json states another"
    return tuple(
        msgspec.structs.replace(row, damage=damage) if row.name == "tree" and row.then != tree else row
        for row in rows
    )


def _mark_unread_rows(rows: tuple[Row, ...], why: str) -> tuple[Row, ...]:
    """Mark the tree of an unreadable image as unverified."""
    return tuple(
        msgspec.structs.replace(row, damage=row.damage or why) if row.name == "tree" else row for row in rows
    )


def _differing_recipe_files(out: Path, new: Path) -> tuple[str, ...]:
    """Return the recipe files that differ between two directories.

    A file that is missing in the first one is not compared.
    """
    return tuple(
        name for name in RECIPE
        if (out / name).is_file() and not has_content(out / name, read_plain(new / name, _LARGEST_TEXT))
    )  # fmt: skip
