"""The recipe of a sealed lock, checked for secrets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.config.services import read_services
from reprobuild.errors import BuildError
from reprobuild.lock.model import SealedLock
from reprobuild.recipe.image_config import environ_file
from reprobuild.recipe.online.model import Gap, OnlinePlan
from reprobuild.recipe.online.plan import make_plan
from reprobuild.recipe.online.render import render_online
from reprobuild.recipe.online.runtime import seeding_files
from reprobuild.recipe.online.sources import read_changes
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


class OnlineRecipe(Struct, frozen=True, kw_only=True):
    """The files of an online recipe by name, and its gaps: facts of the lock that it cannot promise."""

    texts: Mapping[str, str]
    gaps: tuple[Gap, ...]


def render_from_network(sealed: SealedLock, store: Store, snapshot: Path | None) -> OnlineRecipe:
    """Return the online recipe of a sealed lock.

    Args:
        sealed: the lock.
        store: has the runtime package and the source trees of the lock.
        snapshot: the directory with the captured changes of sources, or None.

    Raises:
        BuildError: the lock has no online recipe, or a file has a secret.
        FetchError: the store lacks a file that the recipe embeds.
    """
    names = {
        "debian": "debian-snapshot",
        "debian-security": "debian-security-snapshot",
        "ubuntu": "ubuntu-snapshot",
    }
    services = read_services()
    moments = {archive: services[service].url for archive, service in names.items()}
    plan = make_plan(sealed, store, moments, read_changes(snapshot) if snapshot else {})
    texts = render_online(sealed, plan)
    embedded = seeding_files({**environ_file(sealed), **payload_files(sealed, store)})
    refuse_secrets(
        {**embedded, **{name: _readable_text(text, plan).encode() for name, text in texts.items()}}
    )
    return OnlineRecipe(texts=texts, gaps=plan.gaps)


def _readable_text(text: str, plan: OnlinePlan) -> str:
    """Return a text without the parts that only look like secrets.

    `passwd=1:4.13` is the pin of a package. Contents in base64 were checked before they were encoded.
    """
    for file in (*plan.files, plan.runtime):
        text = text.replace(file.text, "") if file.encoded else text
    for system in (plan.system, plan.build_system):
        for pin in system.pins if system else ():
            text = text.replace(pin, pin.partition("=")[2])
    return text


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
