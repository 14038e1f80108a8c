"""Registries that lie, lead elsewhere or have no end; and what others attached to an image that is not theirs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.distribute import referrers
from reprobuild.distribute.attachments import EMPTY, EMPTY_TYPE, TYPES, Kind
from reprobuild.distribute.provenance import provenance
from reprobuild.distribute.referrers import MOST_FAILED, MOST_OF_A_KIND
from reprobuild.distribute.sbom import cyclonedx
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.ecosystems.oci_registry.repository import (
    MANIFEST,
    MOST_PAGES,
    MOST_REFERRERS,
    Descriptor,
    OciRepository,
)
from reprobuild.errors import DistributionError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Lock
from reprobuild.output.directory import read_image
from tests.distribute.folders import certificate_of, make_results
from tests.distribute.held import Held, Said, listed
from tests.distribute.test_registries import NAME, brought, sent
from tests.registry.pushing import sha256

OTHER = "the registry is broken, or hostile; take the image from another one"
ELSEWHERE = "a registry behind a proxy must know its own address (`http: host:` of its configuration)"


@pytest.fixture
def held() -> Iterator[Held]:
    with Held() as registry:
        yield registry


def attach(held: Held, subject: str, kind: str, content: bytes, **more: Any) -> str:
    """Attach a file to an image, as anybody can who may write there; `more` replaces fields of its manifest."""
    held.blobs[sha256(content)] = content
    held.blobs[sha256(EMPTY)] = EMPTY
    layer = {"mediaType": kind, "digest": sha256(content), "size": len(content)}
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": kind, "layers": [layer],
        "config": {"mediaType": EMPTY_TYPE, "digest": sha256(EMPTY), "size": len(EMPTY)},
        "subject": {"mediaType": MANIFEST, "digest": subject, "size": 1}, **more,
    }  # fmt: skip
    content = json.dumps(manifest).encode()
    held.manifests[sha256(content)] = (MANIFEST, content)
    return sha256(content)


def largest(held: Held) -> str:
    """Return the digest of the largest blob, a layer."""
    return max(held.blobs, key=lambda digest: len(held.blobs[digest]))


def refused(held: Held, tmp_path: Path, match: str) -> DistributionError:
    with pytest.raises(DistributionError, match=match) as err:
        brought(held, tmp_path / "back")
    assert not (tmp_path / "back" / "image.json").exists()
    assert "\x1b" not in f"{err.value}{err.value.hint}"
    return err.value


@pytest.mark.parametrize("change", ["other", "shorter", "longer"])
def test_a_layer_with_other_bytes_is_refused(change: str, held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    digest = largest(held)
    true = held.blobs[digest]
    held.blobs[digest] = {"other": b"x" + true[1:], "shorter": true[:-1], "longer": true + b"x"}[change]
    err = refused(held, tmp_path, digest[7:])
    assert err.hint == f"pull again: what came is kept. If it goes wrong in the same way, {OTHER}"
    held.blobs[digest] = true
    brought(held, tmp_path / "back")  # and what was refused is in nobody's way


def test_a_manifest_with_other_bytes_is_refused(held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    told = sent(tmp_path / "out", held)
    kind, true = held.manifests[image.manifest]
    held.manifests[image.manifest] = (kind, true + b" ")
    with pytest.raises(DistributionError, match="gives other bytes for"):
        brought(held, tmp_path / "back", str(told["reference"]))


NONE = b'{"manifests": []}'
ONE = {"mediaType": "", "digest": "x", "size": 1}
LISTS: list[tuple[Said, str]] = [
    (listed(b"[" * 100_000), "gives a list that is none"),
    (listed(b"{}"), "gives a list that is none"),
    (listed(b"\xff"), "gives a list that is none"),
    (listed(json.dumps({"manifests": [ONE] * (MOST_REFERRERS + 1)}).encode()), "things that belong to one image"),
    (listed(NONE, Link='<?last=1>; rel="next"'), f"more than {MOST_PAGES} pages"),
    (listed(NONE, Link='<https://evil.test/x>; rel="next"'), "leads elsewhere"),
    (listed(NONE, Link='<https://[evil/x>; rel="next"'), "leads elsewhere"),
    (listed(NONE, Link='</v2/other/referrers/x>; rel="next"'), "leads elsewhere"),
    (listed(NONE, Link='<?n=1>; rel="prev", </v2/x>; title="a"; rel=NEXT'), "leads elsewhere"),
    (listed(b" " * (1 << 20), endless=True), "gives more than"),
]  # fmt: skip


@pytest.mark.parametrize(("said", "match"), LISTS, ids=[match for _, match in LISTS])
def test_a_list_of_referrers_that_is_none_is_refused(
    said: Said, match: str, held: Held, tmp_path: Path
) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    held.lie("GET", f"/v2/{NAME}/referrers/", said)
    refused(held, tmp_path, match)


@pytest.mark.parametrize("said", [
    Said(400), Said(404), Said(405), Said(406), Said(200, b"<html>"), Said(200, NONE),
    Said(200, NONE, {"Content-Type": "application/json; charset=utf-8"}),
], ids=["400", "404", "405", "406", "page", "untyped", "json"])  # fmt: skip
def test_a_registry_without_lists_may_say_so_in_many_ways(said: Said, held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    held.lie("GET", f"/v2/{NAME}/referrers/", said)
    told = sent(tmp_path / "out", held)
    assert (told["api"], "1" in held.manifests) == (False, True)
    entries = json.loads(held.manifests[image.manifest.replace(":", "-")][1])["manifests"]
    assert {one["digest"] for one in entries} == {one["digest"] for one in told["attached"]}
    got = brought(held, tmp_path / "back")
    assert [one["why"] for one in got["referrers"]] == [""] * 4


def test_a_registry_that_refuses_its_list_is_told(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    held.lie("GET", f"/v2/{NAME}/referrers/", Said(403))
    with pytest.raises(DistributionError, match="refuses access"):
        sent(tmp_path / "out", held)


LINKS = [
    '<{next}>; rel="next"',
    "<{next}>;rel=next",
    '<{next}>; title="more"; rel="next"',
    '</v2/other>; rel="prev", <{next}>; rel="next"',
]


@pytest.mark.parametrize("link", LINKS)
def test_a_list_is_read_to_its_last_page(link: str, held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    place = f"/v2/{NAME}/referrers/{image.manifest}"
    held.lie("GET", f"{place}?last=1", listed(held.referrers(image.manifest)))
    held.lie("GET", place, listed(NONE, Link=link.format(next=f"{place}?last=1")))
    got = brought(held, tmp_path / "back")
    assert [one["why"] for one in got["referrers"]] == [""] * 4


def test_a_list_that_breaks_off_is_refused(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    *_, image = make_results(tmp_path / "same")
    place = f"/v2/{NAME}/referrers/{image.manifest}"
    held.lie("GET", f"{place}?last=1", Said(200, b"<html>"))
    held.lie("GET", place, listed(NONE, Link='<?last=1>; rel="next"'))
    refused(held, tmp_path, "breaks off a list")


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("https://evil.test/v2/x/blobs/uploads/1", "elsewhere: https://evil.test/v2/x"),
        ("//evil.test/x", "elsewhere: //evil.test/x"),
        ("http://alice:pa55@evil.test/x?token=pa55", "elsewhere: evil.test/x"),
        ("https://[x/y", "elsewhere"),
        ("", "elsewhere: nowhere"),
    ],
)
def test_nothing_is_sent_to_another_host(location: str, told: str, held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    held.lie("POST", f"/v2/{NAME}/blobs/uploads/", Said(202, headers={"Location": location}))
    with pytest.raises(DistributionError, match="wants what is sent to it elsewhere") as err:
        sent(tmp_path / "out", held)
    assert told in str(err.value)
    assert err.value.hint == ELSEWHERE
    assert "pa55" not in f"{err.value}{err.value.hint}"
    assert held.sizes("PATCH") == []


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
def test_what_is_sent_follows_no_redirection(method: str, held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    with Held() as other:
        held.lie(method, f"/v2/{NAME}/", Said(307, headers={"Location": f"http://{other.host}/v2/x"}))
        with pytest.raises(DistributionError, match="answered HTTP 307"):
            sent(tmp_path / "out", held)
        assert other.asked == []


def test_a_registry_that_takes_nothing_is_told(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    held.lie("PUT", f"/v2/{NAME}/blobs/", Said(400, b"\x1b[2J"))
    with pytest.raises(DistributionError, match="answered HTTP 400") as err:
        sent(tmp_path / "out", held)
    assert err.value.hint == (
        "the server, or a proxy before it, does not take what was sent; its own log says why"
    )


def test_papers_of_others_are_not_taken(held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    other_lock, other_image = make_results(tmp_path / "other", {"etc/x": b"1"}, seed=7)
    true = sent(tmp_path / "out", held)
    foreign = msgspec.json.encode(other_lock)
    subject = image.manifest
    attach(held, subject, TYPES["lock"], foreign)  # of another image
    attach(held, subject, TYPES["lock"], b"{}")
    attach(
        held, subject, TYPES["certificate"], certificate_of(other_lock, other_image, "2027-01-01T00:00:00Z")
    )
    attach(held, subject, TYPES["certificate"], b"[" * 100_000)
    attach(held, subject, TYPES["sbom"], b'{"bomFormat": "CycloneDX"}')
    attach(held, subject, TYPES["provenance"], b"{}")
    attach(held, subject, "application/x-\x1b[2J", b"1")
    attach(held, subject, TYPES["sbom"], b"two", layers=[])
    attach(
        held,
        subject,
        TYPES["sbom"],
        b"3",
        layers=[{"mediaType": "", "digest": sha256(b"3"), "size": 1 << 60}],
    )
    attach(
        held, subject, TYPES["sbom"], b"4", layers=[{"mediaType": "", "digest": "sha256:../../x", "size": 1}]
    )
    got = brought(held, tmp_path / "back")
    believed = {one["digest"] for one in got["referrers"] if not one["why"]}
    assert believed == {one["digest"] for one in true["attached"]}
    assert sorted(one["kind"] for one in got["referrers"] if one["why"]) == [
        "lock",
        "lock",
        "provenance",
        "sbom",
    ]
    assert got["strangers"] == 1
    assert [b"2027" in path.read_bytes() for path in (tmp_path / "back").glob("verdict*.json")] == [False]
    assert msgspec.json.decode((tmp_path / "back" / "sbom.cdx.json").read_bytes())["specVersion"] == "1.6"


def test_a_provenance_does_not_choose_the_builder(held: Held, tmp_path: Path) -> None:
    """Everyone with write access to the repository can attach one that names another builder."""
    lock, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    other = provenance(lock, msgspec.structs.replace(image, builder="apptainer"))
    attach(held, image.manifest, TYPES["provenance"], other)
    brought(held, tmp_path / "back")
    assert json.loads((tmp_path / "back" / "image.json").read_bytes())["builder"] == "native"


@pytest.mark.parametrize("api", [True, False], ids=["api", "tag"])
def test_what_is_no_digest_becomes_no_address(api: bool, held: Held, tmp_path: Path) -> None:
    """A list names other repositories of the registry, where the user's login counts."""
    held.api = api
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    place = f"/v2/{NAME}/" + (
        f"referrers/{image.manifest}" if api else f"manifests/{image.manifest.replace(':', '-')}"
    )
    answer = (
        held.manifests[image.manifest.replace(":", "-")][1] if not api else held.referrers(image.manifest)
    )
    index = json.loads(answer)
    for digest in (
        "../../../other/secret/tags/list?n=",
        "1",
        f"sha256:{'A' * 64}",
        f"sha256:{'1' * 64}/../x",
    ):
        index["manifests"].insert(0, {
            "mediaType": MANIFEST, "digest": digest, "size": 1, "artifactType": TYPES["lock"],
        })  # fmt: skip
    held.lie("GET", place, listed(json.dumps(index).encode()))
    held.asked.clear()
    brought(held, tmp_path / "back")
    assert [one.path for one in held.asked if one.path.endswith("/manifests/1")] == [
        f"/v2/{NAME}/manifests/1"
    ]
    assert not [
        one.path for one in held.asked if "secret" in one.path or ".." in one.path or "AA" in one.path
    ]


