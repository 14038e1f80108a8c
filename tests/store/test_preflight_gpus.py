"""What is told of this machine's GPUs before anything is fetched, with made-up answers of `nvidia-smi`."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from reprobuild.doctor.preflight.gpus import check_gpus, find_cuda_target
from reprobuild.doctor.preflight.preflight import TargetMachine, inspect_machine, preflight
from reprobuild.errors import UsageError
from reprobuild.lock.model import Lock, seal
from reprobuild.lock.python import CondaPackage, Wheel
from reprobuild.resolve.cuda.nvidia_smi import Gpus, query_gpus
from reprobuild.store.store import Store
from tests.image.made import Made
from tests.resolve.test_cuda import TORCH_26, VERSION_PY, library, torch_wheel, with_packages
from tests.store.test_preflight import sealed, wheel
from tests.verify.samples import realised

PLAIN = "index,uuid,name,driver_version"
H100 = "0, GPU-aa, NVIDIA H100 80GB HBM3, 550.54.15, 9.0"
RTX = "1, GPU-bb, NVIDIA GeForce RTX 5090, 570.86.10, 12.0"


def answering(folder: Path, rows: str, *, knows_capability: bool = True) -> dict[str, str]:
    """Return an environment in which the program answers so; an old driver fails where it does not know a field."""
    folder.mkdir(exist_ok=True)
    program = folder / "nvidia-smi"
    old = (
        ""
        if knows_capability
        else f'[ "$1" = --query-gpu={PLAIN} ] || {{ echo Field is not valid; exit 2; }}\n'
    )
    program.write_text(
        f"#!/bin/sh\n[ \"$2\" = --format=csv,noheader ] || exit 3\n{old}cat <<'EOF'\n{rows}\nEOF\n"
    )
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def torch(store: Store) -> Wheel:
    return torch_wheel(store, VERSION_PY, {"libtorch_python": library(" ".join(TORCH_26))})


def locked(tmp_path: Path, *wheels: Wheel, **more: object) -> Lock:
    return Made(tmp_path / "made").unsealed_lock(wheels=wheels, **more)


def test_what_nvidia_smi_says(tmp_path: Path) -> None:
    found = query_gpus(answering(tmp_path / "bin", f"{H100}\n{RTX}"))
    assert found.driver == "550.54.15"
    assert [(gpu.index, gpu.uuid, gpu.capability) for gpu in found.found] == [
        ("0", "GPU-aa", "9.0"),
        ("1", "GPU-bb", "12.0"),
    ]
    old = answering(tmp_path / "bin", "0, GPU-aa, Tesla V100-SXM2-16GB, 450.80.02", knows_capability=False)
    volta = msgspec.structs.replace(found.found[0], name="Tesla V100-SXM2-16GB", capability="7.0")
    assert query_gpus(old) == Gpus(driver="450.80.02", found=(volta,))
    odd = answering(tmp_path / "bin", "0, GPU-aa, Strange \x1b[31mGPU, 550.1, [N/A]\nNo devices")
    assert [(gpu.name, gpu.capability) for gpu in query_gpus(odd).found] == [("Strange \\x1b[31mGPU", "")]
    assert query_gpus(answering(tmp_path / "bin", "No devices were found")) == Gpus()
    assert query_gpus({"PATH": str(tmp_path)}) == Gpus()
    assert inspect_machine(answering(tmp_path / "bin", H100)).gpus.driver == "550.54.15"


@pytest.mark.parametrize("asked", ["auto", "none", "all", "0"])
def test_a_machine_that_fits_or_has_no_gpu_is_told_nothing(
    asked: str, torch: Wheel, store: Store, tmp_path: Path
) -> None:
    lock = locked(tmp_path, torch)
    assert check_gpus(lock, store, query_gpus(answering(tmp_path / "bin", H100)), asked) == []
    assert check_gpus(lock, store, Gpus(), asked) == []


def test_what_cannot_run_is_an_error_only_where_a_gpu_is_asked_for(
    torch: Wheel, store: Store, tmp_path: Path
) -> None:
    lock = locked(tmp_path, torch)
    both = query_gpus(answering(tmp_path / "bin", f"{H100}\n{RTX}"))
    nothing = (
        "torch 2.6.0+cu124 is compiled for sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90, and the NVIDIA GeForce RTX 5090 "
        "of this machine has compute capability 12.0: nothing of it runs there"
    )
    assert check_gpus(lock, store, both, "auto") == [nothing]
    assert check_gpus(lock, store, both, "none") == []
    assert check_gpus(lock, store, both, "0") == check_gpus(lock, store, both, "GPU-aa") == []
    for asked in ("all", "1", "GPU-bb", "0,1"):
        with pytest.raises(UsageError, match="nothing of it runs there") as caught:
            check_gpus(lock, store, both, asked)
        assert (
            caught.value.hint
            == "leave the GPU out with `--gpu none`, or take a machine whose driver and GPU fit"
        )
    here = TargetMachine(name="x86_64", flags=frozenset(), gpus=both)
    made = Made(tmp_path / "more")
    assert nothing in preflight(sealed(made, wheels=(torch,)), store, tmp_path, here)
    with pytest.raises(UsageError, match="nothing of it runs there"):
        preflight(sealed(made, wheels=(torch,)), store, tmp_path, here, "1")


def test_an_old_driver(torch: Wheel, store: Store, tmp_path: Path) -> None:
    row = "0, GPU-aa, NVIDIA A100-SXM4-80GB, 470.82.01, 8.0"
    here = query_gpus(answering(tmp_path / "bin", row))
    lock = locked(tmp_path, torch)
    said = "CUDA 12.4 of torch 2.6.0+cu124 needs driver 525.60.13, and this machine has 470.82.01"
    assert check_gpus(lock, store, here, "auto") == [
        f"{said}; an image with cuda-compat-12-4 would run on such a GPU"
    ]
    with pytest.raises(UsageError, match=r"needs driver 525\.60\.13"):
        check_gpus(lock, store, here, "all")
    compat = with_packages("cuda-compat-12-4")
    assert check_gpus(locked(tmp_path / "compat", torch, base=compat), store, here, "all") == [
        f"{said}: it runs only where cuda-compat-12-4 of the image supports that driver"
    ]


def test_what_an_image_was_compiled_with(torch: Wheel, store: Store, tmp_path: Path) -> None:
    """torch's own word first; then the runtime library, wherever it comes from."""
    runtime = wheel("nvidia_cuda_runtime_cu12-12.1.105-py3-none-any.whl")
    runtime = msgspec.structs.replace(runtime, name="nvidia-cuda-runtime-cu12")
    absent = wheel("torch-2.6.0-py3-none-any.whl")

    def found(*wheels: Wheel, **more: object) -> tuple[str, str] | None:
        compiled = find_cuda_target(locked(tmp_path / os.urandom(4).hex(), *wheels, **more), store)
        return (compiled.what, compiled.cuda) if compiled else None

    assert found(torch, runtime) == ("torch 2.6.0+cu124", "12.4")
    built = seal(locked(tmp_path / "built"), realised(torch))
    assert find_cuda_target(built, store) == find_cuda_target(locked(tmp_path / "wheel", torch), store)
    assert found(absent, runtime) == ("nvidia-cuda-runtime-cu12 12.1.105", "12.1")
    cpu = VERSION_PY.replace("+cu124", "+cpu").replace("'12.4'", "None")
    assert found(torch_wheel(store, cpu, {}), runtime) is None
    conda = CondaPackage(
        name="cuda-cudart", version="12.6.77", build="0", subdir="linux-64", channel="x", file=runtime.file
    )
    assert found(conda=(conda,)) == ("cuda-cudart 12.6.77", "12.6")
    assert found(base=with_packages("bash", "cuda-cudart-12-2")) == ("cuda-cudart-12-2 of the base", "12.2")
    assert found(wheel("numpy-2.0-py3-none-any.whl")) is None
