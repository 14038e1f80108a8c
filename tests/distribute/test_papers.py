"""The bill of materials and the provenance: what they say, that others can read them, and what they never hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from google.protobuf import json_format
from hypothesis import example, given, settings
from hypothesis import strategies as st
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement

from reprobuild.distribute.provenance import provenance
from reprobuild.distribute.sbom import cyclonedx
from reprobuild.image.model import Image
from reprobuild.lock.model import Lock, RealisedOutputs, canonical
from reprobuild.lock.python import CondaPackage, Interpreter, Sdist
from reprobuild.lock.system import Artefact, Base, BaseImage, ImageLayer, ImagePackage
from tests.verify.samples import artefact, deb, make_lock, source, wheel

SHA = "b" * 64
PLANTED = "pa55word-of-alice"


def rich_lock(name: str = "numpy") -> Lock:
    """Return a lock with one of everything; every address has a login, which no true lock has."""
    login = f"https://alice:{PLANTED}@files.example/x?token={PLANTED}"
    file = Artefact(filename="one.whl", sha256=SHA, size=1, url=login)
    below = BaseImage(
        reference="registry.example:5000/site/base:1", digest=f"sha256:{SHA}", config=artefact("config"),
        layers=(ImageLayer(file=artefact("layer"), media_type="x", diff_id=SHA),),
        packages=(ImagePackage(name="bash", version="0-1", architecture="amd64"),
                  ImagePackage(name="dash", version="0-2", architecture="amd64")),
    )  # fmt: skip
    return make_lock(
        interpreter=Interpreter(
            version="3.12.1", executable="/opt/python/bin/python", evidence="asked", kind="standalone", file=file
        ),
        base=Base(
            distribution="debian", release="bookworm", packages=(deb("bash"), deb("z:i")), tools=(deb("fakeroot"),),
            image=below,
        ),
        wheels=(
            wheel("torch", requires=("numpy>=1", "absent", "torch")), wheel(name, "2.0", file=file),
            wheel("hatchling", role="build"),
        ),
        sdists=(Sdist(name="made", version="1", file=artefact("made.tar.gz")),),
        conda=(
            CondaPackage(
                name="mkl", version="2024.1", build="h_1", subdir="linux-64", file=artefact("mkl.conda"),
                channel=f"https://conda.example/t/{PLANTED}/main", distributions=("mkl-service",),
            ),
        ),
        sources=(msgspec.structs.replace(source("mylib", "7" * 40), url=login, patch=SHA),),
        realised=RealisedOutputs(
            base="1" * 64, runtime="2" * 64, bytecode=(), wheels=(wheel("made", "1", requires=("mkl_service",)),)
        ),
    )  # fmt: skip


def image_of(lock: Lock, **more: Any) -> Image:
    digest = f"sha256:{SHA}"
    image = Image(
        layout="image", reference="site/train:1", tree=digest, config=digest, manifest=digest, layers=1,
        lock=lock.digest,
    )  # fmt: skip
    return msgspec.structs.replace(image, **more)


def check_sbom(content: bytes) -> dict[str, Any]:
    """Hold it against the published schema, and let the library of the format read it."""
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(content.decode()) is None
    document: dict[str, Any] = json.loads(content)
    assert Bom.from_json(document).validate()
    return document


def check_provenance(content: bytes) -> dict[str, Any]:
    """Let the libraries of in-toto read it; a field that they do not know is an error."""
    document: dict[str, Any] = json.loads(content)
    Statement.copy_from_pb(json_format.ParseDict(document, statement_pb2.Statement())).validate()
    json_format.ParseDict(document["predicate"], provenance_pb2.Provenance())
    return document


def test_the_bill_names_everything_that_is_in_the_image() -> None:
    lock = rich_lock()
    document = check_sbom(cyclonedx(lock))
    found = {one["bom-ref"]: one for one in document["components"]}
    assert set(found) == {
        "system:debian-bookworm",
        "pkg:deb/debian/bash@1-1?arch=amd64&distro=debian-bookworm",
        "pkg:deb/debian/z:i@1-1?arch=amd64&distro=debian-bookworm",
        "pkg:deb/debian/dash@0-2?arch=amd64&distro=debian-bookworm",
        f"pkg:oci/base@sha256:{SHA}?repository_url=registry.example:5000/site/base&tag=1",
        "pkg:generic/cpython@3.12.1",
        "pkg:pypi/torch@1.0",
        "pkg:pypi/numpy@2.0",
        "pkg:pypi/made@1",
        "pkg:conda/mkl@2024.1?build=h_1&channel=https://conda.example/main&subdir=linux-64",
        f"pkg:generic/mylib@{'c' * 40}?vcs_url=git%2Bhttps://files.example/x%40{'c' * 40}",
        "pkg:generic/reprobuild_runtime",
    }
    assert found["pkg:pypi/numpy@2.0"]["hashes"] == [{"alg": "SHA-256", "content": SHA}]
    assert document["metadata"]["component"]["version"] == f"sha256:{lock.digest}"


def test_the_packages_are_counted_once_for_the_bill(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Base] = []
    native = Base.native.fget
    monkeypatch.setattr(Base, "native", property(lambda base: asked.append(base) or native(base)))
    packages = tuple(deb(f"p{number}") for number in range(9))
    cyclonedx(make_lock(base=msgspec.structs.replace(make_lock().base, packages=packages)))
    assert len(asked) == 1


def test_what_a_distribution_requires_is_told_where_it_is_there() -> None:
    document = check_sbom(cyclonedx(rich_lock()))
    on = {one["ref"]: one["dependsOn"] for one in document["dependencies"]}
    assert on["pkg:pypi/torch@1.0"] == ["pkg:pypi/numpy@2.0"]
    assert on["pkg:pypi/made@1"] == [ref for ref in on[f"lock:{rich_lock().digest}"] if "conda/mkl" in ref]
    assert "pkg:pypi/numpy@2.0" not in on
    assert len(on[f"lock:{rich_lock().digest}"]) == len(document["components"])


def test_the_provenance_names_what_came_out_and_everything_that_went_in() -> None:
    lock = rich_lock()
    document = check_provenance(provenance(lock, image_of(lock, sif="sha256:" + "9" * 64)))
    assert document["subject"] == [
        {"name": "site/train:1", "digest": {"sha256": SHA}}, {"name": "image.sif", "digest": {"sha256": "9" * 64}},
    ]  # fmt: skip
    build = document["predicate"]["buildDefinition"]
    assert build["externalParameters"]["lock"] == {"digest": {"sha256": lock.digest}}
    names = [one["name"] for one in build["resolvedDependencies"]]
    assert names == sorted(names)
    assert {"snapshot", "mylib", "registry.example:5000/site/base:1"} <= set(names)
    (mine,) = (one for one in build["resolvedDependencies"] if one["name"] == "mylib")
    assert mine["digest"]["gitCommit"] == "c" * 40
    assert mine["digest"]["gitTree"] == "7" * 40
    assert {"tree", "configuration", "base", "runtime"} <= {
        one["name"] for one in document["predicate"]["runDetails"]["byproducts"]
    }


PAPERS = [cyclonedx, lambda lock: provenance(lock, image_of(lock))]


@pytest.mark.parametrize("paper", PAPERS, ids=["sbom", "provenance"])
def test_equal_locks_have_equal_papers_and_others_have_others(paper: Callable[[Lock], bytes]) -> None:
    lock = rich_lock()
    turned = msgspec.structs.replace(lock, wheels=lock.wheels[::-1], rulings=lock.rulings[::-1])
    assert paper(turned) == paper(lock) == paper(canonical(lock))
    assert paper(msgspec.structs.replace(lock, epoch=1)) != paper(lock)


@pytest.mark.parametrize("paper", PAPERS, ids=["sbom", "provenance"])
def test_no_paper_holds_a_login_or_the_address_of_a_file(paper: Callable[[Lock], bytes]) -> None:
    content = paper(rich_lock())
    assert PLANTED.encode() not in content
    assert b"alice" not in content
    assert b"https://files.example/x" in content
    own = Artefact(filename="own.whl", sha256=SHA, size=1, url="file:///home/alice/own.whl")
    assert b"/home/alice" not in paper(make_lock(wheels=(wheel("own", file=own),)))


@settings(max_examples=100, deadline=None)
@example(" ")
@example(" / ")
@given(st.text(max_size=20))
def test_every_name_gives_papers_that_can_be_read(name: str) -> None:
    lock = rich_lock(name)
    check_sbom(cyclonedx(lock))
    check_provenance(provenance(lock, image_of(lock, reference=name)))