def test_names_of_a_registry_become_no_files(held: Held, tmp_path: Path) -> None:
    lock, image = make_results(tmp_path / "out", certificate=False)
    sent(tmp_path / "out", held)
    content = certificate_of(lock, image)
    layer = {
        "mediaType": "x", "digest": sha256(content), "size": len(content),
        "annotations": {"org.opencontainers.image.title": "../../../escaped\x1b[2J"},
    }  # fmt: skip
    attach(held, image.manifest, TYPES["certificate"], content, layers=[layer])
    got = brought(held, tmp_path / "back")
    name = f"verdict-{sha256(content)[7:]}.json"
    assert [one["file"] for one in got["referrers"] if one["kind"] == "certificate"] == [name]
    assert (tmp_path / "back" / name).read_bytes() == content
    assert list(tmp_path.rglob("*escaped*")) == []


def test_no_more_than_so_many_are_asked_for(
    held: Held, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Lock] = []
    monkeypatch.setattr(referrers, "cyclonedx", lambda lock: made.append(lock) or cyclonedx(lock))
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    for number in range(3 * MOST_OF_A_KIND):
        attach(held, image.manifest, TYPES["sbom"], f"{number}".encode())
    held.asked.clear()
    got = brought(held, tmp_path / "back")
    assert len([one for one in got["referrers"] if one["kind"] == "sbom"]) == MOST_OF_A_KIND
    assert len(held.asked) < 4 * MOST_OF_A_KIND
    assert len(made) == 1  # the bill of a large lock takes a while


