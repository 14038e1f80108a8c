"""The session and adapter of each thread of a client.

requests does not promise that threads may share a session.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import requests

from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.http.adapter import DeadlineAdapter
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.redirects import NoRedirectSession
from reprobuild.infra.http.request import Body
from reprobuild.infra.http.retry import RetryPolicy


class ThreadSession:
    """A session and its adapter for each thread."""

    def __init__(self, manners: RetryPolicy, authorities: Authorities) -> None:
        self._manners = manners
        self._authorities = authorities
        self._local = threading.local()

    @property
    def session(self) -> requests.Session:
        """The session of this thread."""
        self._make()
        result: requests.Session = self._local.session
        return result

    @property
    def halt(self) -> CancelToken:
        """The token that cancels the requests of this thread.

        It includes requests for a login before a file.
        """
        return self._line().halt

    @contextlib.contextmanager
    def use_cancel_token(self, halt: CancelToken | None) -> Iterator[None]:
        """Cancel the requests of this thread by `halt`, if given."""
        line = self._line()
        before, line.halt = line.halt, halt or line.halt
        try:
            yield
        finally:
            line.halt = before

    def rewind_body(self, body: Body | None) -> Body | None:
        """Return the body at its beginning.

        It reports its progress to the connection of this thread.
        """
        if body is not None:
            body.got_on = self._line().renew
            body.begin()
        return body

    def _line(self) -> DeadlineAdapter:
        self._make()
        line: DeadlineAdapter = self._local.line
        return line

    def _make(self) -> None:
        if not hasattr(self._local, "session"):
            self._local.session = NoRedirectSession()
            seconds = self._manners.connect + self._manners.read
            self._local.line = line = DeadlineAdapter(seconds, self._authorities)
            for scheme in ("http://", "https://"):
                self._local.session.mount(scheme, line)
