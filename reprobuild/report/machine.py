"""Report of `show` on the captured machine.

It covers systems other than the image's, and GPUs that are not NVIDIA's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from reprobuild.report.difference import safe_text
from reprobuild.snapshot.model import Requirement, Snapshot

_SYSTEMS = ("Windows", "macOS")
_REPORTS = {"Windows": re.compile(r"(?i)(?:microsoft )?windows\b"), "macOS": re.compile(r"(?i)mac ?os\b")}
# Distributions that are for one system alone.
_NAMES = {
    "Windows": re.compile(r"pywin32(-ctypes)?|pypiwin32|pywinpty|wincertstore|win-inet-pton|wmi|comtypes"),
    "macOS": re.compile(r"appnope|pyobjc(-.+)?|tensorflow-(macos|metal)"),
}
# Windows has drive letters, and macOS its users in /Users. conda's own build paths are those of its builders.
_PATHS = {
    "Windows": re.compile(r"(?:file:///)?[A-Za-z]:[\\/].*"),
    "macOS": re.compile(r"(?:file://)?/Users/.*"),
}
_FILES = {
    "Windows": re.compile(r".*[-_.]win(32|_amd64|_arm64)\.\w+"),
    "macOS": re.compile(r".*[-_]macosx_.*"),
}
_CHANNELS = {"Windows": re.compile(r".*/win-(32|64|arm64)/.*"), "macOS": re.compile(r".*/osx-(64|arm64)/.*")}
_CONDA = {
    "Windows": re.compile(r"vc|vc14_runtime|vs20\d\d_runtime|ucrt|(m2w64|msys2)-.+|pywin32"),
    "macOS": re.compile(r"appnope|pyobjc-.+"),
}
_ROCM = re.compile(r"[^+]+\+rocm(?P<version>\d+(\.\d+)*)\S*")
_ASCEND = re.compile(r"torch-npu|mindspore-ascend|ascend-.+|vllm-ascend|te|hccl")
_ASCEND_ALONE = ("te", "hccl")  # short names, which count only beside another one
_ASCEND_VARIABLES = re.compile(r"ASCEND_(HOME_PATH|TOOLKIT_HOME|OPP_PATH|AICPU_PATH)")
_NOTHING = re.compile(r"(?i)n/?a|none|could not collect|")


def machine_lines(snapshot: Snapshot) -> list[str]:
    """Return lines on features that a CUDA image of Linux lacks."""
    return [*_system_lines(snapshot), *_rocm_lines(snapshot), *_ascend_lines(snapshot)]


def _system_lines(snapshot: Snapshot) -> Iterator[str]:
    for system in _SYSTEMS:
        signs = list(_system_signs(snapshot, system))
        if signs:
            yield (
                f"captured on   {system}: {_join_signs(signs)}; the image is Linux: what {system} alone has "
                "is refused when "
                "the lock is made, and results of another system need not be the same"
            )


def _system_signs(snapshot: Snapshot, system: str) -> Iterator[str]:
    for report in snapshot.reports:
        if _REPORTS[system].match(report.os):
            yield f"{report.os} ({report.place('OS')})"
    for line in snapshot.requirements:
        if _is_for_system(line, system):
            yield f"{line.name} ({line.place})"
    conda = [
        package for package in snapshot.conda
        if _CHANNELS[system].fullmatch(package.url or "") or _CONDA[system].fullmatch(package.name)
    ]  # fmt: skip
    if conda:
        yield f"{len(conda)} packages of conda ({conda[0].place})"


def _is_for_system(line: Requirement, system: str) -> bool:
    if _NAMES[system].fullmatch(canonicalize_name(line.name)):
        return True
    address = line.path or line.url or ""
    if _FILES[system].fullmatch(address):
        return True
    return line.kind != "conda" and bool(_PATHS[system].fullmatch(address))


def _rocm_lines(snapshot: Snapshot) -> Iterator[str]:
    signs = []
    for report in snapshot.reports:
        for fact in report.facts:
            if fact.name.lower() == "rocm used to build pytorch" and not _NOTHING.fullmatch(fact.value or ""):
                signs.append(f"torch was built with ROCm {fact.value} ({fact.place})")
    for line in snapshot.requirements:
        if match := _ROCM.fullmatch(line.version or ""):
            signs.append(f"{line.name} {line.version} is for ROCm {match['version']} ({line.place})")
    if signs:
        yield f"ROCm          {_join_signs(signs)}: it needs GPUs of AMD"


def _ascend_lines(snapshot: Snapshot) -> Iterator[str]:
    signs: list[str] = []
    short: list[str] = []
    for report in snapshot.reports:
        for fact in report.facts:
            name = fact.name.lower()
            library = name.partition("] ")[2].replace("_", "-")
            if name.startswith(("cann", "ascend")) or _ASCEND.fullmatch(library):
                signs.append(f"{fact.name} ({fact.place})")
    for line in snapshot.requirements:
        name = str(canonicalize_name(line.name))
        if _ASCEND.fullmatch(name):
            (short if name in _ASCEND_ALONE else signs).append(f"{line.name} ({line.place})")
    for variable in snapshot.variables:
        if _ASCEND_VARIABLES.fullmatch(variable.name):
            signs.append(f"{variable.name} ({variable.place})")
    if signs:
        yield f"Ascend        {_join_signs([*signs, *short])}: it needs NPUs of Huawei, which no check here uses"


def _join_signs(signs: Sequence[str]) -> str:
    """Return the first signs for a terminal, and the others' number."""
    more = len(signs) - 3
    return safe_text("; ".join(signs[:3]), 600) + (f" and {more} more" if more > 0 else "")
