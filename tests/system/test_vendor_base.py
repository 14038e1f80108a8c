"""A snapshot from inside a vendor's image: the first hint, followed as printed, ends with the vendor's own torch."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.image.layers.plan import virtual_environment_parts
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.registry.conftest import Registry, docker_login
from tests.registry.pushing import Image, Member, Pusher, file, folder, layer, make_image

NAME = "nvidia/pytorch"
TORCH = "2.3.0a0+6ddf5cf85e.nv24.4"
SITE = "usr/local/lib/python3.11/dist-packages"
LIBRARIES = "/usr/local/cuda/compat/lib:/usr/local/nvidia/lib64"
LABELS = {"NVIDIA_PYTORCH_VERSION": "24.04", "NVIDIA_BUILD_ID": "90085495", "CUDA_VERSION": "12.4.1.003"}
ENV = "".join(f"{name}={value}\n" for name, value in {**LABELS, "LD_LIBRARY_PATH": LIBRARIES}.items())


def installed(name: str, version: str, where: str = SITE) -> list[Member]:
    """Return a distribution as pip leaves it in the image."""
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    return [
        folder(f"{where}/{name}"),
        file(f"{where}/{name}/__init__.py", f"__version__ = '{version}'\n".encode()),
        folder(f"{where}/{name}-{version}.dist-info"),
        file(f"{where}/{name}-{version}.dist-info/METADATA", metadata),
    ]


@pytest.fixture(scope="module")
def pushed(pusher: Pusher, tree: str, store: Store) -> Image:
    """A vendor's image: its torch, and an apex that was installed from a directory."""
    top = [
        *installed("torch", TORCH),
        *installed("apex", "0.1"),
        *installed("hidden", "1.0", "opt/conda/lib/python3.11/site-packages"),
        folder("usr/local/cuda/compat/lib"),
    ]
    variables = ["PATH=/usr/local/bin:/usr/bin:/bin", *(f"{name}={value}" for name, value in LABELS.items())]
    made = make_image([(store.blob(tree).read_bytes(), "zstd"), (layer(top), "gzip")], variables=variables)
    pusher.push(made, NAME, "24.04-py3")
    return made


