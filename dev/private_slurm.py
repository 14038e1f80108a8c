"""A Slurm cluster of three nodes, and Lmod, on Debian.

It is for one command, on a machine that has neither.

    python dev/private_slurm.py run [--folder build/engines/slurm] -- CMD...

The packages come from the mirror that the machine's own apt sources name, and are unpacked into one directory (30 MB).
CMD sees them at their own places, as if they were installed: it runs in namespaces of its own (mounts, processes,
network, name of the host), with an overlay of the packages on /usr and an empty /run.  There it finds three idle nodes,
`n1` to `n3`, in the partition `p`; all daemons run as root on this host and do not listen outside. CMD may write
/run/slurm/prolog and /run/slurm/task-prolog, which are empty. The end of this program, by whatever cause, ends them
all, and only the directory stays.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from private_apt import EngineError, PrivateApt, codename, unpack
from private_command import SignalError, listen_to_signals, raise_interrupted
from private_engine import lock
from private_mounts import mount
from private_packages import write_atomically

PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "lmod")
ALTERNATIVES = ("slurmctld", "slurmd", "slurmstepd")  # Debian's scripts would link them to NAME-wlm
OWN_SLURM = "run the command on a cluster"
HOST = "cluster"
NODES = ("n1", "n2", "n3")
STATE = Path("/run/slurm")
SECRET = Path("/run/munge/key")
SOCKET = Path("/run/munge/socket")
READY_SECONDS = 30
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1

# Each node has more processors than the machine: their binding is not tried here.
CONFIGURATION = f"""\
ClusterName={HOST}
SlurmctldHost={HOST}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={SOCKET}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
SelectType=select/cons_tres
KillWait=5
StateSaveLocation={STATE}/state
SlurmdSpoolDir={STATE}/spool-%n
SlurmctldPidFile={STATE}/slurmctld.pid
SlurmdPidFile={STATE}/slurmd-%n.pid
Prolog={STATE}/prolog
TaskProlog={STATE}/task-prolog
NodeName=n[1-3] NodeHostname={HOST} NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=8 RealMemory=100
PartitionName=p Nodes=ALL Default=YES State=UP
"""


def say(text: str) -> None:
    print(f"private_slurm: {text}", file=sys.stderr, flush=True)


def prepared(folder: Path) -> bool:
    """Return whether this script's packages are unpacked in full."""
    try:
        stamp = json.loads((folder / "stamp.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == [codename(), *PACKAGES]) and (folder / "root").is_dir()


def prepare(folder: Path) -> None:
    """Download and unpack the packages.

    The stamp is written last, so a broken try is redone.
    """
    say(f"fetching {' '.join(PACKAGES)} and what they need, from the machine's own apt sources")
    apt = PrivateApt(folder / "apt", [codename()])
    apt.update()
    present = apt.closure(["?essential", "apt"])
    needed = {n: v for n, v in apt.closure(PACKAGES).items() if n not in present}
    debs = apt.download([f"{name}={version}" for name, version in needed.items()], apt.folder / "debs")
    partial = folder / "root.partial"
    for leftover in (partial, folder / "root"):
        shutil.rmtree(leftover, ignore_errors=True)
    unpack((deb for deb in debs if deb.name.partition("_")[0] in needed), partial)
    for name in ("lib", "bin", "sbin"):  # the machine may have links to those of /usr
        if (partial / name).is_dir():
            shutil.copytree(partial / name, partial / "usr" / name, symlinks=True, dirs_exist_ok=True)
    for name in ALTERNATIVES:
        (partial / "usr/sbin" / name).symlink_to(f"{name}-wlm")
    partial.rename(folder / "root")
    stamp = {"wanted": [codename(), *PACKAGES], "packages": needed}
    write_atomically(folder / "stamp.json", json.dumps(stamp, indent=1))
    shutil.rmtree(apt.folder)


def run(folder: Path, argv: Sequence[str]) -> int:
    """Run the command in namespaces that end with this program.

    They end however it ends.
    """
    if os.geteuid() != 0:
        raise EngineError("a private Slurm needs root", f"be root, or {OWN_SLURM}")
    listen_to_signals(raise_interrupted)
    descriptor = lock(folder, wait=True)
    try:
        if not prepared(folder):
            prepare(folder)
    finally:
        os.close(descriptor)
    inside = [sys.executable, str(Path(__file__).resolve()), "inside", str(folder), "--", *argv]
    process = subprocess.Popen(
        [
            *("setpriv", "--pdeathsig", "KILL", "--"),
            *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("--net", "--uts", "--", *inside),
        ]
    )  # fmt: skip
    try:
        code = process.wait()
    finally:
        process.kill()  # and with it everything inside
    return code if code >= 0 else 128 - code


def first_process(folder: Path, argv: Sequence[str]) -> int:
    """Do the work in a second process.

    The first of a namespace has to collect all that others leave behind.
    """
    worker = os.fork()
    if worker == 0:
        try:
            code = run_inside(folder, argv)
        except EngineError as failure:
            say(str(failure))
            code = 1
        sys.stdout.flush()
        os._exit(code)
    while True:
        pid, status = os.wait()
        if pid == worker:
            return os.waitstatus_to_exitcode(status) % 256


def run_inside(folder: Path, argv: Sequence[str]) -> int:
    """Start the cluster, and run the command.

    The daemons end with the first process.
    """
    started = time.monotonic()
    make_place(folder)
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/bin"
    env = {**os.environ, "SLURM_CONF": str(STATE / "slurm.conf"), "PATH": path}
    daemons = start_daemons(env)
    wait_ready(daemons, env)
    say(f"three nodes are idle after {time.monotonic() - started:.1f} s")
    done = subprocess.run(argv, env=env, check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def make_place(folder: Path) -> None:
    """Make host name, network, /usr, /run and the configuration."""
    socket.sethostname(HOST)
    # A second address: if all are loopback's, the C library finds none for a program to listen at.
    address = socket.inet_aton("192.0.2.1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
        fcntl.ioctl(any_socket, SIOCSIFADDR, struct.pack("16sHxx4s16x", b"lo:1", socket.AF_INET, address))
    try:
        mount("overlay", "/usr", options=f"lowerdir={folder}/root/usr:/usr")
    except OSError as error:
        raise EngineError(
            f"the packages of Slurm cannot be laid over /usr: {error}",
            "`modprobe overlay`, or --folder at a path with no comma or colon",
        ) from error
    mount("tmpfs", "/run", options="mode=755")
    for path in (STATE / "state", *(STATE / f"spool-{node}" for node in NODES)):
        path.mkdir(parents=True)
    SECRET.parent.mkdir(mode=0o755)
    SECRET.touch(0o400)
    SECRET.write_bytes(os.urandom(1024))
    (STATE / "slurm.conf").write_text(CONFIGURATION, encoding="utf-8")
    for name in ("prolog", "task-prolog"):  # CMD may write others
        (STATE / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (STATE / name).chmod(0o755)


def start_daemons(env: Mapping[str, str]) -> dict[str, subprocess.Popen[bytes]]:
    munge = [f"--{name}-file={SECRET.parent}/{name}" for name in ("pid", "log", "seed")]
    commands = {
        "munged": ["munged", "--force", "--foreground", f"--socket={SOCKET}", f"--key-file={SECRET}", *munge],
        "slurmctld": ["slurmctld", "-D", "-i"],
        **{node: ["slurmd", "-D", "-N", node] for node in NODES},
    }
    daemons = {}
    for name, argv in commands.items():
        with (STATE / f"{name}.log").open("wb") as log:
            daemons[name] = subprocess.Popen(
                argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + READY_SECONDS
        while not SOCKET.exists() and daemons[name].poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
    return daemons


def wait_ready(daemons: Mapping[str, subprocess.Popen[bytes]], env: Mapping[str, str]) -> None:
    deadline = time.monotonic() + READY_SECONDS
    asked = ["sinfo", "--noheader", "--states=idle", "--format=%D"]
    while subprocess.run(asked, env=env, capture_output=True, check=False).stdout.strip() != b"3":
        ended = [name for name, daemon in daemons.items() if daemon.poll() is not None]
        if ended or time.monotonic() > deadline:
            what = f"{', '.join(ended)} ended" if ended else f"not ready within {READY_SECONDS} s"
            tails = [f"\n  {name}:\n{tail(STATE / f'{name}.log')}" for name in ended or daemons]
            raise EngineError(f"the private Slurm: {what}{''.join(tails)}", OWN_SLURM)
        time.sleep(0.05)


def tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-8:]
    return "\n".join(f"    {line[:300]}" for line in lines)


def main(argv: Sequence[str]) -> int:
    if argv[:1] == ["inside"]:
        return first_process(Path(argv[1]), argv[3:])
    top = argparse.ArgumentParser(description="A Slurm cluster for one command, without installing one.")
    one = top.add_subparsers(dest="verb", required=True).add_parser("run", help="run CMD with a cluster")
    one.add_argument("--folder", type=Path, default=Path("build/engines/slurm"), help="of the packages")
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    options = top.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        top.error("run: no command; write it after --")
    return run(options.folder.resolve(), command)


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
