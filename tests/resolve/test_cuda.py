"""Which CUDA an environment had, what torch's wheel says of itself, and NVIDIA's rules for drivers and GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.ecosystems.pypi.torch_build import TorchBuild, read_torch_build, recall_torch_build
from reprobuild.errors import BuildError
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.resolve.cuda.evidence import determine_cuda, rule_cuda
from reprobuild.resolve.cuda.rules import (
    CudaTarget,
    DriverGpu,
    capability_of,
    check_cuda_target,
    compat_package,
    find_code_kind,
    minimum_driver,
)
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.conftest import ROOT
from tests.resolve.test_shared_libraries import made_wheel

GPU_TRAIN = ROOT / "examples" / "gpu-train" / "snapshot"
SMI = (GPU_TRAIN / "nvidia-smi.txt").read_text()
TORCH_26 = ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90")
REPORT = """PyTorch version: 2.3.1+cu118
Is debug build: False
CUDA used to build PyTorch: 11.8
ROCM used to build PyTorch: N/A

OS: Debian GNU/Linux 12 (bookworm) (x86_64)
"""


def with_packages(*names: str) -> Base:
    """Return a base with packages of these names."""
    file = Artefact(filename="x.deb", sha256="8" * 64, size=1)
    debs = (Deb(name=name, version="1", architecture="amd64", essential=False, file=file) for name in names)
    return Base(distribution="debian", release="bookworm", packages=tuple(debs))


NO_CUDA = with_packages("bash")


def snapshot(tmp_path: Path, **files: str) -> Snapshot:
    for name, content in files.items():
        (tmp_path / name.replace("__", "-")).with_suffix(".txt").write_text(content)
    return read_snapshot(tmp_path)


def test_the_example() -> None:
    """Its whole answer, in the order of what counts more."""
    build = TorchBuild(version="2.6.0+cu124", cuda="12.4", architectures=TORCH_26)
    found = determine_cuda(read_snapshot(GPU_TRAIN), build, "torch-2.6.0.whl")
    assert found is not None
    assert list(found.lines()) == [
        "12.4: the environment brings it; no base image with CUDA is needed",
        "torch 2.6.0+cu124 (torch-2.6.0.whl:torch/version.py) says 12.4",
        "nvidia-cuda-runtime-cu12 12.4.127 (requirements.txt:12) says 12.4",
        "nvidia-cublas-cu12 12.4.5.8 and 11 more (requirements.txt:9) says 12",
        "the module cuda/12.4 (modules.txt:3) says 12.4",
        "the driver 550.54.15 (nvidia-smi.txt:3) knows CUDA up to 12.4",
    ]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            ["cuda-cudart-12-4 12.4.127-1", "libcublas-dev-12-4 12.4.5.8-1", "bash 5.1"],
            "the package cuda-cudart-12-4 12.4.127-1 and 1 more (apt-packages.txt:2) says 12.4",
        ),
        (["cuda-toolkit-12-4 12.4.1-1"], "the package cuda-toolkit-12-4 12.4.1-1 (apt-packages.txt:2) says 12.4"),
        (["libcudnn8 8.9.2.26-1+cuda12.1"], "the package libcudnn8 8.9.2.26-1+cuda12.1 (apt-packages.txt:2) says 12.1"),
        (
            ["cuda-11-8 11.8.0-1", "cuda-9-2 9.2.148-1", "cuda-nvcc-11-8 11.8.89-1"],
            "the package cuda-11-8 11.8.0-1 and 1 more beside CUDA 9.2 (apt-packages.txt:2) says 11.8",
        ),
    ],
)  # fmt: skip
def test_packages_of_the_system_tell(rows: list[str], line: str, tmp_path: Path) -> None:
    listed = [f"{name}/unknown,now {version} amd64 [installed]" for name, version in map(str.split, rows)]
    found = determine_cuda(snapshot(tmp_path, apt__packages="\n".join(["Listing...", *listed, ""])))
    assert found is not None
    assert found.conflicts == ()
    assert list(found.lines()) == [
        f"{line.rpartition(' ')[2]}: no captured package brings it: take a base image that has it "
        "(`--base IMAGE`)",
        line,
    ]


@pytest.mark.parametrize(
    "rows",
    [
        "cuda-compat-12-4/x,now 550.54.15-1 amd64 [installed]\n",  # a driver
        "cuda-drivers-550/x,now 550.54.15-1 amd64 [installed]\nlibnvidia-compute-550/x,now 1 amd64 [installed]\n",
        "cuda-toolkit-12-4/x,now 12.4.1-1 amd64 [residual-config]\n",
        "cuda-keyring/x,now 1.1-1 all [installed]\nlibnpth0/x,now 1.6-3 amd64 [installed]\n",
    ],
)
def test_packages_that_tell_no_cuda(rows: str, tmp_path: Path) -> None:
    assert determine_cuda(snapshot(tmp_path, apt__packages=f"Listing...\n{rows}")) is None


def test_the_variable_of_an_image_tells(tmp_path: Path) -> None:
    found = determine_cuda(snapshot(tmp_path, env="CUDA_VERSION=12.2.2.009\nNVIDIA_BUILD_ID=71422337\n"))
    assert found is not None
    assert found.evidence[0].version == "12.2"
    assert determine_cuda(snapshot(tmp_path, env="CUDA_VERSION=12.2.2\n")) is None


@pytest.mark.parametrize(
    ("freeze", "version", "brought"),
    [
        ("torch==2.3.1+cu121", "12.1", True),
        ("torch==2.3.1+cu118\nnvidia-cuda-runtime-cu12==12.1.105", "11.8", True),
        ("torch==2.9.0+cu130", "13.0", True),
        ("torch==2.4.0a0+07cecf4168.nv24.5.cu124", "12.4", True),
        ("nvidia_cuda_runtime_cu12==12.1.105\ntorch==2.3.1", "12.1", True),
        ("nvidia-cuda-runtime==13.0.48", "13.0", True),
        ("jax==0.4.30\njax-cuda12-plugin==0.4.30", "12", False),
        ("cupy-cuda11x==13.1.0", "11", False),
        ("torch==2.3.1+cpu", None, False),
        ("torch==2.3.1+rocm6.0", None, False),
        ("torch==2.3.1", None, False),
        ("numpy==2.0", None, False),
    ],
)
def test_what_a_freeze_tells(freeze: str, version: str | None, brought: bool, tmp_path: Path) -> None:
    found = determine_cuda(snapshot(tmp_path, requirements=freeze + "\n"))
    assert (found.version if found else None) == version
    assert bool(found and found.brought) == brought
    if found and not brought:
        assert "--base IMAGE" in next(found.lines())


def test_weaker_evidence_speaks_where_nothing_stronger_does(tmp_path: Path) -> None:
    modules = "Currently Loaded Modules:\n  1) cuda/12.1   2) cudnn/8.9\n"
    only = determine_cuda(snapshot(tmp_path, requirements="numpy==2.0\n", modules=modules))
    assert only is not None
    assert (only.version, only.brought) == ("12.1", False)
    conda = "# packages in environment at /opt/conda:\n#\n# Name  Version  Build  Channel\n"
    conda += "cudatoolkit  11.8.0  h6a678d5_0  main\n"
    (tmp_path / "two").mkdir()
    packed = determine_cuda(
        snapshot(tmp_path / "two", requirements="numpy==2.0\n", conda__list=conda, modules=modules)
    )
    assert packed is not None
    assert [one.version for one in packed.evidence] == ["12.1", "11.8"]
    assert packed.brought
    (tmp_path / "three").mkdir()
    machine = snapshot(tmp_path / "three", requirements="numpy==2.0\n", nvidia__smi=SMI)
    assert determine_cuda(machine) is None  # a driver says nothing of an environment


def test_conflicts_are_said(tmp_path: Path) -> None:
    freeze = "nvidia-cudnn-cu12==9.1.0.70\nnvidia-cuda-runtime-cu12==12.4.127\ntorch==2.6.0+cu124\n"
    found = determine_cuda(
        snapshot(
            tmp_path, requirements=freeze, modules="Currently Loaded Modules:\n  1) cuda/11.8   2) cudnn/8.9.7\n",
            collect_env=REPORT, nvidia__smi=SMI.replace("CUDA Version: 12.4", "CUDA Version: 11.4"),
        )
    )  # fmt: skip
    assert found is not None
    assert found.version == "12.4"
    assert found.conflicts == (
        "the report of torch 2.3.1+cu118 (collect_env.txt:3) says 11.8, and torch 2.6.0+cu124 (requirements.txt:3) "
        "says 12.4, which counts more",
        "the module cuda/11.8 (modules.txt:2) says 11.8, and torch 2.6.0+cu124 (requirements.txt:3) says 12.4, which "
        "counts more",
        "the driver 550.54.15 (nvidia-smi.txt:3) knows CUDA up to 11.4, and torch 2.6.0+cu124 (requirements.txt:3) "
        "says 12.4: that driver is not the one of the job",
        "the module cudnn/8.9.7 (modules.txt:2) is not nvidia-cudnn-cu12 9.1.0.70 (requirements.txt:1), which is what "
        "torch loads",
    )


def library(flags: str, *, before: int = 0) -> bytes:
    """Return what begins as an ELF file and holds a string at some place."""
    return b"\x7fELF" + b"x" * before + b"\0sm_80\0" + b"sm_1 no\0" + flags.encode() + b"\0rest"


def torch_wheel(store: Store, version: str, libraries: dict[str, bytes]) -> Wheel:
    files = {f"torch/lib/{name}.so": content for name, content in libraries.items()}
    return made_wheel(store, "torch", {"torch/version.py": version.encode(), **files})


VERSION_PY = """from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip']
__version__ = '2.6.0+cu124'
debug = False
cuda: Optional[str] = '12.4'
git_version = '2236df1770800ffea5697b11b0bb0d910b2e59e1'
hip: Optional[str] = None
"""


@pytest.mark.parametrize("before", [0, 7, (1 << 20) - 20, (1 << 20) + 3, (2 << 20) - 31])
def test_torch_says_what_it_was_compiled_for(before: int, tmp_path: Path) -> None:
    """Wherever the string lies: on the border of two pieces, too."""
    store = Store(tmp_path)
    flags = "sm_70 sm_90a sm_120 compute_120"
    file = torch_wheel(store, VERSION_PY, {"libtorch_python": library(flags, before=before)}).file
    assert recall_torch_build(file, store) is None
    found = read_torch_build(file, store)
    assert found == TorchBuild(version="2.6.0+cu124", cuda="12.4", architectures=tuple(flags.split()))
    store.blob(file.sha256).unlink()
    assert recall_torch_build(file, store) == read_torch_build(file, store) == found


def test_other_wheels_of_torch(tmp_path: Path) -> None:
    store = Store(tmp_path)
    cpu = VERSION_PY.replace("+cu124", "+cpu").replace("'12.4'", "None")
    assert read_torch_build(torch_wheel(store, cpu, {}).file, store) == TorchBuild(version="2.6.0+cpu")
    rocm = cpu.replace("hip: Optional[str] = None", "hip: Optional[str] = '6.2.41133'")
    assert read_torch_build(torch_wheel(store, rocm, {}).file, store).hip == "6.2.41133"
    static = {"libtorch_python": b"\x7fELF\0nothing\0", "libtorch_cuda": library("sm_60 sm_70")}
    built = read_torch_build(torch_wheel(store, VERSION_PY, static).file, store)
    assert built.architectures == ("sm_60", "sm_70")
    no_elf = {"libtorch_python": b"text\0sm_60 sm_70\0"}
    assert read_torch_build(torch_wheel(store, VERSION_PY, no_elf).file, store).architectures == ()
    endless = {"libtorch_python": library(" ".join(["sm_80"] * 5000))}
    assert read_torch_build(torch_wheel(store, VERSION_PY, endless).file, store).architectures == ("sm_80",)
    assert read_torch_build(made_wheel(store, "torch", {"x.py": b""}).file, store) == TorchBuild()
    damaged = torch_wheel(store, VERSION_PY, {"libtorch_python": library("sm_60") + b"y" * 100_000})
    whole = store.blob(damaged.file.sha256).read_bytes()
    with store.scratch() as folder:
        (folder / "x").write_bytes(whole.replace(whole[150:160], b"\xff" * 10, 1))
        file = Wheel(name="torch", version="1", role="environment", file=damaged.file).file
        broken = type(file)(filename=file.filename, sha256=store.adopt(folder / "x"), size=1)
    with pytest.raises(BuildError, match=r"torch-1-py3-none-any\.whl"):
        read_torch_build(broken, store)


def test_the_lock_has_the_answer_and_warnings_are_said(tmp_path: Path) -> None:
    """A report of a login node's old driver, beside a torch that it cannot run."""
    store = Store(tmp_path / "store")
    wheel = torch_wheel(store, VERSION_PY, {"libtorch_python": library(" ".join(TORCH_26))})
    (tmp_path / "taken").mkdir()
    old = SMI.replace("550.54.15", "470.82.01").replace("CUDA Version: 12.4", "CUDA Version: 11.4")
    taken = snapshot(
        tmp_path / "taken",
        requirements="torch==2.6.0\n",
        nvidia__smi=old.replace("A100-SXM4-80GB", "GeForce RTX 5090"),
    )
    said: list[str] = []
    (ruling,) = rule_cuda(taken, [wheel], NO_CUDA, store, said.append)
    assert (ruling.kind, ruling.subject, ruling.outcome, ruling.line) == ("cuda", "cuda", "excluded", 0)
    assert "torch 2.6.0+cu124 (torch-1-py3-none-any.whl:torch/version.py) says 12.4" in ruling.reason
    assert said == [
        "warning: CUDA: the driver 470.82.01 (nvidia-smi.txt:3) knows CUDA up to 11.4, and torch 2.6.0+cu124 "
        "(torch-1-py3-none-any.whl:torch/version.py) says 12.4: that driver is not the one of the job",
        "warning: CUDA: CUDA 12.4 of torch 2.6.0+cu124 needs driver 525.60.13, and the captured machine "
        "(nvidia-smi.txt) has 470.82.01",
        "warning: CUDA: torch 2.6.0+cu124 is compiled for sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90, and the NVIDIA "
        "GeForce RTX 5090 of the captured machine (nvidia-smi.txt) has compute capability 12.0: nothing of it runs "
        "there",
    ]
    assert (
        rule_cuda(snapshot(tmp_path / "taken", requirements="numpy==2\n"), [], NO_CUDA, store, said.append)
        == []
    )


