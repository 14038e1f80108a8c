"""The name of an image in an engine: which one a directory that others handed over can give.

An engine takes a name from a layout without a question. `docker.io/library/python:3.11` would from then on be the image
of whoever made the layout, and `localhost/myapp:latest` hides what the user built with Podman. So a name counts only
where it follows from the lock.
"""

from __future__ import annotations

from collections.abc import Callable

from reprobuild.image.oci.read import Layout
from reprobuild.image.oci.write import MANIFEST, index_json, platform_of


def own_name(lock: str) -> str:
    """Return the name that follows from the digest (hex) of a lock."""
    return f"reprobuild:{lock[:12]}"


def local_name(reference: str, lock: str, say: Callable[[str], None]) -> str:
    """Return the name under which an image of others is loaded; say so where it is another than the image's own.

    Args:
        reference: that the image states.
        lock: the digest (hex) of its lock.
        say: is told.
    """
    if reference == own_name(lock):
        return reference
    say(
        f"the image names itself {reference[:200]!r}, which could hide another image: it is loaded as {own_name(lock)}"
    )
    return own_name(lock)


def named_index(layout: Layout, reference: str, platform: str = "") -> bytes:
    """Return the index of a layout, as this program writes it, that gives its image this name and no other.

    Args:
        layout: that was read.
        reference: the name.
        platform: `os/architecture[/variant]`; empty for what the configuration of the image states.
    """
    size = layout.blob(layout.manifest.removeprefix("sha256:")).stat().st_size
    manifest = {"mediaType": MANIFEST, "digest": layout.manifest, "size": size}
    stated = {key: layout.config.get(key) for key in ("os", "architecture", "variant")}
    plain = {key: value for key, value in stated.items() if isinstance(value, str)}
    return index_json(manifest, platform_of(platform) if platform else plain, reference)