@pytest.mark.parametrize("api", [True, False], ids=["api", "tag"])
def test_a_lock_is_found_behind_many_others(api: bool, held: Held, tmp_path: Path) -> None:
    held.api = api
    lock, image = make_results(tmp_path / "out")
    false = [attach(held, image.manifest, TYPES["lock"], f"{number}".encode()) for number in range(30)]
    entries = [
        {"mediaType": MANIFEST, "digest": one, "size": 1, "artifactType": TYPES["lock"]} for one in false
    ]
    tag = image.manifest.replace(":", "-")
    held.manifests[tag] = (MANIFEST, json.dumps({"schemaVersion": 2, "manifests": entries}).encode())
    sent(tmp_path / "out", held)
    brought(held, tmp_path / "back")
    assert read_image(tmp_path / "back")[0].digest == lock.digest


def test_a_paper_that_cannot_be_had_is_passed_over(held: Held, tmp_path: Path) -> None:
    """Its blob is longer than it says, which is no answer that is asked for again."""
    _, image = make_results(tmp_path / "out")
    for number in range(MOST_FAILED + 1):
        content = f"{number} and more".encode()
        layer = {"mediaType": "", "digest": sha256(content), "size": 1}
        wanted = attach(held, image.manifest, TYPES["certificate"], content, layers=[layer])
        if not number:
            sent(tmp_path / "out", held)
        if number < MOST_FAILED:
            brought(held, tmp_path / f"back{number}")
            assert len(list((tmp_path / f"back{number}").glob("verdict-*.json"))) == 1
    with pytest.raises(DistributionError, match="gives more than"):
        brought(held, tmp_path / "back")
    make_results(tmp_path / "other", {"etc/x": b"1"})
    sent(tmp_path / "other", held, f"{held.host}/{NAME}:2")
    with pytest.raises(DistributionError, match="is there, and holds something else"):
        brought(held, tmp_path / "back", f"{held.host}/{NAME}:2")
    del held.manifests[wanted]
    brought(held, tmp_path / "back")  # and what the first of the three left is gone on with
    assert not list((tmp_path / "back").glob(".*"))


