"""The platform of a compiler's choices."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.strings import PackageName, ShortLine, Size, VariableName, Word
from reprobuild.lock.distributions import environment_wheels
from reprobuild.lock.model import Lock
from reprobuild_portable import secrets
from reprobuild_portable.host import host

# They choose instructions or the number of threads.
VARIABLES = (
    "ATEN_CPU_CAPABILITY", "BLIS_NUM_THREADS", "DNNL_MAX_CPU_ISA", "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE", "MKL_DYNAMIC", "MKL_ENABLE_INSTRUCTIONS", "MKL_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES",
    "OMP_DYNAMIC", "OMP_NUM_THREADS", "ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS",
)  # fmt: skip
# Compilers, and the packages that choose kernels.
_PACKAGES = re.compile(
    r"torch|triton|pytorch-triton(?:-rocm)?|triton-rocm|jax|jaxlib|jax-cuda.*|vllm|numpy|mkl|nvidia-(?:cublas|cudnn|cuda-nvrtc).*"
)
_SYSTEM = re.compile(r"(?:g\+\+|gcc|clang|binutils)(?:-\d+)?|libgomp1")
_CPU_FIELDS = ("model name", "CPU part", "CPU implementer")
_FLAGS = re.compile(r"(?m)^(?:flags|Features)\s*: (.*)$")
_LONGEST = 200
_MOST_FLAGS = 2000  # a processor has some 150
_MOST_GPUS = 100
_MOST_VARIABLES = 100
_MOST_PACKAGES = 500
_MOST_CHARACTERS = 32 << 10  # of all packages; a record has at most 64 KiB
_REST = "_more"  # the packages beyond these bounds; no package has this name
_DIGITS = 12
_LEFT = _LONGEST - _DIGITS - 1
_LARGEST_NODE = 1 << 16  # characters; a node has some 40 lines
_SECRET = "(secret)"
_SHOWN = 5  # GPUs, instruction sets
_MOST_SHOWN = 20  # variables and packages


class ChoicePlatform(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a machine and an image that decide choices.

    `flags` are the processor's instruction sets. `threads` is the number of processors that the run may use. `gpus` are
    the models of the GPUs that it gets. `packages` are the compilers of the image and the packages with
    kernels: a version, with the first digits of the wheel's hash.
    """

    machine: Word
    cpu: ShortLine
    flags: Annotated[tuple[Word, ...], Meta(max_length=_MOST_FLAGS)]
    threads: Size
    gpus: Annotated[tuple[ShortLine, ...], Meta(max_length=_MOST_GPUS)]
    driver: ShortLine
    variables: Annotated[dict[VariableName, ShortLine], Meta(max_length=_MOST_VARIABLES)]
    packages: Annotated[dict[PackageName, ShortLine], Meta(max_length=_MOST_PACKAGES)]


class VisibleGpus(Struct, frozen=True, kw_only=True):
    """The models of a run's NVIDIA GPUs, and their driver."""

    models: tuple[str, ...] = ()
    driver: str = ""


