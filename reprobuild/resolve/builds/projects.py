"""The files of projects to build.

They are all names, and the contents of files that configure the build.
"""

from __future__ import annotations

import ast
import configparser
import io
import re
from collections.abc import Iterator
from functools import partial
from pathlib import PurePosixPath
from typing import IO, Any

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.errors import LockError, SnapshotError
from reprobuild.infra.display import display_error
from reprobuild.infra.tar.entries import entry_of
from reprobuild.infra.tar.reading import members
from reprobuild.infra.untrusted.ini import collapse_blanks
from reprobuild.infra.untrusted.sdists import SdistMember, read_sdist
from reprobuild.lock.python import Sdist, Source
from reprobuild.snapshot.importers.toml_documents import check_keys
from reprobuild.store.store import Store

# The files that configure a build, in the project's own directory.
_TEXTS = ("pyproject.toml", "setup.cfg", "setup.py", "meson.build")
_LONGEST = 4 << 20
_CMAKE = re.compile(r"(?:[^/]+/)?CMakeLists\.txt")  # those of other projects and of probes are deeper
_CUDA_OFF = re.compile(
    rb'(?im)^[ \t]*option[ \t]*\([ \t]*\w{0,60}CUDA\w{0,60}[ \t]+"[^"\n]{0,300}"[ \t]+OFF[ \t]*\)'
)
_PROJECT = re.compile(rb"(?im)^[ \t]*project[ \t]*\(([^()]{0,500})\)")
_MEND = "pip could not build it either; mend it"


class Project(Struct, frozen=True, kw_only=True):
    """The files of a project.

    `paths` are all of them, `texts` the contents of those that configure the build.

    `cuda_option` is the path of a CMakeLists.txt with its option for CUDA off; empty if there is no such file, or if
    one of them needs CUDA.
    """

    name: str
    editable: bool
    paths: tuple[str, ...]
    texts: dict[str, bytes]
    cuda_option: str = ""

    @property
    def tables(self) -> dict[str, Any]:
        """The tables of its pyproject.toml, empty without one.

        Raises:
            LockError: it is not valid TOML.
        """
        try:
            content = self.texts.get("pyproject.toml", b"").decode()
            check_keys(content, "it")
            tables: dict[str, Any] = msgspec.toml.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, SnapshotError) as err:
            raise LockError(f"{self.name}: pyproject.toml: {display_error(err)}", hint=_MEND) from None
        return tables

    @property
    def backend(self) -> str:
        """The module of its back end; by default that of PEP 517."""
        named = self.table("build-system").get("build-backend")
        return named.partition(":")[0] if isinstance(named, str) else "setuptools.build_meta"

    def table(self, *names: str) -> dict[str, Any]:
        """Return a nested table of its pyproject.toml.

        It is empty if it does not exist.
        """
        value: Any = self.tables
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}


def read_project(source: Source | Sdist, store: Store) -> Project:
    """Read a project from its source tree or archive.

    Both are in the store.

    Raises:
        LockError: a configuration file is not valid, or is too long.
        BuildError: the archive is malicious or damaged.
    """
    name, paths, texts = str(canonicalize_name(source.name)), [], {}
    options: list[str] = []
    always = False
    for member in _read_members(source, store):
        paths.append(member.path)
        if member.path in _TEXTS and member.target is None:
            content = _read_start(member, _LONGEST + 1)
            if len(content) > _LONGEST:
                raise LockError(f"{name}: {member.path} has more than {_LONGEST} bytes", hint=_MEND)
            texts[member.path] = content
        elif _CMAKE.fullmatch(member.path) and member.target is None:
            content = _read_start(member, _LONGEST)
            options += [member.path] if _CUDA_OFF.search(content) else []
            always = always or any(b"CUDA" in words.split() for words in _PROJECT.findall(content))
    folder = next((path for path in paths if path.partition("/")[0] in _TEXTS and "/" in path), None)
    if folder is not None:
        raise LockError(f"{name}: {folder.partition('/')[0]} is no file", hint=_MEND)
    if not paths:
        raise LockError(
            f"{name}: there is no file in its directory {source.subdirectory or '.'}",
            hint="check the `subdirectory=` of its line in the freeze",
        )
    editable = isinstance(source, Source) and source.editable
    return Project(
        name=name, editable=editable, paths=tuple(sorted(paths)), texts=texts,
        cuda_option=min(options, default="") if not always else "",
    )  # fmt: skip


def _read_members(source: Source | Sdist, store: Store) -> Iterator[SdistMember]:
    path = store.verified(source.file.sha256, source.file.filename)
    if isinstance(source, Sdist):
        yield from read_sdist(path, source.file.filename, source.subdirectory)
        return
    inside = f"{source.subdirectory}/" if source.subdirectory else ""
    with path.open("rb") as stream:  # our own tar of a git tree
        for info, content in members(stream, source.file.filename):
            entry = entry_of(info)
            if entry.type in ("file", "symlink") and entry.path.startswith(inside):
                target = entry.target if entry.type == "symlink" else None
                opened = content or io.BytesIO()
                yield SdistMember(
                    path=entry.path[len(inside) :], target=target, open=partial(_return_stream, opened)
                )


def _return_stream(stream: IO[bytes]) -> IO[bytes]:
    return stream


def _read_start(member: SdistMember, size: int) -> bytes:
    with member.open() as stream:
        return stream.read(size)


def collect_suffixes(project: Project) -> set[str]:
    """Return the suffixes of its files, in lower case."""
    return {PurePosixPath(path).suffix.lower() for path in project.paths}


def setup_requires(project: Project) -> list[str]:
    """Return the requirements in `setup_requires`, without running code.

    They are in setup.cfg, or a plain list in setup.py.

    Values that setup.py computes are not found here: the back end reports them when the project is built, in the
    sandbox.
    """
    requirements: list[str] = []
    config = configparser.ConfigParser(interpolation=None)
    try:
        config.read_string(collapse_blanks(project.texts.get("setup.cfg", b"").decode()))
        requirements += config.get("options", "setup_requires", fallback="").splitlines()
        tree = ast.parse(project.texts.get("setup.py", b""))
    except (configparser.Error, UnicodeDecodeError, SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.Module(body=[], type_ignores=[])
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "setup_requires":
            value = node.value
            items = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
            requirements += [
                item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)
            ]
    return [text.strip() for text in requirements if text.strip()]
