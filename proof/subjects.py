"""The subjects of the experiments: locks made from the example's."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from proof import archive
from reprobuild.ecosystems.apt.apt_config import configured_index, configured_targets, source_list
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Lock, Resolution, unseal
from reprobuild.lock.system import Base
from reprobuild.resolve.system.missing_list import APT_LIST
from reprobuild.resolve.system.packages import foreign_architectures, resolve_base
from reprobuild.snapshot.parsers import apt
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

# Their maintainer scripts make users (sshd, messagebus), alternatives (awk, pager), caches (fonts, the linker's) and
# certificates.
SERVICES = ("python3.11", "passwd", "ca-certificates", "dbus", "fontconfig", "less", "openssh-server")
# Others that are known to leave something of their installation behind.
UNTIDY = (*SERVICES, "apt", "exim4-config", "man-db", "openjdk-17-jre-headless", "systemd", "wget")
# networkx is large enough for the order in which modules are compiled to matter.
WHEELS = ("click", "einops", "idna", "markupsafe", "networkx", "pygments")
# Forty packages that somebody asked for, with those of `archive`: compilers, MPI, ffmpeg, fonts, documents, a foreign
# architecture; between them their scripts do all that maintainer scripts do.
FORTY = (
    "gcc", "g++", "gfortran", "make", "cmake", "pkg-config", "openmpi-bin", "libopenmpi-dev", "ffmpeg", "imagemagick",
    "fontconfig", "fonts-dejavu", "fonts-liberation", "openssh-client", "dbus", "ca-certificates",
    "ca-certificates-java", "default-jre-headless", "python3-dev", "python3-numpy", "libgl1", "libglib2.0-0", "tzdata",
    "locales", "adduser", "texinfo", "man-db", "git", "nano", "shared-mime-info", "xml-core", "emacs-nox", "tex-common",
    "dictionaries-common", "wamerican", "libc6:i386", "zlib1g:i386", *archive.ASKED,
)  # fmt: skip
# Fewer of them, which a test can install twice.
FEW = (
    "ca-certificates", "dbus", "fontconfig", "fonts-dejavu-core", "tzdata", "adduser", "man-db", "nano", "xml-core",
    "libc6:i386", "zlib1g:i386", *archive.ASKED,
)  # fmt: skip
# Services that somebody else needs: none is asked for by a captured list, which leaves them to the host.
DAEMONS = ("python3.11", "openssh-server", "cron", "systemd", "exim4-config")


def small_lock(lock: Lock, store: Store, roots: Iterable[str] = SERVICES) -> Lock:
    """Return a lock with other system packages.

    They are fetched into the store; the source and a few wheels are the example's.

    Args:
        lock: of the example; the result is not sealed.
        store: has the example's files.
        roots: the packages that are asked for, by the names of the release.
    """
    index = configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")
    base, _ = resolve_base((), index=index, roots=list(roots))
    return _with_base(lock, base, store)


def forty_lock(lock: Lock, store: Store, work: Path) -> Lock:
    """Return a lock with the captured base of the forty.

    The base is that of `captured_base`; `work` is a directory for the archive.
    """
    base, _ = captured_base(FORTY, DAEMONS, work)
    return _with_base(lock, base, store)


def _with_base(lock: Lock, base: Base, store: Store) -> Lock:
    fetch([deb.file for deb in (*base.packages, *base.tools)], store, Net())
    wheels = tuple(wheel for wheel in lock.wheels if wheel.name in WHEELS or wheel.role == "build")
    return msgspec.structs.replace(
        unseal(lock), base=base, workload=None, workdir="/work here", wheels=wheels
    )


def captured_base(
    asked: Iterable[str], roots: Iterable[str], work: Path
) -> tuple[Base, tuple[Resolution, ...]]:
    """Return the base of a captured machine, by its package list.

    Some packages were asked for on that machine.

    The sources are the release's own suite, from this machine's apt mirror, and the archive of `proof.archive`.
    Security updates are left out: mirrors that carry them for their own architecture lag behind for others.

    Args:
        asked: by the names that dpkg gives them.
        roots: the environment's other needs.
        work: a directory that does not exist yet. It gets the archive, `apt.conf` with the two sources, and the package
            list as a snapshot, `snapshot`.

    Returns:
        The base, and the ruling on each captured package.
    """
    env = _environment(work)
    asked, roots = list(asked), list(roots)
    foreign = sorted({name.partition(":")[2] for name in asked} - {""})
    index = configured_index("debian", "bookworm", env=env, folder=work / "apt", foreign=foreign)
    first, _ = resolve_base((), index=index, roots=[*roots, *asked])
    (work / "snapshot").mkdir()
    (work / "snapshot" / APT_LIST).write_text(_listing(first, set(asked)))
    listed, _ = apt.parse((work / "snapshot" / APT_LIST).read_bytes())
    if foreign_architectures(listed, index.architecture) != tuple(foreign):
        raise RuntimeError("the made package list names other architectures than were asked for")
    return resolve_base(listed, index=index, roots=roots)


def _listing(base: Base, asked: set[str]) -> str:
    """Return the output of `apt list --installed`.

    It is that of a machine with these packages.
    """
    rows = []
    for deb in base.packages:
        mark = "" if {deb.name, f"{deb.name}:{deb.architecture}"} & asked else ",automatic"
        if deb.architecture == "i386" and f"{deb.name}:i386" not in asked:
            mark = ",automatic"
        rows.append(f"{deb.name}/stable,now {deb.version} {deb.architecture} [installed{mark}]\n")
    return "".join(["Listing...\n", *rows])


def _environment(work: Path) -> Mapping[str, str]:
    """Write the archive and an apt configuration for it.

    It has the two sources; returns the environment that names it.
    """
    work.mkdir(parents=True)
    targets = [
        target for target in configured_targets(os.environ, ("amd64",))
        if target.release == archive.SUITE and target.component == "main"
    ]  # fmt: skip
    sources, config = work / "apt.sources", work / "apt.conf"
    sources.write_text(f"{source_list(targets, ('amd64', 'i386'))}\n{archive.make_archive(work / 'archive')}")
    config.write_text(f'Dir::Etc::SourceList "{sources}";\nDir::Etc::SourceParts "/dev/null";\n')
    return {**os.environ, "APT_CONFIG": str(config)}
