"""A snapshot as facts: its lists, and its machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from reprobuild.compare.environments import conda
from reprobuild.compare.environments.addresses import hash_cut_lines, name_cut_lines
from reprobuild.compare.environments.channel import channels
from reprobuild.compare.environments.evidence import hash_bundles, hash_diffs, hash_interpreter, name_diffs
from reprobuild.compare.environments.freeze import add_distributions, drop_foreign_lines
from reprobuild.compare.environments.interpreter import add_packed, captured_build, reported_build
from reprobuild.compare.environments.model import (
    ARCHITECTURE,
    HIDDEN,
    Aspects,
    Environment,
    EnvironmentBuilder,
    Kind,
    normalise_name,
    python_series,
    shorten_value,
)
from reprobuild.compare.environments.repositories import add_sources
from reprobuild.compare.environments.unread import list_unread
from reprobuild.snapshot.capture_document import CapturedGpu, CaptureDocument, Cpu, MachineFacts
from reprobuild.snapshot.model import MachineReport, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.snapshot.parsers.conda_list import PYPI, VARIABLES
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable import secrets

NEWEST_CUDA = "newest CUDA of the driver"
# Fields of nvidia-smi about the environment, and their names here.
_GPU_FIELDS = {
    "memory.total": "GPU memory",
    "driver_version": "driver",
    "vbios_version": "VBIOS",
    "compute_cap": "compute capability",
    "ecc.mode.current": "ECC",
    "mig.mode.current": "MIG",
}
# Fields of a report on the machine, with separate names: a capture has other ones for the same facts.
_OF_REPORTS = {
    "os": "system of the report",
    "libc": "libc of the report",
    "machine": "architecture of the report",
}
_HEADERS = {
    "version.json": "CUDA",
    "version.txt": "CUDA",
    "cudnn_version.h": "cuDNN",
    "nccl.h": "NCCL",
}
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,20})?\s{1,8}(\d[\d.]{0,20})")


def from_snapshot(
    folder: Path, name: str, form: str = "snapshot", diffs: Mapping[str, str] | None = None
) -> Environment:
    """Return the facts of a snapshot.

    Args:
        folder: the snapshot.
        name: the user's name for it.
        form: its form.
        diffs: the result of `hash_diffs`, if the diffs are no longer in the snapshot.

    Raises:
        SnapshotError: see `read_snapshot` and `load_capture`.
    """
    snapshot = read_snapshot(folder)
    bundles = hash_bundles(snapshot.captured, folder)
    archive = hash_interpreter(snapshot.captured, folder)
    captured = load_capture(folder) if snapshot.captured else None
    diffs = hash_diffs(folder, name_diffs(snapshot.captured)) if diffs is None else diffs
    partly_read = {remark.place.file for remark in snapshot.remarks if remark.reason == VARIABLES}
    files = hash_diffs(folder, sorted(partly_read))
    cut = hash_cut_lines(snapshot, folder)
    return build_environment(snapshot, captured, name, form, bundles, archive, diffs, files, cut)


def build_environment(
    snapshot: Snapshot, captured: CaptureDocument | None, name: str, form: str = "snapshot",
    bundles: Mapping[str, str] = MappingProxyType({}), archive: str | None = None,
    diffs: Mapping[str, str] = MappingProxyType({}), files: Mapping[str, str] = MappingProxyType({}),
    cut: Mapping[SourceLocation, tuple[str, ...]] = MappingProxyType({}),
) -> Environment:  # fmt: skip
    """Return the facts of a snapshot and its `capture.json`.

    Args:
        snapshot: all except the part in `captured`.
        captured: the machine's facts in `capture.json`.
        name: the user's name for it.
        form: its form.
        bundles: the result of `hash_bundles`.
        archive: the result of `hash_interpreter`.
        diffs: the result of `hash_diffs`.
        files: the sha256 of each file with variables, which are not in the snapshot.
        cut: the result of `hash_cut_lines`.
    """
    gathered = EnvironmentBuilder()
    snapshot = drop_foreign_lines(gathered, snapshot, captured)
    _add_lists(gathered, snapshot, captured)
    _add_conda(gathered, snapshot, captured, cut)
    add_sources(gathered, snapshot, bundles, diffs)
    unlisted: dict[Kind, frozenset[str]] = {}
    if captured is None or captured.distributions is None:
        unlisted["python"] = HIDDEN
    if captured:
        _add_captured_facts(gathered, captured)
    add_packed(gathered, snapshot, archive)
    for report in snapshot.reports:
        _add_reported_facts(gathered, report)
    unlisted["gpu"] = _unstated_facts(gathered, captured)
    unlisted["system"] = frozenset({ARCHITECTURE}) - gathered.known.get("system", {}).keys()
    unlisted["machine"] = frozenset(_OF_REPORTS.values()) - gathered.known.get("machine", {}).keys()
    return Environment(
        name=name, form=form, known=gathered.known, unlisted=unlisted, doubled=gathered.doubled,
        repeats=frozenset(gathered.repeats),
        partial=frozenset() if captured and captured.machine else frozenset({"machine"}),
        doubts=gathered.doubts, unread=tuple(list_unread(snapshot, files, cut)),
        evidence=gathered.evidence, cut=name_cut_lines(snapshot.requirements, cut) | gathered.cut,
    )  # fmt: skip


def _add_lists(gathered: EnvironmentBuilder, snapshot: Snapshot, captured: CaptureDocument | None) -> None:
    """Add the lists from the files of the chapter's recipe."""
    add_distributions(gathered, snapshot, captured)
    if "apt-packages.txt" not in snapshot.absent:
        gathered.packages(
            (package.name, package.version, package.architecture, "")
            for package in snapshot.packages
            if package.mark != "residual"
        )
    elif captured and captured.lacks("dpkg"):
        gathered.begin("system")
    if snapshot.rpms:
        gathered.packages((rpm.name, rpm.version, rpm.architecture, "") for rpm in snapshot.rpms)
    if "env.txt" not in snapshot.absent:
        gathered.variables((variable.name, variable.value) for variable in snapshot.variables)
        for name, why in {variable.name: variable.suspect for variable in snapshot.variables}.items():
            if why:
                gathered.doubt("environment", f"{{}} has values that cannot be trusted: {why}", name)
    if "modules.txt" not in snapshot.absent:
        gathered.begin("module")
        for module in snapshot.modules:
            gathered.add("module", module.name, {"version": module.version})
    elif captured and captured.lacks("modules"):
        gathered.begin("module")


