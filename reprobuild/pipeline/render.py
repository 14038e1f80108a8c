"""The recipe of a sealed lock, checked for secrets."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.lock.model import SealedLock
from reprobuild.recipe.payload import payload_files
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from reprobuild_portable import secrets


class Recipe(Struct, frozen=True, kw_only=True):
    """The files of a recipe.

    Attributes:
        texts: the files that people read, by name: Dockerfile, Apptainer.def, pylock.toml and requirements.txt.
        payload: the project's own files in the image, by name.
    """

    texts: Mapping[str, str]
    payload: Mapping[str, bytes]


def render(sealed: SealedLock, store: Store) -> Recipe:
    """Return the recipe of a sealed lock.

    Raises:
        BuildError: a file has a secret.
    """
    recipe = Recipe(texts=render_recipe(sealed), payload=payload_files(sealed, store))
    refuse_secrets({**{name: text.encode() for name, text in recipe.texts.items()}, **recipe.payload})
    return recipe


def refuse_secrets(files: Mapping[str, bytes]) -> None:
    """Refuse files with secrets before they are written.

    This is the last of several checks for secrets.

    Raises:
        BuildError: a secret was found. The message has the file, the line and the rule, but not the value.
    """
    for name, content in files.items():
        for line, rule in secrets.find(content):
            raise BuildError(
                f"{name}:{line}: this looks like a secret ({rule}), and would be readable in the image for ever",
                hint="leave its variable or package out with --drop NAME; pass secrets when the image runs",
            )
