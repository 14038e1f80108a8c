"""rebuild: the image of a folder of results is made again from its lock, and compared with what the folder says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.compare.images.explain import ImageDiff, explain
from reprobuild.compare.images.tree import LEVELS
from reprobuild.context import RunContext
from reprobuild.errors import BuildError, EngineError, InconclusiveError, UsageError
from reprobuild.image.engine_name import own_name
from reprobuild.image.formats.single_file import KINDS, Kind, filename
from reprobuild.image.formats.squashfs_read import compressor_of
from reprobuild.image.formats.squashfs_write import Compressor, find_program
from reprobuild.image.model import Image
from reprobuild.infra.untrusted.regular_files import holds, read_plain
from reprobuild.lock.diff import Change, compare_locks
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, read_image
from reprobuild.pipeline.from_snapshot import BuildOptions, build
from reprobuild.pipeline.rebuild.causes import RECIPE, reasons
from reprobuild.pipeline.rebuild.integrity import Integrity, read_integrity
from reprobuild.pipeline.rebuild.resume import working_in
from reprobuild.realise.realise import is_realised
from reprobuild.store.fetch import of_image
from reprobuild.store.roots import keeping
from reprobuild.store.salvage import take_context

Level = Literal["tree", "config", "manifest", "all"]
# From where on two images count as equal: what programs see, also the configuration, the packing, the single files.
ACCEPTED: tuple[Level, ...] = ("tree", "config", "manifest", "all")
SUFFIX = "-rebuilt"
_LARGEST_TEXT = 64 << 20  # of a recipe that was just rendered


class Row(Struct, frozen=True, kw_only=True):
    """One digest: as the folder of results says it, and as it came out now; empty for what was not made.

    `damage` says why the folder's own bytes are not of the digest that it states; such a digest is never the same.
    """

    name: str
    then: str
    now: str
    damage: str = ""

    @property
    def differs(self) -> bool:
        """Return whether the folder's bytes are others than those that came out, or than those that it states."""
        return bool(self.damage) or (self.now != "" and self.then != self.now)


class RebuildResult(Struct, frozen=True, kw_only=True):
    """What became of a rebuild.

    `rows` are the digests of `tree`, `config`, `manifest` and the single files; `lock` is that of the sealed lock.
    `inputs` are what the two locks say differently, `recipe` the files of the recipe that are written differently,
    `reasons` the whole in words, and `explanation` what differs file by file, where both images could be read.
    `not_made` says of a single file why there is none, `absent` of which digests the folder of results has no bytes.
    """

    out: str
    rebuilt: str
    lock: Row
    rows: tuple[Row, ...]
    inputs: tuple[Change, ...] = ()
    recipe: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    not_made: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    explanation: ImageDiff | None = None

    def counted(self, level: Level) -> tuple[Row, ...]:
        """Return the digests up to a level."""
        return self.rows if level == "all" else self.rows[: LEVELS.index(level)]

    def same(self, level: Level = "all") -> bool:
        """Return whether nothing up to a level differs, as far as it was made."""
        return not any(row.differs for row in self.counted(level))

    def exit_code(self, level: Level = "all") -> int:
        """Return 0 where nothing up to a level differs, 1 where something does, and 9 where some was not made."""
        if not self.same(level):
            return 1
        return 0 if all(row.now for row in self.counted(level)) else InconclusiveError.exit_code


def rebuild(out: Path, target: Path | None, session: RunContext, builder: str | None = None) -> RebuildResult:
    """Make the image of a folder of results again from its lock, in a fresh folder, and compare the digests.

    Files that the store lacks are taken from the folder's own context, and fetched only where that lacks them, too.
    What was realised is taken as it is kept, and made again where it is kept nowhere. Each layer is laid out and packed
    again: one that the store remembers would be compared with itself.

    Args:
        out: the folder of results; nothing in it is changed.
        target: the new folder; None for one beside it. Where this rebuild was interrupted in it, it goes on.
        session: its net decides whether anything may be fetched.
        builder: what makes the image; None for what made the first one.

    Raises:
        UsageError: the folder holds no image, or the new folder has something else in it.
        FetchError: an input is gone.
        BuildError, EngineError: see `pipeline.build`.
    """
    lock, image = read_image(out)
    path = out.absolute()
    new = target or path.with_name(path.name + SUFFIX)
    with working_in(new, lock, links=target is not None):
        session.say(f"reading the image in {out}")
        integrity = read_integrity(out, image)
        sealed, made, not_made = _make(out, new, (lock, image), session, builder)
    found = _compare((out, new), (lock, sealed), (image, made), integrity)
    return _explained(msgspec.structs.replace(found, not_made=not_made), session)