def _add_conda(
    gathered: EnvironmentBuilder, snapshot: Snapshot, captured: CaptureDocument | None,
    cut: Mapping[SourceLocation, tuple[str, ...]],
) -> None:  # fmt: skip
    """Add conda's lists, including pip's packages in them."""
    if snapshot.conda or (captured and captured.lacks("conda")):
        gathered.begin("conda")
    for package in snapshot.conda:
        if package.channel == PYPI:
            gathered.add("python", normalise_name(package.name), {"version": package.version})
    others = [line for line in snapshot.conda if line.channel != PYPI]
    if others:
        builds = (
            (
                conda.CondaBuild(
                    line.name, line.version, line.build or "", channel=channels(line),
                    cut=cut.get(line.place, ()),
                ),
                line,
            )
            for line in others
        )  # fmt: skip
        # Without an address, the line is the name of the file.
        files = (
            conda.with_hashes(
                build, line.url or line.text.partition("#")[0], md5=line.md5, sha256=line.sha256
            )
            for build, line in builds
        )
        conda.add(gathered, files)


def _add_captured_facts(gathered: EnvironmentBuilder, captured: CaptureDocument) -> None:
    """Add the facts that only `capture.json` states."""
    if captured.python:
        python = captured.python
        facts: Aspects = {"version": python.version, "series": python_series(python.version)}
        if python.implementation:
            facts["implementation"] = python.implementation
        gathered.add("interpreter", "python", facts | captured_build(captured.python))
        _add_fact(gathered, "machine", "libc", python.libc)
    if captured.gpu or captured.lacks("gpu"):
        gathered.begin("gpu")
    for name, value in _gpu_facts(captured.gpu) if captured.gpu else ():
        _add_fact(gathered, "gpu", name, value)
    if captured.machine:
        gathered.begin("machine")
        for name, value in _machine_facts(captured.machine):
            _add_fact(gathered, "machine", name, value)
        if captured.machine.release:
            gathered.add("release", "system", release_aspects(captured.machine.release))


def _add_reported_facts(gathered: EnvironmentBuilder, report: MachineReport) -> None:
    """Add the facts of `collect_env` or `nvidia-smi`.

    A fact of `capture.json` stays.
    """
    if report.kind == "capture":
        return
    if report.python:
        full = report.python if report.python.count(".") == 2 else None
        gathered.add("interpreter", "python", {"version": full, "series": python_series(report.python)})
    if build := reported_build(report):
        gathered.add("interpreter", "python", build)
    if report.gpus:
        _add_fact(gathered, "gpu", "GPU", _count_names(iter(report.gpus)))
    _add_fact(gathered, "gpu", "driver", report.driver)
    _add_fact(gathered, "gpu", "torch of the report", report.torch)
    _add_fact(gathered, "gpu", "cuDNN of the report", report.cudnn)
    for field, name in _OF_REPORTS.items():
        _add_fact(gathered, "machine", name, getattr(report, field) or "")
    _add_fact(gathered, "gpu", "CUDA of torch" if report.kind == "collect_env" else NEWEST_CUDA, report.cuda)


