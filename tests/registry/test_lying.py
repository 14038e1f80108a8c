"""Registries that lie, loop, hang or lead elsewhere; and token servers."""

from __future__ import annotations

import contextlib
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.ecosystems.oci_registry import manifest as module
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.oci_registry.manifest import FoundImage, find_image
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.registry.conftest import PASSWORD, USER, docker_login, encoded
from tests.registry.pushing import DOCKER, OCI, OCI_INDEX, Image, file, layer, make_image, sha256
from tests.resolve.served import Reply, Served

HUB = "https://hub.test"
NAME = "site/base"
OTHER = "the registry is broken, or hostile; take the image from another one"
IMAGE = make_image([(layer([file("etc/one", b"1")]), "gzip")])
CONFIG = json.loads(IMAGE.manifest)["config"]["digest"]
(LAYER,) = (digest for digest in IMAGE.blobs if digest != CONFIG)


@pytest.fixture
def served() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def other() -> Iterator[Served]:
    with Served() as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def serve(served: Served, image: Image = IMAGE) -> None:
    """Answer as a registry that holds an image."""
    for wanted in ("1", image.digest):
        served.give(
            f"/v2/{NAME}/manifests/{wanted}", Reply(image.manifest, headers={"Content-Type": image.kind})
        )
    for digest, blob in image.blobs.items():
        served.give(f"/v2/{NAME}/blobs/{digest}", blob)


def find(
    served: Served,
    store: Store,
    wanted: str = ":1",
    env: Mapping[str, str] | None = None,
    platform: str = "linux/amd64",
) -> FoundImage:
    net = Net(gate=Logins(env or {"HOME": "/nonexistent"}, HUB))
    return find_image(parse_reference(f"{served.host}/{NAME}{wanted}"), "linux/amd64", net, store, HUB)


def bring(found: FoundImage, store: Store, env: Mapping[str, str] | None = None) -> None:
    net = Net(gate=Logins(env or {"HOME": "/nonexistent"}, HUB))
    fetch([one.file for one in found.image.layers], store, net)


def changed(**more: Any) -> Image:
    """Return the image with other words in its manifest."""
    return Image(
        manifest=json.dumps({**json.loads(IMAGE.manifest), **more}).encode(), kind=OCI, blobs=IMAGE.blobs
    )


def with_layer(**more: Any) -> Image:
    stated = {**json.loads(IMAGE.manifest)["layers"][0], **more}
    return changed(layers=[{key: value for key, value in stated.items() if value is not None}])


def test_the_control_is_brought(served: Served, store: Store) -> None:
    serve(served)
    found = find(served, store)
    bring(found, store)
    assert store.has(LAYER[7:])


def test_other_bytes_for_a_digest_are_refused(served: Served, store: Store) -> None:
    serve(served)
    served.give(
        f"/v2/{NAME}/manifests/{IMAGE.digest}", Reply(IMAGE.manifest + b"\n", headers={"Content-Type": OCI})
    )
    with pytest.raises(FetchError, match=f"gives other bytes for {NAME}@{IMAGE.digest}") as err:
        find(served, store, f"@{IMAGE.digest}")
    assert err.value.hint == OTHER
    served.give(f"/v2/{NAME}/blobs/{CONFIG}", b"{}")
    with pytest.raises(FetchError, match=f"gives other bytes for {NAME}@{CONFIG}"):
        find(served, store)


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        (bytes(len(IMAGE.blobs[LAYER])), "is not the file that was locked"),
        (b"other", "are expected"),
        (b"", "are expected"),
    ],
)
def test_other_bytes_for_a_layer_are_refused_and_not_kept(
    lie: bytes, said: str, served: Served, store: Store
) -> None:
    serve(served)
    found = find(served, store)
    served.give(f"/v2/{NAME}/blobs/{LAYER}", lie)
    with pytest.raises(FetchError, match=said) as err:
        bring(found, store)
    assert LAYER[7:] in str(err.value)
    assert NAME in str(err.value)
    assert not store.has(LAYER[7:])


