"""What hostile code tries in the sandbox (`probes.py`): all of it is held, as root and as an ordinary user."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.filter import read_table
from reprobuild.infra.sandbox.model import Bind, Root
from tests.system.samples import EPOCH, ORDINARY_USER
from tests.system.test_sandbox import run_as_ordinary_user

PROBES = Path(__file__).parent / "probes.py"
KEY = "secret-of-the-session"
# What need not succeed outside: the kernel or the machine lacks it, or its control is `test_terminals.py`.
LACKING = {
    "calls_of_x32", "socket_of_alg", "socket_of_bluetooth", "socket_of_vsock", "socket_of_packet", "proc_kcore",
    "proc_modules", "the_sysrq_key", "control_groups", "the_terminal", "a_terminal_among_descriptors",
    "the_last_to_be_killed", "new_privileges", "namespaces_of_process_1", "root_of_process_1", "call_io_uring_setup",
    "devices_of_the_machine", "variables", "call_lookup_dcookie", "descriptors", "a_core",
    "mode_of_proc_sys/kernel/printk_ratelimit", "netlink_of_audit", "memory_of_process_1",
    "variables_of_process_1",
}  # fmt: skip


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What there is to be found on the machine: processes, sockets, memory, a key, files."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "secret").write_text("of the machine")
    (folder / "input").write_text("of the machine")
    libc = ctypes.CDLL(None, use_errno=True)
    table = read_table().numbers
    numbers = table[platform.machine()]
    assert libc.syscall(numbers["keyctl"], 1, None) > 0  # a session keyring of this process
    assert libc.syscall(numbers["add_key"], b"user", KEY.encode(), b"x", 1, -3) > 0
    memory = libc.shmget(os.getpid(), 4096, 0o1666)
    assert memory >= 0
    sleeper = subprocess.Popen(["sleep", "98763"])
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        abstract.bind("\0reprobuild-probe")
        named.bind(str(folder / "socket"))
        for one in (abstract, named):
            one.listen()
        yield {
            "numbers": numbers | {"x32": 0x40000000 | 39}, "i386": table["i386"], "marker": "98763",
            "pid": sleeper.pid, "secret": str(folder / "secret"), "shm": os.getpid(), "key": KEY,
            "input": str(folder / "input"), "port": server.getsockname()[1], "abstract": "reprobuild-probe",
            "socket": str(folder / "socket"), "hostname": socket.gethostname(),
        }  # fmt: skip
    sleeper.kill()
    sleeper.wait()
    libc.shmctl(memory, 0, None)


INSIDE = {"input": "/mnt/input", "mounted": "/proc/sys"}


def broken(answer: str | bytes) -> dict[str, str]:
    found = json.loads(answer)
    assert len(found) >= 100
    return {name: said for name, said in found.items() if not said.startswith("held ")}


@pytest.mark.parametrize("layered", [False, True])
def test_all_is_held_for_root(root: Path, outside: dict[str, Any], layered: bool) -> None:
    binds = [
        Bind(source=PROBES, target="/mnt/probes.py"),
        Bind(source=Path(outside["input"]), target="/mnt/input"),
    ]
    argv = ["python3.11", "-I", "-S", "/mnt/probes.py", json.dumps(outside | INSIDE)]
    place = Root(folder=root, layered=layered)
    assert broken(run_in_root(place, argv, epoch=EPOCH, purpose="probe", binds=binds)) == {}


# A namespace of users shows the keys of its own users alone, so this one has a session and a key as well.
AS_USER = """
import ctypes, json, sys
from pathlib import Path
from reprobuild.realise.unpack import unpack_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.command import run_in_root
blob, folder, probes, facts = sys.argv[1:]
folder, libc, known = Path(folder), ctypes.CDLL(None), json.loads(facts)
assert libc.syscall(known["numbers"]["keyctl"], 1, None) > 0
assert libc.syscall(known["numbers"]["add_key"], b"user", known["key"].encode(), b"x", 1, -3) > 0
unpack_root(Path(blob), folder / "root")
(folder / "probes.py").write_bytes(Path(probes).read_bytes())
(folder / "input").touch()
binds = [Bind(source=folder / name, target=f"/mnt/{name}") for name in ("probes.py", "input")]
argv = ["python3.11", "-I", "-S", "/mnt/probes.py", facts]
print(run_in_root(Root(folder=folder / "root"), argv, epoch=0, purpose="probe", binds=binds).decode())
"""


def test_all_is_held_for_an_ordinary_user(
    outside: dict[str, Any], store_blob: Path, shared_tmp: Path
) -> None:
    facts = json.dumps(outside | INSIDE)
    (shared_tmp / "root").mkdir()
    os.chown(shared_tmp / "root", 12345, 12345)
    assert broken(run_as_ordinary_user(AS_USER, store_blob, shared_tmp, PROBES, Path(facts))) == {}


def run_outside(outside: dict[str, Any], folder: Path, *prefix: str) -> dict[str, str]:
    """Run the probes with the rights of this process in a space of mounts, where they find a mount of their own."""
    place = folder / "mounted"
    place.mkdir()
    script = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, place, *prefix, sys.executable, "-I", "-S", PROBES,
         json.dumps(outside | {"mounted": str(place)})],
        stdin=subprocess.DEVNULL, capture_output=True, check=True,
    )  # fmt: skip
    return broken(done.stdout)


def test_outside_they_succeed(outside: dict[str, Any], tmp_path: Path) -> None:
    """The control: what is held in the sandbox is held by the sandbox."""
    found = run_outside(outside, tmp_path)
    assert len(found) >= 80
    assert set(probe_names(outside)) - set(found) <= LACKING


def test_outside_many_succeed_for_an_ordinary_user(outside: dict[str, Any], tmp_path: Path) -> None:
    found = run_outside(outside, tmp_path, *ORDINARY_USER)
    assert {
        "a_key_of_the_session", "an_abstract_socket", "the_loopback", "processes_of_the_machine", "call_keyctl",
        "namespace_of_users", "trace_of_a_child", "shared_memory", "files_of_the_machine",
        "call_process_vm_readv", "calls_of_32_bits", "a_driver_of_lines", "a_file_of_a_terabyte",
    } <= set(found)  # fmt: skip
    assert len(found) >= 40


def probe_names(outside: dict[str, Any]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROBES, json.dumps(outside | {"mounted": "/nonexistent"})],
        capture_output=True, check=True,
    )  # fmt: skip
    return list(json.loads(done.stdout))
