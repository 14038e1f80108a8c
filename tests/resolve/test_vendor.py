"""Snapshots from inside vendors' images: which image it was, what it is called, and the hint that comes first.

The variables are those of published dumps, shortened.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.config.services import read_services
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Resolution
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.resolver import resolve_snapshot
from reprobuild.resolve.vendor.hints import base_hint, cuda_hint, find_origin, loses_cuda
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.conftest import ROOT, reprobuild

CORPUS = Path(os.environ.get("REPROBUILD_CORPUS", "/nonexistent"))
SERVICES = read_services({})
FILES = {
    "pip_freeze": "requirements.txt", "apt_list": "apt-packages.txt", "dpkg_l": "dpkg-l.txt", "env_dump": "env.txt",
    "module_list": "modules.txt", "collect_env": "collect_env.txt", "nvidia_smi": "nvidia-smi.txt",
}  # fmt: skip
NGC = """CUDA_VERSION=12.2.2.009
CUDNN_VERSION=8.9.5.29
LD_LIBRARY_PATH=/usr/local/lib/python3.10/dist-packages/torch/lib:/usr/local/cuda/compat/lib:/usr/local/nvidia/lib
NCCL_VERSION=2.19.3
NVIDIA_BUILD_ID=71422337
NVIDIA_PRODUCT_NAME=PyTorch
NVIDIA_PYTORCH_VERSION=23.10
NVIDIA_REQUIRE_CUDA=cuda>=9.0
PYTORCH_BUILD_NUMBER=0
PYTORCH_BUILD_VERSION=2.1.0a0+32f93b1
"""
CUDA = """CUDA_VERSION=12.6.3
NVARCH=x86_64
NVIDIA_REQUIRE_CUDA=cuda>=12.6 brand=unknown,driver>=470,driver<471
NV_CUDA_CUDART_DEV_VERSION=12.6.77-1
NV_CUDA_CUDART_VERSION=12.6.77-1
NV_CUDA_LIB_VERSION=12.6.3-1
"""
HUB = f"""{CUDA}LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64
NVIDIA_DRIVER_CAPABILITIES=compute,utility
PATH=/usr/local/nvidia/bin:/usr/local/cuda/bin:/opt/conda/bin:/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/bin:/bin
PYTORCH_VERSION=2.6.0
"""
GOOGLE = """CONTAINER_NAME=rapids-gpu/21-12+cu110
CONTAINER_URL=us-docker.pkg.dev/deeplearning-platform-release/gcr.io/rapids-gpu.21-12:nightly-2022-05-26
DL_ANACONDA_HOME=/opt/conda
NVARCH=x86_64
CUDA_VERSION=11.0.3
"""
AWS = """DLC_CONTAINER_TYPE=training
LD_LIBRARY_PATH=/opt/amazon/openmpi/lib/:/opt/amazon/efa/lib/:/opt/conda/lib:/usr/local/lib
SAGEMAKER_TRAINING_MODULE=sagemaker_pytorch_container.training:main
"""
ROCM = """PATH=/opt/ompi/bin:/opt/rocm/bin:/opt/conda/envs/py_3.10/bin:/opt/conda/condabin:/usr/bin
PYTORCH_ROCM_ARCH=gfx900;gfx906;gfx90a
ROCM_PATH=/opt/rocm
"""
JAMMY = "base-files/jammy,now 12ubuntu4.6 amd64 [installed]\n"
TORCH_26 = "nvidia-cuda-runtime-cu12==12.6.77\nnvidia-cudnn-cu12==9.5.1.17\ntorch==2.6.0+cu126\n"


def snapshot(folder: Path, env: str = "", freeze: str = "", apt: str = "") -> Snapshot:
    """Return a snapshot with these files."""
    texts = {"env.txt": env, "requirements.txt": freeze, "apt-packages.txt": apt and f"Listing...\n{apt}"}
    for name, text in texts.items():
        if text:
            (folder / name).write_text(text)
    return read_snapshot(folder)


@pytest.mark.parametrize(
    ("env", "freeze", "apt", "reference"),
    [
        (NGC, "", "", "nvcr.io/nvidia/pytorch:23.10-py3"),
        ("", "torch==2.3.0a0+6ddf5cf85e.nv24.4\n", "", "nvcr.io/nvidia/pytorch:24.04-py3"),
        ("", "torch==2.11.0a0+a6c236b9fd.nv26.3.46836102\n", "", "nvcr.io/nvidia/pytorch:26.03-py3"),
        (
            "", "torch @ file:///opt/transfer/torch-2.9.0a0%2B145a3a7bda.nv25.10-cp312-cp312-linux_x86_64.whl\n", "",
            "nvcr.io/nvidia/pytorch:25.10-py3",
        ),
        (NGC, "torch==2.6.0a0+ecf3bae40a.nv25.1\n", "", "nvcr.io/nvidia/pytorch:25.01-py3"),
        (
            "", "torch @ file:///opt/pytorch/pytorch\ntorchvision @ file:///opt/pytorch/vision\n", "",
            "nvcr.io/nvidia/pytorch:YY.MM-py3",
        ),
        ("NVIDIA_TENSORFLOW_VERSION=23.03-tf2\nNVIDIA_BUILD_ID=5\n", "", "", "nvcr.io/nvidia/tensorflow:23.03-tf2-py3"),
        ("NVIDIA_TENSORFLOW_VERSION=20.12-tf1\nNVIDIA_BUILD_ID=5\n", "", "", "nvcr.io/nvidia/tensorflow:20.12-tf1-py3"),
        ("", "tensorflow==2.17.0+nv25.2\n", "", "nvcr.io/nvidia/tensorflow:25.02-tf2-py3"),
        ("NVIDIA_JAX_VERSION=24.04\nNVIDIA_BUILD_ID=5\n", "", "", "nvcr.io/nvidia/jax:24.04-py3"),
        ("SRC_PATH_JAX=/opt/jax\nSRC_PATH_XLA=/opt/xla\n", "", "", "nvcr.io/nvidia/jax:YY.MM-py3"),
        (CUDA, "", JAMMY, "docker.io/nvidia/cuda:12.6.3-devel-ubuntu22.04"),
        (CUDA.replace("_DEV_", "_X_"), "", JAMMY, "docker.io/nvidia/cuda:12.6.3-runtime-ubuntu22.04"),
        (f"{CUDA}NV_CUDNN_VERSION=9.5.1.17\n", "", JAMMY, "docker.io/nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04"),
        (
            "CUDA_VERSION=11.8.0\nNVARCH=x86_64\nNV_CUDNN_VERSION=8.9.6.50\nNV_CUDA_LIB_VERSION=11.8.0-1\n", "", JAMMY,
            "docker.io/nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04",
        ),
        ("CUDA_VERSION=12.4.1\nNVARCH=x86_64\n", "", JAMMY, "docker.io/nvidia/cuda:12.4.1-base-ubuntu22.04"),
        (
            "CUDA_VERSION=10.2.89\nCUDA_PKG_VERSION=10-2=10.2.89-1\n", "", JAMMY,
            "docker.io/nvidia/cuda:10.2-TAG",
        ),
        (CUDA, "", "", "docker.io/nvidia/cuda:12.6.3-devel-TAG"),
        ("CUDA_VERSION=10.0.130\nCUDA_PKG_VERSION=10-0=10.0.130-1\n", "", "", "docker.io/nvidia/cuda:10.0-TAG"),
        ("NVIDIA_TRITON_SERVER_VERSION=24.09\n", "", "", "nvcr.io/nvidia/tritonserver:24.09-py3"),
        (
            "", "torch==2.7.0a0+ecf3bae40a.nv25.2\ntritonserver==0.0.0\nvllm==0.7.3\n", "",
            "nvcr.io/nvidia/tritonserver:YY.MM-vllm-python-py3",
        ),
        # Names of AWS that somebody put over PyTorch's image.
        (f"{HUB}DLC_CONTAINER_TYPE=training\nRDMAV_FORK_SAFE=1\n", "", "", "docker.io/pytorch/pytorch:TAG"),
        (HUB, TORCH_26, "", "docker.io/pytorch/pytorch:2.6.0-cuda12.6-cudnn9-devel"),
        (HUB.replace("NVARCH=x86_64\n", ""), TORCH_26, "", "docker.io/pytorch/pytorch:2.6.0-cuda12.6-cudnn9-runtime"),
        (HUB, "", "", "docker.io/pytorch/pytorch:TAG"),
        (GOOGLE, "", "", "us-docker.pkg.dev/deeplearning-platform-release/gcr.io/rapids-gpu.21-12:nightly-2022-05-26"),
        (AWS, "torch==2.3.0\n", "", "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:TAG"),
        (
            AWS, "python==3.11.9\ntorch==2.3.0+cu121\n", JAMMY,
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu22.04-sagemaker",
        ),
        (
            f"{AWS}HF_HUB_USER_AGENT_ORIGIN=aws:sagemaker:gpu-cuda:training\n",
            "python==3.10.8\ntorch==2.1.0+cu121\ntransformers==4.36.0\n", JAMMY,
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/"
            "huggingface-pytorch-training:2.1.0-transformers4.36.0-gpu-py310-cu121-ubuntu22.04",
        ),
        (ROCM, "", "", "docker.io/rocm/pytorch:TAG"),
        (
            CUDA, "# Editable install with no version control (transformers==4.40.0)\n-e /transformers\n", "",
            "docker.io/huggingface/transformers-pytorch-gpu:4.40.0",
        ),
    ],
)  # fmt: skip
def test_an_image_is_recognised_and_named(
    env: str, freeze: str, apt: str, reference: str, tmp_path: Path
) -> None:
    found = find_origin(snapshot(tmp_path, env, freeze, apt), SERVICES)
    assert found is not None
    assert found.reference == reference
    assert found.whole == (not reference.endswith("TAG") and "YY" not in reference)


@pytest.mark.parametrize(
    ("env", "freeze", "apt"),
    [
        ("", "", ""),
        # People set it alone, so that a setup.py takes other ways.
        ("NVIDIA_PYTORCH_VERSION=24.03\nOMP_NUM_THREADS=8\n", "torch==2.5.1\n", ""),
        # An image of somebody else that has NVIDIA's names.
        ("NVIDIA_PRODUCT_NAME=PyTorch\nPYTORCH_BUILD_VERSION=2.3.0\nCOCOAPI_VERSION=2.0.8\n", "", ""),
        ("CUDA_VERSION=12.1\nPYTORCH_VERSION=2.1.0\nPYTHON_VERSION=3.10\n", "", ""),
        ("CUDA_HOME=/usr/local/cuda\nCUDA_VERSION=12.4.1\nNCCL_VERSION=2.22.3\n", "", ""),
        ("ROCM_PATH=/opt/rocm-6.4.1\nPYTORCH_ROCM_ARCH=gfx90a\nPATH=/opt/miniforge3/bin:/usr/bin\n", "", ""),
        ("DLC_CONTAINER_TYPE=training\n", "", ""),
        # NVIDIA's wheels for Jetson.
        ("", "Jetson.GPIO==2.1.6\ntorch==2.5.0a0+872d972e41.nv24.8\n", ""),
        ("", "torch==2.5.0a0+872d972e41.nv24.8\n", "base-files/jammy,now 12ubuntu4.6 arm64 [installed]\n"),
        ("", "torch==2.1.0a0+41361538.nv23.6\n", ""),
        ("", "torch @ file:///tmp/torch-2.5.0a0+872d972e41.nv24.08.17622132-cp310-cp310-linux_aarch64.whl\n", ""),
        ("", "tool @ file:///opt/pytorch/tool\n", ""),
        ("", "torch==2.9.0a0+git1234567\nflash-attn==2.7.0+cu12torch2.6\n", ""),
    ],
)  # fmt: skip
def test_what_is_no_vendors_image(env: str, freeze: str, apt: str, tmp_path: Path) -> None:
    assert find_origin(snapshot(tmp_path, env or "A=b\n", freeze, apt), SERVICES) is None


@pytest.mark.parametrize("folder", sorted(path.parent for path in ROOT.glob("examples/*/snapshot/env.txt")))
def test_the_examples_are_no_vendors_images(folder: Path) -> None:
    assert find_origin(read_snapshot(folder), SERVICES) is None


def test_of_the_corpus_the_one_dump_from_inside_an_image_is_recognised(tmp_path: Path) -> None:
    """Without the corpus the loop is empty; the two above hold the rules."""
    found = {}
    for number, path in enumerate(sorted(p for kind in FILES for p in (CORPUS / kind).glob("*"))):
        (folder := tmp_path / str(number)).mkdir()
        (folder / FILES[path.parent.name]).write_bytes(path.read_bytes())
        if origin := find_origin(read_snapshot(folder), SERVICES):
            found[path.name] = origin.reference
    known = {"k8s_twcc_ngc_2006_export.txt": "nvcr.io/nvidia/pytorch:20.06-py3"}
    assert found == (known if CORPUS.is_dir() else {})


def test_show_names_the_image(tmp_path: Path) -> None:
    snapshot(tmp_path, NGC)
    done = reprobuild("show", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "image         NVIDIA's PyTorch image, of which the packages come with --base "
        "nvcr.io/nvidia/pytorch:23.10-py3\n"
        "image         shown by NVIDIA_PYTORCH_VERSION=23.10 (env.txt:7), PYTORCH_BUILD_VERSION=2.1.0a0+32f93b1 "
        "(env.txt:10), NVIDIA_BUILD_ID=71422337 (env.txt:5), NVIDIA_PRODUCT_NAME=PyTorch (env.txt:6)\n"
    ) in done.stdout + done.stderr


def around(folder: Path) -> ResolveContext:
    return ResolveContext(
        store=Store(folder / "store"), net=Net(offline=True), env={"PATH": "/usr/bin:/bin"}, folder=folder,
        say=lambda text: None, indexes=PackageIndexes(find_links=(), simple=(), credentials={}), now=1_700_000_000,
    )  # fmt: skip


def test_the_first_hint_of_a_refusal_is_the_image(tmp_path: Path) -> None:
    captured = snapshot(tmp_path, NGC, "torch==2.1.0a0+32f93b1\n")
    with pytest.raises(LockError) as caught:
        resolve_snapshot(captured, Decisions(), around(tmp_path))
    assert caught.value.hint.splitlines() == [
        "the snapshot was taken inside NVIDIA's PyTorch image (env.txt:7: NVIDIA_PYTORCH_VERSION=23.10), which has its "
        "packages; take it as base: --base nvcr.io/nvidia/pytorch:23.10-py3 "
        "(`docker buildx imagetools inspect nvcr.io/nvidia/pytorch:23.10-py3` prints its digest, which the lock pins)",
        "say it: --python X.Y.Z, or `python:` in reprobuild.yaml; all answers at once: --python X.Y.Z "
        "--accept no-apt-list",
    ]


def test_the_hint_for_an_image_of_unknown_tag(tmp_path: Path) -> None:
    assert base_hint(snapshot(tmp_path, HUB), None, SERVICES) == (
        "the snapshot was taken inside PyTorch's image of Docker Hub (env.txt:10: PYTORCH_VERSION=2.6.0), which has "
        "its packages; take it as base: --base docker.io/pytorch/pytorch:TAG, with the tag of the image that ran "
        "(`docker images --digests` lists it and its digest)"
    )


def test_long_hostile_lines_take_no_time(tmp_path: Path) -> None:
    version = "1" + "-1" * 30_000
    lines = [f"a{number} @ file:///tmp/x{version}.whl" for number in range(50)]
    captured = snapshot(tmp_path, "PATH=" + ":/opt" * 20_000, "\n".join(lines))
    began = time.monotonic()
    assert find_origin(captured, SERVICES) is None
    assert time.monotonic() - began < 5


def test_a_version_alone_may_be_of_a_jetson(tmp_path: Path) -> None:
    """The same version stands in NVIDIA's image and in its wheel for another machine."""
    freeze = "torch==2.5.0a0+872d972e41.nv24.8\n"
    (here := tmp_path / "alone").mkdir()
    image = "nvcr.io/nvidia/pytorch:24.08-py3"
    assert base_hint(snapshot(here, freeze=freeze), None, SERVICES) == (
        "the snapshot was taken inside NVIDIA's PyTorch image (requirements.txt:1: torch==2.5.0a0+872d972e41.nv24.8), "
        f"which has its packages; take it as base: --base {image} (`docker buildx imagetools inspect {image}` prints "
        "its digest, which the lock pins); unless it ran on a Jetson, whose wheels have such versions, too"
    )
    (here := tmp_path / "amd64").mkdir()
    assert "Jetson" not in base_hint(snapshot(here, freeze=freeze, apt=JAMMY), None, SERVICES)


