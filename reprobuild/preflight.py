"""What can be known to fail before gigabytes are copied: disks, namespaces, architecture, glibc, processor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import msgspec
from msgspec import Struct
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from reprobuild.alone import machine
from reprobuild.errors import LockError, UsageError
from reprobuild.fetch import artefacts
from reprobuild.lock import Artefact, Lock, Wheel
from reprobuild.realise import is_realised
from reprobuild.sandbox import check_namespaces
from reprobuild.store import Store

# Measured on an example of 331 MB (69 MB of packages, 262 MB of wheels): the tree of the base is 4.3 times its
# packages, and stands in the store as tar and as folder, and while it is made twice more; bytecode is 0.66 times
# the wheels; layers are 1.1 times all files. Folders of results on the store's own file system hold links.
BASE_MAKING, BASE_TREE, BYTECODE, LAYERS = 17.0, 4.3, 0.7, 1.2
_MACHINES = {"amd64": ("x86_64",), "arm64": ("aarch64", "arm64")}
_GLIBC = re.compile(r"manylinux_(\d+)_(\d+)_")
_LEGACY = {"manylinux1_": (2, 5), "manylinux2010_": (2, 12), "manylinux2014_": (2, 17)}
_ROOM = "make room there, or name another folder (`--store`, `--out`)"


class Machine(Struct, frozen=True, kw_only=True):
    """This machine: its architecture as the kernel names it, and the flags of its processor, empty if unknown."""

    name: str
    flags: frozenset[str]


class _Needs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    flags: tuple[str, ...]
    since: str
    source: str


def this_machine() -> Machine:
    """Return what the kernel says."""
    try:
        found = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return Machine(name=os.uname().machine, flags=frozenset(found[1].split()) if found else frozenset())


def preflight(lock: Lock, store: Store, out: Path, machine: Machine) -> list[str]:
    """Check what can be checked before anything is fetched or made, and return what is a risk.

    Raises:
        UsageError: a disk has no room for what is certain to come, or the machine is of another architecture.
        LockError: a wheel needs a newer glibc than the base has.
        EngineError: something must be run, and no sandbox can be had.
    """
    _check_glibc(lock)
    realised = is_realised(lock, store)
    warnings = list(_architecture(lock, machine, realised))
    if not realised:
        check_namespaces()
    return [*warnings, *_disks(lock, store, out, realised), *_processor(lock, machine)]


def _architecture(lock: Lock, machine: Machine, realised: bool) -> Iterator[str]:
    wanted = lock.platform.split("/")[1]  # OS/ARCHITECTURE[/VARIANT]
    if machine.name in _MACHINES.get(wanted, (wanted,)):
        return
    what = f"the lock is of {lock.platform}, and this machine is {machine.name}"
    if not realised:
        raise UsageError(what, hint="build it on such a machine: programs of the image must be run for it")
    yield f"{what}: the image can be built, and not be run here"


def _check_glibc(lock: Lock) -> None:
    has = _glibc_of_base(lock)
    if has is None:
        return
    for wheel in lock.wheels:
        needs = _glibc_of_wheel(wheel)
        if needs is not None and needs > has:
            raise LockError(
                f"{wheel.file.filename} needs glibc {needs[0]}.{needs[1]}, and the base has {has[0]}.{has[1]}",
                hint="choose a newer base with `--base`, and make the lock again",
            )


def _glibc_of_base(lock: Lock) -> tuple[int, int] | None:
    found = re.match(r"(?:\d+:)?(\d+)\.(\d+)", lock.base.installed.get("libc6", ""))
    return (int(found[1]), int(found[2])) if found else None


def _glibc_of_wheel(wheel: Wheel) -> tuple[int, int] | None:
    """Return the oldest glibc that one of a wheel's tags asks for (PEP 600), None where it fits every one."""
    try:
        tags = parse_wheel_filename(wheel.file.filename)[3]
    except InvalidWheelFilename:
        return None
    found = []
    for tag in tags:
        modern = _GLIBC.match(tag.platform)
        legacy = [glibc for name, glibc in _LEGACY.items() if tag.platform.startswith(name)]
        if modern:
            found.append((int(modern[1]), int(modern[2])))
        elif legacy:
            found.append(legacy[0])
        else:
            return None
    return min(found, default=None)


def _disks(lock: Lock, store: Store, out: Path, realised: bool) -> Iterator[str]:
    everything = artefacts(lock)
    files_, wheels = sum(item.size for item in everything), sum(wheel.file.size for wheel in lock.wheels)
    debs = sum(deb.file.size for deb in (*lock.base.packages, *lock.base.tools))
    debs += sum(layer.file.size for layer in lock.base.image.layers) if lock.base.image else 0
    missing = sum(item.size - _begun(item, store) for item in everything if not store.has(item.sha256))
    in_store = missing + LAYERS * files_ + (0 if realised else BASE_MAKING * debs + BYTECODE * wheels)
    in_out = BASE_TREE * debs + (1 + BYTECODE) * wheels + LAYERS * files_
    one = _there(store.root).stat().st_dev == _there(out).stat().st_dev
    needs = [(store.root, missing, in_store)] if one else [(store.root, missing, in_store), (out, 0, in_out)]
    for place, certain, likely in needs:
        found = os.statvfs(_there(place))
        free = found.f_bavail * found.f_frsize
        if free < certain:
            raise UsageError(
                f"{place} has room for {free / 1e6:.0f} MB, and {certain / 1e6:.0f} MB are to be fetched",
                hint=_ROOM,
            )
        if free < likely:
            yield f"{place} has room for {free / 1e6:.0f} MB, and about {likely / 1e6:.0f} MB will be needed"


def _begun(item: Artefact, store: Store) -> int:
    """Return how many bytes of a file an earlier run left, which the next goes on with."""
    try:
        return min(item.size, (store.root / "partial" / f"{item.sha256}.{machine()}").stat().st_size)
    except OSError:
        return 0


def _there(path: Path) -> Path:
    """Return the path, or the first of its parents that is there."""
    return next((place for place in (path, *path.absolute().parents) if place.exists()), Path("/"))


def _processor(lock: Lock, machine: Machine) -> Iterator[str]:
    content = files("reprobuild").joinpath("preflight.toml").read_bytes()
    table = msgspec.toml.decode(content, type=dict[str, _Needs])
    for wheel in lock.wheels if machine.flags else ():
        needs = table.get(canonicalize_name(wheel.name))
        if needs is None or wheel.role != "environment" or not _since(wheel.version, needs.since):
            continue
        lacking = [flag for flag in needs.flags if flag not in machine.flags]
        if lacking:
            yield (
                f"{wheel.name} {wheel.version} needs a processor with {', '.join(lacking)}, which this one lacks: "
                f"it will not run here ({needs.source})"
            )


def _since(version: str, first: str) -> bool:
    try:
        return Version(version) >= Version(first)
    except InvalidVersion:
        return True
