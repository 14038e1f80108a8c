"""This machine's conda channels, from conda, mamba and rattler.

Their configuration is read by their own rules. conda:
https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/settings.html, and for the places
https://docs.conda.io/projects/conda/en/stable/user-guide/configuration/use-condarc.html; mamba reads the same
files and `.mambarc`. rattler: https://rattler.prefix.dev (`mirrors`, `default-channels`), also of pixi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.http.redaction import redact_index
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.infra.untrusted.yaml_documents import BoundedLoader, load_yaml

_LARGEST = 1 << 20
_HINT = "mend it, or ask conda itself: `conda config --show-sources`"


class Channels(Struct, frozen=True, kw_only=True):
    """The configured conda channels; no address here has a credential.

    `order` are the default channels of an environment, names or addresses. `multi` are names that mean
    several. `custom` is {name: parent address}. `mirrors` is {address: its replacements}. `credentials` are
    by address, and `tokens` is {address of a channel, or a parent of several: the same with its token}.
    """

    order: tuple[str, ...] = ()
    alias: str = ""
    custom: dict[str, str] = {}
    multi: dict[str, tuple[str, ...]] = {}
    mirrors: dict[str, tuple[str, ...]] = {}
    credentials: dict[str, tuple[str, str]] = {}
    tokens: dict[str, str] = {}

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every configured address; of mirrors, the replacements."""
        several = (*self.multi.values(), *self.mirrors.values())
        named = (
            *self.order,
            self.alias,
            *self.custom.values(),
            *(channel for more in several for channel in more),
        )
        return tuple(channel for channel in named if "://" in channel)


def read_channels(env: Mapping[str, str], decided: Sequence[str] = (), system: Path = Path("/")) -> Channels:
    """Return the channel configuration of this machine.

    Args:
        env: the user's environment; variables such as CONDA_CHANNELS outweigh files.
        decided: channels of the user's override, put first.
        system: the root directory of the machine.

    Raises:
        LockError: conda could not read a file.
    """
    configuration = _Found(env)
    for path in _config_files(env, system):
        configuration.take(_read_yaml(path))
    configuration.variables()
    for path in _rattler_files(env, system):
        configuration.rattler(_read_toml(path))
    return configuration.channels(decided)


