"""Source trees: a commit of a repository, and the captured changes in the text of the recipe."""

from __future__ import annotations

import bz2
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.python import Source
from reprobuild.recipe.online.embedded import embed
from reprobuild.recipe.online.model import WORK, BuildArgument, Checkout, Gap
from reprobuild.store.store import Store
from reprobuild_portable import secrets

# Of a file in the recipe, in bytes before base64; a Dockerfile is read and edited by people.
MOST = 256 << 10
_LARGEST = 8 << 20  # of an unpacked tree, in bytes
# A bundle of git, or a diff of a binary file: both have old content, packed, where no search for secrets finds it.
_PACKED = re.compile(rb"\A# v\d+ git bundle\n|^GIT binary patch$", re.MULTILINE)


def read_changes(snapshot: Path) -> dict[str, bytes]:
    """Return the small files of a snapshot by sha256.

    Locks name diffs and bundles by their sha256; the store has the changed trees alone.
    """
    contents = []
    for path in sorted(snapshot.iterdir()):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= MOST:
            contents.append(read_plain(path, MOST))
    return {hashlib.sha256(content).hexdigest(): content for content in contents}


def plan_checkouts(
    sources: tuple[Source, ...], store: Store, changes: Mapping[str, bytes]
) -> tuple[tuple[Checkout, ...], tuple[Gap, ...]]:
    """Return the source trees, and facts on those that are not a clone.

    Args:
        sources: those of the lock.
        store: has the tree of each source.
        changes: the captured changes by sha256.

    Raises:
        FetchError: the store lacks a tree that the recipe embeds.
        BuildError: an embedded file has a secret.
    """
    checkouts: list[Checkout] = []
    gaps: list[Gap] = []
    for source in sources:
        url = secrets.strip_credentials(source.url.removeprefix("git+"))[0]
        if not url or url.startswith((".", "/", "file:")):
            why = "the lock has no address of its repository that other machines reach"
        elif source.patch is not None and source.patch not in changes:
            why = "its changes are a file of the snapshot, up to 256 KiB, which `--snapshot DIR` names"
        elif source.patch is not None and _PACKED.search(changes[source.patch]):
            why = "its changes are a bundle or binary, which can hold removed content"
        else:
            checkouts.append(_clone(source, url, changes))
            continue
        checkout = _embed_tree(source, store)
        checkouts += [checkout] if checkout else []
        how = (
            "has a copy of its tree instead of a clone"
            if checkout
            else "leaves it out, because its tree is large"
        )
        gaps.append(Gap(f"source {source.name}", f"{why}: the recipe {how}"))
    return tuple(checkouts), tuple(gaps)


def _clone(source: Source, url: str, changes: Mapping[str, bytes]) -> Checkout:
    argument = BuildArgument(
        name=f"SOURCE_{source.name.upper().replace('-', '_')}",
        value=url,
        note=f"the repository of {source.name}",
    )
    embedded = None
    if source.patch is not None:
        content = changes[source.patch]
        _refuse_secrets(content, f"the changes of {source.name}")
        embedded = embed(f"{WORK}/{source.name}.diff", content)
    return Checkout(
        name=source.name, path=source.path, commit=source.commit, tree=source.tree, argument=argument,
        changes=embedded,
    )  # fmt: skip


def _embed_tree(source: Source, store: Store) -> Checkout | None:
    """Return a checkout whose files are all in the recipe, or None if they are too large."""
    path = store.verified(source.file.sha256, source.file.filename)
    packed = bz2.compress(read_plain(path, _LARGEST)) if path.stat().st_size <= _LARGEST else b""
    if not packed or len(packed) > MOST:
        return None
    _refuse_secrets(read_plain(path, _LARGEST), f"source {source.name}")
    return Checkout(
        name=source.name, path=source.path, commit=source.commit, tree=source.tree, argument=None,
        archive=embed(f"{WORK}/{source.name}.tar.bz2", packed),
    )  # fmt: skip


def _refuse_secrets(content: bytes, origin: str) -> None:
    """Refuse a secret before base64 hides it from the check of the whole text."""
    for line, rule in secrets.find(content):
        raise BuildError(
            f"{origin}, line {line}: this looks like a secret ({rule}), and would be readable in the recipe",
            hint="remove it from the source, and capture again",
        )
