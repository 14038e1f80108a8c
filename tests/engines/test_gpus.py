"""GPUs in containers: what is asked of real engines, what arrives, and what is said where there is none.

No machine of the tests has a GPU. What stands for one is a null device under a GPU's name: described to engines as
the NVIDIA Container Toolkit describes a GPU (CDI), or lying where the nodes of AMD's driver lie.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import apptainer, builtin, builtin_job, docker, gpu, podman
from reprobuild.engines.apptainer_gpus import visible_gpu_variables
from reprobuild.engines.cdi import find_edits
from reprobuild.engines.docker_gpus import gpu_options
from reprobuild.engines.model import Finished, Task
from reprobuild.errors import EngineError, UsageError
from tests.engines.conftest import Running, Tiny, daemon

NULL = os.makedev(1, 3)
LOOK = (
    'for node in /dev/nvidia* /dev/kfd /dev/dri/*; do [ -c "$node" ] && echo "$node"; done; '
    'env | while read -r line; do case "$line" in GPU_*|ROCR_*|CUDA_*|NVIDIA_*) echo "$line";; esac; done; '
    'while read -r line; do case "$line" in Groups:*) echo $line;; esac; done </proc/self/status'
)
WITHOUT = "or leave the GPU out with --gpu none"
BY_TOOLKIT = (
    "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure --runtime=docker` and start Docker again; "
    + WITHOUT
)
BY_CDI = (
    "install the NVIDIA Container Toolkit, which describes the GPUs to engines: "
    f"`nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`; {WITHOUT}"
)


def make(root: Path, *paths: str) -> Path:
    """Make empty files below a directory that stands for the root of a machine."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ((), ()),
        (("dev/nvidiactl", "dev/nvidia-uvm", "proc/driver/nvidia/version"), ()),  # a driver without a GPU
        (("dev/nvidiactl", "dev/nvidia0"), ("nvidia",)),
        (("proc/driver/nvidia/gpus/0000:01:00.0/information",), ("nvidia",)),  # before the first use of CUDA
        (("dev/dxg",), ()),
        (("dev/dxg", "usr/lib/wsl/lib/libcuda.so.1"), ("nvidia",)),
        (("dev/dri/card0", "dev/dri/renderD128"), ()),  # a screen's
        (("dev/kfd",), ()),
        (("dev/kfd", "dev/dri/renderD128"), ("amd",)),
        (("dev/kfd", "dev/dri/renderD128", "dev/nvidia3"), ("nvidia", "amd")),
    ],
)
def test_whose_gpus_a_machine_has(tmp_path: Path, paths: tuple[str, ...], found: tuple[str, ...]) -> None:
    root = make(tmp_path, *paths)
    assert gpu.find_vendors(root) == found
    assert gpu.has_any_gpu(root) == bool(found)
    assert gpu.parse_gpu_option("auto", root) == ("all" if found else "")


@pytest.mark.parametrize(("ids", "found"), [(["0"], ()), (["0", "0", "51166"], ("amd",)), ([""], ())])
def test_a_processor_is_no_gpu_of_amd(tmp_path: Path, ids: list[str], found: tuple[str, ...]) -> None:
    root = make(tmp_path, "dev/kfd", "dev/dri/renderD128")
    for number, text in enumerate(ids):
        node = f"sys/class/kfd/kfd/topology/nodes/{number}/gpu_id"
        (make(root, node) / node).write_text(text + "\n")
    assert gpu.find_vendors(root) == found


def test_what_is_asked_for(tmp_path: Path) -> None:
    uuid = "GPU-6ab8f2d5-3c1e-4d5b-9b2e-000000000000"
    for option, gpus in {
        "none": "", "all": "all", "0": "0", "0, 1": "0,1", uuid: uuid, "MIG-" + uuid: "MIG-" + uuid, "0:1": "0:1",
        "nvidia.com/gpu=0,amd.com/gpu=all": "nvidia.com/gpu=0,amd.com/gpu=all",
    }.items():  # fmt: skip
        assert gpu.parse_gpu_option(option, tmp_path) == gpus
    assert gpu.cdi_names("all") == ("nvidia.com/gpu=all",)
    assert gpu.cdi_names("1,amd.com/gpu=0") == ("nvidia.com/gpu=1", "amd.com/gpu=0")


