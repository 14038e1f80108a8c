"""A Docker engine for `make demo` and `make test` on Debian.

    python dev/private_engine.py run [--folder .engine] -- CMD...
    python dev/private_engine.py run --classic [--suite own] [--packages .engine] --folder DIR -- CMD...
    python dev/private_engine.py clean [--folder .engine]
    python dev/private_engine.py unpack DIR PACKAGE...
    python dev/private_engine.py source DIR PACKAGE SUITE
    python dev/private_engine.py sources FILE

`run` uses the engine that answers, if one does.  Otherwise Docker's packages are downloaded from the Debian mirror that
the machine's own apt sources name and unpacked into one directory, and a daemon of their own runs for as long as CMD
does.  Nothing is installed: apt works on lists, a cache and an (empty) package state inside the directory, maintainer
scripts do not run, and every mount is made in a mount namespace that ends with the command.

`run --classic` always starts a daemon of its own.  It keeps images as Docker did before containerd: loading of images
has to be tried on both.  `--suite own` takes the machine's own Docker (20.10 on Debian 12), `--packages` the unpacked
packages of another directory, which may be in use, and `--cdi` descriptions of devices (the Container Device
Interface).  `--ports` gives it a network of its own: ports are published there, and CMD runs there.

`unpack`, `source` (the files of a source package) and `sources` give the same private use of apt to the other scripts
of this directory.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from private_apt import EngineError, codename, download_source, say, unpack_packages, write_sources
from private_command import SignalError, exec_unchanged, listen_to_signals, raise_interrupted, run_command
from private_daemon import DEFAULT_SOCKET, end_leftover, ping, spawn, stop, wait_ready
from private_mounts import enter_mount_namespace, hidden, mount_cgroups, mounts_under, try_overlay, unmount
from private_network import enter_network_namespace
from private_packages import ENGINE_SUITE, Layout, prepare, prepared

# Sockets of containerd's shims, plugin discovery, add-ons, state of build steps, libmount's table.
FIXED_FOLDERS = ("/run/containerd", "/run/docker", "/opt/containerd", "/run/runc", "/run/mount")
LOCK_NAME = "private-engine.lock"


def answering_engine() -> str | None:
    """Describe the environment's engine, or return None without an answer."""
    host = os.environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"
    if host.startswith("unix://"):
        server = ping(host.removeprefix("unix://"))
        return f"{server} at {host}" if server else None
    if not shutil.which("docker"):
        return None
    asked = subprocess.run(
        ["docker", "version", "--format", "{{.Server.Version}}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return f"Docker/{asked.stdout.strip()} at {host}" if asked.returncode == 0 else None


def client_environment(layout: Layout, socket_path: Path) -> dict[str, str]:
    """Return the command's environment.

    Variables that would lead it to another engine are left out.
    """
    other = {
        "DOCKER_CONTEXT",
        "DOCKER_TLS_VERIFY",
        "DOCKER_CERT_PATH",
        "DOCKER_API_VERSION",
        "BUILDX_BUILDER",
    }
    kept = {key: value for key, value in os.environ.items() if key not in other}
    path = f"{layout.packages / 'bin'}:{os.environ.get('PATH', os.defpath)}"
    config = str(layout.packages / "config")
    return {**kept, "DOCKER_HOST": f"unix://{socket_path}", "DOCKER_CONFIG": config, "PATH": path}


def lock(folder: Path, *, wait: bool) -> int:
    """Take the directory's lock.

    A run in the same directory holds it until its daemon is gone.
    """
    path = folder / LOCK_NAME
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode() or "unknown"
            if not wait:
                raise EngineError(f"process {holder} is using {folder}", "wait for it or stop it") from None
            say(f"waiting for process {holder}, which is using {folder}")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        # `clean` may have removed the file while this process was waiting for it.
        if path.exists() and path.stat().st_ino == os.fstat(descriptor).st_ino:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            return descriptor
        os.close(descriptor)


def run_with_private_engine(layout: Layout, argv: Sequence[str]) -> int:
    """Start the daemon, run the command, stop the daemon."""
    mount_cgroups()
    try_overlay(layout.folder)
    with contextlib.ExitStack() as stack:
        for path in FIXED_FOLDERS:
            stack.enter_context(hidden(Path(path)))
        started = time.monotonic()
        daemon = spawn(layout)
        try:
            wait_ready(daemon, layout)
            say(f"ready after {time.monotonic() - started:.1f} s")
            return run_command(argv, client_environment(layout, daemon.socket))
        finally:
            listen_to_signals(signal.SIG_IGN)
            stop(daemon, layout)


def run(layout: Layout, argv: Sequence[str]) -> int:
    engine = None if layout.classic else answering_engine()
    if engine:
        say(f"using {engine}")
        exec_unchanged(argv)
    listen_to_signals(raise_interrupted)
    codename()
    enter_mount_namespace()
    if layout.ports:
        enter_network_namespace()
    if not layout.classic:
        host = os.environ.get("DOCKER_HOST") or f"unix://{DEFAULT_SOCKET}"
        say(f"no Docker engine answers at {host}: a private one in {layout.folder} runs for this command")
        say("nothing is installed; `make clean` removes it")
    descriptor = lock(layout.folder, wait=True)
    try:
        end_leftover(layout)
        if not prepared(layout):
            if layout.packages != layout.folder:
                raise EngineError(f"{layout.packages} has no unpacked engine", "leave --packages out")
            prepare(layout)
        return run_with_private_engine(layout, argv)
    finally:
        os.close(descriptor)


def clean(folder: Path) -> int:
    """Stop a left-over daemon, and remove the directory."""
    if not folder.exists():
        return 0
    if not (folder / LOCK_NAME).exists():
        raise EngineError(f"{folder} was not made by this program", "remove it by hand if it is yours")
    descriptor = lock(folder, wait=False)
    try:
        end_leftover(Layout(folder, folder))
        for point in mounts_under(folder):
            unmount(point)
        # The lock goes last: a removal that was cut short can then be finished by another one.
        for entry in folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name != LOCK_NAME:
                entry.unlink()
        (folder / LOCK_NAME).unlink()
        folder.rmdir()
    finally:
        os.close(descriptor)
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(description="A Docker engine for one command, without installing one.")
    verbs = top.add_subparsers(dest="verb", required=True)
    for verb, text in (("run", "run CMD with an engine"), ("clean", "remove the private engine")):
        one = verbs.add_parser(verb, help=text)
        one.add_argument("--folder", type=Path, default=Path(".engine"), help="default: .engine")
        if verb == "run":
            one.add_argument(
                "--classic", action="store_true", help="an own daemon with the classic image store"
            )
            one.add_argument("--suite", choices=("newer", "own"), default="newer", help="whose Docker")
            one.add_argument("--packages", type=Path, help="a directory where they are unpacked already")
            one.add_argument(
                "--cdi", type=Path, help="a directory with descriptions of devices, for an own daemon"
            )
            one.add_argument(
                "--ports",
                action="store_true",
                help="a network of its own, with published ports (with --classic)",
            )
            one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    some = verbs.add_parser("unpack", help="unpack Debian packages into a directory")
    some.add_argument("into", type=Path)
    some.add_argument("packages", nargs="+")
    source = verbs.add_parser("source", help="download the files of a source package")
    source.add_argument("into", type=Path)
    source.add_argument("package")
    source.add_argument("suite")
    verbs.add_parser("sources", help="write the Debian mirror of this machine").add_argument(
        "into", type=Path
    )
    return top


def main(argv: Sequence[str]) -> int:
    top = parser()
    options = top.parse_args(argv)
    if options.verb == "unpack":
        return unpack_packages(options.into, options.packages)
    if options.verb == "source":
        return download_source(options.into, options.package, options.suite)
    if options.verb == "sources":
        return write_sources(options.into)
    folder = options.folder.resolve()
    if options.verb == "clean":
        return clean(folder)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        top.error("run: no command; write it after --")
    suite = codename() if options.suite == "own" else ENGINE_SUITE
    packages = options.packages.resolve() if options.packages else folder
    cdi = options.cdi.resolve() if options.cdi else None
    return run(Layout(folder, packages, suite, options.classic, cdi, options.ports), command)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EngineError as failure:
        say(str(failure))
        sys.exit(1)
    except SignalError as interrupted:
        sys.exit(128 + interrupted.signum)
    except KeyboardInterrupt:
        sys.exit(130)
