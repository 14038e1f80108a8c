"""What the client gives, and how it fails."""

from __future__ import annotations

import re
import urllib.parse

from msgspec import Struct

from reprobuild.errors import FetchError
from reprobuild_portable.secrets import GONE

# What is lost of a transfer that breaks off, at most, and what is hashed at a time.
CHUNK = 1 << 18
_NO_PORT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}://[^/:@\[]{0,200}:)(?!\d{0,9}(?:[/?#]|\Z))[^@]*\Z")
_PORTS = {"http": 80, "https": 443}
OTHER = "another file stands there now; find the one that was locked, or make a new lock"
PAGE = (
    "a web page came in its place: open the address in a browser; is a login needed, or a proxy in between?"
)
PACKED = "the server packs it on the way, which nobody asked for; name another mirror"


class Unreached(FetchError):
    """The host of the address cannot be reached."""


class NotFound(FetchError):
    """The address answered that there is nothing there (404 or 410, or no such file)."""


class Refused(FetchError):
    """The address refuses access, with a login or without (401 or 403)."""


class Forbidden(Refused):
    """The address refuses access whatever the login (403)."""


class Elsewhere(FetchError):
    """The address leads to another host, and must not."""


class WrongSize(FetchError):
    """What stands at the address has another size than was asked for, so it is another file."""


class Page(Struct, frozen=True, kw_only=True):
    """A fetched document: where it finally came from, its media type and its bytes.

    `fresh` is for how many seconds its server allows to use it again; 0 where it came with a login.
    """

    url: str
    content_type: str
    content: bytes
    fresh: int = 0


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address without user name and password, and those two where there were any.

    Raises:
        FetchError: it is no address.
    """
    try:
        return without_credentials(url)
    except ValueError as err:
        # What follows a colon may be a password, which the error of a port would show.
        password = _NO_PORT.match(url)
        shown = f"{password[1]}{GONE}" if password else url.rpartition("@")[2]
        why = "what follows its second colon is no port" if password else str(err)
        raise FetchError(f"{shown!r} is no address: {why}", hint="the index or the lock names it") from None


def without_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the same as `split_credentials`; ValueError where it is no address."""
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
    """Return scheme, host and port of an address (RFC 6454): what a login is for. ValueError where it is no address."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


def cause(err: BaseException) -> str:
    """Return the innermost reason, without the addresses and object names that urllib3 wraps around it."""
    while err.__cause__ or err.__context__ or (err.args and isinstance(err.args[0], BaseException)):
        inner = err.__cause__ or err.__context__
        if inner is None and isinstance(err.args[0], BaseException):
            inner = err.args[0]
        if inner is None:
            break
        err = inner
    return str(err).rpartition("> ")[2] or type(err).__name__