def test_a_layer_that_is_cut_goes_on_where_it_stopped(served: Served, store: Store) -> None:
    serve(served)
    found = find(served, store)
    blob = IMAGE.blobs[LAYER]
    served.give(f"/v2/{NAME}/blobs/{LAYER}", Reply(blob, cut=20), Reply(blob))
    with contextlib.suppress(FetchError):  # that it broke off, where the client does not go on by itself
        bring(found, store)
    bring(found, store)
    assert store.verified(LAYER[7:], "the layer").read_bytes() == blob


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (changed(layers=[]), "states 0 layers, and 1 in its configuration"),
        (with_layer(digest="sha256:../../etc/passwd"), "at `$.layers[0].digest`"),
        (with_layer(digest="sha512:" + "a" * 128), "at `$.layers[0].digest`"),
        (with_layer(size=-1), "of -1 bytes"),
        (with_layer(size=0), "of 0 bytes"),
        (changed(config={"mediaType": "x", "digest": CONFIG, "size": 0}), "of 0 bytes"),
        (with_layer(size=1 << 62), f"of {1 << 62} bytes"),
        (with_layer(size="many"), "cannot be read"),
        (changed(config=None), "cannot be read"),
        (changed(config={"mediaType": "x", "digest": CONFIG, "size": 1 << 30}), f"of {1 << 30} bytes"),
        (Image(manifest=b"[" * 100_000, kind=OCI), "cannot be read"),
        (Image(manifest=b"\xff", kind=OCI), "cannot be read"),
    ],
    ids=range(12),
)  # fmt: skip
def test_impossible_manifests_are_refused(image: Image, said: str, served: Served, store: Store) -> None:
    serve(served, image)
    with pytest.raises(FetchError) as err:
        find(served, store)
    assert said in str(err.value)
    assert err.value.hint == OTHER


@pytest.mark.parametrize(
    ("image", "said", "hint"),
    [
        (
            with_layer(mediaType="application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"),
            "has a layer that is no plain part of it (application/vnd.docker.image.rootfs.foreign",
            "layers of Windows, encrypted ones and ones that lie elsewhere cannot be used",
        ),
        (
            with_layer(urls=["https://elsewhere.test/layer"]),
            "has a layer that is no plain part of it",
            "layers of Windows, encrypted ones and ones that lie elsewhere cannot be used",
        ),
        (
            changed(schemaVersion=1, mediaType="application/vnd.docker.distribution.manifest.v1+json"),
            "is no image of a kind that is known (application/vnd.docker.distribution.manifest.v1+json)",
            "push it again with a tool of this decade: images of Docker's schema 2 and of OCI are known",
        ),
    ],
)  # fmt: skip
def test_images_of_other_kinds_are_told(
    image: Image, said: str, hint: str, served: Served, store: Store
) -> None:
    serve(served, image)
    with pytest.raises(LockError) as err:
        find(served, store)
    assert said in str(err.value)
    assert err.value.hint == hint


def test_what_a_registry_says_cannot_move_the_cursor(served: Served, store: Store) -> None:
    serve(served, with_layer(mediaType="\x1b[2J\r" + "x" * 500))
    with pytest.raises(LockError) as err:
        find(served, store)
    assert str(err.value).isprintable()
    assert len(str(err.value)) < 250
    serve(served, make_image([(layer([]), "gzip")], architecture="\x1b[2J"))
    with pytest.raises(LockError, match=r"is for linux/\?\[2J"):
        find(served, store)


def test_an_index_that_names_an_index_is_refused(served: Served, store: Store) -> None:
    inner = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}).encode()
    entry = {
        "mediaType": OCI, "digest": sha256(inner), "size": len(inner),
        "platform": {"os": "linux", "architecture": "amd64"},
    }  # fmt: skip
    outer = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    served.give(f"/v2/{NAME}/manifests/1", outer)
    served.give(f"/v2/{NAME}/manifests/{sha256(inner)}", inner)
    with pytest.raises(LockError, match="is a list of lists of images"):
        find(served, store)


def test_the_manifest_of_another_platform_is_refused(served: Served, store: Store) -> None:
    serve(served, make_image([(layer([]), "gzip")], kind=DOCKER, architecture="s390x"))
    with pytest.raises(LockError, match="is for linux/s390x, and linux/amd64 is wanted"):
        find(served, store)


