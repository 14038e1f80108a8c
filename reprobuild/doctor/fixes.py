"""Remedies for this machine: package manager, modules and root.

Commands use the machine's package manager and modules, and `sudo` or `su` for a user other than root.
"""

from __future__ import annotations

import shlex
from functools import cache
from importlib.resources import files

from msgspec import Struct

from reprobuild.doctor.model import Host
from reprobuild.infra.untrusted.decode import decode_toml


class _Package(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The names of a package, by manager and module.

    `otherwise` is the address of instructions, for a manager without the package.
    """

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


def describe_installation(name: str, host: Host) -> str:
    """Return the command or advice that installs a package.

    It is a command if the machine's manager has the package.

    Args:
        name: as in `fixes.toml`.
        host: the machine to install it on.
    """
    package = _read_table().package[name]
    package_name = getattr(package, host.manager, "") if host.manager else ""
    if package_name:
        how = f"`{with_sudo(f'{_read_table().manager[host.manager]} {package_name}', host)}`"
    elif package.otherwise:
        how = f"install {name} as {package.otherwise} describes"
    else:
        how = f"install {name}"
    if host.modules and package.module:
        name = package.module
        return f"`module load {name}` (`module spider {name}` tells whether it is there); else {how}"
    return how


def with_sudo(command: str, host: Host) -> str:
    """Return a command, with `sudo` or `su` if the user needs it and the machine has it.

    Homebrew refuses root.
    """
    if host.root or host.manager == "brew":
        return command
    if "sudo" not in host.programs and "su" in host.programs:
        return f"su -c {shlex.quote(command)}"
    return f"sudo {command}" if "sudo" in host.programs else command


def list_managers() -> tuple[str, ...]:
    """Return the names of the known package managers."""
    return tuple(_read_table().manager)


@cache
def _read_table() -> _Table:
    return decode_toml(files("reprobuild.doctor").joinpath("fixes.toml").read_bytes(), _Table)
