"""The name that an image may have in an engine.

An engine takes a name from a layout without a question. `docker.io/library/python:3.11` would from then on be
the image of the layout's author, and `localhost/myapp:latest` would hide the user's own Podman image. So a
name counts only if it follows from the lock.
"""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.image.oci.read import Layout
from reprobuild.image.oci.write import MANIFEST, index_json, platform_of


def own_name(lock: str) -> str:
    """Return the image name for a lock's digest (hex)."""
    return f"reprobuild:{lock[:12]}"


def local_name(reference: str, lock: str, say: Callable[[str], None]) -> str:
    """Return the engine's name for a received image.

    It is logged if it differs from the image's own name.

    Args:
        reference: the name that the image states.
        lock: the digest (hex) of its lock.
        say: called with the message.
    """
    if reference == own_name(lock):
        return reference
    say(
        f"the image names itself {reference[:200]!r}, which could hide another image: it is loaded as {own_name(lock)}"
    )
    return own_name(lock)


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
