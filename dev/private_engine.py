"""A Docker engine for `make demo` and `make test` on a Debian machine that has none.

    python dev/private_engine.py run [--folder .engine] -- CMD...
    python dev/private_engine.py run --classic [--suite own] [--packages .engine] --folder DIR -- CMD...
    python dev/private_engine.py clean [--folder .engine]
    python dev/private_engine.py unpack DIR PACKAGE...
    python dev/private_engine.py sources FILE

`run` uses the engine that answers, if one does.  Otherwise Docker's packages are downloaded from
the Debian mirror that the machine's own apt sources name and unpacked into one folder, and a
daemon of their own runs for as long as CMD does.  Nothing is installed: apt works on lists, a
cache and an (empty) package state inside the folder, maintainer scripts do not run, and every
mount is made in a mount namespace that ends with the command.

`run --classic` always starts a daemon of its own, one that keeps images as Docker did before
containerd: what loads images has to be tried on both.  `--suite own` takes the machine's own Docker
(20.10 on Debian 12), `--packages` the unpacked packages of another folder, which may be in use.

`unpack` and `sources` give the same private use of apt to the other scripts of this folder.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import ctypes.util
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

# Docker 26 knows OCI layouts and SOURCE_DATE_EPOCH; Debian 12's own Docker 20.10 does not.  The
# binaries of Debian 13 run on Debian 12's libc, its runc does not, so the lower half stays.
ENGINE_SUITE = "trixie"
ENGINE_PACKAGES = ("docker.io", "docker-cli", "docker-buildx")
RUNTIME_PACKAGES = ("containerd", "runc", "xz-utils")
SUPPORTED = {"bookworm": "Debian 12", "trixie": "Debian 13"}

DEFAULT_SOCKET = "/var/run/docker.sock"
SOCKET_LIMIT = 100  # bytes; the kernel's own limit is 107
LONGEST_SOCKET = "exec/containerd/containerd-debug.sock"  # the longest of those the daemon makes
# Sockets of containerd's shims, plugin discovery, add-ons, state of build steps, libmount's table.
FIXED_FOLDERS = ("/run/containerd", "/run/docker", "/opt/containerd", "/run/runc", "/run/mount")
READY_SECONDS = 60
STOP_SECONDS = 20
COMMAND_GRACE_SECONDS = 15
OWN_ENGINE = "start Docker yourself (or name one with DOCKER_HOST) and run the command again"

CLONE_NEWNS = 0x00020000
MS_REC, MS_SLAVE, MS_SHARED = 0x4000, 0x80000, 0x100000
MNT_DETACH = 2

LOG_NAME = "dockerd.log"
LOCK_NAME = "private-engine.lock"


class EngineError(Exception):
    """What happened, and what can be done about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}\n  hint: {hint}")


class SignalError(Exception):
    """A signal asked this program to end."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"signal {signum}")
        self.signum = signum


def say(text: str) -> None:
    """Write one line for the person at the terminal."""
    print(f"private_engine: {text}", file=sys.stderr, flush=True)


# --- an engine that is already there ---------------------------------------------------------


def ping(path: str, timeout: float = 3.0) -> str | None:
    """Return the Server header of the engine that listens at the socket, None without one."""
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


def answering_engine() -> str | None:
    """Describe the engine that the environment names, when it answers."""
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


# --- apt, privately --------------------------------------------------------------------------


@dataclass(frozen=True)
class Mirror:
    """The machine's own Debian mirror, and how its sources say that it is trusted."""

    uri: str
    trust: str  # Signed-By and Trusted fields, as they stand in the machine's sources

    def source(self, suite: str) -> str:
        return f"Types: deb\nURIs: {self.uri}\nSuites: {suite}\nComponents: main\n{self.trust}\n"


