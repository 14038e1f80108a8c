"""A port of this machine that leads to another one, and counts what goes through."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType


class Counted:
    """Leads to `host` (127.0.0.1:PORT); `up` is how many bytes went there, `down` how many came back.

    `passed` is called with the number of both together, whenever some went through.
    """

    def __init__(self, host: str) -> None:
        self._to = int(host.rpartition(":")[2])
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._listening.getsockname()[1]}"
        self.up = self.down = 0
        self.passed: Callable[[int], None] = lambda _: None
        self._guard = threading.Lock()

    def __enter__(self) -> Counted:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                near, _ = self._listening.accept()
                threading.Thread(target=self._pair, args=(near,), daemon=True).start()

    def _pair(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError), near, socket.create_connection(("127.0.0.1", self._to)) as far:
            back = threading.Thread(target=self._lead, args=(far, near, False), daemon=True)
            back.start()
            self._lead(near, far, True)
            back.join()

    def _lead(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):  # either side may go away
            while piece := source.recv(1 << 15):
                with self._guard:
                    self.up, self.down = self.up + up * len(piece), self.down + (not up) * len(piece)
                self.passed(self.up + self.down)
                target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
