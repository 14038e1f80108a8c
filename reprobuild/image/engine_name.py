"""The name that an image may have in an engine.

An engine takes a name from a layout without a question. `docker.io/library/python:3.11` would from then on be
the image of the layout's author, and `localhost/myapp:latest` would hide the user's own Podman image. So a
name counts only if it follows from the lock. Another author can write another image for a lock, so the name of an
image that was not built here follows from its manifest, too.
"""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.image.oci.read import Layout
from reprobuild.image.oci.write import MANIFEST, index_json, platform_of


def own_name(lock: str) -> str:
    """Return the image name for a lock's digest (hex)."""
    return f"reprobuild:{lock[:12]}"


def received_name(lock: str, manifest: str) -> str:
    """Return the name for an image of a lock's digest (hex) and a manifest's digest, which has its algorithm."""
    return f"{own_name(lock)}-{manifest.rpartition(':')[2][:32]}"


def local_name(reference: str, lock: str, manifest: str, say: Callable[[str], None]) -> str:
    """Return the engine's name for a received image.

    It is logged if the image's own name could hide another image.

    Args:
        reference: the name that the image states.
        lock: the digest (hex) of its lock.
        manifest: the digest of its manifest, with its algorithm.
        say: called with the message.
    """
    name = received_name(lock, manifest)
    if reference not in (own_name(lock), name):
        say(
            f"the image names itself {reference[:200]!r}, which could hide another image: it is loaded as {name}"
        )
    return name


def encode_named_index(layout: Layout, reference: str, platform: str = "") -> bytes:
    """Return a layout's index with one name for its image.

    It has the form that this program writes.

    Args:
        layout: a layout that was read.
        reference: the name.
        platform: `os/architecture[/variant]`; empty for that of the image's configuration.
    """
    size = layout.blob(layout.manifest.removeprefix("sha256:")).stat().st_size
    manifest = {"mediaType": MANIFEST, "digest": layout.manifest, "size": size}
    stated = {key: layout.config.get(key) for key in ("os", "architecture", "variant")}
    plain = {key: value for key, value in stated.items() if isinstance(value, str)}
    return index_json(manifest, platform_of(platform) if platform else plain, reference)