@pytest.mark.parametrize(
    "option", ["", ",", "0,", "all,0", "none,1", "-1", "a b", "0\n1", "../x", "x=y", "é", "$(id)"]
)
def test_what_names_no_gpu(tmp_path: Path, option: str) -> None:
    with pytest.raises(UsageError, match="is no GPU") as failed:
        gpu.parse_gpu_option(option, tmp_path)
    assert failed.value.hint == (
        "auto, all, none, or ids separated by commas: 0 or 0,1, GPU-UUID, MIG-UUID, nvidia.com/gpu=0"
    )


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the description of two GPUs that are null devices, as the toolkit would write it.

    https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
    """

    def device(name: str, *numbers: int) -> dict[str, object]:
        nodes = [{"path": f"/dev/nvidia{n}", "hostPath": "/dev/null", "type": "c"} for n in numbers]
        return {"name": name, "containerEdits": {"deviceNodes": nodes, "env": [f"GPU_NAMED={name}"]}}

    folder = tmp_path_factory.mktemp("described") / "cdi"
    folder.mkdir()
    spec = {
        "cdiVersion": "0.5.0", "kind": "nvidia.com/gpu",
        "devices": [device("0", 0), device("MIG-1-2", 1), device("all", 0, 1)],
        "containerEdits": {"env": ["NVIDIA_VISIBLE_DEVICES=void", "GPU_TOLD=by CDI"]},
    }  # fmt: skip
    (folder / "nvidia.json").write_text(json.dumps(spec))
    return folder


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with the toolkit's hook where the machine has no driver; it says what the real one says."""
    folder = tmp_path_factory.mktemp("hook")
    program = folder / "nvidia-container-runtime-hook"
    said = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1"
    program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    program.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def docker_with_cdi(described: Path) -> Iterator[Running]:
    with daemon("cdi", "--cdi", str(described), share=True) as running:
        yield Running(docker, running.env)


@pytest.fixture(scope="module")
def podman_with_cdi(
    podman_env: Mapping[str, str], described: Path, tmp_path_factory: pytest.TempPathFactory
) -> Running:
    """podman 4 reads /etc/cdi alone: it gets one in a mount namespace of its own."""
    folder = tmp_path_factory.mktemp("podman")
    return Running(podman, layered(folder, "podman", str(described.parent), "/etc", podman_env))


def layered(folder: Path, name: str, upper: str, lower: str, env: Mapping[str, str]) -> Mapping[str, str]:
    """Put a program first on PATH that sees one directory with another over it, and is the program otherwise."""
    program = folder / name
    path = env["PATH"]
    mount = f"mount -t overlay overlay -o lowerdir={upper}:{lower} {lower}"
    if lower == "/dev":
        mount += " && mount -t devpts devpts /dev/pts"
    program.write_text(
        f'#!/bin/sh\nPATH={path}\nexec unshare --mount sh -c \'{mount} && exec {name} "$@"\' {name} "$@"\n'
    )
    program.chmod(0o755)
    return {**env, "PATH": f"{folder}:{path}"}


@pytest.fixture
def builtin_with_cdi(described: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Running:
    monkeypatch.setattr(builtin_job, "find_edits", lambda gpus: find_edits(gpus, (described,)))
    return Running(builtin, {**os.environ, "XDG_CACHE_HOME": str(tmp_path)})


@pytest.fixture(params=["docker_with_cdi", "podman_with_cdi", "builtin_with_cdi"])
def with_cdi(request: pytest.FixtureRequest) -> Running:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Running)
    return found


@pytest.fixture
def loaded(with_cdi: Running, tiny: Tiny) -> Iterator[Tiny]:
    with_cdi.module.load(tiny.layout, tiny.reference, tiny.digests, with_cdi.env)
    yield tiny
    with_cdi.client("rmi", tiny.reference)


def seen(engine: Running, image: Tiny, gpus: str, **variables: str) -> tuple[set[str], Finished]:
    task = Task(arguments=("sh", "-c", LOOK), gpus=gpus, environment=variables)
    done = engine.module.run(image.reference, task, engine.env)
    return set(done.stdout.decode().splitlines()), done


@pytest.mark.parametrize(
    ("gpus", "nodes", "names"),
    [
        ("", set(), set()),
        ("all", {"/dev/nvidia0", "/dev/nvidia1"}, {"all"}),
        ("0", {"/dev/nvidia0"}, {"0"}),
        ("MIG-1-2", {"/dev/nvidia1"}, {"MIG-1-2"}),
        ("nvidia.com/gpu=0", {"/dev/nvidia0"}, {"0"}),
        ("0,MIG-1-2", {"/dev/nvidia0", "/dev/nvidia1"}, {"0", "MIG-1-2"}),
    ],
)
def test_what_is_described_arrives(
    with_cdi: Running, loaded: Tiny, gpus: str, nodes: set[str], names: set[str]
) -> None:
    lines, done = seen(with_cdi, loaded, gpus, GPU_MINE="mine")
    assert done.code == 0, done.stderr
    assert {line for line in lines if line.startswith("/dev/")} == nodes
    told = {"GPU_TOLD=by CDI", "NVIDIA_VISIBLE_DEVICES=void"} if gpus else set()
    named = {line for line in lines if line.startswith("GPU_NAMED=")}
    assert len(named) == (1 if gpus else 0)  # the last one of several
    assert named <= {f"GPU_NAMED={name}" for name in names}
    assert {line for line in lines if line[:4] in ("GPU_", "NVID")} - named == told | {"GPU_MINE=mine"}


