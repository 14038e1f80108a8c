"""The bill of materials of an image: CycloneDX 1.6 in JSON.

It uses only the lock. https://cyclonedx.org/docs/1.6/json/. It is written by our own structs, because its
bytes must follow from the lock: `cyclonedx-python-lib` 11 adds and orders fields by its release. That library
reads and validates it in the tests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.distribute import purl as purls
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.python import Source
from reprobuild.lock.requirements import read_requirement
from reprobuild.lock.system import Artefact, dpkg_name

MEDIA_TYPE = "application/vnd.cyclonedx+json"
FILE = "sbom.cdx.json"
# Namespace of serial numbers (RFC 9562, 5.5): one for each digest of a lock.
_NAMES = uuid.uuid5(uuid.NAMESPACE_URL, "urn:reprobuild:lock")


class _Hash(Struct, frozen=True):
    alg: str
    content: str


class _Reference(Struct, frozen=True):
    type: str
    url: str


class _Property(Struct, frozen=True):
    name: str
    value: str


class _Component(
    Struct, frozen=True, kw_only=True, omit_defaults=True,
    rename={"ref": "bom-ref", "references": "externalReferences"},
):  # fmt: skip
    type: str
    ref: str
    name: str
    version: str = ""
    hashes: tuple[_Hash, ...] = ()
    purl: str = ""
    references: tuple[_Reference, ...] = ()
    properties: tuple[_Property, ...] = ()


class _Dependency(Struct, frozen=True, rename={"on": "dependsOn"}):
    ref: str
    on: tuple[str, ...]


def cyclonedx(lock: Lock) -> bytes:
    """Return the contents of a lock's image, as CycloneDX 1.6.

    The same lock gives the same bytes. Components are system packages, the packages of an image that the base
    begins with, Python distributions, conda packages, source trees, an interpreter of its own, and the
    runtime files, each with the sha256 of its file, if there was one. Files only used for the build are in
    the provenance. Licenses are not in a lock, so they are missing here. It has no time and no version of the
    program. Addresses have no logins.

    Args:
        lock: sealed or not; only a sealed one names the wheels built from its sources.
    """
    root = _Component(
        type="container", ref=f"lock:{lock.digest}", name="frozen-environment", version=f"sha256:{lock.digest}",
        properties=_properties(platform=lock.platform, profile=lock.profile, snapshot=f"sha256:{lock.snapshot}"),
    )  # fmt: skip
    by_ref = {component.ref: component for component in _components(lock)}
    components = [by_ref[ref] for ref in sorted(by_ref)]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",  # its identifier; it is never requested
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMES, lock.digest)}",
        "version": 1,
        "metadata": {
            "component": root,
            "tools": {"components": [{"type": "application", "name": "reprobuild"}]},
        },
        "components": components,
        "dependencies": [
            _Dependency(root.ref, tuple(by_ref[ref].ref for ref in sorted(by_ref))),
            *_requirements(lock, by_ref),
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _components(lock: Lock) -> Iterator[_Component]:
    yield from _system_components(lock)
    yield from _python_components(lock)
    for package in lock.conda:
        yield _file_component(
            "library", package.name, package.version, purls.conda_purl(package), package.file
        )
    for source in lock.sources:
        yield _source_component(source)
    if isinstance(lock, SealedLock):
        yield _hash_component("reprobuild_runtime", "", lock.realised.runtime)


def _system_components(lock: Lock) -> Iterator[_Component]:
    base = lock.base
    distro = f"{base.distribution}-{base.release}"
    yield _Component(
        type="operating-system", ref=f"system:{distro}", name=base.distribution, version=base.release
    )
    native = base.native
    files = {(deb.name, deb.architecture): deb.file for deb in base.packages}
    versions = {(deb.name, deb.architecture): deb.version for deb in base.packages}
    if base.image:
        of_image = {(package.name, package.architecture): package.version for package in base.image.packages}
        versions = {**of_image, **versions}
        image, purl = base.image, purls.image_purl(base.image)
        yield _Component(
            type="container", ref=purl, name=image.reference, version=image.digest, purl=purl,
            hashes=_sha256_hashes(image.digest.removeprefix("sha256:")),
        )  # fmt: skip
    for (name, architecture), version in versions.items():
        purl = purls.deb_purl(name, version, architecture, base.distribution, distro)
        shown = dpkg_name(name, architecture, native)
        if (name, architecture) in files:
            yield _file_component("library", shown, version, purl, files[name, architecture])
        else:
            yield _Component(type="library", ref=purl, name=shown, version=version, purl=purl)


def _python_components(lock: Lock) -> Iterator[_Component]:
    python = lock.interpreter
    if python.file:
        purl = purls.generic_purl("cpython", python.version)
        yield _file_component("platform", "cpython", python.version, purl, python.file)
    for wheel in (*lock.wheels, *lock.built_wheels):
        if wheel.role == "environment":
            yield _file_component("library", wheel.name, wheel.version, purls.wheel_purl(wheel), wheel.file)


def _source_component(source: Source) -> _Component:
    """Return the component of a source tree.

    Its hash is that of a tar of exactly this tree, with captured changes.
    """
    purl, url = purls.source_purl(source), purls.public_address(source.url)
    return _Component(
        type="application" if not source.installed else "library",
        ref=purl, name=source.name, version=source.commit, purl=purl, hashes=_sha256_hashes(source.file.sha256),
        references=(_Reference("vcs", url),) if url else (),
        properties=_properties(**{"git-tree": source.tree, "path": source.path, "patch": source.patch or ""}),
    )  # fmt: skip


def _file_component(kind: str, name: str, version: str, purl: str, file: Artefact) -> _Component:
    url = purls.public_address(file.url)
    return _Component(
        type=kind, ref=purl, name=name, version=version, purl=purl, hashes=_sha256_hashes(file.sha256),
        references=(_Reference("distribution", url),) if url else (),
    )  # fmt: skip


def _hash_component(name: str, version: str, sha256: str) -> _Component:
    purl = purls.generic_purl(name, version)
    return _Component(
        type="library", ref=purl, name=name, version=version, purl=purl, hashes=_sha256_hashes(sha256)
    )


def _requirements(lock: Lock, by_ref: dict[str, _Component]) -> Iterator[_Dependency]:
    """Yield the installed requirements of each distribution.

    A missing one is a conflict, reported elsewhere.
    """
    wheels = [wheel for wheel in (*lock.wheels, *lock.built_wheels) if wheel.role == "environment"]
    refs = {str(canonicalize_name(wheel.name)): purls.wheel_purl(wheel) for wheel in wheels}
    for package in lock.conda:
        for name in package.distributions:
            refs.setdefault(str(canonicalize_name(name)), purls.conda_purl(package))
    needs: dict[str, set[str]] = {}
    for wheel in wheels:
        requirements = filter(None, map(read_requirement, wheel.requires))
        names = {str(canonicalize_name(requirement.name)) for requirement in requirements}
        needs.setdefault(purls.wheel_purl(wheel), set()).update(refs[name] for name in names & refs.keys())
    for ref in sorted(needs.keys() & by_ref.keys()):
        if on := needs[ref] - {ref}:
            yield _Dependency(ref, tuple(sorted(on)))


def _sha256_hashes(digest: str) -> tuple[_Hash, ...]:
    return (_Hash("SHA-256", digest),)


def _properties(**values: str) -> tuple[_Property, ...]:
    return tuple(_Property(f"reprobuild:{key}", value) for key, value in sorted(values.items()) if value)
