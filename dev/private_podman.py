"""podman for tests on a Debian machine without one.

It is on PATH, and nothing is installed.

    python dev/private_podman.py run --folder DIR -- CMD...
    python dev/private_podman.py prepare --folder DIR [--storage NAME]
    python dev/private_podman.py clean --folder DIR

`prepare` downloads podman's packages from the Debian mirror that the machine's own apt sources name, unpacks them into
the directory, and writes DIR/bin/podman, which starts that podman with storage, state, configuration and home of its
own, all in the directory (state in a directory of /tmp, if podman finds the path too long).  `prepare --storage NAME`
also writes DIR/NAME/bin/podman, the same podman with another storage and state, for callers that run at the same time.
`run` prepares if that is needed, and runs CMD with DIR/bin first on PATH.  Root is needed: an unprivileged podman needs
setuid helpers, which have to be installed.

Outside the directory podman makes only things that end with a container: its mounts, its control groups, /run/runc.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from private_apt import EngineError, say
from private_mounts import mounts_under, remove_cgroups, try_overlay, unmount
from private_packages import prepare_folder, search_paths, write_atomically

# crun is podman's default in Debian, and refuses some machines' control groups; runc does not.
PACKAGES = ("podman", "runc", "crun")
LOCK_NAME = "private-podman.lock"
LONGEST_RUNROOT = 50  # bytes; podman refuses more
OWN_PODMAN = "install podman yourself (`apt-get install podman`)"
# The limits that the machine gives every process; podman's own default is more than some machines give root.
ULIMITS = ("nofile=1024:1024", "nproc=1000:1000")


@dataclass(frozen=True)
class Storage:
    """The directories of one storage: images and containers, the state that a restart ends, and storage.conf."""

    graph: Path
    run: Path
    settings: Path


def runtime_folder(folder: Path) -> Path:
    """Return the directory of the state that a restart ends.

    It is in the directory, or in /tmp if podman finds its path too long.
    """
    inside = folder / "run"
    if len(os.fsencode(inside / "storage")) <= LONGEST_RUNROOT:
        inside.mkdir(mode=0o700, exist_ok=True)
        return inside
    outside = Path("/tmp") / f"reprobuild-podman-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
    with contextlib.suppress(FileExistsError):
        outside.mkdir(mode=0o700)
    found = outside.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise EngineError(f"{outside} belongs to someone else", "choose another --folder")
    return outside


def prepare(folder: Path, storage: str = "") -> None:
    """Download, unpack and configure podman, unless that was done, and write the program of one more storage."""
    if os.geteuid() != 0:
        raise EngineError("a private podman needs root", f"be root, or {OWN_PODMAN}")
    prepare_folder(folder, PACKAGES, configure, LOCK_NAME)
    if storage:
        write_storage(folder, storage)


def program_paths(folder: Path) -> dict[str, str]:
    """Return the variables that lead to the unpacked programs and libraries."""
    root = folder / "root"
    programs = ":".join(str(root / name) for name in ("usr/bin", "usr/sbin"))
    return {**search_paths(root), "PATH": f"{programs}:/usr/sbin:/usr/bin:/sbin:/bin"}


def configure(folder: Path) -> None:
    """Write podman's configuration, and the program to start it."""
    etc, home = folder / "etc", folder / "home"
    for made in (etc, home / ".config/containers", folder / "tmp"):
        made.mkdir(parents=True, exist_ok=True)
    (etc / "containers.conf").write_text(configuration(folder, program_paths(folder)), encoding="utf-8")
    (etc / "registries.conf").write_text("unqualified-search-registries = []\n", encoding="utf-8")
    # The one file that podman finds by its home alone.
    policy = '{"default": [{"type": "insecureAcceptAnything"}]}\n'
    (home / ".config/containers/policy.json").write_text(policy, encoding="utf-8")
    write_storage(folder, "")


def write_storage(folder: Path, name: str) -> None:
    """Write the program of one storage: DIR/bin/podman, or DIR/NAME/bin/podman."""
    below = folder / name
    program, settings = below / "bin/podman", below / "storage.conf"
    program.parent.mkdir(parents=True, exist_ok=True)
    storage = Storage(below / "storage", runtime_folder(below), settings)
    try:
        try_overlay(folder)
        driver = "overlay"
    except EngineError:
        driver = "vfs"
    values = {"driver": driver, "graphroot": storage.graph, "runroot": storage.run / "storage"}
    lines = [f"{key} = {json.dumps(str(value))}" for key, value in values.items()]
    write_atomically(settings, "\n".join(["[storage]", *lines, ""]))
    write_atomically(program, starter(folder, storage), mode=0o755)


