"""Home directory and login of git for HTTP.

libcurl looks in the netrc of `HOME` for each host that git contacts: also by http, at every port, and after a
redirection (https://curl.se/libcurl/c/CURLOPT_NETRC.html). git has no setting against it. So git gets a home
of ours, which has all of the user's files except the netrc, and the login that `Netrc` allows for an address,
by a credential helper.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.infra.http.model import origin, parse_credentials
from reprobuild.infra.http.netrc import FILES, Login, Netrc

# git's messages for a missing or refused login.
REFUSED = re.compile(r"Authentication failed|could not read (Username|Password)")
_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")  # without git's wildcards
_LINE_END = re.compile(r"[\0\r\n]")
_USER, _PASSWORD = "NETRC_LOGIN", "NETRC_PASSWORD"
_HELPER = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"; }}; f'


@contextlib.contextmanager
def without_netrc(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Yield the environment with a home without the netrc.

    It has links to all other files of the user. git finds its settings there, and the user's credential
    helpers find their files. OpenSSH does not use `HOME`.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
        home = Path(env.get("HOME", ""))
        with contextlib.suppress(OSError):  # a missing home has no files
            for path in home.iterdir() if home.is_absolute() else ():
                if path.name not in FILES:
                    (Path(folder) / path.name).symlink_to(path)
        yield {**{name: value for name, value in env.items() if name != "NETRC"}, "HOME": folder}


def take_login(place: str) -> tuple[str, Login | None]:
    """Return an address of http or https without its login, and the login.

    Other users of the machine can read the command line of git, and not its environment. An address without a
    password stays as it is, and so does a login that git refuses.
    """
    with contextlib.suppress(ValueError):  # not an address: git reports it
        clean, login = parse_credentials(place)
        has_password = ":" in urllib.parse.urlsplit(place).netloc.rpartition("@")[0]
        if login and has_password and clean.startswith(("http://", "https://")):
            is_plain = _HOST.fullmatch(_host(clean)) and not _LINE_END.search("".join(login))
            return (clean, login) if is_plain else (place, None)
    return place, None


def login_for(address: str, env: Mapping[str, str], *, configured: bool) -> Login | None:
    """Return the login of netrc for an address, or None.

    None is also returned if the address has its own login.

    Args:
        address: of http or https.
        env: the user's environment.
        configured: the user named the address, not a snapshot.
    """
    try:
        clean, url_login = parse_credentials(address)
        login = Netrc(env).login(clean, configured={origin(clean)} if configured else (), led=False)
    except ValueError:  # not an address: git reports it
        return None
    if login is None or not _HOST.fullmatch(_host(address)):
        return None
    return login if url_login is None or url_login in ((login[0], ""), login) else None


def login_options(address: str, login: Login) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return options and variables that give git a login.

    It is valid only for the scheme, host and port of an address. No helper of the user is called, since git
    would have it store the login; and no window opens.
    """
    scheme = address.partition("://")[0]
    options = ("-c", "credential.helper=", "-c", f"credential.{scheme}://{_host(address)}.helper={_HELPER}")
    return options, {_USER: login[0], _PASSWORD: login[1], "GIT_ASKPASS": ""}


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc.rpartition("@")[2]
