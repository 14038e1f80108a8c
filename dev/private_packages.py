"""Packages unpacked into a directory, and the private engine's layout."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from private_apt import EngineError, PrivateApt, codename, say, unpack

# Docker 26 knows OCI layouts and SOURCE_DATE_EPOCH; Debian 12's own Docker 20.10 does not.  The binaries of Debian 13
# run on Debian 12's libc, its runc does not, so the lower half stays.
ENGINE_SUITE = "trixie"
ENGINE_PACKAGES = ("docker.io", "docker-cli", "docker-buildx")
RUNTIME_PACKAGES = ("containerd", "runc", "xz-utils")
LOG_NAME = "dockerd.log"


@dataclass(frozen=True)
class Layout:
    """The directories of the private engine.

    `folder` is the directory of one daemon; `packages` is the directory above the unpacked packages; in `cdi` the
    daemon finds descriptions of devices. With `ports`, it has a bridge, and publishes ports.
    """

    folder: Path
    packages: Path
    suite: str = ENGINE_SUITE
    classic: bool = False
    cdi: Path | None = None
    ports: bool = False

    @property
    def root(self) -> Path:
        return self.packages / "root"

    @property
    def stamp(self) -> Path:
        return self.packages / "stamp.json"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    @property
    def log(self) -> Path:
        return self.folder / LOG_NAME


def wanted_packages(own_suite: str, suite: str) -> list[str]:
    # Debian 12 has the client in docker.io, and no package of buildx.
    upper = [
        f"{name}/{suite}" for name in (ENGINE_PACKAGES if suite == ENGINE_SUITE else ENGINE_PACKAGES[:1])
    ]
    return upper + [f"{name}/{own_suite}" for name in RUNTIME_PACKAGES]


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.chmod(mode)
    beside.replace(path)


def prepare_folder(
    folder: Path, packages: Sequence[str], configure: Callable[[Path], None], lock_name: str
) -> None:
    """Unpack packages and their dependencies into `folder/root`.

    They are configured too; finished work is not repeated.

    One process does it, the others wait for its lock; the stamp is written last, so a broken try is redone.
    """
    stamp, root = folder / "stamp.json", folder / "root"
    wanted = [codename(), *packages, str(folder)]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / lock_name).open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with contextlib.suppress(OSError, ValueError):
            if json.loads(stamp.read_text(encoding="utf-8"))["wanted"] == wanted:
                return
        say(f"fetching {' '.join(packages)} and what they need, from the machine's own apt sources")
        apt = PrivateApt(folder / "apt", [codename()])
        apt.update()
        present = apt.closure(["?essential", "apt"])
        needed = {name: v for name, v in apt.closure(packages).items() if name not in present}
        debs = apt.download([f"{name}={v}" for name, v in needed.items()], apt.folder / "debs")
        shutil.rmtree(root, ignore_errors=True)
        unpack(debs, root)
        configure(folder)
        shutil.rmtree(apt.folder)
        write_atomically(stamp, json.dumps({"wanted": wanted, "packages": needed}, indent=1))


def prepared(layout: Layout) -> bool:
    """Return whether this script's packages are unpacked in full."""
    try:
        stamp = json.loads(layout.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == wanted_packages(codename(), layout.suite)) and layout.root.is_dir()


def prepare(layout: Layout) -> None:
    """Download and unpack the engine.

    The stamp is written last, so a broken try is redone.
    """
    own = codename()
    wanted = wanted_packages(own, layout.suite)
    say(f"fetching {' '.join(wanted)} and what they need, from the machine's own apt sources")
    apt = PrivateApt(layout.folder / "apt", list(dict.fromkeys([own, layout.suite])))
    apt.update()
    # Every Debian machine with apt has the essential packages and apt's own needs; their C library must not come from
    # elsewhere, because the programs are started by the machine's.
    present = apt.closure(["?essential", "apt"])
    needed = {n: v for n, v in apt.closure(wanted).items() if n not in present}
    debs = apt.download([f"{name}={version}" for name, version in needed.items()], apt.folder / "debs")
    partial = layout.folder / "root.partial"
    for leftover in (partial, layout.root):
        shutil.rmtree(leftover, ignore_errors=True)
    unpack((deb for deb in debs if deb.name.partition("_")[0] in needed), partial)
    partial.rename(layout.root)
    link_client(layout)
    write_atomically(layout.stamp, json.dumps({"wanted": wanted, "packages": needed}, indent=1))
    shutil.rmtree(apt.folder)


def link_client(layout: Layout) -> None:
    """Link the client and its plugin.

    The client gets a directory of its own for PATH, the plugin a configuration directory.
    """
    binaries, plugins = layout.packages / "bin", layout.packages / "config" / "cli-plugins"
    links = [(binaries, "docker", "usr/bin/docker")]
    if layout.suite == ENGINE_SUITE:
        links.append((plugins, "docker-buildx", "usr/libexec/docker/cli-plugins/docker-buildx"))
    for folder, name, target in links:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        source = layout.root / target
        if not source.exists():
            raise EngineError(f"the packages have no {target}", "report this: Debian moved the file")
        (folder / name).symlink_to(os.path.relpath(source, folder))


def search_paths(root: Path) -> dict[str, str]:
    """Return PATH and LD_LIBRARY_PATH for the daemon.

    Unpacked files come first, then the system's.
    """
    programs = [str(root / name) for name in ("usr/bin", "usr/sbin", "bin", "sbin")]
    libraries = [str(path) for top in ("usr/lib", "lib") for path in sorted(root.glob(f"{top}/*-linux-*"))]
    system = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": ":".join([*programs, system]), "LD_LIBRARY_PATH": ":".join(libraries)}