def test_the_hint_goes_where_the_base_is_an_image(tmp_path: Path) -> None:
    captured = snapshot(tmp_path, NGC)
    assert base_hint(captured, "nvcr.io/nvidia/pytorch:23.10-py3", SERVICES) == ""
    assert base_hint(captured, "debian/bookworm", SERVICES) != ""


def test_the_registry_of_the_hint_can_be_ones_own(tmp_path: Path) -> None:
    services = read_services({"nvidia-pytorch": "registry.example/ngc/pytorch:{year}.{month}-py3"})
    assert "--base registry.example/ngc/pytorch:23.10-py3 (" in base_hint(
        snapshot(tmp_path, NGC), None, services
    )


def test_folders_of_the_image_stay_on_its_library_path(tmp_path: Path) -> None:
    """With the image as base they are there; with any other base the line is unresolved."""
    captured = snapshot(tmp_path, f"{NGC}MKL_NUM_THREADS=4\n")
    without, over = (
        triage_snapshot(captured, Decisions(base=base)) for base in (None, "nvcr.io/nvidia/pytorch:23.10-py3")
    )
    assert {s.name: s.value for s in over.settings} == {
        "MKL_NUM_THREADS": "4",
        "LD_LIBRARY_PATH": "/usr/local/lib/python3.10/dist-packages/torch/lib:/usr/local/cuda/compat/lib:"
        "/usr/local/nvidia/lib",
    }
    assert [s.name for s in without.settings] == ["MKL_NUM_THREADS"]
    assert [r.kind for r in without.rulings if r.outcome == "unresolved"] == ["site-library-path"]
    labels = [r for r in over.rulings if r.kind == "image-label"]
    assert {r.reason for r in labels} == {
        "labels the image that the snapshot was taken in, and would be false of this one"
    }
    assert {r.subject for r in labels} == {
        "CUDA_VERSION", "CUDNN_VERSION", "NCCL_VERSION", "NVIDIA_BUILD_ID", "NVIDIA_PRODUCT_NAME",
        "NVIDIA_PYTORCH_VERSION", "NVIDIA_REQUIRE_CUDA", "PYTORCH_BUILD_NUMBER", "PYTORCH_BUILD_VERSION",
    }  # fmt: skip


