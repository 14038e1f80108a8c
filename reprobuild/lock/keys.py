"""Keys of the items in a lock's sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reprobuild.lock.model import BuildRecord, Bytecode
from reprobuild.lock.python import CondaPackage, Sdist, Source, Wheel
from reprobuild.lock.system import Deb, EnvVar, ImagePackage

# By the type of the items. The position identifies items of other types.
_KEYS: dict[type[Struct], Callable[[Any], str]] = {
    Wheel: lambda it: it.name + ", build" * (it.role == "build"),
    Sdist: lambda it: it.name,
    CondaPackage: lambda it: it.name,
    Source: lambda it: it.name,
    Deb: lambda it: f"{it.name}:{it.architecture}",
    ImagePackage: lambda it: f"{it.name}:{it.architecture}",
    EnvVar: lambda it: it.name,
    Bytecode: lambda it: it.artefact,
    BuildRecord: lambda it: it.name,
}


def key_of(item: Struct) -> str | None:
    """Return the key for comparing an item; None for positional items."""
    getter = next((key for kind, key in _KEYS.items() if isinstance(item, kind)), None)
    return getter(item) if getter else None


def identity(item: Struct) -> str | None:
    """Return an item's unique key; None for positional items.

    Builds may import several versions of one project, so the file tells wheels of role `build` apart.
    """
    if isinstance(item, Wheel) and item.role == "build":
        return f"{key_of(item)}, {item.file.sha256}"
    return key_of(item)
