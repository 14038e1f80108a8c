"""The home and the login of git where it speaks HTTP.

libcurl looks in the netrc of `HOME` for each host that git meets: by http too, at every port, and where a redirection
leads (https://curl.se/libcurl/c/CURLOPT_NETRC.html). git has no setting against it. So git gets a home of ours, which
has all of the user's but the netrc, and the login that `Netrc` allows for an address, by a helper of credentials.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild.infra.http.model import origin, without_credentials
from reprobuild.infra.http.netrc import FILES, Login, Netrc

# What git says where it has no login for a host, or the server refuses the one that it has.
REFUSED = re.compile(r"Authentication failed|could not read (Username|Password)")
_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d+)?|\[[0-9A-Fa-f:.]+\](:\d+)?")  # without git's wildcards
_USER, _PASSWORD = "NETRC_LOGIN", "NETRC_PASSWORD"
_HELPER = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"; }}; f'


@contextlib.contextmanager
def without_netrc(env: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Give the environment with a home that has links to all of the user's files, but not to the netrc.

    git finds its settings there, and the user's helpers of credentials find their files. OpenSSH asks for no `HOME`.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-") as folder:
        home = Path(env.get("HOME", ""))
        with contextlib.suppress(OSError):  # a home that is not there has nothing
            for path in home.iterdir() if home.is_absolute() else ():
                if path.name not in FILES:
                    (Path(folder) / path.name).symlink_to(path)
        yield {**{name: value for name, value in env.items() if name != "NETRC"}, "HOME": folder}


def login_for(address: str, env: Mapping[str, str], *, configured: bool) -> Login | None:
    """Return the login of netrc for an address, None where there is none or the address has its own.

    Args:
        address: of http or https.
        env: the user's environment.
        configured: the user named the address, not a snapshot.
    """
    try:
        clean, own = without_credentials(address)
        login = Netrc(env).login(clean, configured={origin(clean)} if configured else (), led=False)
    except ValueError:  # no address: git says so
        return None
    if login is None or not _HOST.fullmatch(_host(address)):
        return None
    return login if own is None or own in ((login[0], ""), login) else None


def handed(address: str, login: Login) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return options and variables that give git a login for the scheme, host and port of an address alone.

    No helper of the user is asked, since git would have it keep the login; and no window opens.
    """
    scheme = address.partition("://")[0]
    options = ("-c", "credential.helper=", "-c", f"credential.{scheme}://{_host(address)}.helper={_HELPER}")
    return options, {_USER: login[0], _PASSWORD: login[1], "GIT_ASKPASS": ""}


def _host(address: str) -> str:
    return urllib.parse.urlsplit(address).netloc.rpartition("@")[2]
