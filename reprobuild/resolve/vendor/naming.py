"""The reference of a vendor's image.

Its registry follows from the services, its tag from the snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from packaging.utils import canonicalize_name

from reprobuild.config.services import Service, fill_address
from reprobuild.errors import LockError
from reprobuild.resolve.cuda.evidence import determine_cuda
from reprobuild.resolve.cuda.packages import cuda_packages
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.system.release import infer_release, known_releases
from reprobuild.resolve.vendor.recognise import Recognised, read_image_table
from reprobuild.snapshot.model import Snapshot

UNKNOWN = "TAG"  # in a reference, instead of a part that no captured line shows
_DEVEL = re.compile(r"cuda-(?:toolkit|nvcc|compiler|command-line-tools|minimal-build)-\d+-\d+|.+-dev-\d+-\d+")
_RUNTIME = re.compile(r"(?:libcublas|cuda-libraries|cuda-runtime)-\d+-\d+")
_NO_LABEL = (12, 4, 0)  # the last CUDA with its number in the tags of images with cuDNN


def name_image(image: Recognised, snapshot: Snapshot, services: Mapping[str, Service]) -> str:
    """Return an image's reference.

    Unknown parts of it are `TAG`, or `YY.MM`.

    Args:
        image: the image.
        snapshot: the snapshot with the evidence.
        services: by name; their addresses are the repositories.
    """
    facts, service = image.facts, services[image.service]
    if image.service in ("nvidia-pytorch", "nvidia-tensorflow", "nvidia-jax", "nvidia-triton"):
        month = facts.get("month", "MM").zfill(2)
        reference = fill_address(service, year=facts.get("year", "YY"), month=month)
        if image.service == "nvidia-triton" and _distribution_version(snapshot, "vllm"):
            return reference.replace("-py3", "-vllm-python-py3")
        return reference.replace("-tf2-", "-tf1-") if facts.get("flavour") == "1" else reference
    if image.service == "google-images":
        path = facts.get("reference", "").partition("/deeplearning-platform-release/")[2]
        return fill_address(service, name=path or f"IMAGE:{UNKNOWN}")
    if image.service == "huggingface-images":
        return fill_address(service, version=_distribution_version(snapshot, "transformers") or UNKNOWN)
    if image.service == "aws-images":
        return _aws_reference(snapshot, service)
    tags: dict[str, Callable[[], str]] = {
        "pytorch-images": lambda: _pytorch_tag(facts.get("version", ""), snapshot),
        "nvidia-cuda": lambda: cuda_tag(facts.get("cuda", ""), snapshot),
    }
    return fill_address(service, tag=tags.get(image.service, lambda: "")() or UNKNOWN)


def is_complete_reference(reference: str) -> bool:
    """Return whether a reference has no part to fill in."""
    return re.search(r"\b(?:TAG|IMAGE|YY|MM)\b", reference) is None


def cuda_tag(cuda: str, snapshot: Snapshot) -> str:
    """Return the tag of NVIDIA's image for a CUDA and Ubuntu.

    Ubuntu's release is the captured one.

    It is empty without a known CUDA, and has `TAG` for unknown parts.

    Args:
        cuda: `12.4.1`, `12.4` or `10.2.89`; if empty, the captured packages show it.
        snapshot: its packages and variables show the other contents of the image.
    """
    packages = cuda_packages(snapshot)
    number = _tag_version(cuda) if cuda else _newest_cuda(packages)
    if not number:
        return ""
    ubuntu = _ubuntu_version(snapshot) or UNKNOWN
    names = {variable.name for variable in snapshot.variables}
    if not (packages or names & {"NVARCH", "NV_CUDA_CUDART_VERSION"}):
        return f"{number}-{UNKNOWN}"
    package_names = [package.name for package in snapshot.packages if package.mark != "residual"]
    if names & {"NV_CUDA_CUDART_DEV_VERSION", "NV_LIBCUBLAS_DEV_VERSION"} or any(
        map(_DEVEL.fullmatch, package_names)
    ):
        flavour = "devel"
    else:
        runtime = names & {"NV_CUDA_LIB_VERSION", "NV_LIBCUBLAS_VERSION"} or any(
            map(_RUNTIME.fullmatch, package_names)
        )
        flavour = "runtime" if runtime else "base"
    cudnn = _cudnn_version(snapshot) if flavour != "base" else ""
    parts = tuple(int(part) for part in number.split("."))
    label = f"cudnn{cudnn}-" if cudnn and parts <= _NO_LABEL else "cudnn-" if cudnn else ""
    return f"{number}-{label}{flavour}-{ubuntu}"


def _newest_cuda(packages: Mapping[str, str]) -> str:
    """Return the newest CUDA of captured packages.

    It has its patch release if a package shows it, else the last one.
    """
    minors = [match[1] for name in packages if (match := re.search(r"-(\d+-\d+)$", name))]
    newest = max(minors, key=lambda minor: tuple(map(int, minor.split("-"))), default="")
    for kind in ("cuda-toolkit", "cuda-runtime", "cuda-libraries", "cuda-minimal-build"):
        if match := re.match(r"\d+\.\d+\.\d+", packages.get(f"{kind}-{newest}", "")):
            return match[0]
    return _tag_version(newest.replace("-", "."))


def _tag_version(cuda: str) -> str:
    """Return a version in the form of tags.

    `12.4` gets its last patch release, and the build `10.2.89` becomes `10.2`.
    """
    parts = cuda.split(".")
    if len(parts) == 3:
        return cuda if int(parts[2]) < 20 else ".".join(parts[:2])
    return read_image_table().cuda.get(cuda, "")


def _ubuntu_version(snapshot: Snapshot) -> str:
    try:
        release = infer_release(snapshot.packages)
    except LockError:
        return ""
    numbers = {
        release.codename: release.number for release in known_releases() if release.distribution == "ubuntu"
    }
    number = numbers.get(release.codename, "")
    return f"ubuntu{number}" if number else ""


def _cudnn_version(snapshot: Snapshot) -> str:
    """Return cuDNN's major version.

    It comes from the image's variable, or from the system's package.
    """
    for variable in snapshot.variables:
        if variable.name in ("NV_CUDNN_VERSION", "CUDNN_VERSION") and variable.value:
            return re.split(r"\D", variable.value)[0]
    matches = (re.fullmatch(r"libcudnn(\d+)(?:-cuda-\d+)?", package.name) for package in snapshot.packages)
    return next((match[1] for match in matches if match), "")


def _pytorch_tag(version: str, snapshot: Snapshot) -> str:
    cuda = determine_cuda(snapshot)
    number = re.match(r"\d+\.\d+", cuda.version) if cuda else None
    wheels = (_distribution_version(snapshot, f"nvidia-cudnn-cu{major}") for major in ("11", "12", "13"))
    cudnn = next(filter(None, wheels), "").partition(".")[0] or _cudnn_version(snapshot)
    if not (version and number and cudnn):
        return ""
    devel = any(variable.name == "NVARCH" for variable in snapshot.variables)
    return f"{version}-cuda{number[0]}-cudnn{cudnn}-{'devel' if devel else 'runtime'}"


def _aws_reference(snapshot: Snapshot, service: Service) -> str:
    values = {variable.name: variable.value or "" for variable in snapshot.variables}
    job = "inference" if values.get("DLC_CONTAINER_TYPE") == "inference" else "training"
    torch, transformers = (
        _distribution_version(snapshot, "torch"),
        _distribution_version(snapshot, "transformers"),
    )
    framework = (
        "pytorch" if torch else "tensorflow" if _distribution_version(snapshot, "tensorflow") else "FRAMEWORK"
    )
    hugging = "HF_HUB_USER_AGENT_ORIGIN" in values
    name = f"{'huggingface-' if hugging else ''}{framework}-{job}"
    label = re.search(r"\+(cu\d+|cpu)$", torch)
    python, ubuntu = (
        next((sighting.version for sighting in gather_evidence(snapshot).pythons), ""),
        _ubuntu_version(snapshot),
    )
    if not (label and python and ubuntu) or (hugging and not transformers):
        return fill_address(service, name=name, tag=UNKNOWN)
    minor = "".join(python.split(".")[:2])
    parts = [
        torch.partition("+")[0],
        *([f"transformers{transformers}"] if hugging else []),
        *(["cpu"] if label[1] == "cpu" else ["gpu"]),
        f"py{minor}",
        *([] if label[1] == "cpu" else [label[1]]),
        ubuntu,
        *([] if hugging else ["sagemaker" if "SAGEMAKER_TRAINING_MODULE" in values else "ec2"]),
    ]
    return fill_address(service, name=name, tag="-".join(parts))


def _distribution_version(snapshot: Snapshot, name: str) -> str:
    lines = (line for line in snapshot.requirements if canonicalize_name(line.name) == name)
    return next((line.version for line in lines if line.version), "")
