"""The check that a builder's tree equals the native one.

It runs whenever the native tree is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reprobuild.builders.adopt import Check
from reprobuild.builders.native import find_stored_tree
from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree
from reprobuild.image.tree_digest import find_differing_paths, tree_digest
from reprobuild.lock.model import SealedLock
from reprobuild.recipe.image_config import image_config
from reprobuild.recipe.runtime_config import RuntimeConfig
from reprobuild.store.store import Store

SHOWN = 5  # differing paths that the error names


def make_tree_check(
    lock: SealedLock, store: Store, files: Mapping[str, bytes], builder: str, say: Callable[[str], None]
) -> Check | None:
    """Return a check that a tree equals the native builder's.

    Return None, and log it, if the native tree is unknown.

    Args:
        lock: the lock of the image.
        store: holds the layers of the native builder.
        files: see `builders.native.build_image`.
        builder: the name of the builder to compare.
        say: called if no comparison is possible.
    """
    promised = find_stored_tree(lock, store, files)
    if promised is None:
        say("the tree is not compared: the store has no layers of the native builder for this lock")
        return None

    def check(tree: Tree, config: RuntimeConfig) -> None:
        if tree_digest(tree, config) == tree_digest(promised, image_config(lock)):
            return
        paths = find_differing_paths(promised, tree)
        first = ", ".join(f"/{path}" for path in paths[:SHOWN]) or "the configuration"
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        raise BuildError(
            f"{builder} made another tree than the native builder; they differ in {first}{more}",
            hint=f"`--builder native` gives the promised tree; please report the paths with the version of {builder}",
        )

    return check
