"""Validation of an output directory received from someone else.

Its contents must follow from its lock and its layers.
"""

from __future__ import annotations

import os
from pathlib import Path

from reprobuild.compare.images.explain import LABEL
from reprobuild.distribute import provenance, sbom
from reprobuild.distribute.attachments import LARGEST_PAPER, parse_image_verdict
from reprobuild.distribute.bundle_contents import legacy_manifest, render_bundle_page
from reprobuild.distribute.expected_files import Members, find_differing_files, refuse_foreign
from reprobuild.errors import BuildError, DistributionError, LockError, UsageError
from reprobuild.image.engine_name import encode_named_index, own_name
from reprobuild.image.model import LAYOUT, Image
from reprobuild.image.oci.read import Layout, layout_digest, read_layout
from reprobuild.infra.atomic import write_file
from reprobuild.infra.untrusted.regular_files import has_content, open_plain
from reprobuild.lock.model import Lock
from reprobuild.lock.sealed import require_sealed
from reprobuild.output.directory import REPORT, VERDICT, read_image
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from reprobuild.verify.verdict import Verdict

HOSTILE = "whoever made this bundle made it wrong, or to harm: ask for another one"


def check_results(out: Path, members: Members, *, certificate: bool) -> tuple[Lock, Image]:
    """Return lock and image of a consistent output directory.

    The tree is computed from the layers, and the image must name the lock in its label.

    Args:
        out: the directory.
        members: the files in the bundle's manifest, by path.
        certificate: the verdict file, if any, came with the bundle, and must be one of this image.

    Raises:
        DistributionError: the files do not belong together.
    """
    try:
        lock, image = read_image(out)
        layout = read_layout(out / LAYOUT)
    except (BuildError, LockError, UsageError) as err:
        raise DistributionError(f"the bundle holds no output directory: {err}", hint=HOSTILE) from None
    missing = [digest for _, digest, _ in layout.layers if not layout.blob(digest).is_file()]
    if layout.config_digest != image.config or missing:
        raise DistributionError(
            "the image of the bundle is not the one that its image.json names", hint=HOSTILE
        )
    legacy = layout.folder / "manifest.json"
    if legacy.exists() and not has_content(legacy, legacy_manifest(layout, image)):
        raise DistributionError(
            "the manifest.json of the bundle names another image than its index", hint=HOSTILE
        )
    _check_tree(layout, lock, image)
    _check_name(layout, lock, image)
    refuse_foreign(out, members, lock, layout, image)
    if certificate and (out / VERDICT).exists() and _read_verdict(out, lock, image) is None:
        raise DistributionError(f"the {VERDICT} of the bundle is no verdict on its image", hint=HOSTILE)
    return lock, image


def _check_name(layout: Layout, lock: Lock, image: Image) -> None:
    """Refuse an image that an engine could take for another.

    An index is compared as a whole: parsers differ.
    """
    if image.reference != own_name(lock.digest):
        raise DistributionError(
            f"the image of the bundle names itself {image.reference[:200]!r}, which could hide another image",
            hint=f"ask for a bundle of this reprobuild: in it the image is {own_name(lock.digest)}",
        )
    if not has_content(
        layout.folder / "index.json", encode_named_index(layout, image.reference, lock.platform)
    ):
        raise DistributionError(
            "the index of the bundle is not that of its image and its name alone", hint=HOSTILE
        )


def _check_tree(layout: Layout, lock: Lock, image: Image) -> None:
    try:
        tree = layout_digest(layout)
    except BuildError as err:
        raise DistributionError(f"the image of the bundle cannot be read: {err}", hint=HOSTILE) from None
    if tree != image.tree:
        raise DistributionError(
            f"the layers of the bundle are {tree}, and not what its image.json says", hint=HOSTILE
        )
    if layout.runtime.labels.get(LABEL) != f"sha256:{lock.digest}":
        raise DistributionError(
            "the image of the bundle was made of another lock than that beside it", hint=HOSTILE
        )


def find_mismatched_files(
    out: Path, members: Members, lock: Lock, image: Image, store: Store
) -> tuple[str, ...]:
    """Return the attachments, recipes and programs not from the lock.

    Another version of this program may have written them in its own way, so they are not a reason to refuse
    the rest.
    """
    contents = {name: text.encode() for name, text in render_recipe(require_sealed(lock)).items()}
    contents |= {sbom.FILE: sbom.cyclonedx(lock), provenance.FILE: provenance.provenance(lock, image)}
    files = ((out / name, content) for name, content in contents.items() if os.path.lexists(out / name))
    doubted = {path.name for path, content in files if not has_content(path, content)}
    return tuple(sorted(doubted | find_differing_files(out, members, lock, image, store)))


def replace_page(out: Path, lock: Lock, image: Image, *, remove: bool) -> bool:
    """Replace a directory's page by that of its verdict.

    Return whether it was another page. A browser runs any code in a page, and the page may come from the
    sender of the directory.

    Args:
        out: an output directory that `check_results` accepted.
        lock, image: of it.
        remove: remove a page without a verdict of this image; else it stays.
    """
    place = out / REPORT
    if not place.exists():
        return False
    verdict = _read_verdict(out, lock, image)
    if verdict is None:
        if remove:
            place.unlink()
        return remove
    page = render_bundle_page(out, lock, image, verdict)
    if has_content(place, page):
        return False
    write_file(place, page)
    return True


def _read_verdict(out: Path, lock: Lock, image: Image) -> Verdict | None:
    """Return the verdict of this image, or None."""
    if not (out / VERDICT).exists():
        return None
    with open_plain(out / VERDICT, links=False)[0] as stream:
        return parse_image_verdict(stream.read(LARGEST_PAPER + 1), lock, image)
