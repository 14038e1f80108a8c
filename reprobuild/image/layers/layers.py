"""Layers: made from their plans, or reused.

A layer is a function of only its plan.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import msgspec

from reprobuild.errors import FetchError
from reprobuild.image.layers.blobs import LEVEL, Layer, copy_layer, read_listing, write_layer
from reprobuild.image.layers.content import (
    LayerItem,
    arrange_items,
    conflict_error,
    link_item,
    tar_items,
    text_item,
)
from reprobuild.image.layers.plan import BasePart, GivenPart, LayerPlan, TarPart, WheelPart
from reprobuild.image.layers.wheel import wheel_entries
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.flock import hold_file_lock
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.names import check_path
from reprobuild.store.store import Store

WORKERS = 2


@contextlib.contextmanager
def layer_items(layer_plan: LayerPlan, store: Store) -> Iterator[list[LayerItem]]:
    """Yield the sorted items of a plan, one a path.

    All parents are included.

    Raises:
        BuildError: a part is damaged, malicious, or writes a path that another fills differently.
        FetchError: the store lacks a part.
    """
    with contextlib.ExitStack() as stack:
        items: list[LayerItem] = []
        for part in layer_plan.parts:
            match part:
                case WheelPart():
                    path = store.verified(part.sha256, part.filename)
                    url = json.loads(part.direct_url) if part.direct_url else None
                    entries = wheel_entries(path, part.filename, layer_plan.python, direct_url=url)
                    items += stack.enter_context(entries)
                case TarPart():
                    path = store.verified(part.sha256, part.origin)
                    tar = tar_items(path, part.origin, prefix=part.prefix, below=part.below)
                    items += stack.enter_context(tar)
                case GivenPart():
                    items.append(_make_item(part, layer_plan.title))
                case BasePart():
                    raise AssertionError("a base is copied, not taken apart")
        omit = set(layer_plan.omit)
        yield arrange_items(item for item in items if item.entry.path not in omit)


def _make_item(part: GivenPart, title: str) -> LayerItem:
    check_path(part.path, title)
    if part.target is not None:
        return link_item(part.path, part.target, title)
    if part.content is not None:
        return text_item(part.path, part.content, title)
    uid, gid = part.owner
    entry = TarEntry(path=part.path, type="directory", mode=part.mode, uid=uid, gid=gid)
    return LayerItem(entry=entry, origin=title)


def make_layer(
    layer_plan: LayerPlan,
    store: Store,
    level: int = LEVEL,
    halt: CancelToken | None = None,
    *,
    afresh: bool = False,
) -> Layer:
    """Return the layer of a plan, stored or newly made.

    It waits for another process that makes the same layer, also on another machine if file locks work across
    machines: jobs that share a store make each layer once.

    Args:
        halt: cancels the wait.
        afresh: it is made now, even if the store has it, and the new one is remembered: a comparison with an
            earlier result needs a new one.

    Raises:
        BuildError: see `layer_items`.
        FetchError: the store lacks a part.
        CancelledError: the wait was cancelled.
    """
    key = layer_plan.key(level)
    if not afresh and (known := _recall_layer(store.recall(key), layer_plan.title, store)):
        return known
    with hold_file_lock(store.root / "making" / key, halt or CancelToken()):
        if not afresh and (known := _recall_layer(store.recall(key), layer_plan.title, store)):
            return known
        if layer_plan.base:
            layer = copy_layer(layer_plan.base, layer_plan.title, store, level, afresh=afresh)
        else:
            with layer_items(layer_plan, store) as items:
                layer = write_layer(items, layer_plan.title, layer_plan.epoch, store, level)
        store.remember(key, msgspec.to_builtins(layer))
        return layer


@contextlib.contextmanager
def layers_ahead(layer_plans: Sequence[LayerPlan], store: Store) -> Iterator[None]:
    """Make layers on another processor during this block.

    A layer that fails, or that is not begun at the end of the block, is left to `make_layers`, which reports it.
    """
    halt = CancelToken()
    with ThreadPoolExecutor(1) as pool:
        for layer_plan in layer_plans:
            pool.submit(make_layer, layer_plan, store, LEVEL, halt)
        try:
            yield
        except BaseException:  # also an interrupt, which ends the wait for another process
            halt.say()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def layer_listing(layer_plan: LayerPlan, store: Store, level: int = LEVEL) -> list[TarEntry] | None:
    """Return the entries of a plan's stored layer, or None."""
    layer = _recall_layer(store.recall(layer_plan.key(level)), layer_plan.title, store, blob=False)
    return read_listing(layer, store) if layer else None


