"""`doctor OUT`: a lock and a certificate against machines that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.doctor.code import cuda_code
from reprobuild.doctor.compatibility import estimate_space, judge_fit
from reprobuild.doctor.diagnose import read_subject
from reprobuild.doctor.model import Fabric
from reprobuild.errors import LockError, UsageError
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import EnvVar
from reprobuild.resolve.cuda.nvidia_smi import Gpus
from reprobuild.resolve.cuda.rules import CudaTarget, DriverGpu
from reprobuild.store.store import Store
from reprobuild.verify.verdict import Verdict
from tests.doctor.hosts import A100, APPTAINER, DOCKER, PODMAN, disks, host, states, told
from tests.verify.samples import (
    FINGERPRINT,
    OTHER_TORCHES,
    deb,
    make_lock,
    make_smoke,
    make_verdict,
    wheel,
)

OLD_DOCKER = msgspec.structs.replace(DOCKER, version="20.10.7")
CUDA = CudaTarget(what="torch 2.6.0+cu124", cuda="12.4", architectures=("sm_70", "sm_80", "sm_90"))
UNTOLD = msgspec.structs.replace(CUDA, architectures=())
SAME = {**FINGERPRINT, "machine": "x86_64", "cpu_model": "made processor", "cpu_capability": "AVX2"}
OF_GPU = {
    **SAME,
    "cuda": {"driver": "550.54.15", "gpus": [{"name": A100.found[0].name, "capability": "8.0"}]},
}
H100 = Gpus(
    driver="550.54.15", found=(DriverGpu(index="0", uuid="GPU-2", name="NVIDIA H100", capability="9.0"),)
)
P100 = Gpus(
    driver="550.54.15", found=(DriverGpu(index="0", uuid="GPU-3", name="Tesla P100", capability="6.0"),)
)
NEW = Gpus(driver="550.54.15", found=(DriverGpu(index="0", uuid="GPU-4", name="NVIDIA made"),))
GPU = {"vendors": ("nvidia",), "gpus": A100, "cdi": True}


def certificate(cpu: Any = SAME, gpu: Any = None) -> Verdict:
    smokes = [make_smoke("cpu", fingerprint=cpu)]
    smokes += [make_smoke("cuda", fingerprint=gpu)] if gpu else []
    return make_verdict(smoke=tuple(smokes))


def lock_of(glibc: str = "2.36-9", **more: Any) -> Lock:
    base = make_lock().base
    return make_lock(
        base=msgspec.structs.replace(base, packages=(*base.packages, deb("libc6", glibc))), **more
    )


def judged(facts: dict[str, Any], lock: Lock | None = None, verdict: Any = ..., code: Any = None) -> Any:
    known = certificate() if verdict is ... else verdict
    return judge_fit(lock or lock_of(), known, host(**facts), code).findings


def test_the_same_machine_will_do() -> None:
    assert states(judged({})) == {}
    assert states(judged(GPU, verdict=certificate(gpu=OF_GPU), code=CUDA)) == {}


@pytest.mark.parametrize(
    ("facts", "lock", "expected", "fix"),
    [
        ({"machine": "aarch64", "flags": frozenset()}, {}, {"architecture": "problem", "platform: cpu": "warning"},
         "take a machine of linux/amd64"),
        ({"system": "Darwin", "machine": "arm64"}, {"platform": "linux/arm64"},
         {"architecture": "problem", "platform: cpu": "warning"}, "make the image of this platform"),
        ({"machine": "aarch64", "flags": frozenset()}, {"platform": "linux/arm64/v8"},
         {"platform: cpu": "warning"}, ""),
        ({"engines": (), "manager": "dnf"}, {}, {"engine": "problem"}, "`sudo dnf install podman`"),
        ({"engines": (OLD_DOCKER,)}, {}, {"glibc": "problem"}, "update Docker to 20.10.10 or newer"),
        ({"engines": (OLD_DOCKER, PODMAN)}, {}, {"glibc": "warning"}, "run it with `--engine podman`"),
        ({"engines": (OLD_DOCKER,)}, {"glibc": "2.31-13"}, {}, ""),
        ({}, {"glibc": "2.31-13", "wheels": (wheel("a", file=msgspec.structs.replace(
            wheel("a").file, filename="a-1-cp311-cp311-manylinux_2_34_x86_64.whl")),)},
         {"glibc": "problem"}, "choose a newer base with `--base`"),
        ({"flags": frozenset({"avx", "fma"}), "cpu": "another processor"}, {"wheels": (wheel("polars"),)},
         {"processor": "problem", "platform: cpu": "warning"}, "of a virtual one, give it the host's"),
        ({"flags": frozenset()}, {}, {"processor": "unknown"}, "look with `lscpu`"),
        ({"disks": disks("results", free=0)}, {}, {"disk: results": "problem"}, "make room, or take another directory"),
        ({"disks": disks("podman", free=0)}, {}, {"disk: podman": "problem"}, "the settings of podman"),
        ({"disks": disks("results", readonly=True)}, {}, {"disk: results": "warning"}, "directory with --output"),
        ({"disks": disks("results", writable=False)}, {}, {"disk: results": "warning"}, "directory with --output"),
        ({"disks": disks("podman", writable=False)}, {}, {"disk: podman": "problem"}, "the settings of podman"),
        ({"disks": disks("podman", readonly=True), "engines": (PODMAN, APPTAINER)}, {}, {"disk: podman": "warning"},
         "the settings of podman"),
        ({"disks": disks("docker", writable=False), "engines": (DOCKER,)}, {}, {}, ""),
        ({"disks": ()}, {}, {"disk: results": "unknown", "disk: podman": "unknown"}, "see in `podman info` where"),
        ({"disks": disks("podman", free=0), "engines": (PODMAN, APPTAINER)}, {}, {"disk: podman": "warning"},
         "the settings of podman"),
        ({"fabric": Fabric(devices=("mlx5_0",), nodes=("uverbs0",))}, {}, {"fabric": "warning"},
         "add them to apt-packages.txt"),
        ({"fabric": Fabric(interfaces=("eth0", "lo"))},
         {"environment": (EnvVar(name="NCCL_SOCKET_IFNAME", value="ib"),)}, {"fabric": "warning"},
         "`--env NCCL_SOCKET_IFNAME=...` of this machine: it has eth0, lo"),
        ({"fabric": Fabric(interfaces=("eth0",))},
         {"environment": (EnvVar(name="NCCL_SOCKET_IFNAME", value="=eth0"),)}, {}, ""),
        ({"fabric": Fabric()}, {"environment": (EnvVar(name="NCCL_IB_HCA", value="mlx5_0:1"),)}, {"fabric": "warning"},
         "it has none"),
        ({"fabric": Fabric()}, {"environment": (EnvVar(name="NCCL_IB_HCA", value="^mlx5_3"),)}, {}, ""),
        ({"fabric": Fabric()}, {"environment": (EnvVar(name="UCX_NET_DEVICES", value="all"),)}, {}, ""),
        ({"fabric": Fabric(interfaces=("eth0",))},
         {"environment": (EnvVar(name="UCX_NET_DEVICES", value="eth0"),)}, {}, ""),
        ({"fabric": Fabric(interfaces=("eth0",))},
         {"environment": (EnvVar(name="UCX_NET_DEVICES", value="mlx5_0:1"),)}, {"fabric": "warning"},
         "it has eth0"),
    ],
)  # fmt: skip
def test_what_is_another_elsewhere(
    facts: dict[str, Any], lock: dict[str, Any], expected: dict[str, str], fix: str
) -> None:
    findings = judged(facts, lock_of(**lock))
    found = states([finding for finding in findings if finding.name not in expected or finding.state != "ok"])
    assert found == expected
    assert fix in " ".join(finding.fix for finding in findings)


def test_a_glibc_that_is_not_told_is_no_pass() -> None:
    base = msgspec.structs.replace(make_lock().base, packages=())
    found = told(judged({}, make_lock(base=base)), "glibc")
    assert (found.state, found.seen) == ("unknown", "the base does not state its version")
    assert "reprobuild verify OUT" in found.fix
    assert told(judged({}, lock_of("unreadable")), "glibc").state == "unknown"
    assert told(judged({}, make_lock()), "glibc").seen == "the base has none"  # its packages are told


def test_a_glibc_that_will_not_do_is_not_also_well() -> None:
    file = msgspec.structs.replace(wheel("a").file, filename="a-1-cp311-cp311-manylinux_2_40_x86_64.whl")
    newer = lock_of(wheels=(wheel("a", file=file),))
    assert told(judged({}, newer), "glibc").state == "problem"
    found = judged({"engines": (OLD_DOCKER,)}, newer)
    assert [one.state for one in found if one.name == "glibc"] == ["problem", "problem"]


@pytest.mark.parametrize(
    ("facts", "code", "expected", "seen"),
    [
        ({}, CUDA, {"gpu": "warning"}, "and this machine no GPU"),
        ({**GPU, "gpus": msgspec.structs.replace(A100, driver="470.82.01")}, CUDA,
         {"driver": "problem", "platform: cuda": "warning"}, "needs driver 525.60.13, and this machine has 470.82.01"),
        ({**GPU, "gpus": P100}, CUDA, {"driver": "problem", "platform: cuda": "warning"}, "nothing of it runs there"),
        ({**GPU, "gpus": H100}, CUDA, {"platform: cuda": "warning"}, "cuda.gpus.0.name was NVIDIA A100-SXM4-80GB"),
        ({**GPU, "gpus": H100}, UNTOLD, {"driver": "unknown", "platform: cuda": "warning"},
         "for which GPUs it is compiled is not known"),
        (GPU, UNTOLD, {}, "550.54.15 runs torch 2.6.0+cu124, CUDA 12.4"),
        ({"vendors": ("nvidia",)}, CUDA, {"gpu": "warning", "driver": "unknown"}, "`nvidia-smi` does not answer"),
        ({"vendors": ("amd",)}, CUDA, {"gpu": "warning"}, "CUDA 12.4, and this machine only GPUs of AMD"),
        ({"vendors": ("amd", "nvidia")}, CUDA, {"gpu": "warning", "driver": "unknown"}, "no driver here says what"),
        ({**GPU, "gpus": NEW}, CUDA, {"driver": "unknown", "platform: cuda": "warning"},
         "what the NVIDIA made can do"),
    ],
)  # fmt: skip
def test_drivers_and_gpus(
    facts: dict[str, Any], code: CudaTarget, expected: dict[str, str], seen: str
) -> None:
    findings = judged(facts, verdict=certificate(gpu=OF_GPU), code=code)
    assert states(findings) == expected
    assert seen in " ".join(finding.seen for finding in findings)


def test_another_platform_is_named() -> None:
    avx512 = {
        **SAME,
        "cpu_model": "\x1b[1mother",
        "cpu_capability": "AVX512",
        "threads": 999,
        "python": "3.11.0",
    }
    found = [one.seen for one in judged({}, verdict=certificate(avx512)) if one.name == "platform: cpu"]
    assert found == [
        "cpu_capability was AVX512, and is AVX2 here", "cpu_model was \\x1b[1mother, and is made processor here",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("verdict", "seen"), [(None, "there is no verdict.json"), (make_verdict(smoke=()), "names no platform")]
)
def test_without_a_platform_there_is_no_yes(verdict: Verdict | None, seen: str) -> None:
    found = told(judged({}, verdict=verdict), "verdict")
    assert (found.state, seen in found.seen) == ("unknown", True)


def test_sizes_follow_from_the_lock() -> None:
    packed, whole = estimate_space(lock_of())
    file = msgspec.structs.replace(wheel("torch").file, sha256="b" * 64, size=10**9)
    more = estimate_space(lock_of(wheels=(wheel("torch", file=file),)))
    assert 0 < packed < whole
    assert more[0] - packed == pytest.approx(1.2e9, rel=0.01)
    assert more[1] - whole == pytest.approx(2.9e9, rel=0.01)


def copied(folder: Path, lock: Lock, verdict: Verdict | None) -> Path:
    write_lock(lock, folder / "reprobuild.lock")
    if verdict:
        (folder / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    return folder


@pytest.mark.parametrize(
    ("version", "fingerprint", "driver", "state"),
    [
        ("2.6.0+cu124", None, "470.82.01", "problem"),
        ("2.6.0+cu124", None, "550.54.15", "unknown"),
        ("2.6.0+cpu", None, "470.82.01", "ok"),
        ("2.6.0", None, "470.82.01", "unknown"),
        ("2.6.0", {**SAME, "cuda_build": False}, "470.82.01", "ok"),
        ("2.6.0", {**SAME, "cuda_build": True}, "470.82.01", "unknown"),
        ("2.6.0", {**SAME, "cuda_build": True, "cuda": {"version": "12.4"}}, "470.82.01", "problem"),
    ],
)  # fmt: skip
def test_two_copied_files_suffice(
    version: str, fingerprint: Any, driver: str, state: str, tmp_path: Path
) -> None:
    lock = lock_of(wheels=(wheel("torch", version),))
    verdict = certificate(fingerprint) if fingerprint else None
    if verdict:
        verdict = msgspec.structs.replace(verdict, lock=f"sha256:{lock.digest}")
    out = copied(tmp_path, lock, verdict)
    store = Store(tmp_path / "empty")
    here = host(**{**GPU, "gpus": msgspec.structs.replace(A100, driver=driver)})
    for place in (out, out / "reprobuild.lock"):
        findings = judge_fit(*read_subject(place), here, cuda_code(*read_subject(place), store)).findings
        assert (
            next(one.state for one in findings if one.name == ("gpu" if state == "ok" else "driver")) == state
        )


def test_what_does_not_belong_together(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="there is no lock at"):
        read_subject(tmp_path)
    out = copied(tmp_path, lock_of(), certificate())
    with pytest.raises(UsageError, match="is the verdict on another lock than") as caught:
        read_subject(out)
    assert caught.value.hint == "copy reprobuild.lock and verdict.json out of one output directory"


@pytest.mark.parametrize("torch", OTHER_TORCHES)
def test_a_torch_that_is_no_wheel_of_an_index_may_have_cuda_code(torch: str, tmp_path: Path) -> None:
    lock, store = lock_of(**OTHER_TORCHES[torch]), Store(tmp_path / "empty")
    told = {**SAME, "cuda_build": True, "cuda": {"version": "12.4"}}
    assert cuda_code(lock, certificate(told), store) == CudaTarget(what="torch 1.0", cuda="12.4")
    assert cuda_code(lock, certificate({**SAME, "cuda_build": False}), store) is None
    # conda's own for CUDA needs conda's runtime library, which is not there.
    unknown = None if torch == "conda" else CudaTarget(what="torch 1.0", cuda="")
    assert cuda_code(lock, None, store) == unknown
    fabric = Fabric(devices=("mlx5_0",), nodes=("uverbs0",))
    assert states(judged({"fabric": fabric}, lock)) == {"fabric": "warning"}
    assert "NCCL cannot use them" in " ".join(one.meaning for one in judged({"fabric": fabric}, lock))


def test_a_torch_that_is_not_built_yet_has_no_version(tmp_path: Path) -> None:
    lock = lock_of(**{**OTHER_TORCHES["built from a repository"], "realised": None})
    assert cuda_code(lock, None, Store(tmp_path)) == CudaTarget(what="torch", cuda="")
