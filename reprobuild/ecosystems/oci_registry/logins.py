"""The user's logins for registries, from docker and podman.

`login_entries` reads the files of `docker login` and `podman login`. A login is sent to its host, and to the token
server that this host names, through TLS; never to a redirected address. netrc and the logins of indexes are not used:
the token goes to the registry, which may name any host for its token server, and so would get the user's rights there.
"""

from __future__ import annotations

import base64
import re
import shlex
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.ecosystems.oci_registry.reference import HOST, NAME, is_loopback
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import CrossHostRedirectError
from reprobuild.infra.http.redirects import is_inner
from reprobuild.infra.untrusted.decode import decode_json

if TYPE_CHECKING:
    from reprobuild.ecosystems.oci_registry.login_entries import Login

# The paths of a registry: https://github.com/opencontainers/distribution-spec/blob/main/spec.md#endpoints
_SERVED = re.compile(r"/v2/(?P<name>.+?)/(?:(?:manifests|referrers)/[^/]+|blobs/(?P<sent>uploads/)?[^/]*)")
_LARGEST_TOKEN = 1 << 20
# It is put into a header.
_Token = Annotated[str, Meta(pattern=r"\A[!-~]*\Z", max_length=_LARGEST_TOKEN)]


class _Answer(Struct, frozen=True):
    """The answer of a token server.

    https://distribution.github.io/distribution/spec/auth/token/
    """

    token: _Token | None = None
    access_token: _Token | None = None


