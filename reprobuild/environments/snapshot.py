"""A snapshot as facts: what its files list, and what `capture.json` says of the machine."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from reprobuild import secrets
from reprobuild.environments import conda
from reprobuild.environments.facts import (
    HIDDEN,
    Aspect,
    Aspects,
    Gathered,
    Kind,
    Side,
    bounded,
    project,
    series,
)
from reprobuild.environments.machine import Captured, Cpu, Gpu, Machine, read_facts
from reprobuild.environments.origin import INDEX, of_address, of_file
from reprobuild.snapshot import read_snapshot
from reprobuild.snapshot.conda import PYPI
from reprobuild.snapshot.model import Report, Requirement, Snapshot
from reprobuild.snapshot.repositories import Captured as Whole
from reprobuild.snapshot.repositories import Repository

NEWEST_CUDA = "newest CUDA of the driver"
NONE = "none"
# Fields of nvidia-smi that say something of the environment, and what they are called here.
_GPU_FIELDS = {
    "memory.total": "GPU memory",
    "driver_version": "driver",
    "vbios_version": "VBIOS",
    "compute_cap": "compute capability",
    "ecc.mode.current": "ECC",
    "mig.mode.current": "MIG",
}
_HEADERS = {
    "version.json": "CUDA",
    "version.txt": "CUDA",
    "cudnn_version.h": "cuDNN",
    "nccl.h": "NCCL",
}
_DRIVER = re.compile(r"Kernel Module(?: for \S{1,20})?\s{1,8}(\d[\d.]{0,20})")


def from_snapshot(folder: Path, name: str, form: str = "snapshot") -> Side:
    """Return what a snapshot states.

    Raises:
        SnapshotError: see `read_snapshot` and `machine.read_facts`.
    """
    snapshot, captured = read_snapshot(folder), read_facts(folder)
    gathered = Gathered()
    _lists(gathered, snapshot, captured)
    _conda(gathered, snapshot, captured)
    _sources(gathered, snapshot)
    unlisted: dict[Kind, frozenset[str]] = {}
    if captured is None or captured.distributions is None:
        unlisted["python"] = HIDDEN
    if captured:
        _captured(gathered, captured)
    for report in snapshot.reports:
        _reported(gathered, report)
    unlisted["gpu"] = _silent(gathered, captured)
    return Side(name=name, form=form, known=gathered.known, unlisted=unlisted, doubled=gathered.doubled)


def _lists(gathered: Gathered, snapshot: Snapshot, captured: Captured | None) -> None:
    """Add what the files of the chapter's recipe list."""
    _distributions(gathered, snapshot, captured)
    if "apt-packages.txt" not in snapshot.absent:
        gathered.packages(
            (package.name, package.version, package.architecture, "")
            for package in snapshot.packages
            if package.mark != "residual"
        )
    elif captured and captured.without("dpkg"):
        gathered.begin("system")
    if snapshot.rpms:
        gathered.packages((rpm.name, rpm.version, rpm.architecture, "") for rpm in snapshot.rpms)
    if "env.txt" not in snapshot.absent:
        gathered.variables((variable.name, variable.value) for variable in snapshot.variables)
    if "modules.txt" not in snapshot.absent:
        gathered.begin("module")
        for module in snapshot.modules:
            gathered.add("module", module.name, {"version": module.version})
    elif captured and captured.without("modules"):
        gathered.begin("module")


def _distributions(gathered: Gathered, snapshot: Snapshot, captured: Captured | None) -> None:
    """Add the freeze; `capture.json` tells the versions that it does not, and what every freeze leaves out."""
    listed = "requirements.txt" not in snapshot.absent
    if listed:
        gathered.begin("python")
        for line in snapshot.requirements:
            if line.kind != "leftover":
                aspects: dict[Aspect, str | None] = {"version": line.version, "sha256": line.sha256}
                gathered.add("python", project(line.name), {**aspects, "origin": _origin(line)})
    if captured and captured.distributions:
        known = gathered.begin("python")
        for found in captured.distributions.found:
            name = project(found.name)
            if not listed or name in known or name in HIDDEN:
                gathered.add("python", name, {"version": found.version})


def _origin(line: Requirement) -> str:
    """Return where a distribution of a freeze comes from, or "" where that tells nothing of its file."""
    if line.kind == "index":
        return INDEX
    if line.kind != "archive":
        return ""  # a repository is compared as such, and a path where something was built tells nothing
    return of_address(line.url) if line.url else of_file(line.path or "")


