"""The provenance of an image: an in-toto Statement of SLSA.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and
https://slsa.dev/spec/v1.0/provenance
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from reprobuild.distribute import purl
from reprobuild.image.model import Image
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.store.fetch import list_artefacts

MEDIA_TYPE = "application/vnd.in-toto+json"
FILE = "provenance.intoto.json"
# Names by which readers know the format of a document; these addresses are never requested.
_STATEMENT = "https://in-toto.io/Statement/v1"
_PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "urn:reprobuild:build:v1"
_BUILDER = "urn:reprobuild:builder:"


class _Resource(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource by its digest ({algorithm: hex}), and its source."""

    name: str
    digest: dict[str, str]
    uri: str = ""


def provenance(lock: Lock, image: Image) -> bytes:
    """Return an image's provenance, reproducible from lock and image.

    The same lock and the same image give the same bytes. Its subjects are the manifest of the image, and the
    single files that were made of it. The lock determines the image, so it is the only parameter beside the
    builder. The dependencies are every file that the lock names, including those only used for the build. It
    has no time, no machine, and no version of the program except that of the files in the image (by their
    digest): another build can compare bytes. It is not signed.

    Args:
        lock: sealed.
        image: made of it.
    """
    document = {
        "_type": _STATEMENT,
        "subject": list(_subjects(image)),
        "predicateType": _PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {
                    "lock": {"digest": {"sha256": lock.digest}},
                    "platform": lock.platform,
                    "builder": image.builder,
                },
                "internalParameters": {},
                "resolvedDependencies": sorted(
                    _dependencies(lock),
                    key=lambda dependency: (dependency.name, sorted(dependency.digest.items())),
                ),
            },
            "runDetails": {
                "builder": {"id": f"{_BUILDER}{image.builder}"},
                "metadata": {},
                "byproducts": sorted(
                    _byproducts(lock, image),
                    key=lambda byproduct: (byproduct.name, sorted(byproduct.digest.items())),
                ),
            },
        },
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _subjects(image: Image) -> Iterator[_Resource]:
    yield _resource(image.reference, image.manifest)
    for name, digest in (("image.sif", image.sif), ("image.sqsh", image.sqsh)):
        if digest:
            yield _resource(name, digest)


def _dependencies(lock: Lock) -> Iterator[_Resource]:
    yield _resource("snapshot", lock.snapshot)
    sources = {source.file.sha256 for source in lock.sources}
    for file in list_artefacts(lock):
        if file.sha256 not in sources:
            yield _Resource(
                name=file.filename, digest={"sha256": file.sha256}, uri=purl.public_address(file.url)
            )
    for source in lock.sources:
        url = purl.public_address(source.url)
        digest = {"sha256": source.file.sha256, "gitTree": source.tree}
        if source.commit:
            digest["gitCommit"] = source.commit
        yield _Resource(name=source.name, digest=digest, uri=f"git+{url}" if url else "")
    for base in (lock.base, lock.build_base):
        if base is not None and base.image:
            uri = purl.image_purl(base.image)
            yield _Resource(
                name=base.image.reference,
                digest={"sha256": base.image.digest.removeprefix("sha256:")},
                uri=uri,
            )


def _byproducts(lock: Lock, image: Image) -> Iterator[_Resource]:
    yield _resource("tree", image.tree)
    yield _resource("configuration", image.config)
    if isinstance(lock, SealedLock):
        yield _resource("base", lock.realised.base)
        yield _resource("runtime", lock.realised.runtime)
        if lock.realised.interpreter:
            yield _resource("interpreter", lock.realised.interpreter)
        for wheel in lock.realised.wheels:
            yield _resource(wheel.file.filename, wheel.file.sha256)


def _resource(name: str, digest: str) -> _Resource:
    return _Resource(name=name, digest={"sha256": digest.removeprefix("sha256:")})
