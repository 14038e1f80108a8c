"""The registry of engines, one module each.

Each module has the interface of `model.Engine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import cast

from reprobuild.engines.model import Engine
from reprobuild.errors import EngineError

# A literal registry; a module is imported only when needed, since the SDK of one takes 0.2 s.
ENGINES: Mapping[str, str] = {
    "docker": "reprobuild.engines.docker",
    "podman": "reprobuild.engines.podman",
    "apptainer": "reprobuild.engines.apptainer",
}

HINT = "start one, point DOCKER_HOST at one, or ask `reprobuild doctor` what is missing"


def find_engine(name: str | None, env: Mapping[str, str], *, hint: str = HINT) -> Engine:
    """Return the named engine, or the first that answers.

    Args:
        name: None for any.
        env: the user's environment.
        hint: the remedy if no engine answers.

    Raises:
        EngineError: its name is unknown, or none answers.
    """
    names = [name] if name else list(ENGINES)
    for candidate in names:
        if candidate not in ENGINES:
            raise EngineError(
                f"there is no engine named {candidate!r}", hint=f"the engines are: {', '.join(ENGINES)}"
            )
        engine = cast(Engine, import_module(ENGINES[candidate]))
        if engine.version(env) is not None:
            return engine
    raise EngineError(f"no container engine answers (tried {', '.join(names)})", hint=hint)
