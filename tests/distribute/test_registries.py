"""push and pull: what travels, what is attached, how it goes on after a break; and that a login goes nowhere else."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from reprobuild.config.services import read_services
from reprobuild.distribute.attachments import KINDS
from reprobuild.distribute.bundle_contents import BundleFile
from reprobuild.distribute.bundle_writer import manifest_of
from reprobuild.distribute.pull import pull
from reprobuild.distribute.push import push
from reprobuild.distribute.text import render_pulled
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.oci_registry.repository import INDEX, MANIFEST
from reprobuild.errors import DistributionError, FetchError, UsageError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.request import Body
from reprobuild.output.directory import LOCK, REPORT, VERDICT, read_image
from reprobuild.store.roots import read_records
from tests.distribute.folders import certificate_of, make_results, make_session, noise, remember_verdict
from tests.distribute.held import Held, Said
from tests.registry.conftest import PASSWORD, USER, docker_login, encoded
from tests.registry.pushing import sha256
from tests.resolve.served import Served

NAME = "team/train"


@pytest.fixture
def held() -> Iterator[Held]:
    with Held() as registry:
        yield registry


class Registry(Protocol):
    """Something that answers as a registry at `host`."""

    host: str


def sent(out: Path, held: Registry, text: str = "", **more: dict[str, str]) -> dict[str, Any]:
    lock, image = read_image(out)
    session = make_session(out.parent / "unused", **more)
    remember_verdict(out, session.store)
    return push(lock, image, out, text or f"{held.host}/{NAME}:1", session, {}).document


def brought(held: Registry, out: Path, text: str = "", **more: dict[str, str]) -> dict[str, Any]:
    session = make_session(out.parent / f"{out.name}-store", **more)
    return pull(text or f"{held.host}/{NAME}:1", out, session, {}).document


def content(folder: Path) -> dict[str, bytes]:
    """Return every file, without those that are not handed over in this form."""
    apart = {"image.json", "image/index.json"}  # made anew, with the name that follows from the lock
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name not in apart}


@pytest.mark.parametrize("api", [True, False], ids=["api", "tag"])
def test_what_is_pushed_comes_back_as_it_was(api: bool, tmp_path: Path) -> None:
    with Held(api=api) as held:
        lock, image = make_results(tmp_path / "out")
        told = sent(tmp_path / "out", held)
        assert told["reference"] == f"{held.host}/{NAME}@{image.manifest}"
        assert (told["api"], told["there"]) == (api, 0)
        assert {one["kind"] for one in told["attached"]} == set(KINDS)
        for text in (f"{held.host}/{NAME}:1", told["reference"]):
            out = tmp_path / f"by-{'tag' if text.endswith(':1') else 'digest'}"
            got = brought(held, out, text)
            assert [(one["kind"], one["why"]) for one in got["referrers"]] == [
                ("lock", ""), ("sbom", ""), ("provenance", ""), ("certificate", ""),
            ]  # fmt: skip
            assert {one["digest"] for one in got["referrers"]} == {one["digest"] for one in told["attached"]}
            back_lock, back = read_image(out)
            assert (back_lock.digest, back.tree, back.manifest) == (lock.digest, image.tree, image.manifest)
            found, before = content(out), content(tmp_path / "out")
            certificate = before.pop("verdict.json")
            before[f"verdict-{sha256(certificate)[7:]}.json"] = certificate
            assert before.items() <= found.items()
            assert found.keys() - before.keys() == {
                "Dockerfile", "Apptainer.def", "pylock.toml", "sbom.cdx.json", "provenance.intoto.json",
                "image/oci-layout",
            }  # fmt: skip
        held.check()


@pytest.mark.parametrize("api", [True, False], ids=["api", "tag"])
def test_only_what_is_missing_travels(api: bool, tmp_path: Path) -> None:
    with Held(api=api) as held:
        contents = {"etc/base": noise(400_000, 1), "src/train.py": b"steps = 1\n"}
        make_results(tmp_path / "one", contents)
        sent(tmp_path / "one", held)
        before = set(held.blobs)
        held.asked.clear()
        again = sent(tmp_path / "one", held)
        assert (again["sent"], again["sent_bytes"], held.sizes("PATCH")) == (0, 0, [])
        assert held.sizes("PUT") == [len(held.manifests["1"][1])]  # the tag alone
        held.asked.clear()
        _, image = make_results(tmp_path / "two", {**contents, "src/train.py": b"steps = 2\n"})
        told = sent(tmp_path / "two", held, f"{held.host}/{NAME}:2")
        layers = [one["digest"] for one in json.loads(held.manifests[image.manifest][1])["layers"]]
        assert [layer in before for layer in layers] == [True, False]
        assert sum(held.sizes("PATCH")) == told["sent_bytes"] < 120_000
        held.check()


def test_what_others_said_in_a_list_stays(tmp_path: Path) -> None:
    with Held(api=False) as held:
        _, image = make_results(tmp_path / "out")
        tag = image.manifest.replace(":", "-")
        other = {
            "mediaType": MANIFEST, "digest": f"sha256:{'1' * 64}", "size": 1, "artifactType": "application/x",
            "platform": {"os": "linux", "architecture": "arm64"}, "urls": ["https://a.test/x"], "data": "e30=",
            "annotations": {"made.by": "another"}, "unknown": [1.50],
        }  # fmt: skip
        held.manifests[tag] = (INDEX, json.dumps({"schemaVersion": 2, "manifests": [other]}).encode())
        sent(tmp_path / "out", held)
        first, *ours = json.loads(held.manifests[tag][1])["manifests"]
        assert (first, len(ours)) == (other, len(KINDS))


def test_a_blob_that_is_missing_is_asked_for_once(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    asked = [one.path for one in held.asked if one.method == "HEAD" and "/blobs/" in one.path]
    assert len(asked) == len(set(asked)) == len(held.blobs)


def test_an_upload_that_keeps_a_byte_each_time_ends(held: Held, tmp_path: Path) -> None:
    """A registry that says it has one byte more after each request would hold the command for months."""
    make_results(tmp_path / "out", {"etc/large": noise(2_000_000, 1)})
    held.breaks = [1] * 1000
    with pytest.raises(DistributionError):
        sent(tmp_path / "out", held)
    assert 1 < len(held.sizes("PATCH")) < 10


def test_a_hole_in_place_of_a_layer_is_not_sent(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out", {"etc/large": noise(2_000_000, 1)})
    blob = max(
        (tmp_path / "out" / "image" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size
    )
    blob.chmod(0o644)
    os.truncate(blob, 4 << 40)
    with pytest.raises(DistributionError, match=f"{blob} is not there, or damaged"):
        sent(tmp_path / "out", held)
    with pytest.raises(DistributionError, match=f"{blob} is damaged: it is a hole"):
        manifest_of([BundleFile(path="image/layer", content=blob)], {})


@pytest.mark.parametrize("forgets", [False, True])
def test_an_upload_that_breaks_goes_on_where_it_stopped(forgets: bool, held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out", {"etc/one": noise(900_000, 1)}, certificate=False)
    held.breaks, held.forgets = [500_000, 200_000], forgets
    told = sent(tmp_path / "out", held)
    held.check()
    whole, *rest = [size for size in held.sizes("PATCH") if size > 100_000]
    if forgets:
        assert rest == [whole, whole]
    else:
        assert rest == [whole - 500_000, whole - 700_000]
    assert told["sent"] == 6  # layer, configuration, empty configuration, lock, bill of materials, provenance


def test_a_login_goes_to_its_registry_alone(tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    with Held(login=(USER, PASSWORD)) as held, Held() as other:
        env = docker_login(tmp_path / "docker", held.host)
        sent(tmp_path / "out", held, env=env)
        with pytest.raises(DistributionError, match="refuses access") as err:
            sent(tmp_path / "out", held)
        assert "no login for" in err.value.hint
        blob = next(digest for digest, content in held.blobs.items() if len(content) > 100_000)
        other.blobs.update(held.blobs)
        held.lie("GET", f"/v2/{NAME}/blobs/{blob}", Said(307, headers={
            "Location": f"http://{other.host}/v2/{NAME}/blobs/{blob}"
        }))  # fmt: skip
        brought(held, tmp_path / "back", env=env)
        assert [one.login for one in other.asked] == [None]
        for path in (path for path in (tmp_path / "back").rglob("*") if path.is_file()):
            assert PASSWORD.encode() not in path.read_bytes()
            assert encoded().encode() not in path.read_bytes()


def test_a_registry_in_the_place_of_docker_s_own_is_given_its_own_login(tmp_path: Path) -> None:
    lock, image = make_results(tmp_path / "out")
    with Held(login=(USER, PASSWORD)) as held:
        env = docker_login(tmp_path / "docker", held.host)
        config = json.loads((tmp_path / "docker/config.json").read_text())
        config["auths"]["https://index.docker.io/v1/"] = {"auth": encoded("me", "pa55-of-docker")}
        (tmp_path / "docker/config.json").write_text(json.dumps(config))
        services, text = {"docker-hub": held.url}, f"docker.io/{NAME}:1"
        push(lock, image, tmp_path / "out", text, make_session(tmp_path / "unused", env), services)
        pull(text, tmp_path / "back", make_session(tmp_path / "store", env), services)
        assert {one.login for one in held.asked} == {None, f"Basic {encoded()}"}
        del config["auths"][held.host]
        (tmp_path / "docker/config.json").write_text(json.dumps(config))
        held.asked.clear()
        with pytest.raises(DistributionError, match="refuses access") as err:
            pull(text, tmp_path / "again", make_session(tmp_path / "other", env), services)
        assert f"no login for {held.host} was found" in err.value.hint
        assert {one.login for one in held.asked} == {None}


def test_docker_s_own_registry_is_given_its_login(tmp_path: Path) -> None:
    env = docker_login(tmp_path / "docker", "https://index.docker.io/v1/")
    net, hub = make_session(tmp_path / "store", env).net, read_services({})["docker-hub"].url
    [gate] = [one for one in vars(net).values() if isinstance(one, Logins)]
    assert gate.answer(f"{hub}/v2/{NAME}/manifests/1", 'Basic realm="x"', net) == f"Basic {encoded()}"


def test_a_login_is_for_wherever_in_its_repository_a_registry_takes_blobs(tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    with Held(login=(USER, PASSWORD)) as held:
        held.place = "sessions/of/uploads"
        told = sent(tmp_path / "out", held, env=docker_login(tmp_path / "docker", held.host))
        assert (told["sent"], told["there"]) == (8, 0)
        held.check()


@pytest.mark.parametrize(
    "away", ["/v2/team/trainer/up/1", "/v2/other/up/1", "/up/1", f"/v2/{NAME}/%2e%2e/up/1"]
)
def test_a_login_of_a_repository_is_for_no_other_place(away: str, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    with Held(login=(USER, PASSWORD)) as held:
        login = f"Basic {encoded()}"
        held.lie("PATCH", "/", Said(401, headers={"WWW-Authenticate": held.challenge}))
        held.lie("POST", f"/v2/{NAME}/", Said(202, headers={"Location": away}))
        with pytest.raises(DistributionError, match="refuses access"):
            sent(tmp_path / "out", held, env=docker_login(tmp_path / "docker", held.host))
        assert {one.login for one in held.asked if one.method == "PATCH"} == {None}
        assert login in {one.login for one in held.asked}


def test_a_certificate_of_this_machine_stays_where_it_is(held: Held, tmp_path: Path) -> None:
    lock, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    (tmp_path / "out" / "verdict.json").write_bytes(certificate_of(lock, image, "2026-12-01T00:00:00Z"))
    sent(tmp_path / "out", held)
    first = brought(held, tmp_path / "back")
    newest, older = (one["file"] for one in first["referrers"] if one["kind"] == "certificate")
    assert not (tmp_path / "back" / "verdict.json").exists()  # nothing was checked here
    assert b"2026-12-01" in (tmp_path / "back" / newest).read_bytes()
    assert b"2026-11-22" in (tmp_path / "back" / older).read_bytes()
    own = certificate_of(lock, image, "2027-01-01T00:00:00Z")
    (tmp_path / "back" / "verdict.json").write_bytes(own)
    brought(held, tmp_path / "back")
    assert (tmp_path / "back" / "verdict.json").read_bytes() == own


def test_what_was_pulled_says_what_to_compare_with(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    out, session = tmp_path / "it's back", make_session(tmp_path / "store")
    pulled = pull(f"{held.host}/{NAME}:1", out, session, {})
    *_, check = render_pulled(pulled).splitlines()
    assert check.startswith("check it here: reprobuild verify ")
    line = shlex.split(check.removeprefix("check it here: "))
    assert line[:4] == ["reprobuild", "verify", str(out), "--against"]
    assert Path(line[4]).read_bytes() == (tmp_path / "out" / "verdict.json").read_bytes()
    assert [set(one.runs) for _, one in read_records(session.store)] == [{"pull"}]


def test_what_cannot_be_pushed_is_told(held: Held, tmp_path: Path) -> None:
    lock, image = make_results(tmp_path / "out")
    out, text = tmp_path / "out", f"{held.host}/{NAME}"
    with pytest.raises(UsageError, match="tells neither a tag nor a digest"):
        sent(out, held, text)
    with pytest.raises(DistributionError, match="is to be another image") as err:
        sent(out, held, f"{text}@sha256:{'0' * 64}")
    assert err.value.hint == "leave the digest out, or push the directory that has it"
    (out / "verdict.json").write_bytes(b"{}")
    with pytest.raises(DistributionError, match="is no verdict on this image") as err:
        sent(out, held)
    assert err.value.hint == (
        "make one with `reprobuild verify OUT`, or take the file away and go without one"
    )
    planted = b'{"a": "hf_' + b"aZ3kq9XvT2mLw8RbNc5dYpQf7HsJuGe1Ko" + b'"}'
    (out / "verdict.json").write_bytes(certificate_of(lock, image)[:-1] + b',"x":' + planted + b"}")
    with pytest.raises(DistributionError, match=r"verdict.json:1: this looks like a secret") as err:
        sent(out, held)
    assert "aZ3kq" not in str(err.value)
    assert err.value.hint == "leave what it comes from out, with --drop NAME, and build again"
    assert held.asked == []
    (out / "verdict.json").unlink()
    blob = max((out / "image/blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    blob.write_bytes(blob.read_bytes()[:-1] + b"x")
    with pytest.raises(DistributionError, match="is not there, or damaged") as err:
        sent(out, held)
    assert err.value.hint == "build it again: `reprobuild build OUT/reprobuild.lock -o OUT`"
    assert held.manifests == {}


def test_an_image_that_names_no_lock_is_not_pushed(held: Held, tmp_path: Path) -> None:
    lock, image = make_results(tmp_path / "out", certificate=False)
    other = msgspec.structs.replace(lock, seed=7)
    session = make_session(tmp_path / "store")
    with pytest.raises(DistributionError, match=r"does not name its lock in the label org\.reprobuild\.lock"):
        push(other, image, tmp_path / "out", f"{held.host}/{NAME}:1", session, {})
    assert held.asked == []


def test_what_cannot_be_pulled_is_told(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    with pytest.raises(DistributionError, match=f"/{NAME} has no tag 1$"):
        brought(held, tmp_path / "back")
    told = sent(tmp_path / "out", held)
    make_results(tmp_path / "other", {"etc/x": b"1"})
    with pytest.raises(DistributionError, match="holds another image") as err:
        brought(held, tmp_path / "other")
    assert err.value.hint == "name another directory: `reprobuild pull REF -o OUT`"
    for one in told["attached"]:
        del held.manifests[one["digest"]]
    with pytest.raises(DistributionError, match="has no lock of reprobuild") as err:
        brought(held, tmp_path / "back")
    assert err.value.hint == (
        "it was pushed by another tool, or copied without what belongs to it: `docker pull` takes it as it is; push "
        "it with `reprobuild push`, and copy it with its referrers (`oras cp -r`)"
    )
    assert not (tmp_path / "back" / "image.json").exists()


@pytest.mark.parametrize(
    "name", ["Dockerfile", "image/cat.png", "image.json", "notes", "reprobuild.lock", ".git"]
)
def test_nothing_of_others_is_replaced(name: str, held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    for place in (tmp_path / "project" / name, tmp_path / "file"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(b"mine\n")
    for out in (tmp_path / "project", tmp_path / "file"):
        with pytest.raises(DistributionError, match="is there, and holds something else") as err:
            brought(held, out)
        assert err.value.hint == "name another directory: `reprobuild pull REF -o OUT`"
    found = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in (*found, tmp_path / "file")] == [b"mine\n"] * 2


def papers(out: Path) -> bytes:
    """Write a page, and a certificate of the image that a directory states; return the certificate."""
    certificate = certificate_of(*read_image(out))
    (out / VERDICT).write_bytes(certificate)
    (out / REPORT).write_text("<p>identical")
    return certificate


@pytest.mark.parametrize("stated", [True, False])
def test_papers_that_others_left_do_not_become_those_of_the_image(
    stated: bool, held: Held, tmp_path: Path
) -> None:
    """The directory has the mark of a pull, or states the very image that is pulled."""
    make_results(tmp_path / "out")
    manifest = sent(tmp_path / "out", held)["reference"].rpartition("sha256:")[2]
    make_results(tmp_path / "handed")
    forged = papers(tmp_path / "handed")
    if not stated:
        (tmp_path / "handed" / "image.json").unlink()
        (tmp_path / "handed" / f".pulling-{manifest}").touch()
    session = make_session(tmp_path / "store")
    pull(f"{held.host}/{NAME}:1", tmp_path / "handed", session, {})
    assert not {VERDICT, REPORT} & {path.name for path in (tmp_path / "handed").iterdir()}
    aside = tmp_path / "handed" / f"verdict-{sha256(forged)[7:19]}.json"
    assert aside.read_bytes() == forged


def test_a_directory_in_the_place_of_a_verdict_is_refused_before_anything_is_written(
    held: Held, tmp_path: Path
) -> None:
    out = tmp_path / "back"
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    brought(held, out)
    (out / VERDICT).unlink(missing_ok=True)
    (out / VERDICT / "x").mkdir(parents=True)
    (out / LOCK).unlink()
    with pytest.raises(UsageError, match=r"verdict\.json is a directory") as error:
        brought(held, out)
    assert error.value.hint == f"a report is written there: name another with -o, or remove {out / VERDICT}"
    assert not (out / LOCK).exists()


def test_papers_that_were_made_after_a_pull_stay(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    brought(held, tmp_path / "back")
    papers(tmp_path / "back")
    before = content(tmp_path / "back")
    brought(held, tmp_path / "back")
    assert content(tmp_path / "back") == before


def test_a_file_that_becomes_shorter_while_it_is_sent_is_told(held: Held, tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(noise(100_000, 1))
    with place.open("rb") as stream, pytest.raises(FetchError, match="changed while it was sent") as err:
        Net().send("PUT", f"http://{held.host}/v2/x/manifests/1", good=(201,), body=Body(stream, 0, 100_001))
    assert err.value.hint == "run the command again"


@pytest.mark.parametrize("place", ["blobs/uploads", "sessions/of/uploads"])
def test_a_token_server_is_asked_for_the_right_to_push(place: str, held: Held, tmp_path: Path) -> None:
    """A registry need not say which rights it wants; a token to read with is not enough to write."""
    make_results(tmp_path / "out")
    held.place = place
    with Served() as server:
        for rights in ("pull", "pull%2Cpush"):
            path = f"/token?service=held&scope=repository%3Ateam%2Ftrain%3A{rights}"
            server.give(path, json.dumps({"token": f"t0ken-{len(rights)}"}).encode())
        realm = f'Bearer realm="{server.url}/token",service="held"'
        held.tokens = {"HEAD": "t0ken-4", "POST": "t0ken-11"}
        held.challenge = realm
        env = docker_login(tmp_path / "docker", held.host)
        assert sent(tmp_path / "out", held, env=env)["sent"] > 0
        assert [path.rpartition("%3A")[2] for path, _ in server.asked] == ["pull", "pull%2Cpush"]
    held.check()


def test_an_image_of_several_platforms_is_chosen_or_asked_for(held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    ours = {
        "mediaType": MANIFEST, "digest": image.manifest, "size": len(held.manifests["1"][1]),
        "platform": {"os": "linux", "architecture": "amd64"},
    }  # fmt: skip
    attestation = {**ours, "platform": {"os": "unknown", "architecture": "unknown"}}
    other = {**ours, "platform": {"os": "linux", "architecture": "arm64"}}
    for tag, entries in (("one", [attestation, ours]), ("many", [other, ours])):
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}
        held.manifests[tag] = (INDEX, json.dumps(index).encode())
    brought(held, tmp_path / "one", f"{held.host}/{NAME}:one")
    assert read_image(tmp_path / "one")[1].manifest == image.manifest
    with pytest.raises(
        DistributionError, match="has no image for one platform alone; it has linux/amd64, linux/arm64"
    ):
        brought(held, tmp_path / "many", f"{held.host}/{NAME}:many")
    session = make_session(tmp_path / "store")
    pull(f"{held.host}/{NAME}:many", tmp_path / "many", session, {}, "linux/amd64")
    assert read_image(tmp_path / "many")[1].manifest == image.manifest
