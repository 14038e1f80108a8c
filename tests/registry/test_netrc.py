"""netrc and the logins of indexes are for no registry: one that is hostile would get what they open elsewhere."""

from __future__ import annotations

import json
import os
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.netrc import Netrc
from reprobuild.store.store import Store
from tests.registry.conftest import PASSWORD, docker_login, encoded
from tests.registry.test_lying import HUB, IMAGE, LAYER, NAME, bearer, bring, find, serve
from tests.resolve.served import Reply, Served

QUERY = urllib.parse.urlencode({"service": "registry", "scope": f"repository:{NAME}:pull"})
TOKEN = json.dumps({"token": "t0ken"}).encode()


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Served]:
    """Where the user has a login for something else."""
    with Served() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(autouse=True)
def _netrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "netrc"
    place.write_text("machine 127.0.0.1 login me password pa55-of-netrc\n")
    place.chmod(0o600)
    monkeypatch.setenv("NETRC", str(place))


def net_of(*indexes: str, env: dict[str, str] | None = None) -> Net:
    """Return a client whose user has configured these, so that netrc's logins are for them in plain text, too."""
    return Net(gate=Logins(env or {"HOME": "/nonexistent"}, HUB), configured=indexes, netrc=Netrc(os.environ))


def test_the_control_of_netrc_is_sent(other: Served) -> None:
    other.give("/simple/", b"")
    net_of(other.url).page(f"{other.url}/simple/")
    assert other.headers("Authorization") == [f"Basic {encoded('me', 'pa55-of-netrc')}"]


def test_a_token_server_is_asked_without_netrc(served: Served, other: Served) -> None:
    other.give(f"/token?{QUERY}", TOKEN)
    bearer(f"{other.url}/token", served)
    net_of(other.url, served.url).page(f"{served.url}/v2/{NAME}/manifests/1")
    assert other.headers("Authorization") == [None]
    assert served.headers("Authorization") == [None, "Bearer t0ken"]


def test_a_token_server_is_asked_without_the_login_of_an_index(served: Served, other: Served) -> None:
    other.give(f"/token?{QUERY}", TOKEN)
    bearer(f"{other.url}/token", served)
    net = net_of()
    net.learn({f"{other.url}/simple": ("me", "pa55")}, {f"{other.url}/token": f"{other.url}/token?key=pa55"})
    net.page(f"{served.url}/v2/{NAME}/manifests/1")
    assert [(path, headers["Authorization"]) for path, headers in other.asked] == [(f"/token?{QUERY}", None)]


@pytest.mark.parametrize("logged_in", [True, False])
def test_a_token_server_leads_to_no_other(
    logged_in: bool, served: Served, other: Served, tmp_path: Path
) -> None:
    away = other.give(f"/jwt?{QUERY}", TOKEN)
    served.give(f"/token?{QUERY}", Reply(status=307, headers={"Location": away}))
    bearer(f"{served.url}/token", served)
    env = docker_login(tmp_path / "docker", served.host) if logged_in else None
    with pytest.raises(FetchError, match=f"leads to {other.url}/jwt") as err:
        net_of(other.url, env=env).page(f"{served.url}/v2/{NAME}/manifests/1")
    assert err.value.hint == "the registry must name its token server by the address where it answers"
    assert PASSWORD not in str(err.value)
    assert other.asked == []


def test_a_token_server_may_lead_to_another_place_of_its_own(served: Served, tmp_path: Path) -> None:
    served.give(f"/jwt?{QUERY}", TOKEN)
    served.give(f"/token?{QUERY}", Reply(status=307, headers={"Location": f"/jwt?{QUERY}"}))
    bearer(f"{served.url}/token", served)
    env = docker_login(tmp_path / "docker", served.host)
    net_of(env=env).page(f"{served.url}/v2/{NAME}/manifests/1")
    assert served.headers("Authorization")[1:] == [f"Basic {encoded()}"] * 2 + ["Bearer t0ken"]


def test_neither_a_registry_nor_where_it_leads_is_given_what_netrc_has(
    served: Served, other: Served, store: Store
) -> None:
    serve(served)
    away = other.give("/blob", IMAGE.blobs[LAYER])
    served.give(f"/v2/{NAME}/blobs/{LAYER}", Reply(status=307, headers={"Location": away}))
    bring(find(served, store), store)
    net = net_of(served.url, other.url)
    net.page(f"{served.url}/v2/{NAME}/manifests/1")
    net.page(f"{served.url}/v2/{NAME}/blobs/{LAYER}")
    assert {*served.headers("Authorization"), *other.headers("Authorization")} == {None}
