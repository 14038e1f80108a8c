"""The command `pull`: a registry's image as an output directory.

It has the attachments, too. All input is untrusted. The image is checked by its digest; its tree is computed
from its layers; `referrers` decides which lock and which attachments are accepted. File names are ours,
whatever a registry calls the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.config.services import change_addresses
from reprobuild.context import RunContext
from reprobuild.distribute.attachments import default_image_name
from reprobuild.distribute.choices import PulledChoices, fetch_choices
from reprobuild.distribute.referrers import (
    FoundReferrer,
    find_lock,
    list_referrers,
    read_lock_digest,
    write_valid_attachments,
)
from reprobuild.distribute.registry_errors import convert_errors
from reprobuild.ecosystems.oci_registry.manifest import OTHER, find_image
from reprobuild.ecosystems.oci_registry.reference import Reference, parse_reference
from reprobuild.ecosystems.oci_registry.repository import OciRepository
from reprobuild.errors import BuildError, DistributionError, FetchError
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.image.oci.write import link_layout
from reprobuild.infra.atomic import write_file
from reprobuild.infra.http.model import AccessDeniedError, NotFoundError
from reprobuild.infra.untrusted.write_below import touch_below
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.sealed import require_sealed
from reprobuild.lock.system import BaseImage
from reprobuild.output.directory import (
    IMAGE,
    LOCK,
    find_former_image,
    is_pulled_here,
    remember_pulled,
    remember_tree,
)
from reprobuild.output.foreign import refuse_directories, set_aside
from reprobuild.recipe.render import render_recipe
from reprobuild.store.fetch import FullDiskError, fetch
from reprobuild.store.roots import record_lock
from reprobuild.store.store import Store
from reprobuild_portable.unbundle.messages import origin

# Marks, with a digest, a directory that a pull of that image began to fill: its files are that pull's own.
_BEGUN = ".pulling-"
_ANOTHER = "name another directory: `reprobuild pull REF -o OUT`"
_AGAIN = f"pull again: what came is kept. If it goes wrong in the same way, {OTHER}"


class PullResult(Struct, frozen=True, kw_only=True):
    """The result of a pull.

    Attributes:
        out: the output directory.
        reference: HOST/NAME@DIGEST.
        image: as in `image.json`.
        brought: the number of blobs that were missing in the store.
        referrers: the attachments of the image.
        choices: the saved choices of the image; `run` asks before it uses them.
        strangers: the number of other referrers; they were not read.
        origin: the maker of the lock, as far as known, and the meaning of trusting it.
    """

    out: Path
    reference: str
    image: Image
    brought: int
    referrers: tuple[FoundReferrer, ...]
    choices: tuple[PulledChoices, ...]
    strangers: int
    origin: str

    @property
    def document(self) -> dict[str, Any]:
        """The document of `pull --json`."""
        result: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(self, out=str(self.out)))
        return result


def pull(
    text: str, out: Path, context: RunContext, services: Mapping[str, str], platform: str = ""
) -> PullResult:
    """Fetch an image with attachments into an output directory.

    Args:
        text: the reference: HOST/NAME:TAG or HOST/NAME@DIGEST.
        out: the directory; missing, or empty, or with the files of an earlier pull of the same image.
        context: the context of the run.
        services: the user's own addresses of services.
        platform: selects one of several images; empty for the only one.

    Raises:
        UsageError: the reference is not valid.
        DistributionError: the registry cannot be reached, refuses, or sends wrong content; the image has no lock;
            `out` holds another image, or files that no pull left there.
    """
    reference = parse_reference(text, "REF")
    net, hub = context.net, change_addresses(context.services, services)["docker-hub"].url
    store = context.store
    with convert_errors():
        remote_image = find_image(reference, platform, net, store, hub).image
        exact = Reference(host=reference.host, name=reference.name, digest=remote_image.digest)
        former = _read_former_image(out, remote_image.digest)
        refuse_directories(out)
        repository = OciRepository(exact, net, hub)
        named = read_lock_digest(repository, remote_image, store)
        offers = list_referrers(repository, remote_image.digest, named)
        lock = find_lock(repository, offers, remote_image.digest, named, store)
        blobs = [remote_image.config, *(layer.file for layer in remote_image.layers)]
        try:
            count = fetch(blobs, store, net, context.progress)
        except (NotFoundError, AccessDeniedError, FullDiskError):
            raise
        except FetchError as err:
            raise DistributionError(str(err), hint=_AGAIN) from None
        out.mkdir(parents=True, exist_ok=True)
        _mark_begun(out, remote_image.digest)
        image = _write_image(lock, remote_image, out, store)
        if former is None or not is_pulled_here(former, out, store):
            set_aside(out, context.say)
        referrers = write_valid_attachments(repository, offers, lock, image, out)
        choices = fetch_choices(repository, offers.choices, image.manifest, out, store, net)
        remember_tree(image, store)
        remember_pulled(image, out, store)
        record_lock(lock, out / LOCK, store, "pull")
        write_file(out / IMAGE, msgspec.json.format(msgspec.json.encode(image)) + b"\n")
        _marker_path(out, remote_image.digest).unlink(missing_ok=True)
    context.say(f"pulled {exact} into {out}: {count} blobs brought")
    whence = origin(
        str(exact), False, ""
    )  # a registry names no maker, and everyone with write access can attach a lock
    context.say(whence)
    return PullResult(
        out=out, reference=str(exact), image=image, brought=count, strangers=offers.strangers,
        referrers=referrers, choices=choices, origin=whence,
    )  # fmt: skip


def _read_former_image(out: Path, digest: str) -> Image | None:
    """Return the image that a directory states, or None.

    Raises:
        DistributionError: the directory holds other files than a pull of this image left: they would be replaced.
    """
    former = find_former_image(out)
    if former is not None and former.manifest != digest:
        raise DistributionError(f"{out} holds another image, {former.manifest[:80]!r}", hint=_ANOTHER)
    may_write = former is not None or _marker_path(out, digest).exists() or not out.exists()
    if not may_write and not (out.is_dir() and not any(out.iterdir())):
        raise DistributionError(f"{out} is there, and holds something else", hint=_ANOTHER)
    return former


def _mark_begun(out: Path, digest: str) -> None:
    """Mark a directory as begun by a pull.

    A link in the place of the mark is not followed.
    """
    place = _marker_path(out, digest)
    try:
        touch_below(out, place.name, mode=0o644)
    except (BuildError, OSError):
        raise DistributionError(f"{place} is no plain file, and no pull left it", hint=_ANOTHER) from None


def _marker_path(out: Path, digest: str) -> Path:
    return out / f"{_BEGUN}{digest.removeprefix('sha256:')}"


def _write_image(lock: Lock, remote_image: BaseImage, out: Path, store: Store) -> Image:
    """Write layout, lock and recipe; return the image.

    Its tree is computed from the layers.
    """
    reference = default_image_name(lock)
    blobs = [remote_image.config.sha256, *(layer.file.sha256 for layer in remote_image.layers)]
    link_layout(
        out / LAYOUT, store, remote_image.digest.removeprefix("sha256:"), blobs, lock.platform, reference
    )
    layout = read_layout(out / LAYOUT)
    tree = layout_digest(layout)
    write_lock(lock, out / LOCK)
    for name, text in render_recipe(require_sealed(lock)).items():
        if name != "requirements.txt":
            write_file(out / name, text.encode())
    return Image(
        layout=LAYOUT, reference=reference, tree=tree, config=layout.config_digest, manifest=layout.manifest,
        layers=len(layout.layers), lock=lock.digest,
    )  # fmt: skip