def find_platform(
    lock: Lock, gpus: VisibleGpus | None, variables: Mapping[str, str], root: Path = Path("/")
) -> ChoicePlatform:
    """Return the platform of a run on this machine.

    Args:
        lock: of the image.
        gpus: those that the run gets; None if it gets no GPU.
        variables: of the run, with those of the image.
        root: the directory that holds proc.
    """
    try:
        text = (root / "proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        text = ""
    flags = _FLAGS.search(text)
    nvidia = gpus or VisibleGpus()
    amd = _amd_gpus(root) if gpus is not None else ()
    return ChoicePlatform(
        machine=platform.machine(),
        cpu=_shorten(" ".join(_cpu_fields(text))),
        flags=tuple(sorted(set(re.findall(r"[a-z0-9_]+", flags[1])))) if flags else (),
        threads=len(host.sched_getaffinity(0)),
        gpus=tuple(sorted({*map(_shorten, nvidia.models), *amd})),
        driver=_shorten(nvidia.driver),
        variables={
            name: _shorten(_hide_secret(name, variables[name])) for name in VARIABLES if name in variables
        },
        packages=_bound_packages(dict(sorted(_find_packages(lock)))),
    )


def _amd_gpus(root: Path) -> Iterator[str]:
    """Yield the target and the number of units of each GPU of AMD.

    https://docs.kernel.org/gpu/amdgpu/driver-core.html (KFD); a processor has the target 0.
    """
    for path in root.glob("sys/class/kfd/kfd/topology/nodes/*/properties"):
        try:
            with path.open(encoding="utf-8", errors="replace") as stream:
                text = stream.read(_LARGEST_NODE)
        except OSError:  # in a container, the driver refuses the GPUs of others (EPERM)
            continue
        fields = dict(re.findall(r"(?m)^(gfx_target_version|simd_count) (\d{1,9})$", text))
        if fields.get("gfx_target_version", "0") != "0":
            yield f"gfx {fields['gfx_target_version']}, {fields.get('simd_count', '?')} units"


def _cpu_fields(text: str) -> Iterator[str]:
    for name in _CPU_FIELDS:
        match = re.search(rf"(?m)^{name}\s*: (.*)$", text)
        if match:
            yield match[1].strip()


def _shorten(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "?", text)[:_LONGEST]


def _find_packages(lock: Lock) -> Iterator[tuple[str, str]]:
    for wheel in environment_wheels(lock):
        name = str(canonicalize_name(wheel.name))
        if _PACKAGES.fullmatch(name):
            yield name, f"{wheel.version} {wheel.file.sha256[:12]}"
    for package in lock.conda:
        if _PACKAGES.fullmatch(package.name) or package.name.startswith(("pytorch", "libtorch")):
            yield package.name, f"{package.version} {package.build}"
    for name, number in lock.base.installed.items():
        if _SYSTEM.fullmatch(name):
            yield name, number


def _bound_packages(packages: Mapping[str, str]) -> dict[str, str]:
    """Return packages as a record can have them.

    A lock can have longer versions, and any number of packages. A hash stands for each cut text, and for the packages
    beyond a bound, so that different packages stay different.
    """
    bounded: dict[str, str] = {}
    characters = 0
    for name, version in packages.items():
        short = version if len(version) <= _LONGEST else f"{version[:_LEFT]} {_hash(version)}"
        characters += len(name) + len(short)
        if len(bounded) == _MOST_PACKAGES - 1 or characters > _MOST_CHARACTERS:
            rest = {name: version for name, version in packages.items() if name not in bounded}
            bounded[_REST] = f"{len(rest)} packages {_hash(msgspec.json.encode(rest).decode())}"
            break
        bounded[name] = short
    return bounded


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def describe_platform(platform: ChoicePlatform) -> str:
    """Return a platform's facts for people, without secrets."""
    machine = secrets.redact(platform.cpu or platform.machine)
    names = sorted(platform.variables)
    variables = [f"{name}={_hide_secret(name, platform.variables[name])}" for name in names[:_MOST_SHOWN]]
    more = [f"{len(names) - _MOST_SHOWN} more variables"] if len(names) > _MOST_SHOWN else []
    gpus = [_join_names(platform.gpus)] if platform.gpus else []
    return ", ".join((machine, f"{platform.threads} processors", *gpus, *variables, *more))


def list_differences(saved: ChoicePlatform, here: ChoicePlatform) -> tuple[str, ...]:
    """Return the differences between the platform of saved choices and this one, as lines without secrets.

    A record can have hundreds of long texts, and a search for secrets in each takes a millisecond. So the texts are
    compared first, and only those that are shown are searched.
    """
    lines = [
        f"{title}: {_show(old)} when they were saved, {_show(new)} here"
        for title, old, new in (
            ("architecture", saved.machine, here.machine),
            ("processor", saved.cpu, here.cpu),
            ("processors that the run may use", saved.threads, here.threads),
        )
        if old != new
    ]
    if ", ".join(saved.gpus) != ", ".join(here.gpus):
        old_gpus, new_gpus = (_join_names(platform.gpus) or "none" for platform in (saved, here))
        lines.append(f"GPUs: {old_gpus} when they were saved, {new_gpus} here")
    if saved.driver != here.driver:
        lines.append(f"driver: {_show(saved.driver)} when they were saved, {_show(here.driver)} here")
    missing, more = sorted({*saved.flags} - {*here.flags}), sorted({*here.flags} - {*saved.flags})
    sets = [
        f"{title} {_join_names(names)}"
        for title, names in (("missing here", missing), ("only here", more))
        if names
    ]
    if sets:
        lines.append(f"instruction sets: {'; '.join(sets)}")
    tables = [
        (name, old_table.get(name, ""), new_table.get(name, ""))
        for old_table, new_table in ((saved.variables, here.variables), (saved.packages, here.packages))
        for name in sorted(old_table.keys() | new_table.keys())
        if old_table.get(name) != new_table.get(name)
    ]
    lines += [
        f"{name}: {_show(old, name)} when they were saved, {_show(new, name)} here"
        for name, old, new in tables[:_MOST_SHOWN]
    ]
    if len(tables) > _MOST_SHOWN:
        lines.append(f"{len(tables) - _MOST_SHOWN} more variables and packages")
    return tuple(lines)


def hash_platform(platform: ChoicePlatform) -> str:
    """Return the sha256 of the facts that `list_differences` compares."""
    facts = msgspec.structs.replace(
        platform, flags=tuple(sorted({*platform.flags})), gpus=(", ".join(platform.gpus),)
    )
    return hashlib.sha256(msgspec.json.encode(facts, order="sorted")).hexdigest()


def _show(value: str | int, name: str = "") -> str:
    return _hide_secret(name, str(value)) if value != "" else "none"


def _hide_secret(name: str, value: str) -> str:
    """Return the value of a variable or another fact; a secret is not shown."""
    return _SECRET if secrets.secret_variable(name, value) else secrets.redact(value)


def _join_names(names: Sequence[str]) -> str:
    shown = secrets.redact(", ".join(names[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
