"""References to images, as opposed to `DISTRIBUTION/RELEASE`.

The grammar is https://pkg.go.dev/github.com/distribution/reference.
"""

from __future__ import annotations

import ipaddress
import re
import shlex

from msgspec import Struct

from reprobuild.errors import UsageError

_PREFIX = "image:"
_HUB = "docker.io"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::\d{{1,5}})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
NAME = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST = 255
_HINT = "write it as HOST/NAME:TAG or HOST/NAME@sha256:DIGEST, as `docker pull` takes it"
_LOGIN = "write HOST/NAME@sha256:DIGEST; a login belongs into the file that `docker login HOST` writes"
_DIGITS = "a digest is `sha256:` and 64 digits of 0-9 and a-f: HOST/NAME@sha256:DIGEST"


class Reference(Struct, frozen=True, kw_only=True):
    """An image: its host, name, and tag or digest.

    The host has its port. Both tag and digest may be given; the digest (`sha256:...`) decides.
    """

    host: str
    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def selector(self) -> str:
        """The value to request from the registry: digest, else tag."""
        return self.digest or self.tag

    def root(self, hub: str) -> str:
        """Return the base address of the registry's paths.

        A registry on this machine is contacted without TLS, as by Docker; every other with TLS.

        Args:
            hub: the address of Docker's own registry.
        """
        if self.host == _HUB:
            return hub.rstrip("/")
        return f"{'http' if is_loopback(self.host) else 'https'}://{self.host}"


def is_image(base: str) -> bool:
    """Return whether an override `base` means a registry's image.

    The alternative is `DISTRIBUTION/RELEASE`, two words of small letters. An image has a tag or a digest
    (`:`, `@`), or a host with a dot or a port; with the prefix `image:` any text is one.
    """
    return any(sign in base for sign in ":@.")


def parse_reference(text: str, argument: str = "base") -> Reference:
    """Return the reference in a text.

    Without a host it means Docker's own registry.

    Args:
        text: the user's text.
        argument: the name of the override or the argument, for messages.

    Raises:
        UsageError: it is not valid, has neither tag nor digest, or holds a login, which is not repeated.
    """
    rest = text.removeprefix(_PREFIX)
    _refuse_foreign_parts(rest, argument)
    rest, _, digest = rest.partition("@")
    head, slash, tail = rest.partition("/")
    if not slash or not (any(sign in head for sign in ".:[") or head == "localhost"):
        head, tail = _HUB, rest
    name, colon, tag = tail.partition(":")
    start, lower = len(text.partition("@")[0]) - len(tail), name.lower()
    lowered = text[:start] + lower + text[start + len(name) :]
    if head in (_HUB, f"index.{_HUB}"):
        head, name = _HUB, name if "/" in name else f"library/{name}"
    whole = HOST.fullmatch(head) and NAME.fullmatch(name) and len(name) <= _LONGEST
    if not whole or (colon and not _TAG.fullmatch(tag)):
        message = f"`{argument}: {text[:_LONGEST]!r}` is no reference to an image"
        if lowered != text and _is_reference(lowered):
            raise UsageError(
                f"{message}: the name of a repository has no capital letters",
                hint=f"if it is this one: {shlex.quote(lowered)}",
            )
        raise UsageError(message, hint=_HINT)
    if not tag and not digest:
        raise UsageError(f"`{argument}: {text}` tells neither a tag nor a digest", hint=_HINT)
    return Reference(host=head, name=name, tag=tag, digest=digest)


def _refuse_foreign_parts(text: str, argument: str) -> None:
    """Refuse a text with a scheme, a login or a broken digest; a login is not repeated."""
    rest, at, digest = text.partition("@")
    scheme, is_broken = "://" in rest, bool(at) and not DIGEST.fullmatch(digest)
    if is_broken and "/" in digest:  # a host and a name follow
        raise UsageError(f"`{argument}` holds {'a scheme and ' * scheme}a login", hint=_LOGIN)
    if is_broken:
        raise UsageError(f"`{argument}` holds a broken digest", hint=_DIGITS)
    if scheme:
        bare = text.partition("://")[2]
        hint = f"leave out the scheme: {shlex.quote(bare)}" if _is_reference(bare) else _HINT
        raise UsageError(f"`{argument}` holds a scheme", hint=hint)


def _is_reference(text: str) -> bool:
    try:
        parse_reference(text)
    except UsageError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine.

    The host may have a port.
    """
    name = re.sub(r":\d+$", "", host).strip("[]")
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
