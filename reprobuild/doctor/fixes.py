"""What to do, in the words of this machine: its package manager, its modules, and whether the user is root."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.doctor.model import Host


class _Package(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The name of a package for each manager, and of a site's module; `otherwise` is said where there is none."""

    apt: str = ""
    dnf: str = ""
    yum: str = ""
    zypper: str = ""
    apk: str = ""
    pacman: str = ""
    brew: str = ""
    module: str = ""
    otherwise: str = ""


class _Table(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    manager: dict[str, str]
    package: dict[str, _Package]


def install(name: str, host: Host) -> str:
    """Return what brings a package of the table to a machine: a command where its manager has the package.

    Args:
        name: as `remedies.toml` has it.
        host: where it is to be installed.
    """
    package = _table().package[name]
    there = getattr(package, host.manager, "") if host.manager else ""
    if there:
        how = f"`{as_root(f'{_table().manager[host.manager]} {there}', host)}`"
    elif package.otherwise:
        how = f"install {name}: {package.otherwise}"
    else:
        how = f"install {name}"
    if host.modules and package.module:
        name = package.module
        return f"`module load {name}` (`module spider {name}` tells whether it is there); else {how}"
    return how


def as_root(command: str, host: Host) -> str:
    """Return a command as the user of that machine has to type it; Homebrew refuses root."""
    return command if host.root or host.manager == "brew" else f"sudo {command}"


def managers() -> tuple[str, ...]:
    """Return the package managers that are known."""
    return tuple(_table().manager)


@cache
def _table() -> _Table:
    return msgspec.toml.decode(files("reprobuild.doctor").joinpath("fixes.toml").read_bytes(), type=_Table)
