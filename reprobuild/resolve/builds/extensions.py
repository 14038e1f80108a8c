"""Extensions compiled against the environment's torch and CUDA."""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib.resources import files

from msgspec import Struct
from msgspec.structs import replace

from reprobuild.config.overrides import BuildDecision
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.lock.model import Resolution

# The system packages with nvcc: of NVIDIA's own archive, and of Debian and Ubuntu.
_NVCC = re.compile(r"cuda-nvcc(-\d+)*|cuda-toolkit(-\d+)*|cuda-compiler(-\d+)*|nvidia-cuda-toolkit")


class _Extension(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `extensions.toml`, which documents the fields."""

    name: str
    requires: tuple[str, ...]
    source: str
    on_request: bool = False


class Toolkit(Struct, frozen=True, kw_only=True):
    """The toolkit for compiling CUDA.

    It has the environment's `version` (empty without CUDA), and the base's packages.

    `image` is set if the user chose an image for compiling, which has its own toolkit.
    """

    version: str = ""
    packages: frozenset[str] = frozenset()
    image: bool = False


@cache
def _read_extensions() -> dict[str, _Extension]:
    text = (files("reprobuild.resolve.builds") / "extensions.toml").read_bytes()
    return {
        extension.name: extension
        for extension in decode_toml(text, dict[str, tuple[_Extension, ...]])["project"]
    }


def add_known_settings(name: str, choice: BuildDecision) -> BuildDecision:
    """Add known settings to the user's override of a build.

    Settings of the user stay.
    """
    known = _read_extensions().get(name)
    if known is None:
        return choice
    environment = True if choice.environment is None else choice.environment
    more = known.requires if environment else ()
    return replace(choice, environment=environment, requires=(*more, *choice.requires))


def compiles_cuda_on_request(name: str) -> bool:
    """Return whether a project compiles CUDA sources on request alone."""
    known = _read_extensions().get(name)
    return known is not None and known.on_request


def rule_nvcc(name: str, file: str, choice: BuildDecision, toolkit: Toolkit) -> Resolution | None:
    """Return a resolution (`no-nvcc`) for uncompilable CUDA sources.

    It is needed only if the environment has CUDA.

    Without CUDA in the environment, such projects leave their CUDA sources out.

    Args:
        name: of the project.
        file: the name of its archive.
        choice: the user's override of its build.
        toolkit: the toolkit for compiling.
    """
    packages = toolkit.packages | {*choice.packages}
    if not toolkit.version or toolkit.image or any(_NVCC.fullmatch(package) for package in packages):
        return None
    reason = (
        f"{name} has CUDA sources, the environment has CUDA {toolkit.version}, and nothing here brings nvcc: its build "
        f"leaves them out or fails; name an image of CUDA {toolkit.version} to compile in, with the base's glibc or an "
        f"older one, as `--build-image nvidia/cuda:{shlex.quote(toolkit.version)}.0-devel-ubuntu22.04`; or a package "
        f"that brings nvcc: build: {{{name}: {{packages: [...]}}}}; or put a wheel of it into pip's find-links"
    )
    return Resolution(file=file, line=0, subject=name, outcome="replaced", reason=reason, kind="no-nvcc")