def test_a_gpu_that_nobody_described(with_cdi: Running, loaded: Tiny) -> None:
    with pytest.raises(EngineError, match=r"unresolvable CDI devices nvidia\.com/gpu=7") as failed:
        seen(with_cdi, loaded, "7")
    assert failed.value.hint == BY_CDI


def test_attach_gives_the_gpu_too(with_cdi: Running, loaded: Tiny) -> None:
    came: list[bytes] = []
    task = Task(arguments=("sh", "-c", LOOK), gpus="0", timeout=0)
    code = with_cdi.module.attach(loaded.reference, task, with_cdi.env, lambda _, data: came.append(data))
    assert (code, b"/dev/nvidia0\n" in b"".join(came)) == (0, True)


def asked(engine: Running, image: Tiny, gpus: str) -> list[dict[str, Any]]:
    """Return what the daemon says of a container made in each way of asking for these GPUs; none is started."""
    found = []
    with docker.open_client(engine.env) as client:
        for options in gpu_options(client, gpus):
            task = Task(arguments=("true",), gpus=gpus)
            with docker._create_container(client, image.reference, task, options) as container:
                container.reload()
                found.append(dict(container.attrs["HostConfig"]))
    return found


def test_the_request_as_the_daemon_has_it(docker_with_cdi: Running, tiny: Tiny) -> None:
    docker.load(tiny.layout, tiny.reference, tiny.digests, docker_with_cdi.env)
    assert [made["DeviceRequests"] for made in asked(docker_with_cdi, tiny, "")] == [None]
    by_capability = {"Driver": "", "Count": -1, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}
    by_name = {**by_capability, "Driver": "cdi", "Count": 0, "Capabilities": []}
    assert [made["DeviceRequests"] for made in asked(docker_with_cdi, tiny, "all")] == [
        [by_capability], [{**by_name, "DeviceIDs": ["nvidia.com/gpu=all"]}],
    ]  # fmt: skip
    assert [made["DeviceRequests"] for made in asked(docker_with_cdi, tiny, "0,MIG-1-2")] == [
        [{**by_capability, "Count": 0, "DeviceIDs": ["0", "MIG-1-2"]}],
        [{**by_name, "DeviceIDs": ["nvidia.com/gpu=0", "nvidia.com/gpu=MIG-1-2"]}],
    ]  # fmt: skip
    (only,) = asked(docker_with_cdi, tiny, "amd.com/gpu=0")
    assert only["DeviceRequests"] == [{**by_name, "DeviceIDs": ["amd.com/gpu=0"]}]


@pytest.fixture(scope="module")
def docker_with_hook(hook: Path) -> Iterator[Running]:
    """A daemon that knows the toolkit's hook."""
    with daemon("hook", path=hook, share=True) as running:
        yield Running(docker, running.env)


def test_docker_without_the_toolkit(engine: Running, loaded_engine: Tiny) -> None:
    """Each engine in use, as it is on a machine without a GPU."""
    with pytest.raises(EngineError) as failed:
        seen(engine, loaded_engine, "all")
    if engine.module in (podman, builtin):
        assert "unresolvable CDI devices nvidia.com/gpu=all" in str(failed.value)
        assert failed.value.hint == BY_CDI
    else:
        assert str(failed.value).startswith("Docker refused: could not select device driver")
        assert failed.value.hint == BY_TOOLKIT


@pytest.fixture
def loaded_engine(engine: Running, tiny: Tiny) -> Iterator[Tiny]:
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    yield tiny
    assert not engine.containers(tiny.reference)
    engine.client("rmi", tiny.reference)


@pytest.fixture(autouse=True)
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors name the remedies of a machine with a GPU; test_mistakes.py has those of one without."""
    monkeypatch.setattr(gpu, "_lacks_gpu", lambda: False)


def test_the_toolkit_without_a_driver(docker_with_hook: Running, tiny: Tiny) -> None:
    docker.load(tiny.layout, tiny.reference, tiny.digests, docker_with_hook.env)
    with pytest.raises(EngineError, match=r"nvidia-container-cli: initialization error") as failed:
        seen(docker_with_hook, tiny, "all")
    assert failed.value.hint == (
        "the NVIDIA Container Toolkit is there and cannot use the driver: does `nvidia-smi` answer on this machine? "
        f"Install a driver that fits its kernel and GPU, {WITHOUT}"
    )


@pytest.fixture
def amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root directory with the nodes of AMD's driver: null devices, of a group of their own."""
    for path in ("dev/kfd", "dev/dri/renderD128"):
        node = tmp_path / path
        node.parent.mkdir(parents=True, exist_ok=True)
        os.mknod(node, stat.S_IFCHR | 0o660, NULL)
        os.chown(node, 0, 44 if path == "dev/kfd" else 105)
    monkeypatch.setattr(gpu, "MACHINE", tmp_path)
    return tmp_path


