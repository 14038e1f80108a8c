"""This machine's Python indexes, as configured in pip and uv.

They are queried from pip (`pip_config`) and uv (`uv_indexes`), never written down here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.ecosystems.pypi.uv_indexes import read_uv
from reprobuild.errors import LockError
from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.http.redaction import redact_index

_KEYRING = (
    "{tool} is told to ask a keyring for logins, and reprobuild does not: put the login into netrc, or into the "
    "index's address"
)

Credentials = dict[str, tuple[str, str]]


class PackageIndex(Struct, frozen=True):
    """A place of files, without credentials.

    It is the root of a Simple API, or with `links` a directory or a page of files. `ruled` is true if a rule
    for a version or a name leads to it, else the machine's configuration or an override does; `uv` is true if
    it is configured for uv and not for pip. `service` is the name of the rule's service.
    """

    url: str
    links: bool = False
    ruled: bool = False
    uv: bool = False
    service: str = ""


class PackageIndexes(Struct, frozen=True, kw_only=True):
    """The machine's places for distributions, in order of preference.

    `find_links` are directories or pages of files, `simple` are roots of Simple APIs, `named` those of uv
    that have a name, which an override may use; all without credentials, which are in `credentials` by
    address. `tokens` is {address: the same with the token of its path or its query}. `uv_alone` has the
    addresses without a configuration in pip, `flat` the named ones that are pages of links. `remarks` are
    notes on the configuration for the user.
    """

    find_links: tuple[str, ...]
    simple: tuple[str, ...]
    credentials: Credentials
    tokens: dict[str, str] = {}
    named: dict[str, str] = {}
    uv_alone: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def configured(self) -> tuple[str, ...]:
        """Every address, including those of named indexes."""
        return (*self.find_links, *self.simple, *self.named.values())

    @property
    def places(self) -> tuple[PackageIndex, ...]:
        """Every place to query for each distribution, in order."""
        alone = frozenset(self.uv_alone)
        links = (PackageIndex(url, links=True, uv=url in alone) for url in self.find_links)
        return (*links, *(PackageIndex(url, uv=url in alone) for url in self.simple))


def read_indexes(env: Mapping[str, str], asking: Asking | None = None) -> PackageIndexes:
    """Return the indexes configured in pip and uv.

    uv's own extra indexes come before its default, as in uv; pip's after its default.

    Args:
        env: the user's environment, as pip and uv would see it.
        asking: a query to pip that was started before with this environment.

    Raises:
        LockError: pip does not answer, or a file of uv cannot be read.
    """
    with asking or Asking(env) as query:
        uv = read_uv(env)
        default, pip = query.answer()
    no_index = pip.get("no-index", ["no"])[-1].lower() in ("1", "true", "yes", "on") or uv.no_index
    simple: list[str] = []
    if not no_index:
        simple = [*uv.extra, *pip.get("index-url", []), *uv.default, *pip.get("extra-index-url", [])]
        if not pip.get("index-url") and not uv.default:
            simple.insert(len(uv.extra), default)
    credentials: Credentials = {}
    tokens: dict[str, str] = {}
    keyrings = {
        "pip": pip.get("keyring-provider", ["disabled"])[-1] in ("import", "subprocess"),
        "uv": uv.keyring,
    }
    find_links = _clean_addresses([*pip.get("find-links", []), *uv.find_links], credentials, tokens)
    roots = _clean_roots(simple, credentials, tokens)
    pips = {
        *_clean_addresses(pip.get("find-links", []), {}, {}),
        *_clean_roots([*pip.get("index-url", [default]), *pip.get("extra-index-url", [])], {}, {}),
    }
    return PackageIndexes(
        find_links=find_links,
        simple=roots,
        uv_alone=tuple(url for url in (*find_links, *roots) if url not in pips),
        named={name: _clean_roots([url], credentials, tokens)[0] for name, url in uv.named.items()},
        flat=_clean_addresses(uv.flat, credentials, tokens),
        credentials=credentials,
        tokens=tokens,
        remarks=tuple(_KEYRING.format(tool=tool) for tool, active in keyrings.items() if active),
    )


def decided_indexes(
    decided: Mapping[str, str], known: PackageIndexes
) -> tuple[dict[str, PackageIndex], Credentials, dict[str, str]]:
    """Return each distribution's only index, with logins and tokens.

    Args:
        decided: by name of a distribution, an address, a directory, or the name of an index of uv.
        known: the machine's indexes.

    Raises:
        LockError: it is none of these.
    """
    credentials: Credentials = {}
    tokens: dict[str, str] = {}
    indexes = {}
    for name, place in decided.items():
        whole = known.named.get(place, place)
        local = Path(whole).expanduser()
        if "://" not in whole and not local.is_dir():
            names = f" or one of uv's: {', '.join(sorted(known.named))}" if known.named else ""
            raise LockError(
                f"the index {place} of {name} is no address and no directory",
                hint=f"write it as https://HOST/PATH, as a directory{names}",
            )
        (url,) = _clean_addresses([as_url(whole)], credentials, tokens)
        files = "://" not in whole and any(path.suffix in (".whl", ".gz", ".zip") for path in local.iterdir())
        pages = {page.rstrip("/") for page in (*known.find_links, *known.flat)}
        links = files or url.rstrip("/") in pages or url.endswith((".html", ".htm"))
        indexes[name] = PackageIndex(url if links else url.rstrip("/"), links=links)
    return indexes, credentials, tokens


def _clean_roots(places: Iterable[str], credentials: Credentials, tokens: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        address.rstrip("/")
        for address in _clean_addresses((as_root(place) for place in places), credentials, tokens)
    )


def _clean_addresses(
    places: Iterable[str], credentials: Credentials, tokens: dict[str, str]
) -> tuple[str, ...]:
    """Return unique addresses without logins; collect logins and tokens."""
    addresses = []
    for place in places:
        whole, login = split_credentials(as_url(place))
        clean = redact_index(whole)
        if clean != whole:
            path, _, query = whole.partition("?")
            secret = f"?{query}" if query else ""
            tokens[clean.rstrip("/")] = path.rstrip("/") + secret
        if login:
            credentials[clean.rstrip("/")] = login
        addresses.append(clean)
    return tuple(dict.fromkeys(addresses))


def as_root(place: str) -> str:
    """Return a Simple API's root without its final slash."""
    return as_url(place).rstrip("/")


def as_url(place: str) -> str:
    """Return a path as an address, and an address unchanged."""
    return place if "://" in place else Path(place).expanduser().absolute().as_uri()
