"""The native builder of images from sealed locks.

It turns a sealed lock and its store into an image, without network, engine or other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.layers.blobs import LEVEL, read_listing
from reprobuild.image.layers.layers import layer_listing, make_layer, make_layers, resolve_overlaps
from reprobuild.image.layers.plan import files_layer, plan
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.write import image_json, write_layout
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.lock.model import SealedLock
from reprobuild.recipe.image_config import creation_time, environ_file, image_config
from reprobuild.recipe.payload import origin_file
from reprobuild.store.store import Store


def build_image(
    lock: SealedLock,
    store: Store,
    out: Path,
    *,
    files: Mapping[str, bytes],
    reference: str,
    level: int = LEVEL,
    progress: Progress = ignore_progress,
    afresh: bool = False,
) -> Image:
    """Build a sealed lock's image as a layout `out/image`.

    Args:
        lock: the lock of the image.
        store: holds every artefact of the lock; the layers are kept there.
        out: the output directory.
        files: our own files, {path: content}. `environ.json` is added if it is needed and not given.
        reference: the image's name, as `--tag` gives it.
        level: of zstd; it changes the manifest, not the tree.
        progress: is told of each finished layer.
        afresh: each layer is laid out and packed again, even if the store has it.

    Raises:
        BuildError: an artefact is damaged, malicious, or overlaps with another.
        FetchError: the store lacks an artefact.
    """
    recipes = plan(lock, store)
    layers = make_layers(recipes, store, level=level, progress=progress, afresh=afresh)
    listings = [read_listing(layer, store) for layer in layers]
    for index, recipe in enumerate(resolve_overlaps(recipes, listings, store)):
        if recipe != recipes[index]:
            layers[index] = make_layer(recipe, store, level, afresh=afresh)
            listings[index] = read_listing(layers[index], store)
    own_files = _last_layer_files(lock, files)
    tree = merge(listings)
    layers.append(make_layer(files_layer(lock, own_files, tree), store, level, afresh=afresh))
    tree = merge([read_listing(layers[-1], store)], below=tree)

    config = image_config(lock)
    image = image_json(layers, config, lock.platform, creation_time(lock))
    written = write_layout(out / LAYOUT, store, layers, image, lock.platform, reference)
    return Image(
        layout=LAYOUT,
        reference=reference,
        tree=tree_digest(tree, config),
        config=written.config,
        manifest=written.manifest,
        layers=len(layers),
        lock=lock.digest,
    )


def find_stored_tree(lock: SealedLock, store: Store, files: Mapping[str, bytes]) -> Tree | None:
    """Return the image's tree from stored layers, or None.

    None means that the store lacks a layer. Only listings are read. Arguments and errors are those of
    `build_image`.
    """
    recipes = plan(lock, store)
    listings = []
    for recipe in recipes:
        if (listing := layer_listing(recipe, store)) is None:
            return None
        listings.append(listing)
    for index, recipe in enumerate(resolve_overlaps(recipes, listings, store)):
        if recipe != recipes[index]:
            if (listing := layer_listing(recipe, store)) is None:
                return None
            listings[index] = listing
    tree = merge(listings)
    last = layer_listing(files_layer(lock, _last_layer_files(lock, files), tree), store)
    return None if last is None else merge([last], below=tree)


def _last_layer_files(lock: SealedLock, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the files of the last layer.

    A file that records the origin of a source is in the layer of that source.
    """
    placed = {origin_file(source, lock)[0].strip("/") for source in lock.sources if source.watched}
    by_path = {path.strip("/"): content for path, content in files.items()}
    return {**environ_file(lock), **{path: by_path[path] for path in by_path.keys() - placed}}