def test_the_nodes_of_amd(with_cdi: Running, loaded: Tiny, amd: Path) -> None:
    lines, done = seen(with_cdi, loaded, "all")
    assert done.code == 0, done.stderr
    assert lines >= {"/dev/kfd", "/dev/dri/renderD128"}
    (groups,) = (line.split()[1:] for line in lines if line.startswith("Groups:"))
    assert {"44", "105"} <= set(groups)
    lines, _ = seen(with_cdi, loaded, "1")
    assert lines >= {"/dev/kfd", "ROCR_VISIBLE_DEVICES=1"}


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        (
            "dev/kfd",
            f"load the driver of AMD's GPUs (amdgpu), and see that this user may open /dev/kfd; {WITHOUT}",
        ),
        ("dev/dri", f"load the driver of AMD's GPUs (amdgpu), which makes /dev/dri; {WITHOUT}"),
    ],
)
def test_nodes_of_amd_that_are_not_there(
    with_cdi: Running, loaded: Tiny, amd: Path, monkeypatch: pytest.MonkeyPatch, gone: str, hint: str
) -> None:
    monkeypatch.setattr(gpu, "vendor", lambda gpus: gpu.AMD)
    (amd / gone).rename(amd / "gone")
    with pytest.raises(EngineError) as failed:
        seen(with_cdi, loaded, "all")
    assert failed.value.hint == hint


@pytest.fixture
def in_apptainer(apptainer_env: Mapping[str, str], tiny: Tiny) -> Running:
    apptainer.load(tiny.layout, tiny.reference, tiny.digests, apptainer_env)
    return Running(apptainer, apptainer_env)


@pytest.mark.parametrize("vendor", [gpu.NVIDIA, gpu.AMD])
def test_apptainer_without_a_gpu(
    in_apptainer: Running, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, vendor: str
) -> None:
    """It would run the command all the same."""
    monkeypatch.setattr(gpu, "vendor", lambda gpus: vendor)
    ran: list[bytes] = []
    with pytest.raises(EngineError, match="Apptainer brings no GPU into the container") as failed:
        apptainer.attach(
            tiny.reference, Task(arguments=("sh", "-c", "echo ran"), gpus="all"), in_apptainer.env,
            lambda _, data: ran.append(data),
        )  # fmt: skip
    assert failed.value.hint == (
        "the driver's nodes must be in /dev, and its libraries known to `ldconfig -p`: does `nvidia-smi` or `rocminfo` "
        f"answer on this machine? Install the driver, {WITHOUT}"
    )
    assert not ran


def test_apptainer_knows_no_names_of_cdi(in_apptainer: Running, tiny: Tiny) -> None:
    with pytest.raises(EngineError, match="Apptainer knows no GPU by a name of CDI") as failed:
        seen(in_apptainer, tiny, "nvidia.com/gpu=0")
    assert failed.value.hint == "name it by its index or UUID, or give all with --gpu all"


def test_apptainer_with_the_nodes_of_a_gpu(in_apptainer: Running, tiny: Tiny, tmp_path: Path) -> None:
    """Null devices in /dev of a mount namespace of its own: Apptainer itself brings them along."""
    (tmp_path / "nodes").mkdir()
    for name in ("nvidia0", "nvidiactl"):
        os.mknod(tmp_path / "nodes" / name, stat.S_IFCHR | 0o666, NULL)
    env = layered(tmp_path, "apptainer", f"{tmp_path}/nodes", "/dev", in_apptainer.env)
    engine = Running(apptainer, {**env, "CUDA_VISIBLE_DEVICES": "3"})
    lines, done = seen(engine, tiny, "all")
    assert done.code == 0, done.stderr
    assert lines >= {"/dev/nvidia0", "/dev/nvidiactl", "CUDA_VISIBLE_DEVICES=3"}  # what the job was given
    lines, _ = seen(engine, tiny, "GPU-1,GPU-2")
    assert lines >= {"CUDA_VISIBLE_DEVICES=GPU-1,GPU-2", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
    lines, _ = seen(engine, tiny, "0", CUDA_VISIBLE_DEVICES="1")
    assert "CUDA_VISIBLE_DEVICES=1" in lines  # said by the user
    lines, _ = seen(engine, tiny, "")
    assert not {line for line in lines if line.startswith(("/dev/nvidia", "CUDA_"))}


def test_no_variable_of_a_gpu_without_one() -> None:
    assert visible_gpu_variables("", {"CUDA_VISIBLE_DEVICES": "3"}) == {}
