"""The image of a sealed lock, and its record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.builders.native import build_image
from reprobuild.builders.registry import build_foreign
from reprobuild.builders.tree_check import make_tree_check
from reprobuild.context import RunContext
from reprobuild.image.engine_name import own_name
from reprobuild.image.formats.single_file import Kind, keep_matching_singles, remember_singles, write_singles
from reprobuild.image.formats.squashfs_write import Compressor
from reprobuild.image.model import NATIVE, Image
from reprobuild.infra.atomic import write_file
from reprobuild.lock.model import SealedLock
from reprobuild.output.directory import IMAGE, find_former_image, is_built_here, remember_built, remember_tree
from reprobuild.output.foreign import set_aside
from reprobuild.pipeline.render import Recipe
from reprobuild.recipe.build_context import write_context


class BuildOptions(Struct, frozen=True, kw_only=True):
    """Options for making the image.

    `tag` is its name (by default, a name that follows from the lock), and `builder` the program that makes it.

    `singles` are the single-file forms to write beside its layout, and `compressor` is for these. If `afresh` is set,
    the native builder lays out and packs each layer again, even if the store remembers the layer; other builders always
    do.
    """

    tag: str | None = None
    builder: str = NATIVE
    singles: tuple[Kind, ...] = ()
    compressor: Compressor = "zstd"
    afresh: bool = False


def build(sealed: SealedLock, recipe: Recipe, out: Path, context: RunContext, options: BuildOptions) -> Image:
    """Write recipe, context, image and single files into `out`, and return the image.

    A former image of other bytes is set aside.
    """
    for name, text in recipe.texts.items():
        if name != "requirements.txt":
            write_file(out / name, text.encode())
    context.say("image: layers and OCI layout")
    former = find_former_image(out)
    if former and former.lock != sealed.digest:
        context.say(f"this image replaces the image of lock sha256:{former.lock} in {out}")
    image = _write_layout(sealed, recipe, out, context, options)
    remember_tree(image, context.store)
    image = _write_record(keep_matching_singles(image, former, out, context.store, context.say), out)
    if former is None or former.tree != image.tree or not is_built_here(former, out, context.store):
        set_aside(out, context.say)
    remember_built(image, out, context.store)
    if options.singles:
        digests = write_singles(
            image, out, options.singles, recipe.texts["Apptainer.def"], context.env, context.say,
            compressor=options.compressor,
        )  # fmt: skip
        image = _write_record(msgspec.structs.replace(image, **digests), out)
        remember_singles(image, context.store)
    return image


def _write_layout(
    sealed: SealedLock, recipe: Recipe, out: Path, context: RunContext, options: BuildOptions
) -> Image:
    """Write the context, and make the image from it or beside it."""
    store, files, texts = context.store, dict(recipe.payload), dict(recipe.texts)
    reference = options.tag or own_name(sealed.digest)
    if options.builder == NATIVE:
        with ThreadPoolExecutor(1) as pool:  # most of either is hashing, which lets other threads run
            written = pool.submit(write_context, sealed, store, out, texts)
            image = build_image(
                sealed,
                store,
                out,
                files=files,
                reference=reference,
                afresh=options.afresh,
                progress=context.progress,
            )
            written.result()
        return image
    write_context(sealed, store, out, texts)
    image = build_foreign(
        options.builder, out, platform=sealed.platform, epoch=sealed.epoch, reference=reference, env=context.env,
        say=context.say, check=make_tree_check(sealed, store, files, options.builder, context.say),
    )  # fmt: skip
    return msgspec.structs.replace(image, lock=sealed.digest)


def _write_record(image: Image, out: Path) -> Image:
    write_file(out / IMAGE, msgspec.json.format(msgspec.json.encode(image)) + b"\n")
    return image
