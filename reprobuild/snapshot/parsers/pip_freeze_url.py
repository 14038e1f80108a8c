"""Origins of frozen requirements.

They are addresses of repositories, archives and directories.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs, unquote

from msgspec import UNSET, UnsetType
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
)

from reprobuild.infra.untrusted.wheels import read_wheel_filename
from reprobuild.snapshot.model import RequirementKind
from reprobuild_portable import secrets

NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
# Wider than PEP 440: Debian's own distributions carry versions such as 0.31.1-1.
VERSION = r"[A-Za-z0-9](?:[A-Za-z0-9._+!*~-]*[A-Za-z0-9*+~])?"

_VCS = re.compile(r"(git|hg|svn|bzr)\+[a-z]+(\+[a-z]+)?")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NUMBER = re.compile(r"\d{1,9}")  # the revisions of svn and bzr; git's branches and tags may be called so
# conda-build's work directories: NAME_MILLISECONDS/work, wherever its users put them.
_CONDA = re.compile(
    r".*/[^/]+_\d{9,14}/work(/.*)?|.*/(croot|conda-bld|feedstock_root/build_artifacts)/[^/]+/work(/.*)?"
)
# The hashes that pip takes in an address, besides sha256; each with its number of hexadecimal digits.
_DIGESTS = {"md5": 32, "sha1": 40, "sha224": 56, "sha384": 96, "sha512": 128}
_ARCHIVE = re.compile(r".*\.(whl|tar\.gz|tgz|tar\.bz2|tar\.xz|zip|egg)")


class UrlOrigin(NamedTuple):
    """The parts of an address; see `Requirement` for the fields.

    `guessed` marks a name that is only a directory's. `unread` are the algorithms whose hash is none.
    """

    kind: RequirementKind
    url: str | None = None
    path: str | None = None
    commit: str | None = None
    subdirectory: str | None = None
    sha256: str | None = None
    version: str | None = None
    name: str | None = None
    guessed: bool = False
    credential: bool = False
    digests: tuple[str, ...] | UnsetType = UNSET
    unread: tuple[str, ...] = ()


def read_origin(target: str, *, editable: bool) -> UrlOrigin | None:
    """Return the origin in `name @ target` or `-e target`.

    Return None if pip does not write such an address.
    """
    if not target.isprintable():
        return None
    scheme, mark, _ = target.partition("://")
    if not mark:
        return _parse_editable_path(target) if editable and not re.match(r"[a-z]+\+", target) else None
    bare, credential = secrets.strip_credentials(target)
    address, _, fragment = bare.partition("#")
    facts = {key: values[0] for key, values in parse_qs(fragment).items()}
    if not _is_safe_subdirectory(facts.get("subdirectory", "")):
        return None
    if _VCS.fullmatch(scheme):
        return _parse_repository(address, facts, credential, editable)
    if scheme == "file":
        return _parse_local(address, facts, editable)
    if scheme in ("http", "https", "ftp") and not editable:
        return _parse_archive(facts, url=address, version=_file_version(address), credential=credential)
    return None


def _parse_repository(address: str, facts: dict[str, str], credential: bool, editable: bool) -> UrlOrigin:
    scheme, _, rest = address.partition("://")
    host, slash, path = rest.partition("/")
    where, at, revision = path.rpartition("@")
    numbered = not scheme.startswith("git+") and _NUMBER.fullmatch(revision)
    commit = revision if at and (numbered or _COMMIT.fullmatch(revision)) else None
    if commit:
        path = where.rstrip("/")  # `.../repo/@commit` occurs, too
    egg = re.match(NAME, facts.get("egg", ""))
    folder = re.match(NAME, path.rstrip("/").rpartition("/")[2].partition("@")[0].removesuffix(".git"))
    name = egg or folder
    return UrlOrigin(
        "editable" if editable else "vcs",
        url=f"{scheme}://{host}{slash}{path}",
        commit=commit,
        subdirectory=facts.get("subdirectory"),
        name=name[0] if name else None,
        guessed=egg is None,
        credential=credential,
    )


def _parse_local(address: str, facts: dict[str, str], editable: bool) -> UrlOrigin | None:
    path = unquote(address.removeprefix("file://"))
    path = re.sub(r"^/(?=[A-Za-z]:[/\\])", "", path.removeprefix("localhost"))
    if not path or not path.isprintable():
        return None
    if editable:
        return _parse_editable_path(path)._replace(subdirectory=facts.get("subdirectory"))
    version = _file_version(address)
    if _CONDA.fullmatch(path):
        return UrlOrigin("conda", path=path, version=version)
    if not _ARCHIVE.fullmatch(path):
        return UrlOrigin("directory", path=path, subdirectory=facts.get("subdirectory"))
    return _parse_archive(facts, path=path, version=version)


def _parse_archive(
    facts: dict[str, str], *, url: str | None = None, path: str | None = None, version: str | None,
    credential: bool = False,
) -> UrlOrigin:  # fmt: skip
    """Return an archive with the hashes that its address states."""
    stated = {name: facts[name].lower() for name in ("sha256", *_DIGESTS) if name in facts}
    hashes = {
        name: value
        for name, value in stated.items()
        if re.fullmatch(rf"[0-9a-f]{{{_DIGESTS.get(name, 64)}}}", value)
    }
    return UrlOrigin(
        "archive", url=url, path=path, version=version, subdirectory=facts.get("subdirectory"),
        sha256=hashes.get("sha256"), credential=credential,
        digests=tuple(f"{name}:{hashes[name]}" for name in _DIGESTS if name in hashes) or UNSET,
        unread=tuple(stated.keys() - hashes.keys()),
    )  # fmt: skip


def _parse_editable_path(path: str) -> UrlOrigin:
    bare = re.sub(r"\[[\w,. -]*\]$", "", path.strip())
    last = re.split(r"[/\\]", bare.rstrip("/\\"))[-1]
    name = re.match(NAME, last)
    return UrlOrigin("editable", path=bare, name=name[0] if name else None, guessed=True)


def _file_version(address: str) -> str | None:
    """Return the version in a wheel's or sdist's name, unchanged."""
    file = unquote(address.partition("?")[0].rpartition("/")[2])
    if "/" in file:  # `%2F`: not the name of a file
        return None
    try:
        if file.endswith(".whl"):
            read_wheel_filename(file)  # only a well-formed name has its version in second place
            return file.split("-")[1]
        return str(parse_sdist_filename(file)[1])
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def _is_safe_subdirectory(subdirectory: str) -> bool:
    return not subdirectory.startswith(("/", "\\")) and ".." not in re.split(r"[/\\]", subdirectory)
