"""Which Python indexes this machine uses: asked of pip and uv, never written down here.

pip: `pip_settings`; uv: `uv_indexes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.ecosystems.pypi.pip_config import Asking
from reprobuild.ecosystems.pypi.uv_indexes import read_uv
from reprobuild.errors import LockError
from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.http.redaction import told_address

_KEYRING = (
    "{tool} is told to ask a keyring for logins, and reprobuild does not: put the login into netrc, or into the "
    "index's address"
)

Credentials = dict[str, tuple[str, str]]


class PackageIndex(Struct, frozen=True):
    """One place of files: the root of a Simple API, or with `links` a folder or a page of files. No credentials.

    A rule for a version or a name leads to it where it is `ruled`, else the machine's configuration or a decision;
    with `uv`, uv is configured with it, and pip is not. `service` is the name of the rule's service.
    """

    url: str
    links: bool = False
    ruled: bool = False
    uv: bool = False
    service: str = ""


class PackageIndexes(Struct, frozen=True, kw_only=True):
    """Where this machine looks for distributions, in order of preference.

    `find_links` are folders or pages of files, `simple` are roots of Simple APIs, `named` those of uv that have a
    name, which a decision may use; all without credentials, which stand in `credentials` by address. `tokens` is
    {address: the same with the token of its path or its query}.
    `uv_alone` has the addresses that pip is not configured with, `flat` the named ones that are pages of links.
    `remarks` are what the user should know of the configuration.
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
        """Every address, those of named indexes among them."""
        return (*self.find_links, *self.simple, *self.named.values())

    @property
    def places(self) -> tuple[PackageIndex, ...]:
        """Every place that is asked for each distribution, in order."""
        alone = frozenset(self.uv_alone)
        links = (PackageIndex(url, links=True, uv=url in alone) for url in self.find_links)
        return (*links, *(PackageIndex(url, uv=url in alone) for url in self.simple))


def read_indexes(env: Mapping[str, str], asking: Asking | None = None) -> PackageIndexes:
    """Ask pip and uv for the indexes they are configured with.

    uv's own extra indexes come before its default, as uv has it; pip's after its default.

    Args:
        env: the user's environment, as pip and uv would see it.
        asking: pip, where it was asked with this environment before.

    Raises:
        LockError: pip cannot be asked, or a file of uv cannot be read.
    """
    with asking or Asking(env) as asked:
        uv = read_uv(env)
        default, pip = asked.answer()
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
    find_links = _clean([*pip.get("find-links", []), *uv.find_links], credentials, tokens)
    roots = _roots(simple, credentials, tokens)
    pips = {
        *_clean(pip.get("find-links", []), {}, {}),
        *_roots([*pip.get("index-url", [default]), *pip.get("extra-index-url", [])], {}, {}),
    }
    return PackageIndexes(
        find_links=find_links,
        simple=roots,
        uv_alone=tuple(url for url in (*find_links, *roots) if url not in pips),
        named={name: _roots([url], credentials, tokens)[0] for name, url in uv.named.items()},
        flat=_clean(uv.flat, credentials, tokens),
        credentials=credentials,
        tokens=tokens,
        remarks=tuple(_KEYRING.format(tool=tool) for tool, told in keyrings.items() if told),
    )


def decided_indexes(
    decided: Mapping[str, str], known: PackageIndexes
) -> tuple[dict[str, PackageIndex], Credentials, dict[str, str]]:
    """Return the index that each distribution is to come from, and the logins and tokens in their addresses.

    Args:
        decided: by name of a distribution, an address, a folder, or the name of an index of uv.
        known: the machine's indexes.

    Raises:
        LockError: it is neither.
    """
    credentials: Credentials = {}
    tokens: dict[str, str] = {}
    found = {}
    for name, place in decided.items():
        whole = known.named.get(place, place)
        local = Path(whole).expanduser()
        if "://" not in whole and not local.is_dir():
            names = f" or one of uv's: {', '.join(sorted(known.named))}" if known.named else ""
            raise LockError(
                f"the index {place} of {name} is no address and no folder",
                hint=f"write it as https://HOST/PATH, as a folder{names}",
            )
        (url,) = _clean([as_url(whole)], credentials, tokens)
        files = "://" not in whole and any(path.suffix in (".whl", ".gz", ".zip") for path in local.iterdir())
        pages = {one.rstrip("/") for one in (*known.find_links, *known.flat)}
        links = files or url.rstrip("/") in pages or url.endswith((".html", ".htm"))
        found[name] = PackageIndex(url if links else url.rstrip("/"), links=links)
    return found, credentials, tokens


def _roots(places: Iterable[str], credentials: Credentials, tokens: dict[str, str]) -> tuple[str, ...]:
    return tuple(one.rstrip("/") for one in _clean((as_root(place) for place in places), credentials, tokens))


def _clean(places: Iterable[str], credentials: Credentials, tokens: dict[str, str]) -> tuple[str, ...]:
    """Return addresses without logins, each once, and keep their logins and tokens apart."""
    found = []
    for place in places:
        whole, own = split_credentials(as_url(place))
        clean = told_address(whole)
        if clean != whole:
            path, _, query = whole.partition("?")
            secret = f"?{query}" if query else ""
            tokens[clean.rstrip("/")] = path.rstrip("/") + secret
        if own:
            credentials[clean.rstrip("/")] = own
        found.append(clean)
    return tuple(dict.fromkeys(found))


def as_root(place: str) -> str:
    """Return the root of a Simple API as an address without its last stroke."""
    return as_url(place).rstrip("/")


def as_url(place: str) -> str:
    """Return an address as it is, and a path as one."""
    return place if "://" in place else Path(place).expanduser().absolute().as_uri()
