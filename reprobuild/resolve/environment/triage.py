"""Offline decisions on a snapshot's variables, modules and paths."""

from __future__ import annotations

from msgspec import Struct

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.oci_registry.reference import is_image
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import EnvVar
from reprobuild.resolve.environment.environment import PathContext, preload_packages, resolve_environment
from reprobuild.resolve.environment.modules import find_loaded_modules
from reprobuild.resolve.environment.path_mapping import PathMap, make_path_map, place_repositories
from reprobuild.resolve.not_installed import rule_uninstalled_packages
from reprobuild.resolve.vendor.recognise import recognise_image
from reprobuild.snapshot.model import Snapshot


class EnvDecision(Struct, frozen=True, kw_only=True):
    """The image's settings, the system packages they need, and paths.

    `rulings` has one for each variable and module, and for each package of conda and rpm.
    """

    settings: tuple[EnvVar, ...]
    rulings: tuple[Resolution, ...]
    packages: tuple[str, ...]
    places: PathMap


def triage_snapshot(snapshot: Snapshot, decisions: Decisions) -> EnvDecision:
    """Decide the variables and modules of a snapshot.

    Raises:
        UsageError: `bake` names a variable that cannot be baked.
    """
    placed = place_repositories(snapshot.captured, snapshot.requirements, decisions.drop)
    places = make_path_map(
        snapshot.captured, placed, snapshot.variables, captured_python=not decisions.python
    )
    loaded = find_loaded_modules(snapshot.modules, snapshot.requirements)
    in_base = bool(decisions.base and is_image(decisions.base) and recognise_image(snapshot))
    settings, rulings = resolve_environment(
        snapshot.variables, bake=decisions.bake, drop=decisions.drop,
        context=PathContext(places=places, loaded=loaded, in_base=in_base),
    )  # fmt: skip
    return EnvDecision(
        settings=settings, rulings=(*rulings, *loaded.rulings(), *rule_uninstalled_packages(snapshot, decisions)),
        places=places,
        packages=(*preload_packages(settings), *loaded.packages()),
    )  # fmt: skip
