"""The bounds of a base image with layers in the store."""

from __future__ import annotations

from reprobuild.infra.untrusted.budget import BaseAllowance
from reprobuild.lock.system import BaseImage
from reprobuild.store.store import Store


def base_allowance(image: BaseImage, store: Store) -> BaseAllowance:
    """Return the bounds for all layers of a base image.

    They follow from the files in the store: the sizes that a manifest states may be wrong.

    Args:
        image: the image.
        store: has its layers.

    Raises:
        FetchError: a layer is not in the store, or damaged.
    """
    names = {layer.file.sha256: layer.file.filename for layer in image.layers}
    return BaseAllowance(sum(store.verified(sha256, name).stat().st_size for sha256, name in names.items()))
