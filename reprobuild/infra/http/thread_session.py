"""The session and adapter of each thread of a client.

requests does not promise that threads may share a session.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import requests

from reprobuild.infra.cancel import Halt
from reprobuild.infra.http.adapter import Line
from reprobuild.infra.http.redirects import Still
from reprobuild.infra.http.request import Body
from reprobuild.infra.http.retry import Manners


class Own:
    """A session and its adapter for each thread."""

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._local = threading.local()

    @property
    def session(self) -> requests.Session:
        """The session of this thread."""
        self._make()
        found: requests.Session = self._local.session
        return found

    @property
    def halt(self) -> Halt:
        """The token that cancels the requests of this thread.

        It includes requests for a login before a file.
        """
        return self._line().halt

    @contextlib.contextmanager
    def ended_by(self, halt: Halt | None) -> Iterator[None]:
        """Cancel the requests of this thread by `halt`, if given."""
        line = self._line()
        before, line.halt = line.halt, halt or line.halt
        try:
            yield
        finally:
            line.halt = before

    def begun(self, body: Body | None) -> Body | None:
        """Return the body at its beginning.

        It reports its progress to the connection of this thread.
        """
        if body is not None:
            body.got_on = self._line().renew
            body.begin()
        return body

    def _line(self) -> Line:
        self._make()
        line: Line = self._local.line
        return line

    def _make(self) -> None:
        if not hasattr(self._local, "session"):
            self._local.session = Still()
            self._local.line = line = Line(self._manners.connect + self._manners.read)
            for scheme in ("http://", "https://"):
                self._local.session.mount(scheme, line)