def _conda(gathered: Gathered, snapshot: Snapshot, captured: Captured | None) -> None:
    """Add conda's lists; what pip has installed stands in some of them, too."""
    if snapshot.conda or (captured and captured.without("conda")):
        gathered.begin("conda")
    for package in snapshot.conda:
        if package.channel == PYPI:
            gathered.add("python", project(package.name), {"version": package.version})
    others = [one for one in snapshot.conda if one.channel != PYPI]
    if others:
        built = ((conda.Built(one.name, one.version, one.build or ""), one) for one in others)
        files = (conda.hashed(it, one.url or "", md5=one.md5, sha256=one.sha256) for it, one in built)
        conda.add(gathered, files)


def _sources(gathered: Gathered, snapshot: Snapshot) -> None:
    """Add the repositories: whole work trees that were captured, else commits of the freeze and digests of diffs."""
    if "requirements.txt" not in snapshot.absent or snapshot.patches or snapshot.captured:
        gathered.begin("source")
    for line in snapshot.requirements:
        if line.kind in ("vcs", "editable"):
            gathered.add("source", project(line.name), {"commit": line.commit})
    whole = {one.name for one in snapshot.captured.repositories} if snapshot.captured else set()
    for patch in snapshot.patches:
        if patch.name not in whole:
            digest = hashlib.sha256(patch.content).hexdigest()
            gathered.add("source", project(patch.name), {"changes": f"sha256:{digest}"})
    for remark in snapshot.remarks:  # an empty diff is no patch: there were no changes
        name = project(remark.place.file.removesuffix(".diff"))
        if remark.understood and remark.place.file.endswith(".diff") and name in gathered.begin("source"):
            gathered.known["source"][name].setdefault("changes", NONE)
    if snapshot.captured:
        _repositories(gathered, snapshot.captured)


def _repositories(gathered: Gathered, captured: Whole) -> None:
    """Add the work trees that were captured; those that lie inside of others are a part of them."""
    gathered.begin("job")
    for one in captured.repositories:
        clean = one.diff.file is None and one.diff.reason == "done"
        inner = sorted(_inside(captured, one))
        aspects: dict[Aspect, str | None] = {
            "changes": NONE if clean and not inner else None,
        }
        if inner:  # a lock has the tree of all together, which only git can tell
            together = "\n".join([one.worktree, *inner]).encode()
            aspects["trees"] = f"sha256:{hashlib.sha256(together).hexdigest()}"
        else:
            aspects["tree"] = one.worktree
        for owner in map(project, one.distributions):
            gathered.add("source", owner, aspects)
            if one.head:  # the freeze has the newest commit that a remote has, and that is what a lock names
                gathered.known["source"][owner].setdefault("commit", one.head)
        if not one.distributions and one.parent is None:
            gathered.add("job", one.name, {**aspects, "commit": one.head})


def _inside(captured: Whole, one: Repository) -> Iterator[str]:
    """Yield place and tree of each repository inside of another, at any depth; each is inside of one at most once."""
    waiting, seen = [one.name], {one.name}
    while waiting:
        for child in captured.inside(waiting.pop()):
            if child.name not in seen:
                seen.add(child.name)
                waiting.append(child.name)
                yield f"{child.name} {child.path} {child.worktree}"


def _captured(gathered: Gathered, captured: Captured) -> None:
    """Add what only `capture.json` says."""
    if captured.python:
        python = captured.python
        told: Aspects = {"version": python.version, "series": series(python.version)}
        if python.implementation:
            told["implementation"] = python.implementation
        gathered.add("interpreter", "python", told)
        _add(gathered, "machine", "libc", python.libc)
    if captured.gpu or captured.without("gpu"):
        gathered.begin("gpu")
    for name, value in _gpu(captured.gpu) if captured.gpu else ():
        _add(gathered, "gpu", name, value)
    if captured.machine:
        gathered.begin("machine")
        for name, value in _machine(captured.machine):
            _add(gathered, "machine", name, value)
        if captured.machine.release:
            gathered.add("release", "system", release_aspects(captured.machine.release))


