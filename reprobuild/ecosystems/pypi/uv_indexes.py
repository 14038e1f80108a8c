"""The indexes of uv's configuration, in uv's own order.

Files and variables: https://docs.astral.sh/uv/reference/environment/ and .../concepts/configuration-files/.
The order was observed on a server: variables before files, the user's before the system's, in each file
`index`, then `pip.extra-index-url`, then `extra-index-url`; the default comes last, and an `explicit` index
is never used unnamed. Files of a project (`uv.toml`, `pyproject.toml`) are not read: the current directory
may be someone else's snapshot. A relative XDG_CONFIG_HOME is ignored, as in its specification:
https://specifications.freedesktop.org/basedir-spec/
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.regular_files import read_plain

_FLAT = "flat"  # a page or a directory of links: https://docs.astral.sh/uv/concepts/indexes/#flat-indexes
_LARGEST = 4 << 20  # also of a pyproject.toml


class UvIndex(Struct, frozen=True, kw_only=True):
    """An `[[index]]` of a file, or word of `UV_INDEX`."""

    url: str
    name: str = ""
    default: bool = False
    explicit: bool = False
    format: str = "simple"


class UvIndexes(Struct, frozen=True, kw_only=True):
    """The indexes in uv's configuration, maybe with credentials.

    `default` replaces the default index; `named` has those with a name, including explicit ones; `flat` are
    the indexes that are pages or directories of links.
    """

    extra: tuple[str, ...] = ()
    default: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    named: dict[str, str] = {}
    flat: tuple[str, ...] = ()
    no_index: bool = False
    keyring: bool = False


class _Layer(Struct, frozen=True, kw_only=True):
    indexes: tuple[UvIndex, ...] = ()
    index_url: str | None = None
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    keyring: str = ""


def read_uv(env: Mapping[str, str]) -> UvIndexes:
    """Return uv's configuration.

    Args:
        env: the user's environment.

    Raises:
        LockError: one of uv's files cannot be read.
    """
    layers = [_read_variables(env), *(_read_layer(path) for path in _config_files(env) if path.is_file())]
    indexes = [_with_login(index, env) for layer in layers for index in layer.indexes]
    defaults = [index.url for index in indexes if index.default and index.format != _FLAT]
    flat = [index.url for index in indexes if index.format == _FLAT and not index.explicit]
    defaults += [layer.index_url for layer in layers if layer.index_url]
    first = next((layer.index_url for layer in layers[:1] if layer.index_url), None)
    extra = [
        url
        for layer in layers
        for url in (
            *(
                _with_login(index, env).url
                for index in layer.indexes
                if not index.default and not index.explicit and index.format != _FLAT
            ),
            *layer.extra,
        )
    ]
    return UvIndexes(
        extra=tuple(extra), default=(first,) if first else tuple(defaults[:1]),
        find_links=(*flat, *(link for layer in layers for link in layer.find_links)),
        named={index.name: index.url for index in reversed(indexes) if index.name},
        flat=tuple(index.url for index in indexes if index.format == _FLAT),
        no_index=any(layer.no_index for layer in layers),
        keyring=any(layer.keyring == "subprocess" for layer in layers),
    )  # fmt: skip


def _config_files(env: Mapping[str, str]) -> Iterator[Path]:
    if env.get("UV_NO_CONFIG", "") not in ("", "0", "false"):
        return
    if env.get("UV_CONFIG_FILE"):
        yield Path(env["UV_CONFIG_FILE"])
        return
    named = [Path(env.get("XDG_CONFIG_HOME", "")), Path(env.get("HOME", "")) / ".config"]
    yield from (folder / "uv" / "uv.toml" for folder in [path for path in named if path.is_absolute()][:1])
    shared = [Path(folder) for folder in env.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":")]
    system = [folder / "uv" / "uv.toml" for folder in shared if folder.is_absolute()]
    yield next((path for path in system if path.is_file()), Path("/etc/uv/uv.toml"))


def _read_variables(env: Mapping[str, str]) -> _Layer:
    def words(name: str) -> list[str]:
        return env.get(name, "").replace(",", " ").split()

    return _Layer(
        indexes=tuple(_parse_index(word) for word in words("UV_INDEX")),
        index_url=env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or None,
        extra=tuple(words("UV_EXTRA_INDEX_URL")), find_links=tuple(words("UV_FIND_LINKS")),
        no_index=env.get("UV_NO_INDEX", "") not in ("", "0", "false"), keyring=env.get("UV_KEYRING_PROVIDER", ""),
    )  # fmt: skip


def _parse_index(word: str) -> UvIndex:
    """Return the index of uv's `address` or `name=address`."""
    name, equals, url = word.partition("=")
    named = bool(equals) and "://" not in name and "/" not in name
    return UvIndex(url=url, name=name) if named else UvIndex(url=word)


def _with_login(index: UvIndex, env: Mapping[str, str]) -> UvIndex:
    """Return an index with its login from environment variables.

    They are `UV_INDEX_NAME_USERNAME` and `_PASSWORD`; the login is put into the address.
    """
    stem = f"UV_INDEX_{re.sub(r'[^A-Z0-9]', '_', index.name.upper())}"
    user, password = env.get(f"{stem}_USERNAME", ""), env.get(f"{stem}_PASSWORD", "")
    scheme, mark, rest = index.url.partition("://")
    if not index.name or not mark or not (user or password):
        return index
    login = f"{urllib.parse.quote(user, safe='')}:{urllib.parse.quote(password, safe='')}"
    host = rest.partition("/")[0].rpartition("@")[2]
    path = rest.partition("/")[1] + rest.partition("/")[2]
    return msgspec.structs.replace(index, url=f"{scheme}://{login}@{host}{path}")


class _Pip(Struct, frozen=True, rename="kebab"):
    index_url: str | None = None
    extra_index_url: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    keyring_provider: str = ""


class _File(_Pip, frozen=True, rename="kebab"):
    index: tuple[UvIndex, ...] = ()
    pip: _Pip = _Pip()


def _read_layer(path: Path) -> _Layer:
    try:
        raw: dict[str, Any] = msgspec.toml.decode(read_plain(path, _LARGEST))
        read = decode_value(raw, _File)
    except (msgspec.DecodeError, msgspec.ValidationError) as err:
        raise LockError(f"{path}: {err}", hint="uv itself will refuse this file; mend it") from None
    return _Layer(
        indexes=read.index, index_url=read.pip.index_url or read.index_url,
        extra=(*read.pip.extra_index_url, *read.extra_index_url),
        find_links=(*read.pip.find_links, *read.find_links), no_index=read.no_index or read.pip.no_index,
        keyring=read.keyring_provider or read.pip.keyring_provider,
    )  # fmt: skip
