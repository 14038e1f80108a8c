"""The private Docker daemon: its start, wait, stop and cleanup."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from private_apt import OWN_ENGINE, EngineError
from private_mounts import remove_cgroups
from private_packages import Layout, search_paths, write_atomically

DEFAULT_SOCKET = "/var/run/docker.sock"
SOCKET_LIMIT = 100  # bytes; the kernel's own limit is 107
LONGEST_SOCKET = "exec/containerd/containerd-debug.sock"  # the longest of the daemon's sockets
READY_SECONDS = 60
STOP_SECONDS = 20


def ping(path: str, timeout: float = 3.0) -> str | None:
    """Return the Server header of the engine at the socket, or None."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout)
            connection.connect(path)
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return None
    head, _, _ = answer.decode("latin-1").partition("\r\n\r\n")
    if " 200 " not in head.partition("\r\n")[0]:
        return None
    server = re.search(r"(?im)^server: *(.+?)\r?$", head)
    return server.group(1) if server else "an engine"


@dataclass(frozen=True)
class Daemon:
    """A started daemon: the namespaces' keeper, and its belongings."""

    process: subprocess.Popen[bytes]
    runtime: Path
    cgroup: str

    @property
    def socket(self) -> Path:
        return self.runtime / "docker.sock"


def process_start(pid: int) -> str | None:
    """Return the start time of a process.

    It tells a process from a later one with the same number.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    words = stat.rpartition(")")[2].split()
    return None if words[0] in "ZX" else words[19]


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(words[1]) == pid:
                found.append(int(entry.parent.name))
    return found


def runtime_folder(folder: Path) -> Path:
    """Return the directory of the sockets.

    It is in the directory, or in /tmp for a path that is too long or odd.
    """
    inside = folder / "run"
    plain = re.fullmatch(r"[\w./+-]+", str(folder), re.ASCII)
    if plain and len(os.fsencode(inside / LONGEST_SOCKET)) <= SOCKET_LIMIT:
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir(mode=0o700)
        return inside
    return Path(tempfile.mkdtemp(prefix="reprobuild-engine-", dir="/tmp"))


def daemon_configuration(layout: Layout, runtime: Path, cgroup: str) -> dict[str, object]:
    cdi = {"cdi-spec-dirs": [str(layout.cdi)]} if layout.cdi else {}
    return {
        **cdi,
        "data-root": str(layout.folder / "data"),
        "exec-root": str(runtime / "exec"),
        "pidfile": str(runtime / "docker.pid"),
        "hosts": [f"unix://{runtime / 'docker.sock'}"],
        "features": {"containerd-snapshotter": not layout.classic, **({"cdi": True} if cdi else {})},
        # The machine's network stays as it is: containers run without one, or with the host's.
        **({} if layout.ports else {"bridge": "none"}),
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "ip-masq": False,
        "userland-proxy": layout.ports,
        # systemd would be told process numbers of another namespace.
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "cgroup-parent": f"/{cgroup}",
        "shutdown-timeout": 5,
    }


def daemon_command(layout: Layout, config: Path) -> list[str]:
    """Return the daemon's command, bound to the life of this program.

    The end of this program, by whatever cause, also ends every process of the daemon.

    setpriv kills unshare when this program dies, unshare kills the first process of the daemon's
    process namespace when it dies itself, and the kernel then kills all others in it.
    """
    binaries = layout.root / "usr"
    return [
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *("unshare", "--mount", "--propagation", "slave", "--pid", "--fork", "--kill-child"),
        *("--mount-proc", "--", str(binaries / "bin/tini"), "--"),
        *(str(binaries / "sbin/dockerd"), "--config-file", str(config)),
    ]


def spawn(layout: Layout) -> Daemon:
    runtime = runtime_folder(layout.folder)
    cgroup = f"reprobuild-{hashlib.sha256(os.fsencode(layout.folder)).hexdigest()[:12]}"
    config = layout.folder / "daemon.json"
    config.write_text(json.dumps(daemon_configuration(layout, runtime, cgroup), indent=1), encoding="utf-8")
    with layout.log.open("wb") as log:
        process = subprocess.Popen(
            daemon_command(layout, config),
            env={**os.environ, **search_paths(layout.root), "TMPDIR": "/tmp"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the command; the daemon ends after it
        )
    state = {
        "pid": process.pid,
        "start": process_start(process.pid),
        "runtime": str(runtime),
        "cgroup": cgroup,
    }
    write_atomically(layout.state, json.dumps(state))
    return Daemon(process, runtime, cgroup)


def wait_ready(daemon: Daemon, layout: Layout) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not ping(str(daemon.socket)):
        ended = daemon.process.poll() is not None
        if ended or time.monotonic() > deadline:
            lines = layout.log.read_text(encoding="utf-8", errors="replace").splitlines()
            tail = "".join(f"\n    {line[:300]}" for line in lines[-15:])
            how = "ended" if ended else f"did not answer within {READY_SECONDS} s"
            raise EngineError(f"the private Docker daemon {how}; the end of {layout.log}:{tail}", OWN_ENGINE)
        time.sleep(0.05)


def stop(daemon: Daemon, layout: Layout) -> None:
    """Ask the daemon to end, then remove all that is left."""
    for child in children(daemon.process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGTERM)
    try:
        daemon.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        daemon.process.kill()
        daemon.process.wait()
    forget(layout, daemon.runtime, daemon.cgroup)


def forget(layout: Layout, runtime: Path, cgroup: str) -> None:
    remove_cgroups(cgroup)
    shutil.rmtree(runtime, ignore_errors=True)
    layout.state.unlink(missing_ok=True)


def end_leftover(layout: Layout) -> None:
    """End the daemon that an earlier run left behind."""
    try:
        state = json.loads(layout.state.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    pid = int(state["pid"])
    if state["start"] and process_start(pid) == state["start"]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + STOP_SECONDS
    while process_start(pid) == state["start"] and time.monotonic() < deadline:
        time.sleep(0.05)
    forget(layout, Path(state["runtime"]), state["cgroup"])
