"""An online recipe as text: Dockerfile and Apptainer.def, from one plan of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reprobuild.lock.model import SealedLock
from reprobuild.lock.system import FILES, PREFIX
from reprobuild.recipe.image_config import image_config
from reprobuild.recipe.online.embedded import END
from reprobuild.recipe.online.model import WORK, OnlinePlan
from reprobuild.recipe.render import recipe_templates
from reprobuild.recipe.runtime_config import runscript_lines

NAMES = ("Dockerfile", "Apptainer.def")
# Distinguishes the image from a frozen one: both name one lock.
KIND = {"org.reprobuild.recipe": "online"}


def render_online(lock: SealedLock, plan: OnlinePlan) -> dict[str, str]:
    """Return {file name: text} of the online recipe.

    Raises:
        BuildError: a value cannot stand in a recipe.
    """
    facts = _template_facts(lock, plan)
    return {name: recipe_templates().render(f"online/{name}.j2", facts) for name in NAMES}


def _template_facts(lock: SealedLock, plan: OnlinePlan) -> Mapping[str, Any]:
    config = image_config(lock)
    variables = [pair.partition("=")[::2] for pair in sorted(config.env)]
    return {
        "plan": plan,
        "snapshot": lock.snapshot,
        "lock": lock.digest,
        "distribution": f"{lock.base.distribution} {lock.base.release}",
        "python": lock.interpreter.version,
        "prefix": PREFIX,
        "files": FILES,
        "end": END,
        "work": WORK,
        "copied": _copied_directories(plan),
        "variables": variables,
        "workdir": lock.workdir,
        "entrypoint": config.entrypoint,
        "command": config.cmd,
        "runscript": runscript_lines(config),
        "labels": sorted({**config.labels, **KIND}.items()),
    }


def _copied_directories(plan: OnlinePlan) -> list[str]:
    """Return the directories of the build stage that become part of the image."""
    python = ["/opt/python"] if plan.interpreter.archive else []
    return [*python, PREFIX, *(["/src"] if plan.checkouts else [])]
