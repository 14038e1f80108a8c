"""pull: an image of a registry, and what belongs to it, as a folder of results.

Nothing is believed. The image is what its digest says; its tree is computed from its layers; `belonging` says which
lock and which papers are taken. Names of files are ours, whatever a registry calls them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.context import Session
from reprobuild.distribute.attachments import name_of
from reprobuild.distribute.referrers import Belonging, find_lock, lock_named, offers_of, write_believed
from reprobuild.distribute.registry_session import open_net, shipping
from reprobuild.ecosystems.oci_registry.manifest import OTHER, find_image
from reprobuild.ecosystems.oci_registry.reference import Reference, parse_reference
from reprobuild.ecosystems.oci_registry.repository import Repository
from reprobuild.errors import BuildError, FetchError, ShipError
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.image.oci.write import link_layout
from reprobuild.infra.atomic import write_file
from reprobuild.infra.http.client import NotFound, Refused
from reprobuild.infra.untrusted.write_below import touch_below
from reprobuild.lock.lock import BaseImage, Lock, write_lock
from reprobuild.output.directory import (
    IMAGE,
    LOCK,
    former_image,
    is_pulled_here,
    remember_pulled,
    remember_tree,
)
from reprobuild.output.foreign import set_aside
from reprobuild.recipe.render import render
from reprobuild.store.fetch import fetch
from reprobuild.store.roots import keep
from reprobuild.store.store import Store
from reprobuild_portable.unbundle.messages import origin

# Stands, with a digest, in a folder that a pull of that image began to fill: what is there is its own.
_BEGUN = ".pulling-"
_ANOTHER = "name another folder: `reprobuild pull REF -o OUT`"
_AGAIN = f"pull again: what came is kept. If it goes wrong in the same way, {OTHER}"


class Pulled(Struct, frozen=True, kw_only=True):
    """What became of a pull.

    Attributes:
        out: the folder of results.
        reference: HOST/NAME@DIGEST.
        image: as `image.json` has it.
        brought: the number of blobs that were missing in the store.
        referrers: what belongs to the image.
        strangers: how many others say to belong to it; nothing of them was read.
        origin: who made the lock, as far as is known, and what it means to follow it.
    """

    out: Path
    reference: str
    image: Image
    brought: int
    referrers: tuple[Belonging, ...]
    strangers: int
    origin: str

    @property
    def document(self) -> dict[str, Any]:
        """What `pull --json` prints."""
        found: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, out=str(self.out)))
        return found


def pull(text: str, out: Path, session: Session, services: Mapping[str, str], platform: str = "") -> Pulled:
    """Bring an image, and what belongs to it, into the store, and write a folder of results.

    Args:
        text: the reference: HOST/NAME:TAG or HOST/NAME@DIGEST.
        out: the folder; missing, or empty, or with what was left by an earlier pull of the same image.
        session: what the program works with.
        services: the user's own addresses of services.
        platform: where there are images for several; empty for the only one.

    Raises:
        UsageError: the reference is none.
        ShipError: the registry cannot be reached, refuses, or gives other things than it says; the image has no lock;
            `out` holds another image, or what no pull left there.
    """
    reference = parse_reference(text, "REF")
    net, hub = open_net(session, services)
    store = session.store
    with shipping():
        found = find_image(reference, platform, net, store, hub).image
        exact = Reference(host=reference.host, name=reference.name, digest=found.digest)
        former = _former(out, found.digest)
        repository = Repository(exact, net, hub)
        named = lock_named(repository, found, store)
        offers = offers_of(repository, found.digest, named)
        lock = find_lock(repository, offers, found.digest, named, store)
        wanted = [found.config, *(layer.file for layer in found.layers)]
        try:
            brought = fetch(wanted, store, net, session.progress)
        except (NotFound, Refused):
            raise
        except FetchError as err:
            raise ShipError(str(err), hint=_AGAIN) from None
        out.mkdir(parents=True, exist_ok=True)
        _begin(out, found.digest)
        image = _write_image(lock, found, out, store)
        if former is None or not is_pulled_here(former, out, store):
            set_aside(out, session.say)
        builder, referrers = write_believed(repository, offers, lock, image, out)
        image = msgspec.structs.replace(image, builder=builder)
        remember_tree(image, store)
        remember_pulled(image, out, store)
        keep(lock, out / LOCK, store, "pull")
        write_file(out / IMAGE, msgspec.json.format(msgspec.json.encode(image)) + b"\n")
        _begun(out, found.digest).unlink(missing_ok=True)
    session.say(f"pulled {exact} into {out}: {brought} blobs brought")
    whence = origin(
        str(exact), False, ""
    )  # a registry names no maker, whoever may write there can attach a lock
    session.say(whence)
    return Pulled(
        out=out, reference=str(exact), image=image, brought=brought, strangers=offers.strangers,
        referrers=referrers, origin=whence,
    )  # fmt: skip


def _former(out: Path, digest: str) -> Image | None:
    """Return the image that a folder states, the one of this pull.

    Raises:
        ShipError: the folder holds anything else than what a pull of this image left: it would be replaced.
    """
    former = former_image(out)
    if former is not None and former.manifest != digest:
        raise ShipError(f"{out} holds another image, {former.manifest[:80]!r}", hint=_ANOTHER)
    ours = former is not None or _begun(out, digest).exists() or not out.exists()
    if not ours and not (out.is_dir() and not any(out.iterdir())):
        raise ShipError(f"{out} is there, and holds something else", hint=_ANOTHER)
    return former


def _begin(out: Path, digest: str) -> None:
    """Mark a folder as one that a pull began to fill; a link in the place of the mark is not followed."""
    place = _begun(out, digest)
    try:
        touch_below(out, place.name, mode=0o644)
    except (BuildError, OSError):
        raise ShipError(f"{place} is no plain file, and no pull left it", hint=_ANOTHER) from None


def _begun(out: Path, digest: str) -> Path:
    return out / f"{_BEGUN}{digest.removeprefix('sha256:')}"


def _write_image(lock: Lock, found: BaseImage, out: Path, store: Store) -> Image:
    """Write the layout, the lock and the recipe; return the image, whose tree is computed from the layers."""
    reference = name_of(lock)
    blobs = [found.config.sha256, *(layer.file.sha256 for layer in found.layers)]
    link_layout(out / LAYOUT, store, found.digest.removeprefix("sha256:"), blobs, lock.platform, reference)
    layout = read_layout(out / LAYOUT)
    tree = layout_digest(layout)
    write_lock(lock, out / LOCK)
    for name, text in render(lock).items():
        if name != "requirements.txt":
            write_file(out / name, text.encode())
    return Image(
        layout=LAYOUT, reference=reference, tree=tree, config=layout.config_digest, manifest=layout.manifest,
        layers=len(layout.layers), lock=lock.digest,
    )  # fmt: skip
