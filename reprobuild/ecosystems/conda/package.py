"""Metadata and files of a conda package.

Everything is checked before rattler reads a byte. Formats:
https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html, and for `.conda`
https://github.com/conda/ceps/blob/main/cep-0035.md. `.conda` is a zip with two tars in it, compressed by
zstd.
"""

from __future__ import annotations

import bz2
import contextlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec
import zstandard
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.display import display_error, display_text
from reprobuild.infra.untrusted import tars, zips
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.names import HOSTILE, check_path
from reprobuild.infra.untrusted.strings import CondaName, Line, LinkTarget, Sha256, TreePath, Word

_NAME = re.compile(
    r"(?P<name>[a-z0-9_][a-z0-9_.-]*)-(?P<version>[0-9A-Za-z_.+!]+)-(?P<build>[0-9A-Za-z_.+]+)"
)
ENDINGS = (".conda", ".tar.bz2")
# Errors of damaged archives, beside those of tars and zips.
UNREADABLE = (*tars.UNREADABLE, *zips.UNREADABLE, zstandard.ZstdError, OSError)
_DISTRIBUTION = re.compile(
    r"(?:lib/python3\.\d+/)?site-packages/(?P<name>[^/-]+)-(?P<version>[^/-]+)(?:-py3\.\d+)?\.(?:dist|egg)-info"
    r"(?:/(?:METADATA|PKG-INFO))?"
)
_SCRIPT = re.compile(r"bin/\.(?P<package>[^/]+)-(?P<kind>pre-link|post-link)\.sh")
_ACTIVATE = re.compile(r"etc/conda/activate\.d/[^/]+\.sh")
_EXPORT = re.compile(r"(?m)^[ \t]*export[ \t]+([A-Za-z_][A-Za-z0-9_]*)=")
_ENOUGH = {"index.json", "paths.json"}
_MOST_INFO = 64 << 20  # paths.json of the largest packages has some 10 MB
T = TypeVar("T")


class IndexJson(Struct, frozen=True, kw_only=True):
    """The used part of `info/index.json`; conda writes more."""

    name: CondaName
    version: CondaName
    build: CondaName
    build_number: int = 0
    subdir: CondaName | None = None
    noarch: Word | bool | None = None
    depends: tuple[Line, ...] = ()

    @property
    def kind(self) -> str | None:
        """The kind for every platform: `python` or `generic`; else None.

        `true` was an older word for the latter.
        """
        return self.noarch if isinstance(self.noarch, str) else "generic" if self.noarch else None


class PathRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of `info/paths.json`.

    `path_type` is `hardlink`, `softlink` or `directory`.
    """

    path: TreePath = msgspec.field(name="_path")
    path_type: Word
    sha256: Sha256 | None = None
    size_in_bytes: int | None = None
    file_mode: Word | None = None
    prefix_placeholder: LinkTarget | None = None


class Paths(Struct, frozen=True, kw_only=True):
    """`info/paths.json`."""

    paths: tuple[PathRow, ...]
    paths_version: int = 1


class Noarch(Struct, frozen=True, kw_only=True):
    """The part of `info/link.json` for platform-independent packages."""

    type: Word
    entry_points: tuple[Line, ...] = ()


class Linking(Struct, frozen=True, kw_only=True):
    """`info/link.json`."""

    noarch: Noarch | None = None
    package_metadata_version: int = 1


class Facts(Struct, frozen=True, kw_only=True):
    """The facts that a package states of itself.

    `distributions` are its Python distributions, {name: version} from the directory names of their metadata.
    `scripts` are the kinds of scripts that conda would run (`post-link`, `pre-link`); `paths` are the paths
    of its files.
    """

    index: IndexJson
    distributions: dict[str, str]
    scripts: tuple[str, ...]
    paths: tuple[str, ...]


def split_filename(filename: str) -> tuple[str, str, str] | None:
    """Return (name, version, build) of a package's file name.

    The result is None for any other name.
    """
    stem = next((filename.removesuffix(end) for end in ENDINGS if filename.endswith(end)), None)
    match = _NAME.fullmatch(stem) if stem else None
    return (match["name"], match["version"], match["build"]) if match else None


def read_facts(path: Path, filename: str) -> Facts:
    """Return a package's facts, checked against its file name.

    Raises:
        BuildError: it is damaged, malicious, or another package.
    """
    origin = f"the package {filename}"
    documents = read_info(path, filename, ("index.json", "paths.json", "files"))
    index = decode_document(documents, "index.json", IndexJson, origin)
    if (index.name, index.version, index.build) != split_filename(filename):
        raise BuildError(
            f"{origin} holds {index.name} {index.version} {index.build}",
            hint="its channel is broken, or hostile",
        )
    if "paths.json" in documents:
        names = [row.path for row in decode_document(documents, "paths.json", Paths, origin).paths]
    else:
        names = document_lines(documents, "files", origin)
    matches = [match for name in names if (match := _DISTRIBUTION.fullmatch(name))]
    scripts = {match["kind"] for name in names if (match := _SCRIPT.fullmatch(name))}
    return Facts(
        index=index, distributions={match["name"]: match["version"] for match in matches},
        scripts=tuple(sorted(scripts)), paths=tuple(names),
    )  # fmt: skip


def activated_variables(path: Path, filename: str, facts: Facts) -> set[str]:
    """Return the variables that a package's activation scripts set.

    The scripts are read, not run: the values are those that were captured.

    Raises:
        BuildError: the archive is damaged or malicious.
    """
    variables: set[str] = set()
    origin = f"the package {filename}"
    if not any(_ACTIVATE.fullmatch(name) for name in facts.paths):
        return variables
    with open_package(path, filename) as tars_:
        for tar in tars_:
            for info in check_members(tar, origin, path.stat().st_size):
                if _ACTIVATE.fullmatch(info.name) and info.isreg():
                    variables |= set(_EXPORT.findall(_read_small(tar, info, origin).decode(errors="replace")))
    return variables


def decode_document(documents: dict[str, bytes], name: str, kind: type[T], origin: str) -> T:
    """Return a document of `info/`.

    Raises:
        BuildError: it is absent, or not in conda's format.
    """
    if name not in documents:
        raise BuildError(f"{origin} has no info/{name}", hint=HOSTILE)
    try:
        return decode_json(documents[name], kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as err:
        raise BuildError(f"{origin}: info/{name}: {display_error(err)}", hint=HOSTILE) from None


def document_lines(documents: dict[str, bytes], name: str, origin: str) -> list[str]:
    """Return the lines of a text of `info/`.

    The result is empty if the text is absent.

    Raises:
        BuildError: it is not UTF-8, unlike all texts of conda.
    """
    try:
        return documents.get(name, b"").decode().splitlines()
    except UnicodeDecodeError:
        raise BuildError(f"{origin}: info/{name} has a name that is not UTF-8", hint=HOSTILE) from None


def read_info(path: Path, filename: str, names: tuple[str, ...]) -> dict[str, bytes]:
    """Return the files of `info/` with these names.

    Raises:
        BuildError: the archive is damaged or malicious.
    """
    documents: dict[str, bytes] = {}
    origin = f"the package {filename}"
    with open_package(path, filename, only_info=True) as tars_:
        for tar in tars_:
            for info in check_members(tar, origin, path.stat().st_size):
                name = info.name.removeprefix("info/")
                if name in names and name != info.name:
                    documents[name] = _read_small(tar, info, origin)
                if documents.keys() >= _ENOUGH:  # the rest may be gigabytes
                    return documents
    return documents


def _read_small(tar: tarfile.TarFile, info: tarfile.TarInfo, origin: str) -> bytes:
    stream = tar.extractfile(info) if info.isreg() else None
    if stream is None or info.size > _MOST_INFO:
        raise BuildError(
            f"{origin} holds {display_text(info.name)}, which is no file of its facts", hint=HOSTILE
        )
    return stream.read()


@contextlib.contextmanager
def open_package(path: Path, filename: str, *, only_info: bool = False) -> Iterator[list[tarfile.TarFile]]:
    """Yield the tars of a package, for reading in order.

    A `.conda` file has two, or only the first is yielded.

    Raises:
        BuildError: it is not a package, or damaged; also for errors while the tars are read.
    """
    origin = f"the package {filename}"
    try:
        with contextlib.ExitStack() as stack:
            streams = stack.enter_context(_open_streams(path, filename, origin, only_info=only_info))
            yield [stack.enter_context(tars.open_stream(stream)) for stream in streams]
    except UNREADABLE as err:
        if isinstance(err, OSError) and err.errno:  # of the disk, not of the archive
            raise
        raise BuildError(f"{origin} cannot be read: {display_text(str(err))}", hint=HOSTILE) from None


@contextlib.contextmanager
def _open_streams(
    path: Path, filename: str, origin: str, *, only_info: bool
) -> Iterator[Iterator[IO[bytes]]]:
    if filename.endswith(".tar.bz2"):
        with bz2.open(path) as stream:
            yield iter([cast("IO[bytes]", stream)])
        return
    stem = filename.removesuffix(".conda")
    names = [f"info-{stem}.tar.zst"] + ([] if only_info else [f"pkg-{stem}.tar.zst"])
    with zips.open_zip(path, origin) as (archive, members):
        missing = next((name for name in names if name not in members), None)
        if missing:
            raise BuildError(f"{origin} has no {missing}", hint=HOSTILE)
        yield (
            cast("IO[bytes]", zstandard.ZstdDecompressor().stream_reader(archive.open(members[name])))
            for name in names
        )


def check_members(tar: tarfile.TarFile, origin: str, packed: int) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a package's tar, checked.

    They have the kinds of conda packages, and no name leads out.

    Raises:
        BuildError: see `untrusted.tars.members`; or a member is a device, or its name is unsafe.
    """
    for info in tars.members(tar, origin, packed=packed):
        info.name = info.name.removeprefix("./").rstrip("/") or "."
        if info.name == ".":
            continue
        check_path(info.name, origin)
        if not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
            raise BuildError(
                f"{origin} holds {display_text(info.name)}, which is neither file, directory nor link",
                hint=HOSTILE,
            )
        yield info


def encode_json(value: Any) -> bytes:
    """Return the deterministic JSON of a document of `info/`."""
    return msgspec.json.encode(value, order="deterministic")
