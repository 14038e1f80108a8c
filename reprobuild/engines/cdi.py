"""Descriptions of devices (CDI) that this machine has for containers.

The driver's tools write them; an engine makes nodes, mounts and variables, and runs hooks.
https://github.com/cncf-tags/container-device-interface/blob/main/SPEC.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.engines import gpu
from reprobuild.errors import EngineError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import AbsolutePath, OptionalAbsolutePath, ShortLine, Value, Word
from reprobuild.infra.untrusted.yaml_documents import load_yaml

FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))  # the later one has priority
_LARGEST = 4 << 20
_HOOK_SECONDS = 60
_HINT = "make it again: `nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`"


class DeviceNode(Struct, frozen=True, rename="camel"):
    """A device node in the container; `host_path` is that of the machine, if it is another one."""

    path: AbsolutePath
    host_path: OptionalAbsolutePath = ""


class DeviceMount(Struct, frozen=True, rename="camel"):
    """A file or directory of the machine, mounted in the container."""

    host_path: AbsolutePath
    container_path: AbsolutePath
    options: tuple[Word, ...] = ()


class Hook(Struct, frozen=True, rename="camel"):
    """A program of the machine; `args` begin with its name, and `timeout` is in seconds."""

    hook_name: Word
    path: AbsolutePath
    args: tuple[Value, ...] = ()
    env: tuple[Value, ...] = ()
    timeout: int = _HOOK_SECONDS


class Edits(Struct, frozen=True, rename="camel"):
    """The changes of a container for a device; `env` has lines `NAME=VALUE`."""

    env: tuple[Value, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[DeviceMount, ...] = ()
    hooks: tuple[Hook, ...] = ()
    additional_gids: tuple[int, ...] = msgspec.field(default=(), name="additionalGids")


class Device(Struct, frozen=True, rename="camel"):
    """A device of a description."""

    name: ShortLine
    container_edits: Edits = Edits()


class Description(Struct, frozen=True, rename="camel"):
    """A CDI file: the kind of its devices (`vendor.com/class`), and changes for each container that has one."""

    kind: ShortLine
    devices: tuple[Device, ...] = ()
    container_edits: Edits = Edits()


def find_edits(gpus: str, folders: Sequence[Path] = FOLDERS) -> Edits:
    """Return the changes of a container for the GPUs of `Task.gpus`.

    AMD's GPUs need no description: the nodes of their driver are enough.

    Raises:
        EngineError: a device is not described, or a description cannot be read.
    """
    if not gpus:
        return Edits()
    if gpu.vendor(gpus) == gpu.AMD:
        nodes = tuple(DeviceNode(inside, host) for host, inside in amd_nodes())
        ids = ",".join(gpu.gpu_ids(gpus))
        groups = tuple(map(int, gpu.amd_groups()))
        return Edits(
            env=(f"{gpu.AMD_VISIBLE}={ids}",) if ids else (), device_nodes=nodes, additional_gids=groups
        )
    descriptions = [description for folder in folders for description in _read_folder(folder)]
    parts: list[Edits] = []
    for name in gpu.cdi_names(gpus):
        kind, _, device_name = name.partition("=")
        matches = [
            (description, device)
            for description in descriptions
            if description.kind == kind
            for device in description.devices
            if device.name == device_name
        ]
        if not matches:
            message = f"unresolvable CDI devices {name}"
            raise gpu.gpu_error(f"{message}: this machine does not describe it", message, hint=_HINT)
        description, device = matches[-1]
        parts += [part for part in (description.container_edits, device.container_edits) if part not in parts]
    return _join(parts)


def describes_gpus(gpus: str, folders: Sequence[Path] = FOLDERS) -> bool:
    """Return whether this machine describes the GPUs of `Task.gpus`."""
    try:
        find_edits(gpus, folders)
    except EngineError:
        return False
    return True


def amd_nodes() -> list[tuple[str, str]]:
    """Return (host node, container node) of AMD's driver and GPUs, with each node of /dev/dri."""
    return sorted(gpu.amd_devices().items())


def _join(parts: Sequence[Edits]) -> Edits:
    """Return the changes of several devices; the first of equal ones counts."""
    return Edits(
        *(
            tuple(dict.fromkeys(item for part in parts for item in getattr(part, name)))
            for name in Edits.__struct_fields__
        )
    )


def _read_folder(folder: Path) -> Iterator[Description]:
    for path in sorted(folder.glob("*")) if folder.is_dir() else ():
        if path.suffix in (".json", ".yaml", ".yml"):
            try:
                yield decode_value(load_yaml(read_plain(path, _LARGEST).decode()), Description)
            except (OSError, ValueError) as err:
                raise EngineError(f"{path} cannot be read: {err}", hint=_HINT) from None