def captured(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Run a program and return its standard output."""
    environment = {**(os.environ if env is None else env), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        argv, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise EngineError(
            f"{' '.join(argv[:2])} failed: {reason}",
            "check the machine's apt sources with `apt-get update`",
        )
    return done.stdout


def codename() -> str:
    """Return the code name of this machine's Debian; explain when it is not one."""
    release: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            release[key] = value.strip("\"'")
    name = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or name not in SUPPORTED:
        raise EngineError(
            f"no private engine for {release.get('PRETTY_NAME', 'this system')}: "
            f"it is made of the packages of {' or '.join(SUPPORTED.values())}",
            OWN_ENGINE,
        )
    for tool in ("apt-get", "apt-config", "dpkg-deb"):
        if not shutil.which(tool):
            raise EngineError(f"{tool} is missing", OWN_ENGINE)
    return name


def fields(stanza: str) -> dict[str, str]:
    """Split one deb822 stanza; a value keeps its continuation lines (embedded keys have them)."""
    found: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and key:
            found[key] += "\n" + line
        elif ":" in line:
            key, _, value = line.partition(":")
            found[key] = value.strip()
    return found


def one_line_source(line: str) -> dict[str, str]:
    """Read a line of a .list file as the stanza that it stands for."""
    match = re.match(r"\s*(deb(?:-src)?)\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s*([^#]*)", line)
    if not match:
        return {}
    kind, options, uri, suite, components = match.groups()
    pairs = (word.partition("=") for word in (options or "").split())
    found = {key.title(): value for key, _, value in pairs}
    return {**found, "Types": kind, "URIs": uri, "Suites": suite, "Components": components}


def machine_sources() -> Iterator[dict[str, str]]:
    """Read the machine's apt sources; apt itself lists only those it has downloaded from before."""
    shell = captured(
        ["apt-config", "shell", "list", "Dir::Etc::SourceList/f", "parts", "Dir::Etc::SourceParts/d"]
    )
    where = dict(re.findall(r"(?m)^(\w+)='(.*)'$", shell))
    parts = Path(where["parts"])
    for path in [Path(where["list"]), *(sorted(parts.iterdir()) if parts.is_dir() else [])]:
        if path.is_file() and path.suffix == ".sources":
            yield from map(fields, re.split(r"\n\s*\n", path.read_text(encoding="utf-8")))
        elif path.is_file() and path.suffix == ".list":
            yield from map(one_line_source, path.read_text(encoding="utf-8").splitlines())


def machine_mirror(suite: str) -> Mirror:
    """Find the mirror of Debian itself among the machine's sources."""
    candidates: list[tuple[int, int, Mirror]] = []
    for source in machine_sources():
        named = {key: source.get(key, "").split() for key in ("Types", "Suites", "Components", "URIs")}
        wanted = "deb" in named["Types"] and suite in named["Suites"] and "main" in named["Components"]
        uris = [uri for uri in named["URIs"] if not uri.startswith("cdrom:")]
        if not wanted or not uris or source.get("Enabled", "yes").lower() in {"no", "false"}:
            continue
        trust = "".join(f"{key}: {source[key]}\n" for key in ("Signed-By", "Trusted") if source.get(key))
        # Others have a suite and component of the same names; Debian's own goes first.
        strange = 0 if "debian-archive" in trust else 2 if "Signed-By" in trust else 1
        candidates.append((strange, len(candidates), Mirror(uris[0], trust)))
    if not candidates:
        raise EngineError(
            f"the machine's apt sources name no mirror with the suite {suite} and component main",
            "add one to /etc/apt/sources.list (see `man sources.list`)",
        )
    return min(candidates, key=lambda candidate: candidate[:2])[2]


def acquire_settings() -> str:
    """Return how this machine downloads (proxy, certificates), and none of its hooks."""
    dump = captured(["apt-config", "dump"]).splitlines()
    # The index targets are apt's built-in ones or the wish of unrelated tools for more files.
    kept = [
        line for line in dump if line.startswith("Acquire") and not line.startswith("Acquire::IndexTargets")
    ]
    return "\n".join(kept) + "\n"


class PrivateApt:
    """apt-get with its own sources, lists, cache and an empty package state in one folder."""

    def __init__(self, folder: Path, suites: Sequence[str]) -> None:
        self.folder = folder.resolve()
        self.suites = suites
        self.env = {**os.environ, "APT_CONFIG": str(self.folder / "apt.conf")}

    def update(self) -> None:
        """Write the configuration and fetch the package lists."""
        for name in ("lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        mirror = machine_mirror(codename())
        stanzas = (mirror.source(suite) for suite in self.suites)
        (self.folder / "debian.sources").write_text("\n".join(stanzas), encoding="utf-8")
        # The machine's own suite wins wherever a package is not asked for from another one.
        pins = (f"Package: *\nPin: release n={s}\nPin-Priority: 60\n" for s in self.suites[1:])
        (self.folder / "preferences").write_text("\n".join(pins), encoding="utf-8")
        (self.folder / "status").write_text("", encoding="utf-8")
        # A proxy's password can stand in these settings.
        conf = self.folder / "apt.conf"
        conf.touch(mode=0o600)
        conf.write_text(self._configuration(), encoding="utf-8")
        captured(["apt-get", "-q", "update", "-oAPT::Update::Error-Mode=any"], self.env)

    def _configuration(self) -> str:
        at = str(self.folder).replace("%", "%25").replace('"', "%22")
        return acquire_settings() + "\n".join(
            [
                'Dir::Etc::Parts "/dev/null";',
                'Dir::Etc::Main "/dev/null";',
                f'Dir::Etc::SourceList "{at}/debian.sources";',
                'Dir::Etc::SourceParts "/dev/null";',
                f'Dir::Etc::Preferences "{at}/preferences";',
                'Dir::Etc::PreferencesParts "/dev/null";',
                f'Dir::State "{at}";',
                f'Dir::State::Lists "{at}/lists/";',
                f'Dir::State::Status "{at}/status";',
                f'Dir::Cache "{at}/cache";',
                f'Dir::Log "{at}/log";',
                'Dir::Log::Planner "";',
                'Acquire::Languages "none";',
                # The unprivileged user of apt may be unable to enter the folder.
                'APT::Sandbox::User "root";\n',
            ]
        )

    def closure(self, packages: Sequence[str]) -> dict[str, str]:
        """Return name and version of the packages and all that they need, on an empty system."""
        argv = ["apt-get", "-s", "-q", "--no-install-recommends", "install", *packages]
        lines = captured(argv, self.env).splitlines()
        found = (re.match(r"Inst (\S+) \((\S+) ", line) for line in lines)
        return {one.group(1): one.group(2) for one in found if one}

    def download(self, packages: Iterable[str], debs: Path) -> list[Path]:
        """Download exactly these packages; what is there in full is not downloaded again."""
        debs.mkdir(parents=True, exist_ok=True)
        argv = ["env", "-C", str(debs), "apt-get", "-q", "download", *packages]
        captured(argv, self.env)
        return sorted(debs.glob("*.deb"))


def unpack(debs: Iterable[Path], into: Path) -> None:
    """Extract packages without installing them."""
    into.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        captured(["dpkg-deb", "-x", str(deb), str(into)])


# --- the private engine's files --------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """Where everything of the private engine lies.

    `folder` is what one daemon uses; `packages` is the folder below which the packages are unpacked.
    """

    folder: Path
    packages: Path
    suite: str = ENGINE_SUITE
    classic: bool = False

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


def write_atomically(path: Path, text: str) -> None:
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def prepared(layout: Layout) -> bool:
    """Say whether the packages of this version of the script are unpacked in full."""
    try:
        stamp = json.loads(layout.stamp.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(stamp.get("wanted") == wanted_packages(codename(), layout.suite)) and layout.root.is_dir()


def prepare(layout: Layout) -> None:
    """Download and unpack the engine; the stamp is written last, so a broken try is redone."""
    own = codename()
    wanted = wanted_packages(own, layout.suite)
    say(f"fetching {' '.join(wanted)} and what they need, from the machine's own apt sources")
    apt = PrivateApt(layout.folder / "apt", list(dict.fromkeys([own, layout.suite])))
    apt.update()
    # Every Debian machine with apt has the essential packages and apt's own needs; their C
    # library must not come from elsewhere, because the programs are started by the machine's.
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
    """Give the client a folder of its own for PATH, and its plugin a configuration folder."""
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
    """Return PATH and LD_LIBRARY_PATH for the daemon: unpacked files first, then the system's."""
    programs = [str(root / name) for name in ("usr/bin", "usr/sbin", "bin", "sbin")]
    libraries = [str(path) for top in ("usr/lib", "lib") for path in sorted(root.glob(f"{top}/*-linux-*"))]
    system = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": ":".join([*programs, system]), "LD_LIBRARY_PATH": ":".join(libraries)}


# --- mounts ----------------------------------------------------------------------------------


def libc() -> ctypes.CDLL:
    return ctypes.CDLL(ctypes.util.find_library("c") or "libc.so.6", use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def mount(kind: str, target: str, flags: int = 0, options: str = "") -> None:
    names = (kind.encode(), target.encode(), kind.encode(), flags, options.encode())
    checked(libc().mount(*names), f"mount {kind} at {target}")


def unmount(target: str) -> None:
    checked(libc().umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def enter_mount_namespace() -> None:
    """Continue in a mount namespace of our own: mounts of the machine come in, none goes out."""
    if os.geteuid() != 0:
        raise EngineError(
            "no Docker engine answers, and a private one needs root", f"be root, or {OWN_ENGINE}"
        )
    try:
        checked(libc().unshare(CLONE_NEWNS), "unshare")
        mount("none", "/", MS_REC | MS_SLAVE)
        mount("none", "/", MS_REC | MS_SHARED)
    except OSError as error:
        raise EngineError(
            f"no private mount namespace: {error}", f"be the real root, or {OWN_ENGINE}"
        ) from error


def mount_cgroups() -> None:
    """Mount the control groups where nobody has (a chroot); the machine does not see it."""
    if any(Path("/sys/fs/cgroup").glob("*")):
        return
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        groups = [line.split(":")[1] for line in lines]
        if not Path("/sys/fs/cgroup").is_dir():
            mount("sysfs", "/sys")
        if groups == [""]:
            mount("cgroup2", "/sys/fs/cgroup")
            return
        mount("tmpfs", "/sys/fs/cgroup", options="mode=755")
        for group in groups:
            target = Path("/sys/fs/cgroup", group.removeprefix("name=") or "unified")
            target.mkdir()
            mount("cgroup" if group else "cgroup2", str(target), options=group)
    except OSError as error:
        raise EngineError(
            f"no control groups: {error}",
            f"mount /proc, /sys and /sys/fs/cgroup as a started Debian has them, or {OWN_ENGINE}",
        ) from error


def try_overlay(folder: Path) -> None:
    """Mount an overlay where the images will lie: better a plain word now than a riddle later."""
    trial = folder / "overlay-trial"
    for name in ("lower", "upper", "work", "merged"):
        (trial / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={trial}/lower,upperdir={trial}/upper,workdir={trial}/work"
    try:
        mount("overlay", str(trial / "merged"), options=options)
        unmount(str(trial / "merged"))
    except OSError as error:
        raise EngineError(
            f"the kernel cannot make an overlay in {folder}: {error}",
            "`modprobe overlay`, or --folder on a disk that is no overlay, with no comma or colon",
        ) from error
    finally:
        shutil.rmtree(trial, ignore_errors=True)


@contextlib.contextmanager
def hidden(path: Path) -> Iterator[None]:
    """Lay an empty file system over a folder that the daemon writes to whatever one configures.

    The folder has to exist.  One that had to be made carries the time stamp 0, and only such a one
    is removed.  Removing it would take the mount away from the engine of another checkout, so each
    engine holds a shared lock on it, and only the last one removes it.
    """
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o711, parents=True)
        os.utime(path, (0, 0))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        mount("tmpfs", str(path), options="mode=711")
        try:
            yield
        finally:
            unmount(str(path))
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.stat().st_mtime == 0:
                    path.rmdir()
    finally:
        os.close(descriptor)


def remove_cgroups(name: str) -> None:
    """Remove the emptied control groups of the daemon, children first."""
    for top in (*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}")):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


# --- the daemon ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Daemon:
    """A started daemon: the namespaces' keeper, and what has to go with it."""

    process: subprocess.Popen[bytes]
    runtime: Path
    cgroup: str

    @property
    def socket(self) -> Path:
        return self.runtime / "docker.sock"


def process_start(pid: int) -> str | None:
    """Return when a process started, which tells it from a later one with the same number."""
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
    """Return where sockets lie: in the folder, or in /tmp where its path is too long or odd."""
    inside = folder / "run"
    plain = re.fullmatch(r"[\w./+-]+", str(folder), re.ASCII)
    if plain and len(os.fsencode(inside / LONGEST_SOCKET)) <= SOCKET_LIMIT:
        shutil.rmtree(inside, ignore_errors=True)
        inside.mkdir(mode=0o700)
        return inside
    return Path(tempfile.mkdtemp(prefix="reprobuild-engine-", dir="/tmp"))


def daemon_configuration(layout: Layout, runtime: Path, cgroup: str) -> dict[str, object]:
    return {
        "data-root": str(layout.folder / "data"),
        "exec-root": str(runtime / "exec"),
        "pidfile": str(runtime / "docker.pid"),
        "hosts": [f"unix://{runtime / 'docker.sock'}"],
        "features": {"containerd-snapshotter": not layout.classic},
        # The machine's network stays as it is: containers run with none, or with the host's.
        "bridge": "none",
        "iptables": False,
        "ip6tables": False,
        "ip-forward": False,
        "ip-masq": False,
        "userland-proxy": False,
        # systemd would be told process numbers of another namespace.
        "exec-opts": ["native.cgroupdriver=cgroupfs"],
        "cgroup-parent": f"/{cgroup}",
        "shutdown-timeout": 5,
    }


def daemon_command(layout: Layout, config: Path) -> list[str]:
    """Return the command; whatever ends this program, also ends every process of the daemon.

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
    """Ask the daemon to end, then make sure that nothing of it is left."""
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
    """End the daemon of a run that could not do it itself."""
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


# --- the command -----------------------------------------------------------------------------


def raise_interrupted(signum: int, _frame: FrameType | None) -> NoReturn:
    raise SignalError(signum)


def listen_to_signals(handler: Callable[[int, FrameType | None], object] | signal.Handlers) -> None:
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, handler)


def client_environment(layout: Layout, socket_path: Path) -> dict[str, str]:
    """Return the command's environment; what would lead it to another engine is left out."""
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


def run_command(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the command to its end, also when this program is asked to end before it."""
    program = shutil.which(argv[0], path=env["PATH"])
    if program is None:
        say(f"{argv[0]}: command not found")
        return 127
    try:
        process = subprocess.Popen(argv, executable=program, env=env)
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        return 126
    code: int | None = None
    while code is None:
        try:
            code = process.wait()
        except SignalError as interrupted:
            code = wind_up(process, interrupted.signum)
    return code if code >= 0 else 128 - code


def wind_up(process: subprocess.Popen[bytes], signum: int) -> int | None:
    """Pass a signal on and give the command some time; None when another signal came."""
    # The terminal has already sent Ctrl-C to the command, which may take a second one badly.
    if signum != signal.SIGINT or not sys.stdin.isatty():
        process.send_signal(signum)
    try:
        return process.wait(COMMAND_GRACE_SECONDS)
    except SignalError as another:
        process.send_signal(another.signum)
        return None
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def lock(folder: Path, *, wait: bool) -> int:
    """Take the folder's lock; a run in the same folder holds it until its daemon is gone."""
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


def exec_unchanged(argv: Sequence[str]) -> NoReturn:
    """Become the command, with this program's own environment."""
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        say(f"{argv[0]}: {error.strerror}")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def run(layout: Layout, argv: Sequence[str]) -> int:
    engine = None if layout.classic else answering_engine()
    if engine:
        say(f"using {engine}")
        exec_unchanged(argv)
    listen_to_signals(raise_interrupted)
    codename()
    enter_mount_namespace()
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


# --- the other verbs -------------------------------------------------------------------------


def mounts_under(folder: Path) -> list[str]:
    """Return the mount points in a folder, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    octal = re.compile(r"\\([0-7]{3})")
    points = [octal.sub(lambda m: chr(int(m.group(1), 8)), line.split()[4]) for line in lines]
    return sorted((p for p in points if p.startswith(f"{folder}/")), key=len, reverse=True)


def clean(folder: Path) -> int:
    """Stop a left-over daemon and remove the folder."""
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


def unpack_packages(into: Path, packages: Sequence[str]) -> int:
    """Download exactly the named packages of the machine's own suite and unpack them."""
    with tempfile.TemporaryDirectory(prefix="reprobuild-apt-") as scratch:
        apt = PrivateApt(Path(scratch), [codename()])
        apt.update()
        unpack(apt.download(packages, apt.folder / "debs"), into)
    return 0


def write_sources(folder: Path) -> int:
    """Write the machine's Debian mirror and its download settings as files for other tools."""
    folder.mkdir(parents=True, exist_ok=True)
    suite = codename()
    (folder / "debian.sources").write_text(machine_mirror(suite).source(suite), encoding="utf-8")
    settings = folder / "acquire.conf"
    settings.touch(mode=0o600)
    settings.write_text(acquire_settings(), encoding="utf-8")
    (folder / "suite").write_text(suite + "\n", encoding="utf-8")
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
            one.add_argument("--packages", type=Path, help="a folder where they are unpacked already")
            one.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD...")
    some = verbs.add_parser("unpack", help="unpack Debian packages into a folder")
    some.add_argument("into", type=Path)
    some.add_argument("packages", nargs="+")
    verbs.add_parser("sources", help="write the Debian mirror of this machine").add_argument(
        "into", type=Path
    )
    return top


def main(argv: Sequence[str]) -> int:
    top = parser()
    options = top.parse_args(argv)
    if options.verb == "unpack":
        return unpack_packages(options.into, options.packages)
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
    return run(Layout(folder, packages, suite, options.classic), command)


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