CUDA_ROWS = (
    "cuda-cudart-12-4/unknown,now 12.4.127-1 amd64 [installed]\n"
    "libcublas-12-4/unknown,now 12.4.5.8-1 amd64 [installed,automatic]\n"
    "libcudnn9-cuda-12/unknown,now 9.1.0.70-1 amd64 [installed]\n"
)


@pytest.mark.parametrize(
    ("rows", "tag"),
    [
        (CUDA_ROWS, "12.4.1-cudnn-runtime-ubuntu22.04"),
        ("cuda-toolkit-12-4/unknown,now 12.4.0-1 amd64 [installed]\n", "12.4.0-devel-ubuntu22.04"),
        ("cuda-cudart-11-8/unknown,now 11.8.89-1 amd64 [installed]\n", "11.8.0-base-ubuntu22.04"),
    ],
)
def test_packages_of_cuda_lead_to_the_image_that_has_them(rows: str, tag: str, tmp_path: Path) -> None:
    captured = snapshot(tmp_path, apt=JAMMY + rows)
    image = f"docker.io/nvidia/cuda:{tag}"
    assert cuda_hint(captured, None, SERVICES) == (
        f"NVIDIA's images have CUDA's packages: --base {image} "
        f"(`docker buildx imagetools inspect {image}` prints its digest, which the lock pins)"
    )