def _reported(gathered: Gathered, report: Report) -> None:
    """Add what `collect_env` or `nvidia-smi` said; what `capture.json` has said stays."""
    if report.kind == "capture":
        return
    if report.python:
        full = report.python if report.python.count(".") == 2 else None
        gathered.add("interpreter", "python", {"version": full, "series": series(report.python)})
    if report.gpus:
        _add(gathered, "gpu", "GPU", _counted(iter(report.gpus)))
    _add(gathered, "gpu", "driver", report.driver)
    _add(gathered, "gpu", "CUDA of torch" if report.kind == "collect_env" else NEWEST_CUDA, report.cuda)


def _silent(gathered: Gathered, captured: Captured | None) -> frozenset[str]:
    """Return the facts of GPUs that a snapshot does not tell, even where they are so.

    A capture tells of all but what is known only to a job that captures itself, in its own process.
    """
    every = {"GPU", "driver", *_GPU_FIELDS.values(), *_HEADERS.values()}
    inside = {"CUDA of torch", "loaded libraries", NEWEST_CUDA}
    whole = captured is not None and (captured.gpu is not None or captured.without("gpu"))
    return frozenset(inside if whole else every | inside) - gathered.known.get("gpu", {}).keys()


def _add(gathered: Gathered, kind: Kind, name: str, value: str) -> None:
    """Add a fact of the machine; what it does not have is not stated."""
    if value:
        gathered.add(kind, name, {"value": secrets.redact(bounded(value))})


def release_aspects(release: dict[str, str]) -> Aspects:
    """Return what /etc/os-release says of the distribution."""
    return {
        "distribution": release.get("ID", ""),
        "codename": release.get("VERSION_CODENAME", ""),
        "version": release.get("VERSION_ID", ""),
    }


def _gpu(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Yield what is said of GPUs, driver and CUDA's libraries; alike GPUs are counted."""
    rows = [
        dict(zip(gpu.nvidia_smi_fields, (cell.strip() for cell in row.split(",")), strict=False))
        for row in gpu.nvidia_smi or ()
    ]
    if rows:
        yield "GPU", _counted(row.get("name", "?") for row in rows)
        for field, name in _GPU_FIELDS.items():
            yield name, ", ".join(sorted({row.get(field, "") for row in rows} - {""}))
    else:
        yield "GPU", _counted(card.get("Model", "?") for card in gpu.cards)
        match = _DRIVER.search(gpu.driver)
        yield "driver", match[1] if match else ""
    versions: dict[str, set[str]] = {}
    for path, version in gpu.headers.items():
        if known := _HEADERS.get(path.rpartition("/")[2]):
            versions.setdefault(known, set()).add(version)
    for name, found in versions.items():
        yield name, ", ".join(sorted(found))
    if gpu.torch:
        yield "CUDA of torch", gpu.torch.get("cuda", "")
    yield "loaded libraries", ":".join(sorted({path.rpartition("/")[2] for path in gpu.libraries}))


def _counted(names: Iterator[str]) -> str:
    return ", ".join(f"{number} x {name}" for name, number in sorted(Counter(names).items()))


def _machine(machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield what is said of processor, kernel and limits."""
    cpu = machine.cpu
    yield "host", machine.host
    yield "processor", _processor(cpu)
    yield "processors usable", str(len(cpu.usable) or cpu.count or "")
    yield "microcode", cpu.microcode
    yield "processor flags", " ".join(sorted((cpu.flags or cpu.features).split()))
    yield "memory", f"{machine.memory_bytes} bytes" if machine.memory_bytes else ""
    for name, index in (("kernel", 2), ("kernel build", 3), ("architecture", 4)):
        yield name, machine.uname[index] if len(machine.uname) > index else ""
    for name, (soft, hard) in machine.limits.items():
        if name != "ofile":  # another name of nofile
            yield f"limit {name}", f"{_limit(soft)}, at most {_limit(hard)}"
    yield "control group", machine.cgroup.get("group", "")
    for name in ("cpu.max", "memory.max"):
        yield f"control group's {name}", machine.cgroup.get(name, "")
    yield "huge pages", machine.huge_pages
    yield "container", " ".join(machine.container)


def _processor(cpu: Cpu) -> str:
    named = cpu.model_name or cpu.vendor or cpu.part
    numbers = [
        f"{word} {number}"
        for word, number in (("family", cpu.family), ("model", cpu.model), ("stepping", cpu.stepping))
        if number
    ]
    return f"{named} ({', '.join(numbers)})" if numbers else named


def _limit(number: int) -> str:
    return "unlimited" if number < 0 else str(number)
