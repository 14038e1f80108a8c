"""The files of `docker login` and `podman login`, read by the Docker SDK.

It also calls the user's credential helpers. It takes a tenth of a second to import, which only commands that need a
login pay.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path

import docker.auth
import docker.credentials
import docker.errors
from msgspec import Struct

from reprobuild.errors import FetchError
from reprobuild.infra import proc


class Login(Struct, frozen=True, kw_only=True):
    """A user name, a password, and their file."""

    user: str
    password: str
    file: Path


def read_login(file: Path, host: str, name: str, env: Mapping[str, str]) -> Login | None:
    """Return the login of a file that is closest to a repository, or None.

    Args:
        file: of `docker login` or `podman login`.
        host: of the registry, `docker.io` for Docker's own.
        name: of the repository.
        env: the user's environment, for credential helpers.

    Raises:
        FetchError: the file cannot be read, a helper fails, or the entry has no password.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a missing helper; that is an error below
            config = _Logins.load_config(str(file), None, credstore_env=proc.absolute_path(env))
            entry = _closest_login(config, host, name)
    except docker.errors.DockerException as err:
        raise FetchError(
            f"the login for {host} cannot be had from {file}: {_describe_error(err)}",
            hint="mend or remove that file's entry, or log in again with `docker login`",
        ) from None
    except (ValueError, TypeError, AttributeError, KeyError, OSError):
        raise FetchError(
            f"{file} is not a file of logins",
            hint="mend or remove it, or log in again with `docker login`",
        ) from None
    if not entry:
        return None
    user, password = (entry.get(key) or entry.get(key.title()) for key in ("username", "password"))
    if not isinstance(user, str) or not isinstance(password, str):
        raise FetchError(
            f"{file} holds an identity token for {host}, and no password",
            hint="log in with a name and an access token of the registry: `docker login --username NAME`",
        )
    return Login(user=user, password=password, file=file)


class _Logins(docker.auth.AuthConfig):
    """A file of logins with its credential helpers.

    They are found like all other programs: the SDK would use this process's PATH unchanged.
    """

    def _get_store_instance(self, name: str) -> docker.credentials.Store:
        store: docker.credentials.Store = super()._get_store_instance(name)  # type: ignore[misc]  # untyped in the SDK
        store.exe = proc.which(store.program, store.environment or {})
        return store


def _closest_login(config: docker.auth.AuthConfig, host: str, name: str) -> Mapping[str, object] | None:
    """Return the login entry closest to a repository.

    It is that of the repository, of a parent (podman has such), or of the host.
    """
    parts = name.split("/")
    for length in range(len(parts), 0, -1):
        key = "/".join((host, *parts[:length]))
        if config.auths.get(key):
            entry: Mapping[str, object] = config.auths[key]
            return entry
    pattern = re.compile(rf"(https?://)?{re.escape(host)}(/v[12]/?)?")
    config["auths"] = {
        key: entry for key, entry in config.auths.items() if pattern.fullmatch(key) or "docker.io" in key
    }
    host_entry: Mapping[str, object] | None = config.resolve_authconfig(host)
    return host_entry


def _describe_error(err: Exception) -> str:
    """Return an error's reason without a helper's output.

    That output may hold anything.
    """
    text = str(err)
    if "not installed" in text:
        return text[text.index("docker-credential") :].partition("'")[0].rstrip('")')
    return "the credential helper failed" if "store" in text.lower() else "its entry is broken"
