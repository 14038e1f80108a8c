"""The meaning of answers and failures.

They mean success, another try, or the end.
"""

from __future__ import annotations

from collections.abc import Container

import requests

from reprobuild.errors import FetchError
from reprobuild.infra.http.auth import RegistryAuth
from reprobuild.infra.http.model import AccessDeniedError, ForbiddenError, NotFoundError
from reprobuild.infra.http.redaction import redact_address
from reprobuild.infra.http.retry import RetryableError, retry_after
from reprobuild_portable.secrets.words import GONE

# Another try may succeed: the server is too busy, or it or a proxy before it has an error.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
# A part of a file, or no more parts of it.
PARTS = (206, 416)
_COMPRESSIONS = ("gzip", "x-gzip", "deflate", "br", "zstd")  # those that urllib3 expands
_ODD = "the server, or a proxy before it, is broken; name another address with --service"
_SENT = "the server, or a proxy before it, does not take what was sent; its own log says why"


def is_temporary(err: Exception) -> bool:
    """Return whether another try may succeed after a failure.

    An error of a certificate or of an address is permanent.
    """
    lasting = (requests.exceptions.SSLError, requests.exceptions.InvalidProxyURL)
    passing = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(err, passing) and not isinstance(err, lasting)


def check_status(
    response: requests.Response, url: str, gate: RegistryAuth | None, led: str, *, good: Container[int]
) -> None:
    """Raise the error that a bad answer means.

    Args:
        response: the answer, with its body not read.
        url: the requested address, without a login.
        gate: has the remedy for refused access.
        led: the target of a redirection.
        good: the status codes of success.

    Raises:
        NotFoundError, AccessDeniedError, ForbiddenError: the server answered so.
        RetryableError: another try may succeed.
        FetchError: all others.
    """
    status, address = response.status_code, url + led
    if status in good:
        return
    if status in (404, 410):
        raise NotFoundError(f"{address} does not exist (HTTP {status})", hint="it may have been removed")
    if status in (401, 403):
        login = "put the credentials where pip finds them (its configuration, or ~/.netrc)"
        hint = (gate and gate.remedy(url)) or login
        kind = ForbiddenError if status == requests.codes.forbidden else AccessDeniedError
        raise kind(f"{address} refuses access (HTTP {status})", hint=hint)
    if status < 400 or status in PARTS:
        raise FetchError(f"{address} answered HTTP {status}, which answers nothing that was asked", hint=_ODD)
    if status in _PASSING:
        final = FetchError(f"{address} answered HTTP {status}", hint="try again later")
        wait = retry_after(response.headers.get("Retry-After"))
        raise RetryableError(final, wait=wait, place=response.url)
    sent = response.request.method not in ("GET", "HEAD")
    raise FetchError(f"{address} answered HTTP {status}", hint=_SENT if sent else "try again later")


def refuse_stacked_encodings(response: requests.Response, url: str) -> None:
    """Refuse a compressed answer with several encodings.

    A few bytes may take hours to expand. With one encoding that is unknown, urllib3 gives no content at all.

    Raises:
        FetchError: it is such an answer.
    """
    encodings = [part.strip().lower() for part in response.headers.get("Content-Encoding", "").split(",")]
    if len(encodings) > 1 and any(encoding in _COMPRESSIONS for encoding in encodings):
        raise FetchError(f"{url} answers with several content encodings", hint=_ODD)


def drain_connection(response: requests.Response) -> None:
    """Keep the connection of an answer without body for reuse.

    Closing the answer would close it. An answer in chunks may have a body of any length, whatever its headers say.
    """
    is_empty = response.headers.get("Content-Length") == "0" and "Transfer-Encoding" not in response.headers
    if response.request.method == "HEAD" or is_empty:
        response.raw.drain_conn()


def is_private(response: requests.Response) -> bool:
    """Return whether a secret was sent on any step.

    A secret is a login, a token or a signature.
    """
    return any(
        "Authorization" in step.request.headers
        or redact_address(step.request.url or "") != step.request.url
        or GONE in step.url
        for step in (*response.history, response)
    )
