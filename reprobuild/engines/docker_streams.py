"""The streams of a container, through Docker's API."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from typing import Any, cast

import docker.errors
from docker.models.containers import Container
from docker.utils.socket import frames_iter

from reprobuild.engines.model import Task
from reprobuild.infra.proc.keyboard import forward_keyboard


class ContainerStreams:
    """The streams of a container, attached before its start.

    The output is read once, until the container ends. The log of the daemon is not used: some log drivers keep only
    text, others give no access. The SDK's own iterator never closes the connection.
    """

    def __init__(self, container: Container, task: Task | None = None) -> None:
        self._container = container
        self._stdin, self._terminal = (task.stdin, task.terminal) if task else (False, False)
        parts = {"stdin": int(self._stdin), "stdout": 1, "stderr": 1, "stream": 1}
        self._connection = cast(Any, container.attach_socket(params=parts))
        # The SDK gives the socket of a TLS connection, and a file object around any other one.
        self._socket: socket.socket = getattr(self._connection, "_sock", self._connection)
        # The daemon answers before it connects the streams: on a loaded machine a command of some milliseconds could
        # end in between. Another request gives it the time.
        container.reload()

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        try:
            yield from cast(Any, frames_iter)(self._connection, tty=self._terminal)
        finally:
            self.close()

    @contextlib.contextmanager
    def forward_keyboard(self) -> Iterator[None]:
        """Pass this process's standard input to the started container within a block, if the task asks for it."""
        if not self._stdin:
            yield
            return
        resize = self._resize if self._terminal else None
        with forward_keyboard(self._socket.sendall, lambda: self._socket.shutdown(socket.SHUT_WR), resize):
            try:
                yield
            finally:
                self.close()

    def _resize(self, rows: int, columns: int) -> None:
        with contextlib.suppress(docker.errors.APIError):  # it has just ended
            self._container.resize(rows, columns)

    def close(self) -> None:
        """Close the connection, and end a wait for a container that does not read."""
        if self._stdin:
            with contextlib.suppress(OSError):  # it is closed already
                self._socket.shutdown(socket.SHUT_RDWR)
        self._connection._response.close()
        self._connection.close()