class _Found:
    """The settings read so far.

    Of lists the later come first, of other settings the last counts.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.lists: dict[str, list[str]] = {"channels": [], "default_channels": []}
        self.alias = ""
        self.custom: dict[str, str] = {}
        self.multi: dict[str, list[str]] = {}
        self.mirrors: dict[str, list[str]] = {}
        self.credentials: dict[str, tuple[str, str]] = {}
        self.tokens: dict[str, str] = {}

    def take(self, settings: Mapping[str, Any]) -> None:
        """Add a file of conda or mamba."""
        for name, values in self.lists.items():
            self.lists[name] = list(dict.fromkeys((*_text_values(settings.get(name)), *values)))
        self.alias = str(settings.get("channel_alias") or self.alias)
        self.custom |= {name: str(url) for name, url in _read_table(settings, "custom_channels").items()}
        for name, several in _read_table(settings, "custom_multichannels").items():
            self.multi[name] = _text_values(several)
        for name, several in _read_table(settings, "mirrored_channels").items():  # of mamba
            self.mirrors[name] = _text_values(several)

    def variables(self) -> None:
        """Add the settings in environment variables."""
        names = {"CONDA_CHANNELS": "channels", "CONDA_DEFAULT_CHANNELS": "default_channels"}
        texts = {setting: self._env.get(name, "") for name, setting in names.items()}
        self.take({setting: text.replace(",", " ").split() for setting, text in texts.items()})
        self.alias = self._env.get("CONDA_CHANNEL_ALIAS") or self.alias

    def rattler(self, settings: Mapping[str, Any]) -> None:
        """Add a file of rattler or pixi."""
        self.lists["channels"] += _text_values(settings.get("default-channels"))
        for url, several in _read_table(settings, "mirrors").items():
            self.mirrors[url.rstrip("/")] = _text_values(several)

    def channels(self, decided: Sequence[str]) -> Channels:
        """Return the channels without credentials."""
        multi = {name: tuple(map(self._clean, several)) for name, several in self.multi.items()}
        if self.lists["default_channels"]:
            multi["defaults"] = tuple(map(self._clean, self.lists["default_channels"]))
        order = (*decided, *self.lists["channels"])
        return Channels(
            order=tuple(dict.fromkeys(map(self._clean, order))), alias=self._clean(self.alias),
            custom={name: self._clean(url, name) for name, url in self.custom.items()}, multi=multi,
            mirrors={self._clean(url): tuple(map(self._clean, several)) for url, several in self.mirrors.items()},
            credentials=self.credentials, tokens=self.tokens,
        )  # fmt: skip

    def _clean(self, text: str, below: str = "") -> str:
        """Return a name or address expanded, and without credentials.

        The credentials are kept separately; variables are expanded.
        """
        text = Template(text.strip()).safe_substitute(self._env).rstrip("/")
        if "://" not in text:
            return text
        whole, login = split_credentials(text)
        url = redact_index(whole)
        if login:
            self.credentials[url] = login
        if url != whole:
            place, mark, query = whole.partition("?")
            self.tokens[f"{url}/{below}".rstrip("/")] = f"{place}/{below}".rstrip("/") + mark + query
        return url


def _config_files(env: Mapping[str, str], system: Path) -> Iterator[Path]:
    """Yield the files of conda and mamba, least important first.

    The order is that of conda/base/constants.py.
    """
    home = Path(env["HOME"]) if env.get("HOME") else None
    folders = [system / "etc/conda", system / "var/lib/conda"]
    roots = [env.get("MAMBA_ROOT_PREFIX"), env.get("CONDA_ROOT")]
    if env.get("CONDA_EXE"):
        roots.append(str(Path(env["CONDA_EXE"]).parent.parent))
    folders += [Path(root) for root in roots if root]
    xdg_folders = [Path(env["XDG_CONFIG_HOME"]) / "conda"] if env.get("XDG_CONFIG_HOME") else []
    folders += [*xdg_folders, *([home / ".config/conda", home / ".conda", home] if home else [])]
    folders += [Path(env["CONDA_PREFIX"])] if env.get("CONDA_PREFIX") else []
    names = (".condarc", "condarc", "condarc.d", ".mambarc")
    paths = [folder / name for folder in folders for name in names]
    paths += [Path(env[name]) for name in ("CONDARC", "MAMBARC") if env.get(name)]
    for path in dict.fromkeys(paths):
        if path.is_dir():
            yield from sorted((*path.glob("*.yml"), *path.glob("*.yaml")))
        elif path.is_file():
            yield path


def _rattler_files(env: Mapping[str, str], system: Path) -> Iterator[Path]:
    home = Path(env.get("HOME") or "/nonexistent")
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    for tool in ("rattler", "pixi"):
        for path in (system / "etc" / tool, config_home / tool, home / f".{tool}"):
            if (path / "config.toml").is_file():
                yield path / "config.toml"


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        settings = load_yaml(_read_text(path), BoundedLoader) or {}
    except ValueError as err:
        raise LockError(f"{path} is not YAML: {err}", hint=_HINT) from None
    if not isinstance(settings, dict):
        raise LockError(f"{path} holds no settings of conda", hint=_HINT)
    return settings


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        settings: Mapping[str, Any] = decode_toml(_read_text(path), dict[str, Any])
    except msgspec.DecodeError as err:
        raise LockError(f"{path}: {err}", hint=_HINT) from None
    return settings


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
        if len(data) <= _LARGEST:
            return data.decode()
    except (OSError, UnicodeDecodeError) as err:
        raise LockError(f"{path} cannot be read: {err}", hint=_HINT) from None
    raise LockError(f"{path} is too large for a file of settings", hint=_HINT)


def _text_values(value: object) -> list[str]:
    several = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [str(item) for item in several if item]


def _read_table(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = settings.get(name)
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}
