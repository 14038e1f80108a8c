"""What an answer means, and what a failure means: nothing, another try, or the end."""

from __future__ import annotations

from collections.abc import Container

import requests

from reprobuild.errors import FetchError
from reprobuild.infra.http.auth import RegistryAuth
from reprobuild.infra.http.model import AccessDeniedError, ForbiddenError, NotFoundError
from reprobuild.infra.http.redaction import told_address
from reprobuild.infra.http.retry import RetryableError, retry_after

# What another try may mend: too busy, or an error of a server or of a proxy before it.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
# A part of a file, or that there is no more of it.
PARTS = (206, 416)
_ODD = "the server, or a proxy before it, is broken; name another address with --service"
_SENT = "the server, or a proxy before it, does not take what was sent; its own log says why"


def passes(err: Exception) -> bool:
    """Tell whether another try may mend a failure: not that of a certificate or of an address."""
    lasting = (requests.exceptions.SSLError, requests.exceptions.InvalidProxyURL)
    passing = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(err, passing) and not isinstance(err, lasting)


def judge(
    response: requests.Response, url: str, gate: RegistryAuth | None, led: str, *, good: Container[int]
) -> None:
    """Raise what an answer means that is not one of the good ones.

    Args:
        response: the answer, of which the body is not read.
        url: what was asked, without a login.
        gate: knows what helps where access is refused.
        led: where a redirection led to.
        good: the numbers of answers that bring what was asked for.

    Raises:
        NotFoundError, AccessDeniedError, ForbiddenError: it said so.
        RetryableError: another try may mend it.
        FetchError: all others.
    """
    status, told = response.status_code, url + led
    if status in good:
        return
    if status in (404, 410):
        raise NotFoundError(f"{told} does not exist (HTTP {status})", hint="it may have been removed")
    if status in (401, 403):
        login = "put the credentials where pip finds them (its configuration, or ~/.netrc)"
        hint = (gate and gate.remedy(url)) or login
        kind = ForbiddenError if status == requests.codes.forbidden else AccessDeniedError
        raise kind(f"{told} refuses access (HTTP {status})", hint=hint)
    if status < 400 or status in PARTS:
        raise FetchError(f"{told} answered HTTP {status}, which answers nothing that was asked", hint=_ODD)
    if status in _PASSING:
        final = FetchError(f"{told} answered HTTP {status}", hint="try again later")
        asked = retry_after(response.headers.get("Retry-After"))
        raise RetryableError(final, wait=asked, place=response.url)
    sent = response.request.method not in ("GET", "HEAD")
    raise FetchError(f"{told} answered HTTP {status}", hint=_SENT if sent else "try again later")


def spare(response: requests.Response) -> None:
    """Let the connection of an answer without a body be used again; closing the answer would end it."""
    if response.request.method == "HEAD" or response.headers.get("Content-Length") == "0":
        response.raw.drain_conn()


def is_private(response: requests.Response) -> bool:
    """Tell whether a login, a token or a signature went along on any step to an answer."""
    steps = [step.request for step in (*response.history, response)]
    return any("Authorization" in one.headers or told_address(one.url or "") != one.url for one in steps)