def test_a_manifest_without_end_is_cut(served: Served, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_JSON", 1000)
    served.give(f"/v2/{NAME}/manifests/1", Reply(b" " * 2_000_000))
    with pytest.raises(FetchError, match="gives more than 1000 bytes") as err:
        find(served, store)
    assert err.value.hint.startswith("it may be hostile")


def test_a_registry_that_hangs_is_left(served: Served, store: Store) -> None:
    served.give(f"/v2/{NAME}/manifests/1", Reply(b"x" * 100, pause=0.5))
    net = Net(gate=Logins({"HOME": "/nonexistent"}, HUB), manners=RetryPolicy(read=0.2, tries=2, pause=0.01))
    with pytest.raises(FetchError, match="broke off"):
        find_image(parse_reference(f"{served.host}/{NAME}:1"), "linux/amd64", net, store, HUB)


def test_a_layer_without_end_is_cut(served: Served, store: Store) -> None:
    serve(served)
    found = find(served, store)
    served.give(f"/v2/{NAME}/blobs/{LAYER}", Reply(bytes(2_000_000)))
    with pytest.raises(FetchError, match="2000000 bytes"):
        bring(found, store)
    assert not store.has(LAYER[7:])


def test_a_login_does_not_follow_to_another_host(
    served: Served, other: Served, store: Store, tmp_path: Path
) -> None:
    """The layer lies elsewhere, as cloud registries have it; whoever is there is given no login, though he asks."""
    serve(served)
    login = f"{USER}:{PASSWORD}"
    asks = {"WWW-Authenticate": 'Basic realm="x"'}
    for path, (reply,) in list(served.replies.items()):
        served.give(path, Reply(reply.body, login=login, headers={**reply.headers, **asks}))
    away = other.give("/blob", Reply(IMAGE.blobs[LAYER]))
    env = docker_login(tmp_path / "docker", served.host)
    config = json.loads((tmp_path / "docker/config.json").read_text())
    config["auths"][other.host] = {"auth": encoded("bob", "other")}
    (tmp_path / "docker/config.json").write_text(json.dumps(config))
    found = find(served, store, env=env)
    served.give(f"/v2/{NAME}/blobs/{LAYER}", Reply(status=307, headers={"Location": away}))
    bring(found, store, env)
    assert f"Basic {encoded()}" in served.headers("Authorization")
    assert other.headers("Authorization") == [None]
    assert login not in repr(other.asked)
    other.give("/blob", Reply(status=401, headers=asks))
    with pytest.raises(FetchError, match="refuses access"):
        bring(found, Store(tmp_path / "again"), env)
    assert set(other.headers("Authorization")) == {None}


def bearer(realm: str, served: Served) -> None:
    """Let a registry ask for a token once; what it answers then does not depend on whether it is right."""
    challenge = f'Bearer realm="{realm}",service="registry",scope="repository:{NAME}:pull"'
    serve(served)
    path = f"/v2/{NAME}/manifests/1"
    served.give(path, Reply(status=401, headers={"WWW-Authenticate": challenge}), *served.replies[path])


@pytest.mark.parametrize("logged_in", [True, False])
def test_a_token_is_asked_for(
    logged_in: bool, served: Served, other: Served, store: Store, tmp_path: Path
) -> None:
    query = urllib.parse.urlencode({"service": "registry", "scope": f"repository:{NAME}:pull"})
    other.give(f"/token?{query}", json.dumps({"token": "t0ken"}).encode())
    bearer(f"{other.url}/token", served)
    env = docker_login(tmp_path / "docker", served.host) if logged_in else {"HOME": "/nonexistent"}
    bring(find(served, store, env=env), store, env)
    asked = set(other.headers("Authorization"))
    assert asked == {f"Basic {encoded()}" if logged_in else None}
    assert "Bearer t0ken" in served.headers("Authorization")
    assert f"Basic {encoded()}" not in served.headers("Authorization")


@pytest.mark.parametrize(
    "realm",
    [
        "http://registry.evil.test/token",
        "ftp://127.0.0.1/token",
        "",
        "no address",
        "http://127.0.0.1:1/v2/x/blobs/y",
        "https://[evil/token",
        "https://alice:pw@[evil/token",
    ],
)
def test_a_login_is_not_sent_to_an_unsafe_token_server(
    realm: str, served: Served, store: Store, tmp_path: Path
) -> None:
    bearer(realm, served)
    with pytest.raises(FetchError, match=r"names the token server .* which a login is not sent to") as err:
        find(served, store, env=docker_login(tmp_path / "docker", served.host))
    assert err.value.hint == "the registry must name its token server by an https address"


@pytest.mark.parametrize(
    "challenge", ["Bearer realm=", 'Bearer realm=,service="x"', "Bearer", 'Bearer ,=,"=']
)
def test_a_challenge_without_a_token_server_is_refused(challenge: str) -> None:
    logins = Logins({"HOME": "/nonexistent"}, HUB)
    with pytest.raises(FetchError, match=r"r\.test names the token server ''"):
        logins.answer("https://r.test/v2/a/manifests/1", challenge, Net())


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"no JSON", b'{"token": "a\\r\\nX: y"}', b'{"token": 1}'])
def test_what_is_no_token_is_refused(
    answer: bytes, served: Served, other: Served, store: Store, tmp_path: Path
) -> None:
    query = urllib.parse.urlencode({"service": "registry", "scope": f"repository:{NAME}:pull"})
    other.give(f"/token?{query}", answer)
    bearer(f"{other.url}/token", served)
    with pytest.raises(FetchError, match=f"the token server of {served.host} gave no token") as err:
        find(served, store, env=docker_login(tmp_path / "docker", served.host))
    assert "`docker login" in err.value.hint


