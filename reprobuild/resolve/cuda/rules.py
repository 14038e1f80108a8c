"""NVIDIA's rules for CUDA code, drivers and GPUs.

They are in one table (`cuda.toml`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_toml

_ARCHITECTURE = re.compile(r"(?P<kind>sm|compute)_(?P<major>\d{1,3})(?P<minor>\d)(?P<only>[af]?)")

_PACKAGE = re.compile(r"cuda-cudart-(\d{1,3})-(\d{1,3})")
_COMPAT = re.compile(r"cuda-compat-(\d{1,3})-(\d{1,3})")


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table, which documents the fields."""

    name: str
    capability: str
    data_centre: bool = False


class _Jetson(Struct, frozen=True):
    capabilities: tuple[str, ...]


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    minor: Mapping[str, str]
    toolkit: Mapping[str, str]
    jetson: _Jetson
    gpu: tuple[Model, ...]


class DriverGpu(Struct, frozen=True, kw_only=True):
    """One GPU as its driver reports it.

    `capability` (`8.6`) is empty if neither driver nor table knows it.
    """

    name: str
    capability: str = ""
    index: str = ""
    uuid: str = ""


class CudaTarget(Struct, frozen=True, kw_only=True):
    """The code to run.

    `what` names it; `cuda` is the version that it was compiled with, empty if not known.

    `architectures` are those that it was compiled for (`sm_80`, `compute_90`), empty if not known; `compat` is the
    package of the image for forward compatibility, or empty.
    """

    what: str
    cuda: str
    architectures: tuple[str, ...] = ()
    compat: str = ""


class CudaFinding(Struct, frozen=True, kw_only=True):
    """One finding.

    `certain` means that the code cannot run there.
    """

    text: str
    certain: bool


def capability_of(name: str) -> str:
    """Return a GPU's compute capability by name, empty if unknown."""
    return next((model.capability for model in _read_table().gpu if re.search(model.name, name)), "")


def runtime_package(names: Iterable[str]) -> tuple[str, str] | None:
    """Return NVIDIA's CUDA runtime package and its CUDA version.

    It is searched in system packages; return None if it is absent.
    """
    matches = map(_PACKAGE.fullmatch, sorted(names))
    return next(((match[0], f"{match[1]}.{match[2]}") for match in matches if match), None)


def compat_package(names: Iterable[str]) -> str:
    """Return NVIDIA's newest package for forward compatibility.

    It is searched in system packages; return an empty string if it is absent.
    """
    matches = [match for match in map(_COMPAT.fullmatch, names) if match]
    newest = max(matches, key=lambda match: (int(match[1]), int(match[2])), default=None)
    return newest[0] if newest else ""


def minimum_driver(cuda: str) -> str:
    """Return the oldest driver for a CUDA version (`12.4`).

    It is empty if not known.

    A toolkit runs on its own driver, which for CUDA 11.0 is older than that of its major version.
    """
    table = _read_table()
    known = [table.minor.get(cuda.partition(".")[0], ""), table.toolkit.get(cuda, "")]
    return min(filter(None, known), key=_version_numbers, default="")


def find_code_kind(architectures: Iterable[str], capability: str) -> Literal["binary", "ptx", "none"]:
    """Return the way in which a GPU runs compiled code.

    The code is compiled for the given architectures.

    Binary code runs on GPUs of the same major version and the same or a newer minor one, but for Jetson boards; PTX is
    compiled for any newer GPU when it runs. `a` is for one GPU alone, `f` for its major version.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/#binary-compatibility
    """
    major, minor = (int(part) for part in capability.split("."))
    jetson = _read_table().jetson.capabilities
    translated = False
    for match in filter(None, map(_ARCHITECTURE.fullmatch, architectures)):
        at = (int(match["major"]), int(match["minor"]))
        exact = at == (major, minor)
        if match["only"] == "a" and not exact:
            continue
        if match["kind"] == "sm":
            alone = {capability, f"{at[0]}.{at[1]}"} & {*jetson}
            if exact or (not alone and at[0] == major and at[1] <= minor):
                return "binary"
        elif at <= (major, minor) and (match["only"] != "f" or at[0] == major):
            translated = True
    return "ptx" if translated else "none"


