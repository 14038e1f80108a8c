"""An HTTP adapter with a deadline for response headers.

The timeout of a socket restarts with every byte, and cannot end a slow drip.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from reprobuild.infra.cancel import INTERRUPTION
from reprobuild.infra.http.authorities import Authorities, share_context
from reprobuild.infra.http.deadline import WATCH, Deadline


class DeadlineAdapter(HTTPAdapter):
    """An adapter for one thread's requests, with a deadline.

    Each request has the same time from connecting to complete headers. SOCKS proxies have connections of
    their own, with only the timeouts of reads.
    """

    def __init__(self, seconds: float, authorities: Authorities | None = None) -> None:
        self._seconds = seconds
        self._authorities = authorities or Authorities()
        self.halt = INTERRUPTION
        self._due: Deadline | None = None
        self._guard = threading.Lock()
        self._held: list[socket.socket] = []
        self._cut = False
        self._pools = _pools(self)
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Use our connection classes for direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> Any:
        """Use our connection classes for HTTP proxies."""
        manager = super().proxy_manager_for(proxy, **kwargs)
        if not proxy.lower().startswith("socks"):
            manager.pool_classes_by_scheme = self._pools
        return manager

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Set the authorities of connections: those of requests, and the site's if no variable replaces them."""
        super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]  # requests has no types for it
        if not isinstance(conn, HTTPSConnectionPool) or not verify or cert or not conn.ca_certs:
            return
        more = self._authorities.paths if verify is True else ()
        context = share_context(conn.ca_certs, more)
        if context is None:
            return
        conn.ca_certs, conn.conn_kw["ssl_context"] = None, context
        if conn.proxy_config is not None:  # a proxy that is reached by https has a context of its own
            conn.conn_kw["proxy_config"] = conn.proxy_config._replace(ssl_context=context)

    def send(self, request: requests.PreparedRequest, *args: Any, **kwargs: Any) -> requests.Response:
        """Send a request; raise `ReadTimeout` if the headers are late.

        All else is as in requests.
        """
        self._cut = False
        response = None
        try:
            with WATCH.limit_time(self._seconds, self.cut) as self._due, self.halt.ending(self.cut):
                response = super().send(request, *args, **kwargs)
        except requests.RequestException:
            if not self._cut:
                raise
        finally:
            with self._guard:
                for connection in self._held:
                    connection.close()
                self._held.clear()
        if response is not None and not self._cut:
            return response
        if response is not None:  # http.client takes an end within the headers for their end
            response.close()
        raise requests.ReadTimeout(f"no whole answer began in {self._seconds:.0f} s")

    def renew(self) -> None:
        """Restart the deadline after a part was sent."""
        if self._due is not None:
            self._due.renew(self._seconds)

    def cut(self) -> None:
        """End the request that another thread is running."""
        with self._guard:
            self._cut = True
            for connection in self._held:
                _end(connection)

    def hold(self, connected: socket.socket) -> None:
        """Remember a connection until its headers are complete.

        TLS replaces this object by another one.
        """
        duplicate = socket.socket(fileno=os.dup(connected.fileno()))
        with self._guard:
            self._held.append(duplicate)
            if self._cut:
                _end(duplicate)


def _end(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side was faster
        connected.shutdown(socket.SHUT_RDWR)


def _pools(line: DeadlineAdapter) -> dict[str, type[HTTPConnectionPool]]:
    class Plain(HTTPConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            line.hold(connected)
            return connected

        def request(self, *args: Any, **kwargs: Any) -> None:
            if self.sock is not None:  # a reused one
                line.hold(self.sock)
            super().request(*args, **kwargs)

    class Secure(HTTPSConnection):
        def _new_conn(self) -> socket.socket:
            connected = super()._new_conn()
            line.hold(connected)
            return connected

        def request(self, *args: Any, **kwargs: Any) -> None:
            if self.sock is not None:
                line.hold(self.sock)
            super().request(*args, **kwargs)

    class PlainPool(HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}