@pytest.fixture(scope="module")
def env(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    login = docker_login(tmp_path_factory.mktemp("docker"), registry.host)
    home = {"HOME": os.environ["HOME"], "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    return {**os.environ, **login, **home}


@pytest.fixture(scope="module")
def filled(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("filled")
    shutil.copytree(store.root / "blobs", place / "blobs", copy_function=os.link)
    return place


def captured(base: Base, place: Path, freeze: str) -> Path:
    place.mkdir()
    rows = [f"{name}/stable,now {version} amd64 [installed]" for name, version in base.installed.items()]
    (place / "apt-packages.txt").write_text("\n".join(["Listing...", *rows, ""]))
    (place / "requirements.txt").write_text(freeze)
    (place / "env.txt").write_text(ENV)
    return place


def locked(
    place: Path, store: Path, registry: Registry, env: Mapping[str, str], *more: str | Path
) -> tuple[int, str]:
    own = f"nvidia-pytorch={registry.host}/{NAME}:{{year}}.{{month}}-py3"
    done = reprobuild("lock", place, "--store", store, "--service", own, *more, env=env)
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def lock(
    pushed: Image, base: Base, registry: Registry, filled: Path, env: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lock:  # fmt: skip
    """The lock that comes of following the first hint."""
    place = tmp_path_factory.mktemp("vendor") / "snapshot"
    captured(base, place, f"apex @ file:///opt/pytorch/apex\ntorch=={TORCH}\n")
    code, said = locked(place, filled, registry, env, "-o", place / "first.lock")
    assert code == 4
    hint = said[said.index("hint: ") :].splitlines()[0]
    image = f"{registry.host}/{NAME}:24.04-py3"
    assert hint == (
        f"hint: the snapshot was taken inside NVIDIA's PyTorch image (env.txt:1: NVIDIA_PYTORCH_VERSION=24.04), which "
        f"has its packages; take it as base: --base {image} (`docker buildx imagetools inspect {image}` prints its "
        "digest, which the lock pins)"
    )
    found = re.search(r"--base \S+", hint)
    assert found is not None
    code, said = locked(place, filled, registry, env, "-o", place / "second.lock", *shlex.split(found[0]))
    assert code == 0, said
    return read_lock(place / "second.lock")


def test_the_lines_are_of_the_image_and_nothing_is_accepted(lock: Lock, pushed: Image) -> None:
    assert lock.base.image is not None
    assert lock.base.image.digest == pushed.digest
    assert lock.interpreter.shared
    assert lock.deviations == ()
    image = lock.base.image.reference
    lines = {r.subject: (r.outcome, r.kind, r.reason) for r in lock.rulings if r.file == "requirements.txt"}
    kind = "base-distribution"
    assert lines == {
        "torch": ("in base", kind, f"{image} has torch {TORCH}, which the environment sees there"),
        "apex": ("in base", kind, f"{image} has apex 0.1, which the environment sees there"),
    }
    assert {s.name: s.value for s in lock.environment} == {"LD_LIBRARY_PATH": LIBRARIES}
    assert LABELS.items() <= {s.name: s.value for s in lock.base.image.environment}.items()


def test_the_environment_imports_the_torch_of_the_image(
    lock: Lock, filled: Path, env: Mapping[str, str], tmp_path: Path
) -> None:
    write_lock(lock, tmp_path / "lock")
    done = reprobuild("build", tmp_path / "lock", "-o", tmp_path / "out", "--store", filled, env=env)
    assert done.returncode == 0, done.stderr
    ours, store = read_lock(tmp_path / "out/reprobuild.lock"), Store(filled)
    assert {f"{SITE}/torch/__init__.py", "opt/env/pyvenv.cfg"} <= layout_tree(
        read_layout(tmp_path / "out/image")
    ).keys()
    (root := tmp_path / "root").mkdir()
    unpack_root(store.blob(ours.realised.base), root)
    for part in virtual_environment_parts(ours):
        (place := root / part.path).parent.mkdir(parents=True, exist_ok=True)
        if part.target:
            place.symlink_to(part.target)
        elif part.content is not None:
            place.write_bytes(part.content)
    program = "import torch, apex; from importlib.util import find_spec as f; "
    program += "print(torch.__version__, apex.__version__, f('hidden'))"
    said = run_in_root(
        Root(folder=root),
        ["/opt/env/bin/python", "-c", program],
        epoch=0,
        purpose="import what the image has",
    )
    assert said.decode() == f"{TORCH} 0.1 None\n"


def test_packages_of_cuda_that_no_archive_has_lead_to_the_image_first(
    base: Base, registry: Registry, filled: Path, env: Mapping[str, str], tmp_path: Path
) -> None:
    place = captured(base, tmp_path / "snapshot", "")
    (place / "env.txt").write_text("A=b\n")
    rows = "cuda-cudart-12-4/unknown,now 12.4.127-1 amd64 [installed]\n"
    rows += "libcublas-12-4/unknown,now 12.4.5.8-1 amd64 [installed]\n"
    with (place / "apt-packages.txt").open("a") as listed:
        listed.write(rows)
    code, said = locked(place, filled, registry, env, "-o", place / "x.lock")
    assert code == 4
    first, second = said[said.index("hint: ") :].splitlines()[:2]
    assert first == (
        "hint: NVIDIA's images have CUDA's packages: --base docker.io/nvidia/cuda:12.4.1-runtime-TAG, with a tag "
        "of the captured CUDA and system"
    )
    assert second.startswith("to go on without exactly these: reprobuild lock ")
    assert second.endswith(" --accept cuda-cudart-12-4 --accept libcublas-12-4")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch==2.2.0a0+81ea7a4.nv24.3", f"; the base IMAGE has torch {TORCH}; "),
        ("torchvision==0.18.0a0+1234567.nv24.4", "; the base IMAGE has no torchvision; "),
        ("hidden @ file:///opt/pytorch/hidden", "it was installed from a directory"),
    ],
)
def test_what_the_image_does_not_have_stays_refused(
    line: str, said: str, pushed: Image, base: Base, registry: Registry, filled: Path, env: Mapping[str, str],
    tmp_path: Path,
) -> None:  # fmt: skip
    place = captured(base, tmp_path / "snapshot", f"{line}\n")
    image = f"{registry.host}/{NAME}:24.04-py3"
    code, stderr = locked(place, filled, registry, env, "-o", place / "x.lock", "--base", image)
    assert code == 4
    assert said.replace("IMAGE", image) in stderr
