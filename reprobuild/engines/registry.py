"""The registry of engines, one module each.

Each module has the interface of `model.Engine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from reprobuild.engines.cdi import describes_gpus
from reprobuild.engines.model import Engine
from reprobuild.errors import EngineError

# A literal registry; a module is imported only when needed, since the SDK of one takes 0.2 s.
ENGINES: Mapping[str, str] = {
    "builtin": "reprobuild.engines.builtin",
    "docker": "reprobuild.engines.docker",
    "podman": "reprobuild.engines.podman",
    "apptainer": "reprobuild.engines.apptainer",
}

# Variables by which a user configures an engine.
_CONFIGURED = {
    "docker": ("DOCKER_HOST", "DOCKER_CONTEXT"),
    "podman": ("CONTAINER_HOST", "CONTAINER_CONNECTION"),
}
HINT = "start one, point DOCKER_HOST at one, or ask `reprobuild doctor` what is missing"


def find_engine(name: str | None, env: Mapping[str, str], *, gpus: str = "", hint: str = HINT) -> Engine:
    """Return the named engine, or the first that answers.

    An engine that the environment configures comes first, then the built-in one. Without a description of the GPUs that
    a task asks for, the built-in one comes last: Docker may have the driver's own hook.

    Args:
        name: None for any.
        env: the user's environment.
        gpus: the GPUs of the task (`Task.gpus`).
        hint: the remedy if no engine answers.

    Raises:
        EngineError: its name is unknown, or none answers.
    """
    names = [name] if name else _order(env, gpus)
    for candidate in names:
        if candidate not in ENGINES:
            raise EngineError(
                f"there is no engine named {candidate!r}", hint=f"the engines are: {', '.join(ENGINES)}"
            )
        engine = cast(Engine, import_module(ENGINES[candidate]))
        if engine.version(env) is not None:
            return engine
    raise EngineError(f"no container engine answers (tried {', '.join(names)})", hint=hint)


def _order(env: Mapping[str, str], gpus: str) -> list[str]:
    configured = [name for name, variables in _CONFIGURED.items() if any(map(env.get, variables))]
    others = [name for name in ENGINES if name not in configured]
    if gpus and not describes_gpus(gpus):
        others.sort(key=lambda name: name == "builtin")
    return configured + others