def _recall_layer(value: Any, title: str, store: Store, *, blob: bool = True) -> Layer | None:
    """Return a remembered layer with intact blobs, or None.

    It gets its present title.
    """
    try:
        layer = msgspec.structs.replace(decode_value(value, Layer), title=title)
        store.verified(layer.listing, f"the listing of the layer `{title}`")
        if blob:
            store.verified(layer.blob, f"the layer `{title}`")
    except (msgspec.ValidationError, FetchError):
        return None
    return layer


def make_layers(
    layer_plans: Sequence[LayerPlan], store: Store, *, level: int = LEVEL, progress: Progress = ignore_progress,
    afresh: bool = False,
) -> list[Layer]:  # fmt: skip
    """Make the layers, two at a time, the longest first.

    They are returned in the order of the plans. Threads suffice: hashing, decompression and zstd release
    the interpreter. For `afresh` see `make_layer`.

    Raises:
        BuildError, FetchError: see `make_layer`; the first failure in the order of plans.
    """
    order = sorted(range(len(layer_plans)), key=lambda index: -_layer_size(layer_plans[index], store))
    halt = CancelToken()
    with ThreadPoolExecutor(WORKERS) as pool:
        futures = {
            index: pool.submit(make_layer, layer_plans[index], store, level, halt, afresh=afresh)
            for index in order
        }
        names = {future: layer_plans[index].title for index, future in futures.items()}
        try:
            for done, future in enumerate(as_completed(names), start=1):
                progress(done, len(names), names[future], unit="layers")
        except BaseException:  # an interrupt ends waits for another process
            halt.say()
            raise
        return [futures[index].result() for index in range(len(layer_plans))]


def _layer_size(layer_plan: LayerPlan, store: Store) -> int:
    paths = [store.blob(part.sha256) for part in layer_plan.parts if not isinstance(part, GivenPart)]
    return sum(path.stat().st_size for path in paths if path.is_file())


def resolve_overlaps(
    layer_plans: Sequence[LayerPlan], listings: Sequence[Sequence[TarEntry]], store: Store
) -> list[LayerPlan]:
    """Return the plans without overlaps between layers.

    If two layers have a path with equal content and unequal modes, the first in order wins and the other
    omits it. Directories merge, and a file of the base may be overwritten.

    Raises:
        BuildError: two layers fill one path differently.
    """
    first: dict[str, tuple[TarEntry, LayerPlan]] = {}
    settled = []
    for layer_plan, listing in zip(layer_plans, listings, strict=True):
        omit = []
        for entry in listing:
            former, owner = first.setdefault(entry.path, (entry, layer_plan))
            if former is entry or former == entry:
                continue
            over_base = bool(owner.base)
            if former.type == entry.type and (over_base or entry.type == "directory"):
                continue
            if (former.type, former.sha256, former.target) != (entry.type, entry.sha256, entry.target):
                raise conflict_error(
                    entry.path,
                    _find_part_name(owner, entry.path, store),
                    _find_part_name(layer_plan, entry.path, store),
                )
            omit.append(entry.path)
        settled.append(msgspec.structs.replace(layer_plan, omit=tuple(omit)) if omit else layer_plan)
    return settled


def _find_part_name(layer_plan: LayerPlan, path: str, store: Store) -> str:
    """Return the name of the part that writes a path."""
    if layer_plan.base:
        return f"the base {layer_plan.title}"
    with layer_items(layer_plan, store) as items:
        return next(item.origin for item in items if item.entry.path == path) or layer_plan.title