def _make(
    out: Path, new: Path, before: tuple[Lock, Image], session: RunContext, builder: str | None
) -> tuple[Lock, Image, tuple[str, ...]]:
    """Make the image again; return the sealed lock, the image, and which single files were not made, and why."""
    lock, image = before
    if taken := take_context(out, lock, session.store):
        session.say(f"{taken} files that the store lacks were taken from {out / 'context'}")
    _say_what_is_needed(lock, session)
    session.say("each layer is laid out and packed again: this takes as long as a first build")
    kinds, not_made = _singles(image, session.env)
    making = BuildOptions(
        tag=_own_name(image, lock), builder=builder or image.builder, singles=kinds,
        compressor=_compressor(out, kinds), afresh=True,
    )  # fmt: skip
    with keeping(lock, new / LOCK, session.store, "rebuild"):
        return *build(lock, new, session, making, exact=False), not_made


def _say_what_is_needed(lock: Lock, session: RunContext) -> None:
    store = session.store
    if lock.realised is None or not is_realised(lock, store):
        session.say("outputs of what was run once are not kept here: they are made again, and compared")
        return
    missing = [file.filename for file in of_image(lock) if not store.has(file.sha256)]
    session.say(f"to fetch: {len(missing)} files" if missing else "every input is here: no network is needed")


def _own_name(image: Image, lock: Lock) -> str | None:
    """Return the name of the image where somebody chose it; another follows from the lock."""
    return None if image.reference == own_name(lock.digest) else image.reference


def _singles(image: Image, env: Mapping[str, str]) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Return the single files to make, and why others cannot be made here."""
    wanted = tuple(kind for kind in KINDS if getattr(image, kind))
    try:
        if wanted:
            find_program(env)
    except EngineError as err:
        return (), tuple(f"{filename(kind)} was not made: {err}" for kind in wanted)
    return wanted, ()


def _compressor(out: Path, kinds: tuple[Kind, ...]) -> Compressor:
    """Return what compressed the folder's own files, as far as one is there to be read."""
    found = [compressor_of(out / filename(kind)) for kind in kinds if (out / filename(kind)).is_file()]
    return next((one for one in found if one), "zstd")


def _compare(
    folders: tuple[Path, Path], locks: tuple[Lock, Lock], images: tuple[Image, Image], integrity: Integrity
) -> RebuildResult:
    """Return the digests of both images, and of what was read of the first one."""
    names = [*LEVELS[1:], *(kind for kind in KINDS if getattr(images[0], kind))]
    then, now = images
    rows = tuple(
        Row(
            name=name, then=getattr(then, name), now=getattr(now, name), damage=integrity.damage.get(name, ""),
        )
        for name in names
    )  # fmt: skip
    return RebuildResult(
        out=str(folders[0]), rebuilt=str(folders[1]), rows=rows, absent=integrity.absent,
        lock=Row(name="lock", then=f"sha256:{locks[0].digest}", now=f"sha256:{locks[1].digest}"),
        inputs=tuple(compare_locks(*locks)), recipe=_other_recipe(*folders),
    )  # fmt: skip


def _explained(found: RebuildResult, session: RunContext) -> RebuildResult:
    """Return a comparison with the reasons for what differs; a first image that is damaged is not read again."""
    explanation, why = None, ""
    if any(row.damage for row in found.rows if row.name == "tree"):
        why = f"the image in {found.out} is damaged"
    elif not found.same("manifest"):
        try:
            explanation = explain(found.out, found.rebuilt, session.env, session.say)
        except (UsageError, EngineError, BuildError) as err:  # of the first image, which may be gone
            why = str(err)
    if explanation:
        found = msgspec.structs.replace(found, rows=_read_rows(found.rows, explanation.one.tree))
    elif why and "tree" not in found.absent:
        found = msgspec.structs.replace(found, rows=_unread_rows(found.rows, why))
    differing = [row.name for row in found.rows if row.now and row.then != row.now]
    damage = tuple(row.damage for row in found.rows if row.damage)
    return msgspec.structs.replace(
        found, explanation=explanation,
        reasons=(*damage, *reasons(differing, found.inputs, found.recipe, why)),
    )  # fmt: skip


def _read_rows(rows: tuple[Row, ...], tree: str) -> tuple[Row, ...]:
    """Return the rows, held against the tree that the layers of the first image really hold."""
    damage = f"the layers hold the tree {tree}, and image.json states another"
    return tuple(
        msgspec.structs.replace(row, damage=damage) if row.name == "tree" and row.then != tree else row
        for row in rows
    )


def _unread_rows(rows: tuple[Row, ...], why: str) -> tuple[Row, ...]:
    """Return the rows; the tree of an image that could not be read is only claimed."""
    return tuple(
        msgspec.structs.replace(row, damage=row.damage or why) if row.name == "tree" else row for row in rows
    )


def _other_recipe(out: Path, new: Path) -> tuple[str, ...]:
    """Return the files of the recipe that are not the same in both folders; one that is not there is not compared."""
    return tuple(
        name for name in RECIPE
        if (out / name).is_file() and not holds(out / name, read_plain(new / name, _LARGEST_TEXT))
    )  # fmt: skip
