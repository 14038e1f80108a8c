"""The promise that each builder's tree is the native one, kept wherever the native tree is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reprobuild.builders.adopt import Check
from reprobuild.builders.native import known_tree
from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree
from reprobuild.image.tree_digest import differing, tree_digest
from reprobuild.lock.model import Lock
from reprobuild.recipe.image_config import image_config
from reprobuild.store.store import Store

SHOWN = 5  # differing paths that the error names


def native_tree(
    lock: Lock, store: Store, files: Mapping[str, bytes], builder: str, say: Callable[[str], None]
) -> Check | None:
    """Return the check that a tree is the native builder's; None, which is said, where that is not known.

    Args:
        lock: sealed.
        store: where the native builder keeps its layers.
        files: see `image.build.build_image`.
        builder: whose tree is compared.
        say: is told when nothing can be compared.
    """
    promised = known_tree(lock, store, files)
    if promised is None:
        say("the tree is not compared: the store has no layers of the native builder for this lock")
        return None

    def check(tree: Tree, config: dict[str, Any]) -> None:
        if tree_digest(tree, config) == tree_digest(promised, image_config(lock)):
            return
        paths = differing(promised, tree)
        first = ", ".join(f"/{path}" for path in paths[:SHOWN]) or "the configuration"
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        raise BuildError(
            f"{builder} made another tree than the native builder; they differ in {first}{more}",
            hint=f"`--builder native` gives the promised tree; please report the paths with the version of {builder}",
        )

    return check
