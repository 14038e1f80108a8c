"""The registry of builders.

The native builder is `builders.native`; each other builder is a module with the interface of `model`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import cast

from reprobuild.builders.adopt import Check, adopt_image
from reprobuild.builders.model import Builder
from reprobuild.errors import EngineError
from reprobuild.image.model import NATIVE, Image
from reprobuild.infra.atomic import PREFIX, private_directory

# A literal registry, as that of the engines; each builder builds the recipe in the output directory.
BUILDERS: Mapping[str, str] = {
    "docker": "reprobuild.builders.docker",
    "podman": "reprobuild.builders.podman",
    "apptainer": "reprobuild.builders.apptainer",
}


def find_builder(name: str, env: Mapping[str, str]) -> Builder:
    """Return the builder with this name.

    Raises:
        EngineError: its name is unknown, or it does not answer.
    """
    if name not in BUILDERS:
        raise EngineError(
            f"there is no builder named {name!r}", hint=f"the builders are: {', '.join((NATIVE, *BUILDERS))}"
        )
    builder = cast(Builder, import_module(BUILDERS[name]))
    if builder.version(env) is None:
        raise EngineError(
            f"the builder {name} does not answer", hint="start or install it, or leave --builder out"
        )
    return builder


def build_foreign(
    name: str, out: Path, *, platform: str, epoch: int, reference: str, env: Mapping[str, str],
    say: Callable[[str], None], check: Check | None = None,
) -> Image:  # fmt: skip
    """Build a recipe with another builder, and adopt the image.

    The build has no network.

    Args:
        out: holds Dockerfile, Apptainer.def and context/; the image replaces `out/image`.
        platform, epoch, reference, check: see `builders.adopt.adopt`.
        env: the user's environment.
        say: called with the builder's version, and with a note if something remains on the machine.

    Raises:
        EngineError: the builder does not answer, or went away.
        BuildError: the recipe failed, or the image is damaged or refused by `check`.
    """
    builder = find_builder(name, env)
    with private_directory(out, f"{PREFIX}{name}.") as scratch:
        build = builder.build(out, scratch, platform=platform, epoch=epoch, env=env, say=say)
        with build as foreign:
            return adopt_image(
                foreign, out, builder=name, platform=platform, epoch=epoch, reference=reference, check=check
            )
