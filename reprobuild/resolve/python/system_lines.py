"""Freeze lines from a system, which no index has.

They are Debian's own distributions, and vendors' builds.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Resolution
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python.base_distributions import Below
from reprobuild.resolve.python.classify import Lookup
from reprobuild.resolve.python.debian_names import same_release
from reprobuild.snapshot.model import Requirement

NOTHING = Below()


def rule_system_line(
    line: Requirement, lookup: Lookup, base: Mapping[str, str], image: str, below: Below = NOTHING
) -> Resolution:
    """Return the resolution of a line from a system package or image.

    Args:
        line: the line.
        lookup: its source.
        base: the system packages of the image, and their versions.
        image: the image that the base begins with, empty for a base of packages.
        below: the distributions that pip installed into that image, if the environment is of its Python.
    """
    if lookup.where == "vendor":
        return _rule_vendor_build(line, lookup, image, below)
    package = lookup.asked or lookup.instead
    if package in base:
        # Debian's package shows the captured release: some of its distributions have a version that never changes
        # (unattended-upgrades 0.1).
        captured = (lookup.why if lookup.where == "system" else "") or line.version or ""
        if not same_release(captured, base[package]):
            reason = f"the captured host had {line.name} {line.version}"
            reason += f" from its package {package} {captured}" if captured != line.version else ""
            reason += f", and the base has {package} {base[package]}, for the system's own Python"
            return make_resolution(line, "replaced", reason, "system-version")
        reason = f"satisfied by the system's package {package} {base[package]}, for the system's own Python"
        return make_resolution(line, "in base", reason)
    captured = f"the captured host had it from its package {package}" if lookup.why or lookup.instead else (
        f"the captured host had it from a package of its system, {package} by name"
    )  # fmt: skip
    return make_resolution(line, "excluded", f"{captured}; the image has no use for it", "host-package")


def _rule_vendor_build(line: Requirement, lookup: Lookup, image: str, below: Below) -> Resolution:
    about = f"{line.name} {line.version} is {lookup.why}"
    if below.image:
        has = below.distributions.get(str(canonicalize_name(line.name)))
        about += f"; the base {image} has " + (f"{line.name} {has}" if has else f"no {line.name}")
    elif image:
        about += f"; whether the base {image} has it is not known, and the image's environment does not see it there"
    elif lookup.asked:
        about += f": --base {shlex.quote(lookup.asked)} has it, for the system's own Python"
    about += f"; to install its wheel, name a page or a directory that has it: --index {shlex.quote(line.name)}=URL"
    return make_resolution(line, "unresolved", about, "vendor-build")