def test_where_no_image_of_cuda_is_known(tmp_path: Path) -> None:
    bookworm = "base-files/stable,now 12.4+deb12u5 amd64 [installed]\n"
    assert cuda_hint(snapshot(tmp_path, apt=bookworm + CUDA_ROWS), None, SERVICES) == (
        "NVIDIA's images have CUDA's packages: --base docker.io/nvidia/cuda:12.4.1-cudnn-runtime-TAG, with a tag "
        "of the captured CUDA and system"
    )
    assert cuda_hint(snapshot(tmp_path), "registry.example/x:1", SERVICES) == (
        "CUDA's packages are in no archive of this machine: choose a base image that has them with --base"
    )


def test_cuda_among_lines_that_are_summed_up_is_seen() -> None:
    def refused(name: str) -> Resolution:
        return Resolution(
            file="apt-packages.txt", line=3, subject=name, outcome="unresolved", reason="gone", kind="unknown-package"
        )  # fmt: skip

    with pytest.raises(LockError) as without:
        accept_deviations([refused(name) for name in ("acme", "bcme", "ccme", "dcme")], [])
    assert not loses_cuda(without.value)
    with pytest.raises(LockError) as caught:
        accept_deviations([refused(name) for name in ("acme", "bcme", "ccme", "libcudnn8")], [])
    assert "libcudnn8" not in str(caught.value)
    assert loses_cuda(caught.value)
