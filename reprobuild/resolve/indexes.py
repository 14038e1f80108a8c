"""Which Python indexes this machine uses: asked of pip and uv, never written down here.

pip: `pip config list`, https://pip.pypa.io/en/stable/cli/pip_config/
uv: its configuration files and variables, https://docs.astral.sh/uv/reference/environment/
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild import proc
from reprobuild.errors import LockError
from reprobuild.net import split_credentials

_ASK_PIP_DEFAULT = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"


class Indexes(Struct, frozen=True, kw_only=True):
    """Where this machine looks for distributions, in order of preference.

    `find_links` are folders or pages of files, `simple` are roots of Simple APIs; both without
    credentials, which stand in `credentials` by host.
    """

    find_links: tuple[str, ...]
    simple: tuple[str, ...]
    credentials: dict[str, tuple[str, str]]


def read_indexes(env: Mapping[str, str]) -> Indexes:
    """Ask pip and uv for the indexes they are configured with.

    Args:
        env: the user's environment, as pip and uv would see it.

    Raises:
        LockError: pip cannot be asked.
    """
    pip = _pip_configuration(env)
    uv = _uv_configuration(env)
    if pip.get("no-index", ["no"])[-1].lower() in ("1", "true", "yes", "on"):
        pip = {"find-links": pip.get("find-links", []), "no-index": ["yes"]}
    links = [*pip.get("find-links", []), *uv.get("find-links", [])]
    simple = [
        *pip.get("index-url", []), *uv.get("index-url", []), *pip.get("extra-index-url", []),
        *uv.get("extra-index-url", []),
    ]  # fmt: skip
    if not pip.get("index-url") and not uv.get("index-url") and pip.get("no-index") != ["yes"]:
        simple.insert(0, _ask_pip(env, ["-c", _ASK_PIP_DEFAULT]).strip())
    credentials: dict[str, tuple[str, str]] = {}
    clean_links = [_clean(_as_url(link), credentials) for link in links]
    clean_simple = [_clean(_as_url(url).rstrip("/"), credentials) for url in simple]
    return Indexes(
        find_links=tuple(dict.fromkeys(clean_links)),
        simple=tuple(dict.fromkeys(clean_simple)),
        credentials=credentials,
    )


def _clean(url: str, credentials: dict[str, tuple[str, str]]) -> str:
    clean, own = split_credentials(url)
    if own:
        credentials[clean.split("/")[2]] = own
    return clean


def _as_url(place: str) -> str:
    return place if "://" in place else Path(place).expanduser().absolute().as_uri()


def _ask_pip(env: Mapping[str, str], arguments: list[str]) -> str:
    try:
        out = proc.run(
            [sys.executable, *arguments], env=env, purpose="ask pip for the indexes of this machine",
            missing=LockError, timeout=60,
        )  # fmt: skip
    except proc.Failed as err:
        raise LockError(
            str(err), hint=f"{sys.executable} -m pip must work: install pip there, or mend its configuration"
        ) from None
    return out.decode()


def _pip_configuration(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Return pip's settings that concern indexes: environment over `install` over `global`, as pip does."""
    settings: dict[str, tuple[int, list[str]]] = {}
    rank = {"global": 0, "download": 1, "install": 2, ":env:": 3}
    for line in _ask_pip(env, ["-m", "pip", "config", "list"]).splitlines():
        key, equals, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if not equals or section not in rank:
            continue
        if rank[section] >= settings.get(name, (-1, []))[0]:
            settings[name] = (rank[section], str(ast.literal_eval(value)).split())
    return {name: value for name, (_, value) in settings.items()}


def _uv_configuration(env: Mapping[str, str]) -> dict[str, list[str]]:
    """Return uv's settings that concern indexes: variables over the user's file over the system's."""
    found: dict[str, list[str]] = {}
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME", "/nonexistent")) / ".config")
    for path in (
        Path("/etc/uv/uv.toml"),
        home / "uv" / "uv.toml",
        Path(env.get("UV_CONFIG_FILE", "/nonexistent")),
    ):
        if path.is_file():
            found.update(_uv_file(path))
    for variable, name in (
        ("UV_INDEX_URL", "index-url"),
        ("UV_DEFAULT_INDEX", "index-url"),
        ("UV_EXTRA_INDEX_URL", "extra-index-url"),
        ("UV_INDEX", "extra-index-url"),
        ("UV_FIND_LINKS", "find-links"),
    ):
        if env.get(variable):
            found[name] = [_unnamed(item) for item in env[variable].replace(",", " ").split()]
    return found


def _unnamed(item: str) -> str:
    """Return the address of uv's `name=address`."""
    name, equals, url = item.partition("=")
    return url if equals and "://" not in name and "/" not in name else item


def _uv_file(path: Path) -> dict[str, list[str]]:
    try:
        raw: dict[str, Any] = msgspec.toml.decode(path.read_bytes())
    except msgspec.DecodeError as err:
        raise LockError(f"{path}: {err}", hint="uv itself will refuse this file; mend it") from None
    found: dict[str, list[str]] = {}
    for table in (raw, raw.get("pip", {})):
        for name in ("index-url", "extra-index-url", "find-links"):
            value = table.get(name)
            if value:
                found[name] = [value] if isinstance(value, str) else list(value)
    for index in raw.get("index", []):
        name = "index-url" if index.get("default") else "extra-index-url"
        found.setdefault(name, []).append(index["url"])
    return found
