"""Run a command in a network namespace of its own: loopback, and no route to anywhere.

python tests/e2e/apart.py CMD...
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1


def main(argv: list[str]) -> None:
    """Become the command."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace can be made")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    routes = Path("/proc/net/route").read_text().splitlines()[1:]
    assert routes == [], "there is a way out"
    os.execvp(argv[0], argv)


if __name__ == "__main__":
    main(sys.argv[1:])