def _unstated_facts(gathered: EnvironmentBuilder, captured: CaptureDocument | None) -> frozenset[str]:
    """Return the GPU facts that a snapshot cannot state.

    A capture states all except those known only to a job that captures itself, in its own process.
    """
    every = {"GPU", "driver", *_GPU_FIELDS.values(), *_HEADERS.values()}
    inside = {"CUDA of torch", "loaded libraries", NEWEST_CUDA, "torch of the report", "cuDNN of the report"}
    whole = captured is not None and (captured.gpu is not None or captured.lacks("gpu"))
    return frozenset(inside if whole else every | inside) - gathered.known.get("gpu", {}).keys()


def _add_fact(gathered: EnvironmentBuilder, kind: Kind, name: str, value: str) -> None:
    """Add a fact of the machine unless it is empty."""
    if value:
        gathered.add(kind, name, {"value": secrets.redact(shorten_value(value))})


def release_aspects(release: dict[str, str]) -> Aspects:
    """Return the distribution's facts in /etc/os-release."""
    return {
        "distribution": release.get("ID", ""),
        "codename": release.get("VERSION_CODENAME", ""),
        "version": release.get("VERSION_ID", ""),
    }


def _gpu_facts(gpu: CapturedGpu) -> Iterator[tuple[str, str]]:
    """Yield the facts of GPUs, driver and CUDA libraries.

    Equal GPUs are counted.
    """
    rows = [
        dict(zip(gpu.nvidia_smi_fields, (cell.strip() for cell in row.split(",")), strict=False))
        for row in gpu.nvidia_smi or ()
    ]
    if rows:
        yield "GPU", _count_names(row.get("name", "?") for row in rows)
        for field, name in _GPU_FIELDS.items():
            yield name, ", ".join(sorted({row.get(field, "") for row in rows} - {""}))
    else:
        yield "GPU", _count_names(card.get("Model", "?") for card in gpu.cards)
        match = _DRIVER.search(gpu.driver)
        yield "driver", match[1] if match else ""
    versions: dict[str, set[str]] = {}
    for path, version in gpu.headers.items():
        if known := _HEADERS.get(path.rpartition("/")[2]):
            versions.setdefault(known, set()).add(version)
    for name, values in versions.items():
        yield name, ", ".join(sorted(values))
    if gpu.torch:
        yield "CUDA of torch", gpu.torch.get("cuda", "")
    yield "loaded libraries", ":".join(sorted({path.rpartition("/")[2] for path in gpu.libraries}))


def _count_names(names: Iterator[str]) -> str:
    return ", ".join(f"{number} x {name}" for name, number in sorted(Counter(names).items()))


def _machine_facts(machine: MachineFacts) -> Iterator[tuple[str, str]]:
    """Yield the facts of processor, kernel and limits."""
    cpu = machine.cpu
    yield "host", machine.host
    yield "processor", _describe_processor(cpu)
    yield "processors usable", str(len(cpu.usable) or cpu.count or "")
    yield "microcode", cpu.microcode
    yield "processor flags", " ".join(sorted((cpu.flags or cpu.features).split()))
    yield "memory", f"{machine.memory_bytes} bytes" if machine.memory_bytes else ""
    for name, index in (("kernel", 2), ("kernel build", 3), ("architecture", 4)):
        yield name, machine.uname[index] if len(machine.uname) > index else ""
    for name, (soft, hard) in machine.limits.items():
        if name != "ofile":  # another name of nofile
            yield f"limit {name}", f"{_format_limit(soft)}, at most {_format_limit(hard)}"
    yield "control group", machine.cgroup.get("group", "")
    for name in ("cpu.max", "memory.max"):
        yield f"control group's {name}", machine.cgroup.get(name, "")
    yield "huge pages", machine.huge_pages
    yield "container", " ".join(machine.container)


def _describe_processor(cpu: Cpu) -> str:
    named = cpu.model_name or cpu.vendor or cpu.part
    numbers = [
        f"{word} {number}"
        for word, number in (("family", cpu.family), ("model", cpu.model), ("stepping", cpu.stepping))
        if number
    ]
    return f"{named} ({', '.join(numbers)})" if numbers else named


def _format_limit(number: int) -> str:
    return "unlimited" if number < 0 else str(number)
