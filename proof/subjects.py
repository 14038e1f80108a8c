"""What the experiments are done on: locks that begin from the example's."""

from __future__ import annotations

import os
from collections.abc import Iterable

import msgspec

from reprobuild.apt.configured import configured_index
from reprobuild.fetch import fetch
from reprobuild.lock import Lock
from reprobuild.net import Net
from reprobuild.resolve.system import resolve_base
from reprobuild.store import Store

# Their maintainer scripts make users (sshd, messagebus), alternatives (awk, pager), caches (fonts, the linker's)
# and certificates.
SERVICES = ("python3.11", "passwd", "ca-certificates", "dbus", "fontconfig", "less", "openssh-server")
# What else is known to leave something of its installation behind.
UNTIDY = (*SERVICES, "apt", "exim4-config", "man-db", "openjdk-17-jre-headless", "systemd", "wget")
# networkx is large enough for the order in which modules are compiled to matter.
WHEELS = ("click", "einops", "idna", "markupsafe", "networkx", "pygments")


def small_lock(lock: Lock, store: Store, roots: Iterable[str] = SERVICES) -> Lock:
    """Return a lock with other system packages, fetched into the store, the source and a few wheels of the example.

    Args:
        lock: of the example; the result is not sealed.
        store: has the example's files.
        roots: the packages that are asked for, by the names of the release.
    """
    index = configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")
    base, _ = resolve_base((), index=index, roots=list(roots))
    fetch([deb.file for deb in (*base.packages, *base.tools)], store, Net())
    wheels = tuple(wheel for wheel in lock.wheels if wheel.name in WHEELS or wheel.role == "build")
    return msgspec.structs.replace(
        lock, base=base, realised=None, workload=None, workdir="/work here", wheels=wheels
    )
