"""Packages of several architectures in one system: how they are named, and which may serve which.

The rules are Debian's: deb-control(5) on Multi-Arch, and https://wiki.ubuntu.com/MultiarchSpec.
"""

from __future__ import annotations


def architecture_of(key: str, native: str) -> str:
    """Return the architecture in a name that `lock.dpkg_name` made."""
    return key.partition(":")[2] or native


def serves(qualifier: str, wanting: str, offered: str, multi_arch: str, native: str) -> bool:
    """Tell whether a package's architecture is right for a dependency.

    Args:
        qualifier: the dependency's own word: "", `any`, or an architecture.
        wanting: the architecture of the package that has the dependency.
        offered: that of the package that would fulfil it.
        multi_arch: the `Multi-Arch` field of the latter.
        native: the system's architecture, which `all` stands for.
    """
    if not qualifier and multi_arch == "foreign":
        return True
    if qualifier == "any":
        return multi_arch == "allowed"
    wanted = qualifier or wanting
    return (native if wanted in ("all", "native") else wanted) == (native if offered == "all" else offered)