def test_a_base_that_has_cuda(tmp_path: Path) -> None:
    """It stands in for the module, and another major version than the environment's is said."""
    taken = snapshot(
        tmp_path, requirements="numpy==2.0\n", modules="Currently Loaded Modules:\n  1) cuda/12.1\n"
    )
    store, said = Store(tmp_path / "store"), list[str]()
    (ruling,) = rule_cuda(taken, [], with_packages("cuda-cudart-12-4"), store, said.append)
    assert (ruling.outcome, said) == ("in base", [])
    assert ruling.reason.startswith(
        "12.1: no captured package brings it, and cuda-cudart-12-4 of the base does; "
    )
    rule_cuda(taken, [], with_packages("cuda-cudart-11-8"), store, said.append)
    assert said == [
        "warning: CUDA: cuda-cudart-11-8 of the base is CUDA 11.8, and the module cuda/12.1 (modules.txt:2) says 12.1"
    ]


@pytest.mark.parametrize(
    ("cuda", "least"),
    [
        ("10.2", "440.33"), ("11.0", "450.51.05"), ("11.1", "450.80.02"), ("11.8", "450.80.02"), ("12.0", "525.60.13"),
        ("12.9", "525.60.13"), ("13.0", "580"), ("9.3", ""), ("99.1", ""),
    ],
)  # fmt: skip
def test_the_oldest_driver(cuda: str, least: str) -> None:
    """From CUDA 11 on any minor version of the toolkit runs on the first driver of its major version, or on its own."""
    assert minimum_driver(cuda) == least


