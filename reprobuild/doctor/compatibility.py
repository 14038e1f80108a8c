"""The check if a machine will run an image. Pure.

It uses only the image's lock and verdict file: facts in, findings out. It covers architecture, engine,
processor, driver and GPUs, glibc, disks, fabric, and each difference from the verdict's platform that leads
to other digests.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import msgspec

from reprobuild.doctor.engines import judge_engines, judge_gpus
from reprobuild.doctor.machine import GB, judge_fabric, judge_writability, report_unknown_disk
from reprobuild.doctor.model import Diagnosis, Disk, DoctorFinding, Host, State
from reprobuild.doctor.platform import judge_platform
from reprobuild.doctor.preflight.disks import BASE_TREE, BYTECODE, LAYERS
from reprobuild.doctor.preflight.glibc import check_glibc, glibc_of_base
from reprobuild.doctor.preflight.preflight import machines_of
from reprobuild.doctor.preflight.processor import check_processor
from reprobuild.engines.gpu import NVIDIA
from reprobuild.errors import LockError
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.resolve.cuda.rules import CudaTarget, check_cuda_target
from reprobuild.store.fetch import list_artefacts
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.verdict import Verdict

# glibc from 2.34 on makes threads by clone3. Docker's own profile before 20.10.10 refuses it with an error
# that glibc takes for final: https://github.com/moby/moby/issues/42680
_CLONE3, _DOCKER = (2, 34), (20, 10, 10)
# Variables by which a frozen image could name a device or an interface of its original machine, and whether
# each names the one, the other, or both. According to `ucx_info -c -f`, the default `all` of UCX_NET_DEVICES
# means any.
_NAMES_DEVICE = {"NCCL_IB_HCA": (True, False), "UCX_NET_DEVICES": (True, True), "NCCL_SOCKET_IFNAME": (False, True),
                 "GLOO_SOCKET_IFNAME": (False, True), "TP_SOCKET_IFNAME": (False, True)}  # fmt: skip
_ANY = {("UCX_NET_DEVICES", "all")}
_CAPABILITY = re.compile(r"cuda\.gpus\.\d+\.capability")
_VERBS = ("libibverbs1", "ibverbs-providers")


def judge_fit(lock: Lock, verdict: Verdict | None, host: Host, compiled: CudaTarget | None) -> Diagnosis:
    """Judge whether a lock's image will run on a machine.

    The standard is its run on the machine of the verdict.

    Args:
        lock: of the image.
        verdict: its verdict file, None if it is not available.
        host: the machine.
        compiled: the CUDA code of the image, as far as it is known; None if it has none.
    """
    return Diagnosis(
        findings=(
            *_judge_architecture(lock, host), *judge_engines(host), *_judge_glibc(lock, host),
            *_judge_processor(lock, host),
            *_judge_gpus(compiled, verdict, host), *_judge_disks(lock, host), *_judge_fabric(lock, host),
            *judge_platform(verdict, host),
        )
    )  # fmt: skip


def _judge_architecture(lock: Lock, host: Host) -> Iterator[DoctorFinding]:
    text = f"the image is of {lock.platform}, and this machine is {host.system} on {host.machine}"
    if host.system == "Linux" and host.machine in machines_of(lock):
        yield DoctorFinding(name="architecture", state="ok", seen=text)
        return
    yield DoctorFinding(
        name="architecture", state="problem", seen=text, meaning="its programs do not run here",
        fix=f"take a machine of {lock.platform}, or make the image of this platform with `--platform`: another lock, "
        "and another image",
    )  # fmt: skip


def _judge_glibc(lock: Lock, host: Host) -> Iterator[DoctorFinding]:
    has = glibc_of_base(lock)
    if has is None and lock.base.installed and "libc6" not in lock.base.installed:
        yield DoctorFinding(name="glibc", state="ok", seen="the base has none")
        return
    if has is None:
        yield DoctorFinding(
            name="glibc", state="unknown", seen="the base does not state its version",
            meaning="whether its wheels fit, and whether Docker lets it start threads, is not known",
            fix="run `reprobuild verify OUT` here",
        )  # fmt: skip
        return
    findings = [*_judge_wheel_glibc(lock), *_judge_docker_glibc(has, host)]
    text = f"the image has its own, {has[0]}.{has[1]}; this machine's is {host.glibc or 'not told'}"
    yield from findings or [DoctorFinding(name="glibc", state="ok", seen=text)]


def _judge_wheel_glibc(lock: Lock) -> Iterator[DoctorFinding]:
    try:
        check_glibc(lock)
    except LockError as err:
        yield DoctorFinding(
            name="glibc", state="problem", seen=str(err), meaning="it cannot be imported", fix=err.hint
        )


def _judge_docker_glibc(has: tuple[int, int], host: Host) -> Iterator[DoctorFinding]:
    docker = next((engine.version for engine in host.available_engines if engine.name == "docker"), "")
    if has >= _CLONE3 and docker and _version_numbers(docker) < _DOCKER:
        others = [engine.name for engine in host.available_engines if engine.name != "docker"]
        yield DoctorFinding(
            name="glibc", state="warning" if others else "problem",
            seen=f"the image has glibc {has[0]}.{has[1]}, and Docker is {docker}",
            meaning="it can start no thread: Docker before 20.10.10 forbids clone3 in a way that glibc takes for final",
            fix=f"{f'run it with `--engine {others[0]}`, or ' if others else ''}update Docker to 20.10.10 or newer",
        )  # fmt: skip


def _version_numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version)[:3])


def _judge_processor(lock: Lock, host: Host) -> Iterator[DoctorFinding]:
    lacking = list(check_processor(lock, host.flags))
    for complaint in lacking:
        yield DoctorFinding(
            name="processor", state="problem", seen=complaint, meaning="it ends with `Illegal instruction`",
            fix="take a machine with a newer processor; of a virtual one, give it the host's (`-cpu host`)",
        )  # fmt: skip
    if not host.flags and host.machine == "x86_64":
        yield DoctorFinding(
            name="processor", state="unknown", seen="/proc/cpuinfo names no flags",
            meaning="whether it has what wheels were compiled for is not known", fix="look with `lscpu`",
        )  # fmt: skip
    elif not lacking:
        yield DoctorFinding(name="processor", state="ok", seen=host.cpu or host.machine)


def _judge_gpus(compiled: CudaTarget | None, verdict: Verdict | None, host: Host) -> Iterator[DoctorFinding]:
    if compiled is None:
        yield DoctorFinding(name="gpu", state="ok", seen="the image has no CUDA code, and needs none")
        return
    description = f"{compiled.what}{f', CUDA {compiled.cuda}' if compiled.cuda else ''}"
    if NVIDIA not in host.vendors and not host.gpus.found:
        has = f"only GPUs of {', '.join(host.vendors).upper()}" if host.vendors else "no GPU"
        yield DoctorFinding(
            name="gpu", state="warning", seen=f"the image has {description}, and this machine {has}",
            meaning="it runs on the processor alone; what its verdict says of a GPU cannot be checked here",
            fix="on a cluster, ask on a node of the partition that has GPUs of NVIDIA",
        )  # fmt: skip
        return
    yield from judge_gpus(host)
    yield from _judge_drivers(compiled, description, verdict, host)


def _judge_drivers(
    compiled: CudaTarget, description: str, verdict: Verdict | None, host: Host
) -> Iterator[DoctorFinding]:
    if not host.gpus.found:
        yield DoctorFinding(
            name="driver", state="unknown", seen=f"the image has {description}, and no driver here says what it is",
            meaning="whether driver and GPU run its CUDA code is not known",
            fix="ask again where `nvidia-smi` answers",
        )  # fmt: skip
        return
    every = [
        finding
        for gpu in host.gpus.found
        for finding in check_cuda_target(compiled, gpu, host.gpus.driver, "this machine")
    ]
    findings = {finding.text: finding for finding in every}.values()
    for finding in findings:
        yield DoctorFinding(
            name="driver", state="problem" if finding.certain else "warning", seen=finding.text,
            meaning="its CUDA code does not run here" if finding.certain else "it may run, slower or not at all",
            fix="update the driver, or take a node whose driver and GPU fit; `--gpu none` runs on the processor",
        )  # fmt: skip
    if any(finding.certain for finding in findings):
        return
    capabilities = {gpu.capability for gpu in host.gpus.found}
    proven = capabilities <= _tested_capabilities(verdict)
    if not compiled.architectures and not proven:
        yield DoctorFinding(
            name="driver", state="unknown", seen=f"{description}: for which GPUs it is compiled is not known",
            meaning="that stands in the wheel of torch alone, and no verdict of such a GPU is at hand",
            fix="name a store that has the wheel with `--store`, or run `reprobuild verify OUT` here",
        )  # fmt: skip
    elif not all(capabilities) and not proven:
        names = ", ".join(gpu.name for gpu in host.gpus.found if not gpu.capability)
        yield DoctorFinding(
            name="driver", state="unknown", seen=f"neither the driver nor a table tells what the {names} can do",
            meaning=f"whether it runs {description} is not known", fix="run `reprobuild verify OUT` here",
        )  # fmt: skip
    elif not findings:
        yield DoctorFinding(name="driver", state="ok", seen=f"{host.gpus.driver} runs {description}")


def _tested_capabilities(verdict: Verdict | None) -> set[str]:
    """Return the compute capabilities of the GPUs with identical results.

    These are the GPUs of the verdict on which the determinism test gave identical bytes.
    """
    smokes = (
        [smoke for smoke in verdict.smoke if smoke.device == "cuda" and smoke.verdict == "identical"]
        if verdict
        else []
    )
    every = [dict(flatten_fingerprint(smoke.fingerprint)) for smoke in smokes]
    return {
        value for fingerprint in every for name, value in fingerprint.items() if _CAPABILITY.fullmatch(name)
    }


def estimate_space(lock: Lock) -> tuple[int, int]:
    """Return the bytes of packed layers, and of files.

    Both are estimates similar to those of `preflight`.
    """
    wheels = sum(wheel.file.size for wheel in lock.wheels)
    debs = sum(deb.file.size for deb in lock.base.packages)
    debs += sum(layer.file.size for layer in lock.base.image.layers) if lock.base.image else 0
    conda = sum(package.file.size for package in lock.conda)
    files = sum(artefact.size for artefact in list_artefacts(lock))
    return int(LAYERS * files), int(BASE_TREE * (debs + conda) + (1 + BYTECODE) * wheels + LAYERS * files)


def _judge_disks(lock: Lock, host: Host) -> Iterator[DoctorFinding]:
    packed, whole = estimate_space(lock)
    engines = [engine.name for engine in host.available_engines]
    for role, size in (("results", packed), *((name, whole) for name in engines)):
        disk, name = host.disk(role), f"disk: {role}"
        others = any(_has_space(host.disk(engine), whole) for engine in engines if engine != role)
        state: State = "warning" if role != "results" and others else "problem"
        if disk is None:
            yield report_unknown_disk(role, f"about {size / GB:.1f} GB")
        elif unfit := judge_writability(disk):
            if role == "results":  # images that several users read are usual on a cluster
                unfit = msgspec.structs.replace(
                    unfit, meaning="`run` needs nothing there; a copy of the image does"
                )
                state = "warning"
            yield msgspec.structs.replace(unfit, state=state)
        elif disk.free < size:
            yield DoctorFinding(
                name=name, state=state, seen=_describe_space(disk, size),
                meaning="the copy, or loading it, stops half way",
                fix="make room, or take another directory"
                if role == "results" else f"make room, or set another directory in the settings of {role}",
            )  # fmt: skip
        else:
            yield DoctorFinding(name=name, state="ok", seen=_describe_space(disk, size))


def _has_space(disk: Disk | None, size: int) -> bool:
    return disk is not None and disk.free >= size and judge_writability(disk) is None


def _describe_space(disk: Disk, size: int) -> str:
    return f"{disk.path} has room for {disk.free / GB:.1f} GB, and the image takes about {size / GB:.1f} GB there"


def _judge_fabric(lock: Lock, host: Host) -> Iterator[DoctorFinding]:
    for setting in lock.environment:
        devices, interfaces = _NAMES_DEVICE.get(setting.name, (False, False))
        if not (devices or interfaces) or (setting.name, setting.value.strip()) in _ANY:
            continue
        here = (*(host.fabric.devices if devices else ()), *(host.fabric.interfaces if interfaces else ()))
        names = [part.strip().partition(":")[0] for part in setting.value.lstrip("=").split(",")]
        # NCCL matches the beginning of a name; `^` excludes the names that follow.
        absent = [name for name in names if name and not any(device.startswith(name) for device in here)]
        if absent and not setting.value.startswith("^"):
            yield DoctorFinding(
                name="fabric", state="warning", seen=f"the image sets {setting.name}, and names what is not here",
                meaning="collectives over several nodes fail, or wait for ever",
                fix=f"run with `--env {shlex.quote(setting.name)}=...`"
                f" of this machine: it has {', '.join(here) or 'none'}",
            )  # fmt: skip
    several = not distributions(lock).keys().isdisjoint(("torch", "jaxlib", "tensorflow"))
    if host.fabric.devices and several and not {*_VERBS} <= {*lock.base.installed}:
        yield DoctorFinding(
            name="fabric", state="warning",
            seen=f"this machine has {', '.join(host.fabric.devices)}, and the image no {' and '.join(_VERBS)}",
            meaning="NCCL cannot use them, and talks by TCP: right, and slower",
            fix="capture on a machine that has them, or add them to apt-packages.txt and make the image again",
        )  # fmt: skip
        return
    yield from judge_fabric(host)