class Logins:
    """Authentication of the network client for registries. Thread-safe.

    Args:
        env: the user's environment, which names the files.
        hub: the address of Docker's own registry, whose logins have another name. Not that of a replacement.
    """

    def __init__(self, env: Mapping[str, str], hub: str) -> None:
        self._env = env
        self._hub = urllib.parse.urlsplit(hub).netloc
        self._known: dict[tuple[str, str], str] = {}
        self._alone = threading.Lock()

    def serves(self, url: str) -> bool:
        """Return whether an address is a registry's."""
        return _SERVED.fullmatch(urllib.parse.urlsplit(url).path) is not None or self._place(url) is not None

    def known(self, url: str) -> str | None:
        """Return the `Authorization` of a former request to a repository."""
        place = self._place(url)
        return self._known.get(place) if place else None

    def answer(self, url: str, challenge: str, net: Net) -> str | None:
        """Return the `Authorization` for a challenge, or None.

        None means that no login fits. https://distribution.github.io/distribution/spec/auth/token/

        Raises:
            FetchError: a file of logins or a helper is broken, or the token server refuses the login.
        """
        place = self._place(url)
        if place is None:
            return None
        scheme, _, rest = challenge.partition(" ")
        with self._alone:
            login = self._login(*place)
            if scheme.lower() == "basic":
                authorization = _basic_authorization(login) if login else None
            elif scheme.lower() == "bearer":
                authorization = f"Bearer {self._token(url, place, _challenge_fields(rest), login, net)}"
            else:
                authorization = None
            if authorization is not None:
                self._known[place] = authorization
        return authorization

    def remedy(self, url: str) -> str:
        """Return the remedy for a registry that refuses access."""
        place = self._place(url)
        if place is None:
            return ""
        host = self._named(place[0])
        word = shlex.quote(host)
        login = self._login(*place)
        if login:
            return (
                f"the login of {login.file} for {host} is wrong, or may not read this: `docker login {word}`"
            )
        return f"no login for {host} was found; give one with `docker login {word}` or `podman login {word}`"

    def _token(
        self, url: str, place: tuple[str, str], fields: Mapping[str, str], login: Login | None, net: Net
    ) -> str:
        stated = fields.get("realm", "")
        realm = _split_address(stated)
        host = realm.netloc.rpartition("@")[2] if realm else stated.rpartition("@")[2]
        plain = realm and realm.scheme == urllib.parse.urlsplit(url).scheme == "http" and is_loopback(host)
        safe = realm and host and (realm.scheme == "https" or plain) and not _SERVED.fullmatch(realm.path)
        if not realm or not safe:
            raise FetchError(
                f"{place[0]} names the token server {host[:200]!r}, which a login is not sent to",
                hint="the registry must name its token server by an https address",
            )
        if is_inner(stated) and not is_inner(url):
            raise FetchError(
                f"{place[0]} names the token server {host[:200]!r}, an address of this machine or of its link",
                hint="the registry is misconfigured, or hostile: take the image from another one",
            )
        query = {key: fields[key] for key in ("service",) if key in fields}
        match = _SERVED.fullmatch(urllib.parse.urlsplit(url).path)
        actions = "pull" if match and not match["sent"] else "pull,push"
        query["scope"] = fields.get("scope") or f"repository:{place[1]}:{actions}"
        if login:
            quoted = (urllib.parse.quote(word, safe="") for word in (login.user, login.password))
            host = f"{':'.join(quoted)}@{host}"
        address = urllib.parse.urlunsplit((realm.scheme, host, realm.path, urllib.parse.urlencode(query), ""))
        try:
            page = net.page(address, accept="application/json", most=_LARGEST_TOKEN, alone=True)
            answer = decode_json(page.content, _Answer)
            token = answer.token or answer.access_token
        except CrossHostRedirectError:
            raise
        except FetchError as err:
            raise FetchError(str(err), hint=self.remedy(url)) from None
        except (msgspec.DecodeError, ValueError, RecursionError):
            token = None
        if not token:
            raise FetchError(f"the token server of {place[0]} gave no token", hint=self.remedy(url))
        return token

    def _place(self, url: str) -> tuple[str, str] | None:
        """Return host and repository of a registry address, or None.

        None means that the address is not safe, or not a registry's. The registry chooses the paths for blob
        uploads: a path below a repository that was answered before is a part of it, unless a `..` leads out
        of it.
        """
        parts = urllib.parse.urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.netloc))
        if not safe or {".", ".."} & set(urllib.parse.unquote(parts.path).split("/")):
            return None
        if match := _SERVED.fullmatch(parts.path):
            # Host and name become keys of a file of logins, whose keys may be whole addresses.
            is_whole = HOST.fullmatch(parts.netloc) and NAME.fullmatch(match["name"])
            return (parts.netloc, match["name"]) if is_whole else None
        answered = (place for place in list(self._known) if place[0] == parts.netloc)
        above = [place for place in answered if parts.path.startswith(f"/v2/{place[1]}/")]
        return max(above, key=lambda place: len(place[1]), default=None)

    def _named(self, host: str) -> str:
        return "docker.io" if host == self._hub else host

    def _login(self, host: str, name: str) -> Login | None:
        """Return the login for a repository, or None.

        It is from the first file that has one, and the closest in it.
        """
        from reprobuild.ecosystems.oci_registry.login_entries import read_login  # see there

        for file in login_files(self._env):
            if file.is_file() and (login := read_login(file, self._named(host), name, self._env)):
                return login
        return None


def login_files(env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the files that may have logins, most important first.

    https://docs.podman.io/en/latest/markdown/podman-login.1.html, `--authfile`, and
    https://docs.docker.com/reference/cli/docker/#change-the-docker-directory
    """
    if env.get("REGISTRY_AUTH_FILE"):
        yield Path(env["REGISTRY_AUTH_FILE"])
        return
    home = Path(env.get("HOME") or "/nonexistent")
    if env.get("XDG_RUNTIME_DIR"):
        yield Path(env["XDG_RUNTIME_DIR"]) / "containers/auth.json"
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "containers/auth.json"
    yield Path(env.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def _challenge_fields(challenge: str) -> dict[str, str]:
    """Return the fields of a challenge that have values.

    The parser fails at such fields.
    """
    items = [item for item in urllib.request.parse_http_list(challenge) if item.partition("=")[2]]
    return urllib.request.parse_keqv_list(items)


def _split_address(address: str) -> urllib.parse.SplitResult | None:
    """Return the parts of a server's address, or None.

    `https://[x` is an example.
    """
    try:
        return urllib.parse.urlsplit(address)
    except ValueError:
        return None


def _basic_authorization(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