@pytest.mark.parametrize(
    ("architectures", "capability", "how"),
    [
        ("sm_80 sm_86", "8.6", "binary"), ("sm_80 sm_86", "8.9", "binary"), ("sm_86", "8.0", "none"),
        ("sm_80", "9.0", "none"), ("sm_80 compute_80", "9.0", "ptx"), ("compute_90", "9.0", "ptx"),
        ("compute_90", "8.9", "none"), ("sm_90a", "9.0", "binary"), ("sm_90a compute_90a", "10.0", "none"),
        ("sm_100f", "10.3", "binary"), ("compute_100f", "12.0", "none"), ("sm_100", "12.0", "none"),
        ("sm_120", "12.1", "binary"), ("sm_80", "8.7", "none"), ("sm_87", "8.7", "binary"), ("sm_87", "8.9", "none"),
        ("sm_50 odd sm_60", "5.2", "binary"), ("", "8.0", "none"),
    ],
)  # fmt: skip
def test_how_a_gpu_runs_code(architectures: str, capability: str, how: str) -> None:
    assert find_code_kind(architectures.split(), capability) == how


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA A100-SXM4-80GB", "8.0"), ("Tesla V100-SXM2-16GB", "7.0"), ("NVIDIA H100 80GB HBM3", "9.0"),
        ("NVIDIA GH200 480GB", "9.0"), ("NVIDIA L40S", "8.9"), ("NVIDIA L4", "8.9"), ("NVIDIA A10G", "8.6"),
        ("NVIDIA RTX A6000", "8.6"), ("NVIDIA RTX 6000 Ada Generation", "8.9"), ("Quadro RTX 8000", "7.5"),
        ("NVIDIA GeForce RTX 3090 Ti", "8.6"), ("NVIDIA GeForce RTX 5090", "12.0"), ("NVIDIA B200", "10.0"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0"), ("Tesla P4", "6.1"), ("Tesla T4", "7.5"),
        ("Quadro P4000", ""), ("Somebody's GPU", ""), ("NVIDIA GeForce GTX 1080 Ti", "6.1"),
    ],
)  # fmt: skip
def test_gpus_by_name(name: str, capability: str) -> None:
    assert capability_of(name) == capability