def test_a_token_server_that_refuses_is_told_without_the_password(
    served: Served, other: Served, store: Store, tmp_path: Path
) -> None:
    query = urllib.parse.urlencode({"service": "registry", "scope": f"repository:{NAME}:pull"})
    other.give(f"/token?{query}", Reply(status=401))
    bearer(f"{other.url}/token", served)
    with pytest.raises(FetchError, match="refuses access") as err:
        find(served, store, env=docker_login(tmp_path / "docker", served.host))
    assert PASSWORD not in f"{err.value} {err.value.hint}"
    assert "is wrong, or may not read this" in err.value.hint


def test_a_login_is_not_sent_in_plain_text_to_another_machine() -> None:
    gate = Logins({"HOME": "/nonexistent"}, HUB)
    url = f"http://registry.example/v2/{NAME}/blobs/{LAYER}"
    assert gate.answer(url, 'Basic realm="x"', Net(offline=True)) is None
    assert gate.remedy(url) == ""
    assert "docker login registry.example" in gate.remedy(url.replace("http:", "https:"))
    assert "docker login docker.io" in gate.remedy(f"{HUB}/v2/{NAME}/blobs/{LAYER}")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("https:", "/index.docker.io/v1/"),
        ("https:", "/index.docker.io/v1"),
        ("docker.io", "/x"),
        ("a@docker.io", "x"),
    ],
)
def test_a_host_and_a_name_cannot_be_the_key_of_another_login(host: str, name: str, tmp_path: Path) -> None:
    """A file of logins has `https://index.docker.io/v1/` as the key of Docker's own registry."""
    keys = ("https://index.docker.io/v1/", "https://index.docker.io/v1", "docker.io//x", "a@docker.io")
    logins = {key: {"auth": encoded(USER, PASSWORD)} for key in keys}
    (tmp_path / "config.json").write_text(json.dumps({"auths": logins}))
    gate = Logins({"HOME": "/nonexistent", "DOCKER_CONFIG": str(tmp_path)}, HUB)
    for path in (f"blobs/{LAYER}", "manifests/1"):
        assert gate.answer(f"https://{host}/v2/{name}/{path}", 'Basic realm="x"', Net()) is None
    assert gate.answer(f"https://docker.io/v2/x/blobs/{LAYER}", 'Basic realm="x"', Net())
