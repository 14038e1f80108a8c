"""Values and errors of the HTTP client."""

from __future__ import annotations

import re
import urllib.parse

from msgspec import Struct

from reprobuild.errors import FetchError, ReproError
from reprobuild_portable.secrets.words import GONE

# The maximum loss of a broken transfer, and the size of a hashed piece.
CHUNK = 1 << 18
_NO_PORT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^/:@\[]{0,200}:)(?!\d{0,9}(?:[/?#]|\Z))[^@]*\Z")
_PORTS = {"http": 80, "https": 443}
OTHER = "another file stands there now; find the one that was locked, or make a new lock"
PAGE = (
    "a web page came in its place: open the address in a browser; is a login needed, or a proxy in between?"
)
PACKED = "the server packs it on the way, which nobody asked for; name another mirror"


class UnreachedError(FetchError):
    """An error: the host of the address cannot be reached."""


class DistrustedError(UnreachedError):
    """An error: the certificate of the host is not trusted."""


class NotFoundError(FetchError):
    """An error: there is no document at the address.

    The status is 404 or 410, or there is no such file.
    """


class AccessDeniedError(FetchError):
    """An error: the address refuses access (401 or 403).

    A login may have been sent.
    """


class ForbiddenError(AccessDeniedError):
    """An error: the address refuses access with any login (403)."""


class CrossHostRedirectError(FetchError):
    """An error: the address leads to a forbidden host."""


class WrongSizeError(FetchError):
    """An error: the file has another size than expected.

    It is therefore another file.
    """


class Page(Struct, frozen=True, kw_only=True):
    """A fetched document: final address, media type and bytes.

    `fresh` is the number of seconds for which its server allows reuse; 0 if it was fetched with a login.
    """

    url: str
    content_type: str
    content: bytes
    fresh: int = 0


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address without its login, and the login.

    The login is None if the address has none.

    Raises:
        FetchError: it is not an address.
    """
    try:
        return parse_credentials(url)
    except ValueError as err:
        # The text after a colon may be a password, and the error for a port would show it.
        password = _NO_PORT.match(url)
        shown = f"{password[1]}{GONE}" if password else url.rpartition("@")[2]
        why = "what follows its second colon is no port" if password else str(err)
        raise FetchError(f"{shown!r} is no address: {why}", hint="the index or the lock names it") from None


def parse_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the same as `split_credentials`, but raise ValueError.

    It does so for an invalid address.
    """
    parts = urllib.parse.urlsplit(url)
    port = parts.port
    if not parts.username and not parts.password:
        return url, None
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    netloc += f":{port}" if port else ""
    clean = urllib.parse.urlunsplit(parts._replace(netloc=netloc))
    return clean, (urllib.parse.unquote(parts.username or ""), urllib.parse.unquote(parts.password or ""))


def origin(url: str) -> tuple[str, str | None, int | None]:
    """Return scheme, host and port of an address (RFC 6454).

    A login is for one such origin. ValueError is raised for an invalid address.
    """
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def innermost_cause(err: BaseException) -> str:
    """Return the innermost reason of an error.

    Addresses and object names that urllib3 wraps around it are left out. An error of this program is no reason: the
    request began while it was handled.
    """
    while err.__cause__ or err.__context__ or (err.args and isinstance(err.args[0], BaseException)):
        inner = err.__cause__ or err.__context__
        if inner is None and isinstance(err.args[0], BaseException):
            inner = err.args[0]
        if inner is None or isinstance(inner, ReproError):
            break
        err = inner
    return str(err).rpartition("> ")[2] or type(err).__name__
