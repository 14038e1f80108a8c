"""Names of packages that other tools know: package URLs, and the addresses that go with them.

The types are those of https://github.com/package-url/purl-spec/tree/main/types-doc.
"""

from __future__ import annotations

import urllib.parse

from packageurl import PackageURL

from reprobuild.lock.lock import BaseImage, CondaPackage, Source, Wheel
from reprobuild_portable.secrets import strip_credentials

# Schemes of addresses that somebody else can ask; a `file:` of the machine that made the lock says nothing there.
_SHARED = ("http", "https", "git", "ssh")
# What RFC 3986 lets an address hold, beside what is in words of any language, which it does not.
_PLAIN = "!#$%&'()*+,/:;=?@[]~"


def address(url: str) -> str:
    """Return an address as a document for others may hold it, without a login; empty where it is none for them."""
    clean = strip_credentials(url)[0]
    try:
        parts = urllib.parse.urlsplit(clean)
        shared = parts.scheme in _SHARED and bool(parts.hostname)
    except ValueError:
        return ""
    return urllib.parse.quote(clean, safe=_PLAIN) if shared else ""


def of_deb(name: str, version: str, architecture: str, distribution: str, release: str) -> str:
    """Return the name of a system package."""
    return _purl("deb", distribution, name, version, arch=architecture, distro=release)


def of_wheel(wheel: Wheel) -> str:
    """Return the name of a distribution of Python."""
    return _purl("pypi", "", wheel.name, wheel.version)


def of_conda(package: CondaPackage) -> str:
    """Return the name of a package of conda."""
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


def of_source(source: Source) -> str:
    """Return the name of a source tree: a commit of a repository, wherever that is."""
    url = address(source.url)
    return _purl(
        "generic", "", source.name, source.commit, vcs_url=f"git+{url}@{source.commit}" if url else ""
    )


def of_image(image: BaseImage) -> str:
    """Return the name of an image of a registry; the part of its reference before the tag is where it is."""
    place = image.reference.partition("@")[0]
    head, slash, last = place.rpartition("/")
    name, _, tag = last.partition(":")
    return _purl("oci", "", name, image.digest, repository_url=f"{head}{slash}{name}", tag=tag)


def of_other(name: str, version: str) -> str:
    """Return the name of something that comes from no index of packages."""
    return _purl("generic", "", name, version)


def _purl(kind: str, namespace: str, name: str, version: str, **qualifiers: str) -> str:
    said = {key: value for key, value in qualifiers.items() if value}
    # The library takes blanks and slashes off both ends, and cannot write what is then left of `/`.
    shown = name if name.strip().strip("/") else "unnamed"
    return PackageURL(kind, namespace or None, shown, version or None, said or None).to_string()