@pytest.mark.parametrize("size", [0, 3, 5])
def test_a_paper_has_the_size_that_is_stated(size: int, held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    layer = {"mediaType": "", "digest": sha256(b"four"), "size": size}
    wanted = attach(held, image.manifest, TYPES["sbom"], b"four", layers=[layer])
    got = brought(held, tmp_path / "back")
    assert wanted not in {one["digest"] for one in got["referrers"]}


def test_no_size_is_no_leave_to_send_without_end(held: Held, tmp_path: Path) -> None:
    _, image = make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    layer = {"mediaType": "", "digest": sha256(b"x"), "size": 0}
    attach(held, image.manifest, TYPES["sbom"], b"x", layers=[layer])
    held.lie("GET", f"/v2/{NAME}/blobs/{sha256(b'x')}", Said(body=b" " * (1 << 20), endless=True))
    repository = OciRepository(parse_reference(f"{held.host}/{NAME}:1"), Net(), "https://hub.test")
    with pytest.raises(FetchError, match="gives more than 1 bytes"):
        repository.blob(Descriptor(media_type="", digest=sha256(b"x"), size=0), 1 << 20)


CONFIGS: list[tuple[str, Callable[[dict[str, Any]], None]]] = [
    ("no labels", lambda config: config["config"].pop("Labels")),
    ("no image of ours", lambda config: config.pop("config")),
    ("another lock", lambda config: config["config"]["Labels"].update({"org.reprobuild.lock": f"sha256:{'0' * 64}"})),
]  # fmt: skip


@pytest.mark.parametrize(("what", "change"), CONFIGS, ids=[what for what, _ in CONFIGS])
def test_an_image_whose_lock_is_another_is_refused(
    what: str, change: Callable[[dict[str, Any]], None], held: Held, tmp_path: Path
) -> None:
    """Who can write to the repository makes an image with the papers of another one."""
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    manifest = json.loads(held.manifests["1"][1])
    config = json.loads(held.blobs[manifest["config"]["digest"]])
    change(config)
    changed = json.dumps(config).encode()
    held.blobs[sha256(changed)] = changed
    manifest["config"] |= {"digest": sha256(changed), "size": len(changed)}
    content = json.dumps(manifest).encode()
    held.manifests["1"] = held.manifests[sha256(content)] = (MANIFEST, content)
    for kind in ("lock", "sbom", "provenance"):
        named: Kind = kind
        attach(held, sha256(content), TYPES[named], (tmp_path / "out" / "reprobuild.lock").read_bytes())
    err = refused(held, tmp_path, "has no lock of reprobuild")
    assert err.hint.startswith("it was pushed by another tool, or copied without what belongs to it")


def test_a_lock_of_a_later_reprobuild_is_told(held: Held, tmp_path: Path) -> None:
    make_results(tmp_path / "out")
    sent(tmp_path / "out", held)
    later = b'{"version": 99, "interpreter": {}}'
    manifest = json.loads(held.manifests["1"][1])
    config = json.loads(held.blobs[manifest["config"]["digest"]])
    config["config"]["Labels"]["org.reprobuild.lock"] = sha256(later)
    changed = json.dumps(config).encode()
    held.blobs[sha256(changed)] = changed
    manifest["config"] |= {"digest": sha256(changed), "size": len(changed)}
    content = json.dumps(manifest).encode()
    held.manifests["1"] = held.manifests[sha256(content)] = (MANIFEST, content)
    attach(held, sha256(content), TYPES["lock"], later)
    err = refused(held, tmp_path, "is a lock of version 99")
    assert err.hint == "use the reprobuild that pushed it"