def test_the_newest_package_for_forward_compatibility() -> None:
    names = ("bash", "cuda-compat-9-2", "cuda-compat-12-4", "cuda-compat-12-10", "cuda-compat-x")
    assert [compat_package(some) for some in (names, names[:1])] == ["cuda-compat-12-10", ""]


A100, GEFORCE = DriverGpu(name="NVIDIA A100-SXM4-80GB"), DriverGpu(name="NVIDIA GeForce RTX 3090")
C124, COMPAT = {"cuda": "12.4"}, {"cuda": "12.4", "compat": "cuda-compat-12-4"}
ONLY_H100 = {"cuda": "12.4", "architectures": ("sm_90",)}
ONLY_PTX = {"cuda": "12.4", "architectures": ("compute_70",)}


@pytest.mark.parametrize(
    ("compiled", "gpu", "driver", "said", "certain"),
    [
        (C124, A100, "525.60.13", "", False),
        (
            C124,
            A100,
            "525.60",
            "and here has 525.60; an image with cuda-compat-12-4 would run on such a GPU",
            True,
        ),
        (C124, GEFORCE, "470.256.02", "needs driver 525.60.13, and here has 470.256.02", True),
        (C124, A100, "", "", False),
        (
            COMPAT,
            A100,
            "470.57",
            "it runs only where cuda-compat-12-4 of the image supports that driver",
            False,
        ),
        (
            {"cuda": "12.4", "compat": "cuda-compat-11-8"},
            A100,
            "470.57",
            "; cuda-compat-11-8 of the image is too old for it; an image with cuda-compat-12-4 would",
            True,
        ),
        (
            {"cuda": "12.4", "compat": "cuda-compat-11-8"},
            GEFORCE,
            "470.57",
            "of the image is too old for it",
            True,
        ),
        (
            {"cuda": "12.4", "compat": "cuda-compat-12-2"},
            A100,
            "470.57",
            "it runs only where cuda-compat-12-2",
            False,
        ),
        (
            {"cuda": "12.4", "compat": "cuda-compat-13-9"},
            A100,
            "470.57",
            "it runs only where cuda-compat-13-9",
            False,
        ),
        (ONLY_PTX | {"compat": "cuda-compat-12-2"}, A100, "535.54.03", "only its PTX could run", True),
        (ONLY_PTX | {"compat": "cuda-compat-12-4"}, A100, "535.54.03", "only its PTX could run", False),
        ({"cuda": "11.0"}, A100, "450.51.06", "", False),
        (COMPAT, GEFORCE, "470.57", "helps on data-centre GPUs alone", False),
        ({"cuda": "13.0"}, A100, "575.57.08", "needs driver 580, and here has 575.57.08", True),
        ({"cuda": "13.0"}, A100, "580.65.06", "", False),
        ({"cuda": "10.1"}, A100, "410.48", "needs driver 418.39", True),
        ({"cuda": "99.0"}, A100, "1", "", False),
        ({"cuda": ""}, A100, "1", "", False),
        (ONLY_H100, A100, "550.54.15", "compute capability 8.0: nothing of it runs there", True),
        (ONLY_H100, DriverGpu(name="unknown"), "550.54.15", "", False),
        (ONLY_H100, DriverGpu(name="new", capability="9.0"), "550.54.15", "", False),
        (ONLY_PTX, A100, "550.54.15", "its PTX is compiled when it first runs", False),
        (ONLY_PTX, A100, "", "its PTX is compiled when it first runs", False),
        (
            ONLY_PTX,
            A100,
            "535.54.03",
            "only its PTX could run, which needs driver 550.54.14, not 535.54.03",
            True,
        ),
    ],
)
def test_each_rule(compiled: dict[str, Any], gpu: DriverGpu, driver: str, said: str, certain: bool) -> None:
    found = list(check_cuda_target(CudaTarget(what="torch", **compiled), gpu, driver, "here"))
    assert len(found) == bool(said)
    assert all(said in finding.text and finding.certain == certain for finding in found)
