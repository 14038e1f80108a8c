"""Requirements that a source archive states in its files: none of its code runs."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from lzma import LZMAError
from pathlib import Path

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.infra.untrusted.tars import UNREADABLE, members, open_stream
from reprobuild.infra.untrusted.zips import UNREADABLE as BAD_ZIP
from reprobuild.infra.untrusted.zips import open_zip
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

_PROGRAMS = ("setup.py", "pyproject.toml")
_REQUIRES = re.compile(rb"(?<!python_)requires|requirements")
_LARGEST = 1 << 20  # of a file of metadata
_EGG_INFO = re.compile(r"(?:.*/)?[^/]+\.egg-info/(?P<file>PKG-INFO|requires\.txt)")

_SECTION = re.compile(r"\[(?P<extra>[^\]:]*)(?::(?P<marker>[^\]]*))?\]")


def read_static_requires(
    name: str, version: str, files: FileLists, store: Store, net: Net
) -> tuple[str, ...] | None:
    """Return the requirements of a release that has only a source archive, or None if its files do not state them.

    setuptools writes `requires.txt` if a project has requirements: an `.egg-info` without this file states that there
    are none. Other backends write them into PKG-INFO. distutils knows none.

    Args:
        name, version: of the release.
    """
    try:
        sdists = [item for offer in files.offers(name, version) for item in offer.files if not item.is_wheel]
        if not sdists:
            return None
        artefact = files.artefact(sdists[0])
        fetch([artefact], store, net)
        return _read_archive(store, artefact.sha256, artefact.filename)
    except (FetchError, BuildError, OSError, zlib.error, LZMAError, *UNREADABLE, *BAD_ZIP):
        return None


def _read_archive(store: Store, sha256: str, filename: str) -> tuple[str, ...] | None:
    texts: dict[str, bytes] = {}
    for path, content in _metadata_files(store.blob(sha256), filename):
        match = _EGG_INFO.fullmatch(path)
        texts[f"egg {match['file']}" if match else path] = content
    if "egg requires.txt" in texts:
        return parse_requires_text(texts["egg requires.txt"].decode(errors="replace"))
    stated = read_metadata(texts["PKG-INFO"], filename).get("requires_dist") if "PKG-INFO" in texts else None
    if stated:
        return tuple(stated)
    return () if "egg PKG-INFO" in texts or _is_of_distutils(texts) else None


def _metadata_files(archive: Path, filename: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files that may state requirements, by their path below the directory at the top.

    Members of other kinds are of no interest here: `read_sdist` would refuse their archive.
    """
    if filename.lower().endswith(".zip"):
        with open_zip(archive, filename) as (zipped, infos):
            for name, info in infos.items():
                path = name.partition("/")[2]
                if _is_metadata(path) and info.file_size <= _LARGEST:
                    yield path, zipped.read(info)
        return
    with archive.open("rb") as stream, open_stream(stream, "r|*") as tar:
        for member in members(tar, filename, packed=archive.stat().st_size):
            path = member.name.removeprefix("./").partition("/")[2]
            content = tar.extractfile(member) if member.isfile() and _is_metadata(path) else None
            if content is not None and member.size <= _LARGEST:
                yield path, content.read(_LARGEST)


def _is_metadata(path: str) -> bool:
    return path in ("PKG-INFO", *_PROGRAMS) or _EGG_INFO.fullmatch(path) is not None


def _is_of_distutils(texts: Mapping[str, bytes]) -> bool:
    """Return whether distutils made an archive without requirements, and its program does not name any.

    setuptools adds an `.egg-info` to each archive, other backends need a `pyproject.toml`.
    """
    program = texts.get("setup.py", b"")
    plain = "PKG-INFO" in texts and bool(program) and "pyproject.toml" not in texts
    return plain and _REQUIRES.search(program) is None


def parse_requires_text(text: str) -> tuple[str, ...]:
    """Return the requirements of a `requires.txt`, whose sections are extras and markers.

    Format: https://setuptools.pypa.io/en/latest/deprecated/python_eggs.html#requires-txt
    """
    requires, condition = [], ""
    for row in filter(None, map(str.strip, text.splitlines())):
        if section := _SECTION.fullmatch(row):
            extra = f'extra == "{section["extra"]}"' if section["extra"] else ""
            marker = f"({section['marker']})" if section["marker"] else ""
            condition = " and ".join(filter(None, [marker, extra]))
        else:
            requires.append(f"{row} ; {condition}" if condition else row)
    return tuple(requires)
