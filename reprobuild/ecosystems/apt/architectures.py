"""Names and dependencies of packages of several architectures.

They coexist in one system. The rules are Debian's: deb-control(5) on Multi-Arch, and
https://wiki.ubuntu.com/MultiarchSpec.
"""

from __future__ import annotations


def architecture_of(key: str, native: str) -> str:
    """Return the architecture in a name from `lock.dpkg_name`."""
    return key.partition(":")[2] or native


def serves(qualifier: str, wanting: str, offered: str, multi_arch: str, native: str) -> bool:
    """Return whether a package's architecture fits a dependency.

    Args:
        qualifier: the dependency's own qualifier: "", `any`, or an architecture.
        wanting: the architecture of the package that has the dependency.
        offered: that of the package that would fulfil it.
        multi_arch: the `Multi-Arch` field of the latter.
        native: the system's architecture; `all` stands for it.
    """
    if not qualifier and multi_arch == "foreign":
        return True
    if qualifier == "any":
        return multi_arch == "allowed"
    architecture = qualifier or wanting
    return (native if architecture in ("all", "native") else architecture) == (
        native if offered == "all" else offered
    )
