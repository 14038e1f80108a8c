"""The protocol, with a real registry: logins of every kind, tags that move, and what was deleted."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.oci_registry.manifest import FoundImage, find_image
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.registry.conftest import PASSWORD, USER, Registry, docker_login, encoded
from tests.registry.pushing import (
    DOCKER,
    OCI,
    OCI_INDEX,
    Pusher,
    file,
    layer,
    make_image,
    make_index,
    sha256,
)  # fmt: skip
from tests.starts.decoys import RELATIVE, Decoys

HUB = "https://hub.test"
BASE = layer([file("etc/one", b"1")])
TOP = layer([file("etc/two", b"2")])


def net_of(env: Mapping[str, str], *, offline: bool = False) -> Net:
    return Net(gate=Logins(env, HUB), offline=offline)


def find(reference: str, env: Mapping[str, str], store: Store, platform: str = "linux/amd64") -> FoundImage:
    return find_image(parse_reference(reference), platform, net_of(env), store, HUB)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def login(tmp_path: Path, registry: Registry) -> dict[str, str]:
    return docker_login(tmp_path / "docker", registry.host)


def bring(found: FoundImage, env: Mapping[str, str], store: Store) -> None:
    fetch([found.image.config, *(one.file for one in found.image.layers)], store, net_of(env))


@pytest.mark.parametrize(
    ("kind", "packings"), [(OCI, ("gzip", "zstd")), (OCI, ("", "gzip")), (DOCKER, ("gzip", "gzip"))]
)
def test_an_image_of_every_form_is_brought(
    kind: str,
    packings: tuple[str, str],
    registry: Registry,
    pusher: Pusher,
    login: dict[str, str],
    store: Store,
) -> None:
    made = make_image([(BASE, packings[0]), (TOP, packings[1])], kind=kind, variables=["A=b"])
    pusher.push(made, "site/forms", "1")
    found = find(f"{registry.host}/site/forms:1", login, store)
    assert (found.image.digest, found.variables) == (made.digest, ("A=b",))
    assert [one.diff_id for one in found.image.layers] == [sha256(BASE)[7:], sha256(TOP)[7:]]
    bring(found, login, store)
    held = {f"sha256:{one.file.sha256}" for one in found.image.layers} | {
        f"sha256:{found.image.config.sha256}"
    }
    assert held == set(made.blobs)
    for digest, blob in made.blobs.items():
        assert store.verified(digest[7:], "a blob").read_bytes() == blob


def test_the_platform_is_chosen_from_an_index(
    registry: Registry, pusher: Pusher, login: dict[str, str], store: Store
) -> None:
    one, other = (make_image([(BASE, "gzip")], architecture=name) for name in ("amd64", "arm64"))
    for image in (one, other):
        pusher.push(image, "site/many")
    index = make_index([one, other])
    pusher.push_manifest(index, OCI_INDEX, "site/many", "1")
    by_tag = find(f"{registry.host}/site/many:1", login, store)
    assert by_tag.image.digest == one.digest
    by_digest = find(f"{registry.host}/site/many@{sha256(index)}", login, store, "linux/arm64")
    assert by_digest.image.digest == other.digest
    with pytest.raises(
        LockError, match="has no image for linux/riscv64; it has linux/amd64, linux/arm64"
    ) as err:
        find(f"{registry.host}/site/many:1", login, store, "linux/riscv64")
    assert err.value.hint == "choose another `--platform`, or an image that was made for this one"
    with pytest.raises(LockError, match="is for linux/arm64, and linux/amd64 is wanted"):
        find(f"{registry.host}/site/many@{other.digest}", login, store)


def test_a_tag_that_moves_changes_nothing_that_was_found(
    registry: Registry, pusher: Pusher, login: dict[str, str], store: Store
) -> None:
    first, second = make_image([(BASE, "gzip")]), make_image([(TOP, "gzip")])
    pusher.push(first, "site/moving", "1")
    found = find(f"{registry.host}/site/moving:1", login, store)
    pusher.push(second, "site/moving", "1")
    assert find(f"{registry.host}/site/moving:1", login, store).image.digest == second.digest
    bring(found, login, store)
    assert store.has(sha256(BASE)[7:]) is False
    assert store.has(found.image.layers[0].file.sha256)
    pinned = find(f"{registry.host}/site/moving:1@{first.digest}", login, store)
    assert pinned.image.digest == first.digest


def test_what_was_deleted_does_not_matter_to_a_filled_store_and_is_named_by_an_empty_one(
    registry: Registry, pusher: Pusher, login: dict[str, str], store: Store, tmp_path: Path
) -> None:
    made = make_image([(layer([file("etc/gone", os.urandom(20))]), "gzip")])
    pusher.push(made, "site/gone", "1")
    reference = f"{registry.host}/site/gone:1"
    found = find(reference, login, store)
    bring(found, login, store)
    pusher.delete(made, "site/gone")
    wanted = [found.image.config, *(one.file for one in found.image.layers)]
    assert fetch(wanted, store, net_of(login, offline=True)) == 0
    digest = found.image.layers[0].file.sha256
    with pytest.raises(NotFoundError, match=f"site/gone/blobs/sha256:{digest} does not exist"):
        fetch([found.image.layers[0].file], Store(tmp_path / "empty"), net_of(login))
    with pytest.raises(NotFoundError, match=f"{registry.host}/site/gone has no tag 1$") as err:
        find(reference, login, store)
    assert err.value.hint == (
        "it may have been removed; name a tag or a digest that is there, or take the lock and the store "
        "of a run that has it"
    )


def helper(folder: Path, host: str, answer: str = "") -> dict[str, str]:
    """Write a credential helper, and return a PATH that leads to it."""
    folder.mkdir(exist_ok=True)
    program = folder / "docker-credential-made"
    said = answer or json.dumps({"ServerURL": host, "Username": USER, "Secret": PASSWORD})
    program.write_text(f"#!/bin/sh\nread -r host\n[ \"$host\" = {host} ] || exit 1\nprintf '%s' '{said}'\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def write(path: Path, content: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return str(path)


WAYS = [
    "auths",
    "address",
    "credHelpers",
    "credsStore",
    "auth-file",
    "runtime",
    "config",
    "namespace",
    "home",
]


@pytest.mark.parametrize("way", WAYS)
def test_every_file_of_logins_is_read(
    way: str,
    registry: Registry,
    pusher: Pusher,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, entry = registry.host, {"auth": encoded()}
    pusher.push(make_image([(BASE, "gzip")]), "site/logins", "1")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    wrong = {"auth": encoded(password="wrong")}
    if way == "home":
        write(tmp_path / "home/.docker/config.json", {"auths": {host: entry}})
    elif way in ("credHelpers", "credsStore"):
        path = helper(tmp_path / "bin", host)
        monkeypatch.setenv("PATH", path["PATH"])  # the Docker SDK looks there for helpers
        found = {host: "made"} if way == "credHelpers" else "made"
        env |= {"DOCKER_CONFIG": str(Path(write(tmp_path / "d/config.json", {way: found})).parent), **path}
    elif way == "auth-file":
        env["REGISTRY_AUTH_FILE"] = write(tmp_path / "auth.json", {"auths": {host: entry}})
    elif way == "runtime":
        write(tmp_path / "run/containers/auth.json", {"auths": {host: entry}})
        env |= {"XDG_RUNTIME_DIR": str(tmp_path / "run"), **docker_login(tmp_path / "d", host, "wrong")}
        env["XDG_RUNTIME_DIR"] = str(tmp_path / "run")
    elif way == "config":
        write(tmp_path / "home/.config/containers/auth.json", {"auths": {host: entry}})
    elif way == "namespace":
        auths = {host: wrong, f"{host}/other": wrong, f"{host}/site": entry}
        env["REGISTRY_AUTH_FILE"] = write(tmp_path / "auth.json", {"auths": auths})
    else:
        key = f"http://{host}/v2/" if way == "address" else host
        env["DOCKER_CONFIG"] = str(Path(write(tmp_path / "d/config.json", {"auths": {key: entry}})).parent)
    bring(find(f"{host}/site/logins:1", env, store), env, store)


def test_a_wrong_login_is_told_with_its_file_and_without_the_password(
    registry: Registry, pusher: Pusher, store: Store, tmp_path: Path
) -> None:
    pusher.push(make_image([(BASE, "gzip")]), "site/wrong", "1")
    env = docker_login(tmp_path / "docker", registry.host, "pa55-that-is-wrong")
    with pytest.raises(FetchError, match="refuses access") as err:
        find(f"{registry.host}/site/wrong:1", env, store)
    said = f"{err.value} {err.value.hint}"
    assert err.value.hint == (
        f"the login of {tmp_path}/docker/config.json for {registry.host} is wrong, or may not read this: "
        f"`docker login {registry.host}`"
    )
    assert "pa55" not in said
    assert encoded(password="pa55-that-is-wrong") not in said


def test_no_login_is_told(registry: Registry, pusher: Pusher, store: Store) -> None:
    pusher.push(make_image([(BASE, "gzip")]), "site/none", "1")
    with pytest.raises(FetchError, match="refuses access") as err:
        find(f"{registry.host}/site/none:1", {"HOME": "/nonexistent"}, store)
    assert err.value.hint == (
        f"no login for {registry.host} was found; give one with `docker login {registry.host}` or "
        f"`podman login {registry.host}`"
    )


def test_a_registry_that_asks_nobody_needs_no_login(open_registry: Registry, store: Store) -> None:
    made = make_image([(BASE, "gzip")])
    Pusher(open_registry.host).push(made, "site/open", "1")
    env = {"HOME": "/nonexistent"}
    bring(find(f"{open_registry.host}/site/open:1", env, store), env, store)


BROKEN = "mend or remove it, or log in again with `docker login`"
MEND = "mend or remove that file's entry, or log in again with `docker login`"
IDENTITY = "log in with a name and an access token of the registry: `docker login --username NAME`"


@pytest.mark.parametrize(
    ("content", "said", "hint"),
    [
        ('{"auths": {"HOST": {"auth": "pa55"}}}', "is not a file of logins", BROKEN),
        ('{"auths": {"HOST": "pa55"}}', "its entry is broken", MEND),
        ('{"auths": {"HOST": {"identitytoken": "pa55"}}}', "holds an identity token for HOST", IDENTITY),
        ('{"credHelpers": {"HOST": "absent"}}', "docker-credential-absent not installed", MEND),
    ],
)  # fmt: skip
def test_a_broken_file_of_logins_is_named(
    content: str, said: str, hint: str, registry: Registry, pusher: Pusher, store: Store, tmp_path: Path
) -> None:
    pusher.push(make_image([(BASE, "gzip")]), "site/broken", "1")
    path = tmp_path / "auth.json"
    path.write_text(content.replace("HOST", registry.host))
    with pytest.raises(FetchError, match=said.replace("HOST", registry.host)) as err:
        find(f"{registry.host}/site/broken:1", {"REGISTRY_AUTH_FILE": str(path)}, store)
    assert str(path) in str(err.value)
    assert hint in err.value.hint
    assert "pa55" not in f"{err.value} {err.value.hint}"


def test_a_helper_that_fails_is_told_without_its_words(
    registry: Registry, pusher: Pusher, store: Store, tmp_path: Path
) -> None:
    pusher.push(make_image([(BASE, "gzip")]), "site/broken", "1")
    program = tmp_path / "bin" / "docker-credential-made"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho pa55; echo pa55 >&2\nexit 3\n")
    program.chmod(0o755)
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"credsStore": "made"}))
    env = {"REGISTRY_AUTH_FILE": str(path), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    with pytest.raises(FetchError, match="the credential helper failed") as err:
        find(f"{registry.host}/site/broken:1", env, store)
    assert "pa55" not in f"{err.value} {err.value.hint}"


def test_a_helper_of_the_current_directory_is_not_run(
    registry: Registry, pusher: Pusher, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of logins is the user's own; the program that it names is looked for as every other."""
    pusher.push(make_image([(BASE, "gzip")]), "site/broken", "1")
    decoys = Decoys(tmp_path / "decoys")
    monkeypatch.chdir(decoys.place)
    monkeypatch.setenv("PATH", f"{RELATIVE}:{os.environ['PATH']}")
    path = tmp_path / "auth.json"
    path.write_text(json.dumps({"credsStore": "decoy"}))
    env = {"REGISTRY_AUTH_FILE": str(path), "PATH": os.environ["PATH"]}
    with pytest.raises(FetchError, match="docker-credential-decoy not installed"):
        find(f"{registry.host}/site/broken:1", env, store)
    assert decoys.marks == []


def test_the_store_and_what_is_locked_hold_no_password(
    registry: Registry, pusher: Pusher, login: dict[str, str], store: Store
) -> None:
    pusher.push(make_image([(BASE, "gzip")]), "site/secret", "1")
    found = find(f"{registry.host}/site/secret:1", login, store)
    bring(found, login, store)
    secrets = (PASSWORD.encode(), encoded().encode())
    for path in (path for path in store.root.rglob("*") if path.is_file()):
        assert not any(secret in path.read_bytes() for secret in secrets)
    assert not any(secret.decode() in repr(found) for secret in secrets)
