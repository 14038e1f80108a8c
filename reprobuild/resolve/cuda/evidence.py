"""Evidence for the CUDA of an environment, strongest first.

Contradictions are reported.

The wheel of torch itself states its CUDA. Then: torch's local version (`+cu121`), NVIDIA's own wheels, plugins of other
frameworks, a report of torch, the modules of a cluster, conda's packages, the system's, the variable of NVIDIA's
images. The driver shows the newest CUDA that it supports, and not that of the environment. docs/cuda.md has the
reasons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, structs
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.torch_build import TorchBuild, read_torch_build
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Base
from reprobuild.resolve.cuda.packages import cuda_of
from reprobuild.resolve.cuda.rules import CudaTarget, DriverGpu, check_cuda_target, runtime_package
from reprobuild.snapshot.model import Snapshot, SourceLocation, SystemPackage
from reprobuild.store.store import Store

KIND = "cuda"
_LABEL = re.compile(r"\+(?:.*[.])?cu(\d{1,2})(\d)\b")
_RUNTIME = re.compile(r"(nvidia-cuda-runtime|cuda-toolkit)(-cu\d{2})?")
_OF_NVIDIA = re.compile(r"nvidia-[a-z0-9-]+-cu(\d{2})")
_CUDNN = re.compile(r"nvidia-cudnn(-cu\d{2})?")
_PLUGIN = re.compile(
    r"(?:jax-cuda|cupy-cuda|tensorrt-cu|cudf-cu|cuml-cu|faiss-gpu-cu|onnxruntime-gpu-cu)(\d{2})\d{0,2}x?\b.*"
)
_MODULE = re.compile(r"(?i)(?:.*/)?(?:cuda|cudatoolkit|cuda-toolkit|cudacore)/v?(\d+\.\d+)\S*")
_CUDNN_MODULE = re.compile(r"(?i)(?:.*/)?cudnn\d*/v?(\d+\.\d+)\S*")
_OF_CONDA = re.compile(r"cudatoolkit|cuda-version|cuda-runtime|cuda-cudart|pytorch-cuda")
_BRINGS = re.compile(r"cudatoolkit|cuda-cudart")
_IMAGE = re.compile(r"(\d{1,2}\.\d)(?:\.\d{1,3}){0,2}")
_BESIDE = {"NVIDIA_REQUIRE_CUDA", "NVARCH", "NVIDIA_BUILD_ID", "CUDA_PKG_VERSION"}  # of the same images


class CudaEvidence(Struct, frozen=True, kw_only=True):
    """One piece of evidence for CUDA.

    `version` is `12.4`, or `12` if no more is known; `place` is `FILE:LINE`.

    `bound` marks the newest version that a driver supports; `brings` marks packages with CUDA's libraries.
    """

    what: str
    place: str
    version: str
    bound: bool = False
    brings: bool = False


class Cuda(Struct, frozen=True, kw_only=True):
    """The result of weighing the evidence.

    `version` is that of the strongest evidence; `base` is the base's package of CUDA, if any.
    """

    version: str
    evidence: tuple[CudaEvidence, ...]
    conflicts: tuple[str, ...] = ()
    base: str = ""

    @property
    def brought(self) -> bool:
        """Whether the environment itself has CUDA's libraries.

        If so, the base does not need them.
        """
        return any(piece.brings for piece in self.evidence)

    def lines(self) -> Iterator[str]:
        """Yield the report lines: the answer, the evidence, the conflicts."""
        needs = "no captured package brings it: take a base image that has it (`--base IMAGE`)"
        if self.brought:
            needs = "the environment brings it; no base image with CUDA is needed"
        elif self.base:
            needs = f"no captured package brings it, and {self.base} of the base does"
        yield f"{self.version}: {needs}"
        yield from (_describe_evidence(piece) for piece in self.evidence)
        yield from (f"conflict: {conflict}" for conflict in self.conflicts)


def determine_cuda(snapshot: Snapshot, build: TorchBuild | None = None, wheel: str = "") -> Cuda | None:
    """Return the CUDA of a snapshot, or None without CUDA.

    Args:
        snapshot: the captured environment.
        build: the build facts of the wheel of torch, if available; `wheel` is its name.
    """
    torch = next((line for line in snapshot.requirements if canonicalize_name(line.name) == "torch"), None)
    without = bool(build and not build.cuda) or bool(
        torch and re.search(r"\+(cpu|rocm|xpu)", torch.version or "")
    )
    evidence = [*_wheel_evidence(build, wheel), *_freeze_evidence(snapshot), *_report_evidence(snapshot)]
    if without and not evidence:
        return None  # a module that was loaded nevertheless has its own resolution
    evidence += [
        *_module_evidence(snapshot),
        *_conda_evidence(snapshot),
        *_system_evidence(snapshot),
        *_image_evidence(snapshot),
    ]
    evidence += _driver_evidence(snapshot)
    telling = [piece for piece in evidence if not piece.bound]
    if not telling:
        return None
    conflicts = (*_version_conflicts(telling), *_driver_conflicts(evidence), *_cudnn_conflicts(snapshot))
    return Cuda(version=telling[0].version, evidence=tuple(evidence), conflicts=conflicts)


def rule_cuda(
    snapshot: Snapshot, wheels: Iterable[Wheel], base: Base, store: Store, say: Callable[[str], None]
) -> list[Resolution]:
    """Return the resolution on CUDA, if any, and log conflicts.

    Args:
        snapshot: the captured environment.
        wheels: of the environment, in the store.
        base: of the image.
        store: remembers the build facts of a wheel of torch.
        say: logs each conflict.

    Raises:
        FetchError, BuildError: as `read_torch_build`.
    """
    torch = next((wheel for wheel in wheels if wheel.name == "torch"), None)
    build = read_torch_build(torch.file, store) if torch else None
    cuda = determine_cuda(snapshot, build, torch.file.filename if torch else "")
    if cuda and not cuda.brought and (package := runtime_package(base.installed)):
        cuda = structs.replace(
            cuda, base=package[0], conflicts=(*cuda.conflicts, *_base_conflicts(cuda, *package))
        )
    problems = [*(cuda.conflicts if cuda else ()), *(captured_problems(snapshot, build) if build else ())]
    for problem in problems:
        say(f"warning: CUDA: {problem}")
    return [_make_resolution(cuda)] if cuda else []


def _make_resolution(cuda: Cuda) -> Resolution:
    """Return the resolution of kind `cuda`.

    It does not represent a captured line, but the evidence of all of them.
    """
    strongest = cuda.evidence[0].place.rpartition(":")
    outcome: Outcome = "pinned" if cuda.brought else "in base" if cuda.base else "excluded"
    return Resolution(
        file=strongest[0] or strongest[2], line=0, subject=KIND, outcome=outcome, reason="; ".join(cuda.lines()),
        kind=KIND,
    )  # fmt: skip


def captured_problems(snapshot: Snapshot, build: TorchBuild) -> list[str]:
    """Return evidence that the captured machine did not run this torch.

    Mostly it is a report of another machine.
    """
    compiled = CudaTarget(what=f"torch {build.version}", cuda=build.cuda, architectures=build.architectures)
    problems = [
        finding.text
        for report in snapshot.reports
        for name in dict.fromkeys(report.gpus or ("",))
        for finding in check_cuda_target(
            compiled, DriverGpu(name=name), report.driver, f"the captured machine ({report.file})"
        )
        if finding.certain
    ]
    return list(dict.fromkeys(problems))


def _describe_evidence(piece: CudaEvidence) -> str:
    return f"{piece.what} ({piece.place}) {'knows CUDA up to' if piece.bound else 'says'} {piece.version}"


def _wheel_evidence(build: TorchBuild | None, wheel: str) -> Iterator[CudaEvidence]:
    if build and build.cuda:
        yield CudaEvidence(
            what=f"torch {build.version}", place=f"{wheel}:torch/version.py", version=build.cuda
        )


def _freeze_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    """Yield the evidence of distributions.

    They are torch's label, NVIDIA's wheels (the runtime first), and plugins.
    """
    lines = [
        (str(canonicalize_name(line.name)), line.version or "", line.place) for line in snapshot.requirements
    ]
    for name, version, place in lines:
        label = _LABEL.search(version)
        if name == "torch" and label:
            yield _make_evidence(name, version, place, f"{label[1]}.{label[2]}", brings=True)
    for name, version, place in lines:
        if _RUNTIME.fullmatch(name) and (number := re.match(r"\d+\.\d+", version)):
            yield _make_evidence(name, version, place, number[0], brings=not name.startswith("cuda-toolkit"))
    others: dict[str, list[tuple[str, str, SourceLocation]]] = {}
    for distribution in lines:
        if (match := _OF_NVIDIA.fullmatch(distribution[0])) and not _RUNTIME.fullmatch(distribution[0]):
            others.setdefault(match[1], []).append(distribution)
    for major, ((name, version, place), *more) in sorted(others.items()):
        also = f" and {len(more)} more" if more else ""
        yield _make_evidence(name, f"{version}{also}", place, major)
    for name, version, place in lines:
        if match := _PLUGIN.fullmatch(name):
            yield _make_evidence(name, version, place, match[1])


def _report_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    for report in snapshot.reports:
        if report.kind == "collect_env" and re.fullmatch(r"\d+\.\d+", report.cuda):
            place = str(report.place("CUDA used to build PyTorch"))
            yield CudaEvidence(what=f"the report of torch {report.torch}", place=place, version=report.cuda)


def _module_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    for module in snapshot.modules:
        name = f"{module.name}/{module.version}" if module.version else module.name
        if match := _MODULE.fullmatch(name):
            yield CudaEvidence(what=f"the module {name}", place=str(module.place), version=match[1])


def _conda_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    for package in snapshot.conda:
        number = re.match(r"\d+(\.\d+)?", package.version)
        if _OF_CONDA.fullmatch(package.name) and number and package.channel != "pypi":
            brings = _BRINGS.fullmatch(package.name) is not None
            description = f"conda's {package.name} {package.version}"
            yield CudaEvidence(what=description, place=str(package.place), version=number[0], brings=brings)


def _system_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    """Yield the evidence of system packages.

    It has the newest version, and others installed beside it.
    """
    packages: dict[str, list[SystemPackage]] = {}
    for package in snapshot.packages:
        if version := cuda_of(package):
            packages.setdefault(version, []).append(package)
    if not packages:
        return
    *others, newest = sorted(packages, key=lambda version: tuple(map(int, version.split("."))))
    first, *more = packages[newest]
    description = f"the package {first.name} {first.version}" + (f" and {len(more)} more" if more else "")
    beside = f" beside CUDA {', '.join(others)}" if others else ""
    yield CudaEvidence(what=f"{description}{beside}", place=str(first.place), version=newest)


def _image_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    """Yield the evidence of an image's CUDA_VERSION.

    Alone, the variable may belong to any program.
    """
    names = {variable.name for variable in snapshot.variables}
    for variable in snapshot.variables:
        number = _IMAGE.fullmatch(variable.value or "") if variable.name == "CUDA_VERSION" else None
        if number and names & _BESIDE:
            yield CudaEvidence(what="CUDA_VERSION of an image", place=str(variable.place), version=number[1])


def _driver_evidence(snapshot: Snapshot) -> Iterator[CudaEvidence]:
    for report in snapshot.reports:
        if report.kind == "nvidia-smi" and re.fullmatch(r"\d+\.\d+", report.cuda):
            description = f"the driver {report.driver}" if report.driver else "the driver"
            place = str(report.place("CUDA Version"))
            yield CudaEvidence(what=description, place=place, version=report.cuda, bound=True)


def _make_evidence(
    name: str, version: str, place: SourceLocation, cuda: str, *, brings: bool = False
) -> CudaEvidence:
    return CudaEvidence(what=f"{name} {version}", place=str(place), version=cuda, brings=brings)


def _version_conflicts(telling: list[CudaEvidence]) -> Iterator[str]:
    first = telling[0]
    for piece in telling[1:]:
        if not _same_version(first.version, piece.version):
            yield f"{_describe_evidence(piece)}, and {_describe_evidence(first)}, which counts more"


def _driver_conflicts(evidence: Iterable[CudaEvidence]) -> Iterator[str]:
    """Yield conflicts with a driver's newest CUDA.

    Only major versions count, because an older minor one is enough (`cuda_rules`).
    """
    first, *others = evidence
    for piece in others:
        if piece.bound and _major_version(piece.version) < _major_version(first.version):
            yield f"{_describe_evidence(piece)}, and {_describe_evidence(first)}: that driver is not the one of the job"


def _cudnn_conflicts(snapshot: Snapshot) -> Iterator[str]:
    """Yield conflicts of cuDNN's module with the wheel.

    torch loads the wheel's version.
    """
    lines = [line for line in snapshot.requirements if _CUDNN.fullmatch(str(canonicalize_name(line.name)))]
    for module in snapshot.modules:
        match = _CUDNN_MODULE.fullmatch(f"{module.name}/{module.version or ''}")
        for line in lines if match else ():
            assert match is not None
            if line.version and not _same_version(match[1], ".".join(line.version.split(".")[:2])):
                yield (
                    f"the module cudnn/{module.version} ({module.place}) is not {line.name} {line.version} "
                    f"({line.place}), which is what torch loads"
                )


def _base_conflicts(cuda: Cuda, package: str, version: str) -> Iterator[str]:
    """Yield a conflict of the base's CUDA with compiled code.

    Only major versions are compared.
    """
    if _major_version(version) != _major_version(cuda.version):
        yield f"{package} of the base is CUDA {version}, and {_describe_evidence(cuda.evidence[0])}"


def _same_version(first: str, second: str) -> bool:
    """Return whether two versions agree in their common parts.

    `12` and `12.4` do.
    """
    return all(a == b for a, b in zip(first.split("."), second.split("."), strict=False))


def _major_version(version: str) -> int:
    return int(version.partition(".")[0])
