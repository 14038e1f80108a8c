"""The logins of netrc, for the hosts of its entries.

They are also for the addresses that this machine configures.
https://www.gnu.org/software/inetutils/manual/html_node/The-_002enetrc-file.html
"""

from __future__ import annotations

import netrc
from collections.abc import Collection, Mapping
from pathlib import Path

from reprobuild.infra.http.model import origin

Login = tuple[str, str]
Origin = tuple[str, "str | None", "int | None"]

FILES = (".netrc", "_netrc")
_DEFAULT = "default"  # the name of the entry for every other host
_USUAL = ("https", 443)


class Netrc:
    """The entries of the user's netrc, read once.

    Args:
        env: the user's environment; its `NETRC` names the file, else it is in `HOME`.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {name: env[name] for name in ("HOME", "NETRC") if env.get(name)}
        self._entries: dict[str, Login] | None = None

    def login(self, url: str, *, configured: Collection[Origin], led: bool) -> Login | None:
        """Return the login for an address, or None.

        An entry has neither schemes nor ports. So an address that this machine does not configure gets only
        the login of its own entry, by https at the usual port, and without a redirection from another host.

        Args:
            url: the address, without a login.
            configured: the origins in this machine's configuration; they may be of http, and get the
                `default` entry.
            led: a redirection of another scheme, host or port led there.
        """
        scheme, host, port = place = origin(url)
        known = place in configured
        if not known and (led or (scheme, port) != _USUAL or host == _DEFAULT):
            return None
        if self._entries is None:
            self._entries = _read(self._env)
        return self._entries.get(host or "") or (self._entries.get(_DEFAULT) if known else None)


def _read(env: Mapping[str, str]) -> dict[str, Login]:
    """Return user and password by host.

    The result is empty for a missing or unreadable file.
    """
    home = Path(env.get("HOME", "/nonexistent"))
    places = [Path(env["NETRC"])] if "NETRC" in env else [home / name for name in FILES]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        return {}
    try:
        hosts = netrc.netrc(str(path)).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return {}
    return {
        host: (login or account or "", password or "") for host, (login, account, password) in hosts.items()
    }
