"""One node's part of collectives between nodes.

It runs torchrun twice, and prints lines of JSON to standard output.

    python between.py '{"device": "cpu", "seed": 7, "nodes": 3, "ranks": 1, "address": "192.0.2.1",
                        "second": "192.0.2.2", "port": 20000, "limit": 300, "repeats": 3}'

`SLURM_PROCID` is the number of this node; `address` is the first node's, `second` the next one's. `ranks` is the number
on each node, or "gpu" for one on each of its GPUs. torchrun starts this file again as each rank. The output of ranks is
judged outside of the image, with the lines of all nodes.
"""

# ruff: noqa: TID251  who this is, torchrun and Slurm say in the environment

import json
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
if os.path.dirname(os.path.dirname(_HERE)) not in sys.path:
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

LAUNCHES = 2
_SIOCGIFADDR = 0x8915  # <linux/sockios.h>


def main(argv: "List[str]") -> int:
    """Run the node's torchrun, or one rank that it started.

    Return 0 if all ended normally.
    """
    ask = json.loads(argv[0])
    return _rank(ask) if "launch" in ask else _run_node(ask)


def _run_node(ask: "Dict[str, Any]") -> int:
    """Run torchrun once for each compared launch.

    A failed one is not followed by another.
    """
    import subprocess

    from reprobuild_runtime.probes.gather import environ_of

    _print_line({"came": True})
    environ = environ_of("profile", ask["seed"])
    environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "1"  # a lost node ends the others
    environ.setdefault("OMP_NUM_THREADS", "1")  # as torchrun itself sets it, with a long message
    if (
        "GLOO_SOCKET_IFNAME" not in environ
    ):  # gloo itself uses the address of the host's own name, often loopback
        interface_name = interface(ask["address"], ask["second"])
        environ.update({"GLOO_SOCKET_IFNAME": interface_name} if interface_name else {})
    for launch in range(LAUNCHES):
        taken = _find_port_obstacle(ask["port"] + launch) if os.environ["SLURM_PROCID"] == "0" else ""
        if taken:
            _print_line({"failed": taken})
            return 1
        code = subprocess.call(torchrun(ask, launch), env=environ, stdin=subprocess.DEVNULL)
        _print_line({"launch": launch, "code": code})
        if code:
            return 1
    return 0


def torchrun(ask: "Dict[str, Any]", launch: int) -> "List[str]":
    """Return torchrun's command.

    Its options exist in each torchrun since the first, of torch 1.9.
    """
    port = ask["port"] + launch  # the first may still be known to the kernel
    return [
        sys.executable, "-m", "torch.distributed.run",
        "--nnodes", str(ask["nodes"]), "--nproc_per_node", str(ask["ranks"]),
        "--node_rank", os.environ["SLURM_PROCID"], "--master_addr", ask["address"], "--master_port", str(port),
        "--rdzv_id", f"reprobuild-{ask['port']}-{launch}", "--rdzv_conf", f"timeout={ask['limit']}",
        "--max_restarts", "0", "--monitor_interval", "1",
        os.path.join(_HERE, "between.py"), json.dumps({**ask, "launch": launch}),
    ]  # fmt: skip


def _rank(ask: "Dict[str, Any]") -> int:
    """Run as one rank; its output is marked with its number."""
    from reprobuild_runtime.probes import child

    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "nccl" if ask["device"] == "cuda" else "gloo"
    task = {"task": "collective", "backend": backend, "rank": rank, "world": world, "rounds": 2, **ask}
    done = child.do(task, {"rank": rank, "world": world, "launch": ask["launch"]})
    return 0 if done else 1


def _find_port_obstacle(port: int) -> str:
    """Return why the ranks cannot meet at a port, or "".

    The port is one of this machine.
    """
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as torch itself listens
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError as err:
            return f"port {port}, chosen by chance for the ranks to meet, cannot be had here: {err.strerror}"
    return ""


def interface(*addresses: str) -> str:
    """Return the interface by which this machine reaches the others.

    It is empty if unknown.

    The first address may be this machine's own, and its own name may lead to loopback (127.0.1.1 on Debian), which
    other machines cannot reach: then the next address shows the interface. The result is loopback if all addresses lead
    there.
    """
    import socket

    local_addresses = []
    for address in addresses:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((address, 9))  # a datagram's socket: no data is sent
                local_addresses.append(probe.getsockname()[0])
        except OSError:
            continue
    local_address = next(
        (candidate for candidate in local_addresses if not candidate.startswith("127.")),
        local_addresses[0] if local_addresses else "",
    )
    return _find_interface(local_address) if local_address else ""


def _find_interface(local_address: str) -> str:
    """Return the name of the interface with an address.

    It is empty without one: gloo then chooses for itself.
    """
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                request = struct.pack("256s", name.encode()[:15])
                has = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24]
            except OSError:  # it has no address of this kind
                continue
            if socket.inet_ntoa(has) == local_address:
                return name
    return ""


def _print_line(line: "Dict[str, Any]") -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