def configuration(folder: Path, paths: dict[str, str]) -> str:
    """Return containers.conf.

    Its format: https://github.com/containers/common/blob/main/docs/containers.conf.5.md.
    """
    root = folder / "root"
    runtimes = {
        name: [str(root / "usr/sbin" / name), str(root / "usr/bin" / name)] for name in ("runc", "crun")
    }
    # conmon starts podman once more to clean up, and hands on only these.
    for_conmon = [f"{name}={value}" for name, value in {**paths, "HOME": str(folder / "home")}.items()]
    sections: dict[str, dict[str, object]] = {
        "containers": {"default_ulimits": list(ULIMITS), "netns": "none"},
        "engine": {
            "runtime": "runc",
            "conmon_path": [str(root / "usr/bin/conmon")],
            "conmon_env_vars": for_conmon,
            "cgroup_manager": "cgroupfs",
            "events_logger": "none",
            "lock_type": "file",
            "image_copy_tmp_dir": str(folder / "tmp"),
        },
        "engine.runtimes": dict(runtimes),
        "network": {
            "network_config_dir": str(folder / "etc/net"),
            "cni_plugin_dirs": [str(root / "usr/lib/cni")],
        },
    }
    return "\n".join(
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items()), ""])
        for name, section in sections.items()
    )


def starter(folder: Path, storage: Storage) -> str:
    """Return the text of a program that starts podman with one storage.

    CONTAINERS_CONF may name another configuration.
    """
    fixed = {
        "HOME": folder / "home",
        "TMPDIR": folder / "tmp",
        "CONTAINERS_STORAGE_CONF": storage.settings,
        "CONTAINERS_REGISTRIES_CONF": folder / "etc/registries.conf",
        **program_paths(folder),
    }
    words = [folder / "root/usr/bin/podman", "--root", storage.graph, "--runroot", storage.run / "storage"]
    words += ["--tmpdir", storage.run / "libpod"]
    return "\n".join(
        [
            "#!/bin/sh",
            *(f"export {name}={shlex.quote(str(value))}" for name, value in fixed.items()),
            f'export CONTAINERS_CONF="${{CONTAINERS_CONF:-"{folder / "etc/containers.conf"}"}}"',
            f'exec {" ".join(shlex.quote(str(word)) for word in words)} "$@"',
            "",
        ]
    )


def clean(folder: Path) -> None:
    """End everything that runs in the directory, and remove it."""
    if not (folder / LOCK_NAME).exists():
        return
    programs = [program for pattern in ("bin/podman", "*/bin/podman") for program in folder.glob(pattern)]
    for program in programs:
        subprocess.run(
            [program, "rm", "--all", "--force", "--time", "0"], stdout=subprocess.DEVNULL, check=False
        )
    runtimes = [runtime_folder(program.parent.parent) for program in programs]
    for point in (place for below in (folder, *runtimes) for place in mounts_under(below)):
        unmount(point)
    for runtime in runtimes:
        shutil.rmtree(runtime, ignore_errors=True)
    remove_cgroups("libpod_parent")
    shutil.rmtree(folder)


def run(folder: Path, argv: Sequence[str]) -> int:
    """Run a command with podman first on PATH."""
    prepare(folder)
    env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ.get('PATH', os.defpath)}"}
    try:
        return subprocess.run(argv, env=env, check=False).returncode
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        return 127


def main(argv: Sequence[str]) -> int:
    top = argparse.ArgumentParser(description="podman for one command, without installing it.")
    verbs = top.add_subparsers(dest="verb", required=True)
    for verb in ("run", "prepare", "clean"):
        one = verbs.add_parser(verb)
        one.add_argument("--folder", type=Path, required=True)
        if verb == "prepare":
            one.add_argument("--storage", default="", metavar="NAME")
        if verb == "run":
            one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    options = top.parse_args(argv)
    folder = options.folder.resolve()
    if options.verb == "clean":
        clean(folder)
        return 0
    if options.verb == "prepare":
        prepare(folder, options.storage)
        return 0
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        top.error("run: no command; write it after --")
    return run(folder, command)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EngineError as failure:
        say(str(failure))
        sys.exit(1)
