"""A real registry on this machine: Debian's own, with a login and without."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.pushing import Pusher

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "dev"))
from private_registry import Registry, prepare  # noqa: E402  # a script of dev/, which is no package

USER, PASSWORD = "alice", "pa55-of-alice"
# What htpasswd -B writes for the two.
HTPASSWD = "alice:$2b$04$fnJabZJ2h15Y7OHpS/0m.OxR3a.D.19p8a3zx3GjB//qumM/GwNw2"


@pytest.fixture(scope="session")
def program() -> Path:
    """The program of the registry, unpacked once."""
    return prepare(ROOT / "build" / "engines" / "registry")


@pytest.fixture(scope="session")
def registry(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that wants a login."""
    with Registry(program, tmp_path_factory.mktemp("registry"), HTPASSWD) as running:
        yield running


@pytest.fixture(scope="session")
def open_registry(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A registry that asks nobody."""
    with Registry(program, tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="session")
def pusher(registry: Registry) -> Pusher:
    """Who pushes to the registry."""
    return Pusher(registry.host, (USER, PASSWORD))


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost")
    monkeypatch.setenv("NETRC", "/nonexistent/netrc")


def encoded(user: str = USER, password: str = PASSWORD) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def docker_login(folder: Path, host: str, password: str = PASSWORD) -> dict[str, str]:
    """Write what `docker login` writes, and return the environment that leads to it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"auths": {host: {"auth": encoded(password=password)}}}))
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "DOCKER_CONFIG": str(folder)}
