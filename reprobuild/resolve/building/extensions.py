"""Extensions that are compiled against the environment's own torch, and against CUDA."""

from __future__ import annotations

import re
import shlex
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reprobuild.decisions import BuildDecision
from reprobuild.errors import LockError

# What brings nvcc, among the system's packages: of NVIDIA's own archive, and of Debian and Ubuntu.
_NVCC = re.compile(r"cuda-nvcc(-\d+)*|cuda-toolkit(-\d+)*|cuda-compiler(-\d+)*|nvidia-cuda-toolkit")


class _Extension(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `extensions.toml`; see there."""

    name: str
    requires: tuple[str, ...]
    source: str


class Toolkit(Struct, frozen=True, kw_only=True):
    """What there is to compile CUDA with: the environment's `version` (empty for none), and the base's packages.

    `image` tells whether an image to compile in was decided, which has its own.
    """

    version: str = ""
    packages: frozenset[str] = frozenset()
    image: bool = False


@cache
def _known() -> dict[str, _Extension]:
    text = (files("reprobuild.resolve.building") / "extensions.toml").read_bytes()
    return {
        one.name: one for one in msgspec.toml.decode(text, type=dict[str, tuple[_Extension, ...]])["project"]
    }


def with_known(name: str, choice: BuildDecision) -> BuildDecision:
    """Return the decision on a project with what is known of it where nothing was decided."""
    known = _known().get(name)
    if known is None:
        return choice
    environment = True if choice.environment is None else choice.environment
    more = known.requires if environment else ()
    return replace(choice, environment=environment, requires=(*more, *choice.requires))


def check_nvcc(name: str, choice: BuildDecision, toolkit: Toolkit) -> None:
    """See that CUDA sources of a project can be compiled, where the environment has CUDA.

    Where it has none, such projects leave their CUDA sources out.

    Raises:
        LockError: nothing brings nvcc.
    """
    packages = toolkit.packages | {*choice.packages}
    if not toolkit.version or toolkit.image or any(_NVCC.fullmatch(package) for package in packages):
        return
    raise LockError(
        f"{name} has CUDA sources, the environment has CUDA {toolkit.version}, and nothing here brings nvcc",
        hint=f"name an image of CUDA {toolkit.version} to compile in, with the base's glibc or an older one, as "
        f"`--devel nvidia/cuda:{shlex.quote(toolkit.version)}.0-devel-ubuntu22.04`; or "
        f"a package that brings nvcc: build: "
        f"{{{name}: {{packages: [...]}}}}; or put a wheel of it into a folder of pip's find-links",
    )