def check_cuda_target(compiled: CudaTarget, gpu: DriverGpu, driver: str, where: str) -> Iterator[CudaFinding]:
    """Yield findings on code, a GPU and a driver.

    There are no findings if all is well, or if too little is known.

    Args:
        compiled: the code.
        gpu: one GPU; its name may be empty if only the driver is known.
        driver: the version of the driver, empty if not known.
        where: the machine in messages: "this machine", "the captured machine".
    """
    capability = gpu.capability or capability_of(gpu.name)
    if driver and compiled.cuda:
        yield from _check_driver(compiled, gpu, driver, where)
    if not (capability and compiled.architectures):
        return
    kind = find_code_kind(compiled.architectures, capability)
    architectures = " ".join(compiled.architectures)
    on = f"the {gpu.name} of {where} has compute capability {capability}"
    if kind == "none":
        text = f"{compiled.what} is compiled for {architectures}, and {on}: nothing of it runs there"
        yield CudaFinding(text=text, certain=True)
    elif kind == "ptx":
        yield from _check_ptx(compiled, driver, f"{compiled.what} is compiled for {architectures}, and {on}")


def _check_driver(compiled: CudaTarget, gpu: DriverGpu, driver: str, where: str) -> Iterator[CudaFinding]:
    least = minimum_driver(compiled.cuda)
    if not least or _is_at_least(driver, least):
        return
    short = f"CUDA {compiled.cuda} of {compiled.what} needs driver {least}, and {where} has {driver}"
    centre = any(model.data_centre and re.search(model.name, gpu.name) for model in _read_table().gpu)
    package = f"cuda-compat-{compiled.cuda.replace('.', '-')}"
    helps = _compat_replaces_driver(compiled, least)
    if helps and centre:
        text = f"{short}: it runs only where {compiled.compat} of the image supports that driver"
        yield CudaFinding(text=text, certain=False)
    elif helps:
        text = f"{short}; {compiled.compat} of the image helps on data-centre GPUs alone"
        yield CudaFinding(text=text, certain=False)  # or on certified servers with RTX cards
    else:
        old = f"; {compiled.compat} of the image is too old for it" if compiled.compat else ""
        hint = f"; an image with {package} would run on such a GPU" if centre else ""
        yield CudaFinding(text=f"{short}{old}{hint}", certain=True)


def _compat_replaces_driver(compiled: CudaTarget, least: str) -> bool:
    """Return whether the compatibility package replaces a new driver.

    The package is that of the image.

    It is the driver of the toolkit that it is named after.
    """
    version = ".".join(re.findall(r"\d{1,3}", compiled.compat)[:2])
    driver = _read_table().toolkit.get(version, "")
    return bool(version) and (
        _is_at_least(version, compiled.cuda) or bool(driver and _is_at_least(driver, least))
    )


def _check_ptx(compiled: CudaTarget, driver: str, statement: str) -> Iterator[CudaFinding]:
    least = _read_table().toolkit.get(compiled.cuda, "")
    if driver and least and not _is_at_least(driver, least):
        text = (
            f"{statement}: only its PTX could run, which needs driver {least}, not {driver}, to be compiled"
        )
        yield CudaFinding(text=text, certain=not _compat_replaces_driver(compiled, least))
    else:
        text = (
            f"{statement}: its PTX is compiled when it first runs, which takes minutes, and kept in a cache"
        )
        yield CudaFinding(text=text, certain=False)


def _is_at_least(driver: str, least: str) -> bool:
    return _version_numbers(driver) >= _version_numbers(least)


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version))


@cache
def _read_table() -> _Table:
    raw = files("reprobuild.resolve.cuda").joinpath("cuda.toml").read_bytes()
    return decode_toml(raw, _Table)
