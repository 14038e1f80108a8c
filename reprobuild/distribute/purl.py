"""Package URLs, and the addresses that go with them.

Other tools know these names. The types are those of
https://github.com/package-url/purl-spec/tree/main/types-doc.
"""

from __future__ import annotations

import urllib.parse

from packageurl import PackageURL

from reprobuild.lock.python import CondaPackage, Source, Wheel
from reprobuild.lock.system import BaseImage
from reprobuild_portable.secrets.redact import strip_credentials

# Schemes of addresses that other machines can reach; a `file:` of the machine that made the lock has no
# meaning there.
_SHARED = ("http", "https", "git", "ssh")
# The characters that RFC 3986 allows in an address; letters outside ASCII are not among them.
_PLAIN = "!#$%&'()*+,/:;=?@[]~"


def public_address(url: str) -> str:
    """Return an address for a shared document, without a login.

    It is empty for an address that others cannot reach.
    """
    clean = strip_credentials(url)[0]
    try:
        parts = urllib.parse.urlsplit(clean)
        shared = parts.scheme in _SHARED and bool(parts.hostname)
    except ValueError:
        return ""
    return urllib.parse.quote(clean, safe=_PLAIN) if shared else ""


def deb_purl(name: str, version: str, architecture: str, distribution: str, release: str) -> str:
    """Return the package URL of a system package."""
    return _purl("deb", distribution, name, version, arch=architecture, distro=release)


def wheel_purl(wheel: Wheel) -> str:
    """Return the package URL of a Python distribution."""
    return _purl("pypi", "", wheel.name, wheel.version)


def conda_purl(package: CondaPackage) -> str:
    """Return the package URL of a conda package."""
    channel = strip_credentials(package.channel)[0]
    return _purl(
        "conda",
        "",
        package.name,
        package.version,
        build=package.build,
        channel=channel,
        subdir=package.subdir,
    )


def source_purl(source: Source) -> str:
    """Return the package URL of a source tree.

    It names a commit of a repository, if possible with the address.
    """
    url = public_address(source.url)
    return _purl(
        "generic", "", source.name, source.commit, vcs_url=f"git+{url}@{source.commit}" if url else ""
    )


def image_purl(image: BaseImage) -> str:
    """Return the package URL of an image of a registry.

    The part of its reference before the tag is its location.
    """
    place = image.reference.partition("@")[0]
    head, slash, last = place.rpartition("/")
    name, _, tag = last.partition(":")
    return _purl("oci", "", name, image.digest, repository_url=f"{head}{slash}{name}", tag=tag)


def generic_purl(name: str, version: str) -> str:
    """Return the package URL of something without an index."""
    return _purl("generic", "", name, version)


def _purl(kind: str, namespace: str, name: str, version: str, **qualifiers: str) -> str:
    fields = {key: value for key, value in qualifiers.items() if value}
    # The library strips blanks and slashes from both ends, and cannot write the empty rest of `/`.
    shown = name if name.strip().strip("/") else "unnamed"
    return PackageURL(kind, namespace or None, shown, version or None, fields or None).to_string()
