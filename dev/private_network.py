"""A network of a private engine's own, in which it may publish ports; the machine's stays as it is."""

from __future__ import annotations

import fcntl
import socket
import struct

from private_apt import EngineError
from private_mounts import checked, libc

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # netdevice(7)


def enter_network_namespace() -> None:
    """Continue in a network that has a loopback device alone."""
    try:
        checked(libc().unshare(CLONE_NEWNET), "unshare")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
    except OSError as error:
        raise EngineError(f"no private network: {error}", "be the real root, or leave --ports out") from error
