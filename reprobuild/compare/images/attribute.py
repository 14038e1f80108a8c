"""The input of the lock that provides a path.

It is a package, a wheel, a source, the runtime files, or the base. dpkg, conda and pip record the files that
they install in the image itself: `/var/lib/dpkg/info/NAME.list`, `conda-meta`, and RECORD
(https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

import msgspec
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.compare.images.dpkg_status import DpkgPackage, read_status
from reprobuild.compare.images.installed_lists import ListBudget
from reprobuild.image.layering.merge import Tree
from reprobuild.image.layers.plan import virtual_environment_parts
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import TreePath
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.lock.system import FILES, PREFIX, dpkg_name

# (kind, name) as in `compare`; ("", "") is no input.
Input = tuple[str, str]
NONE: Input = ("", "")
BASE: Input = ("realised", "base tree")
RUNTIME: Input = ("realised", "runtime package")
INTERPRETER: Input = ("interpreter", "python")
TREE: Input = ("realised", "tree of the interpreter")
HOOK = ("/site-packages/reprobuild.pth", "/site-packages/reprobuild.start")
_INFO = "var/lib/dpkg/info/"
_STATUS = "var/lib/dpkg/status"
_CONDA = re.compile(rf"{PREFIX[1:]}/conda-meta/([^/]+)-[^-/]+-[^-/]+\.json")
_DIST_INFO = re.compile(r"(.*/)?([^/]+)-([^/-]+)\.dist-info(/|$)")


class _Record(Struct, frozen=True):
    """The used part of conda's record of a package."""

    files: tuple[TreePath, ...] = ()


class Origins(Struct, frozen=True):
    """The origins of an image's paths.

    `paths` and `versions` are from dpkg, conda and pip. `sources` has the sources by their directories, and
    `built` is the result of `built_paths`. `unread` is the number of lists that were not read to their end.
    """

    paths: dict[str, Input]
    versions: dict[Input, str]
    sources: dict[str, Input]
    lock: Lock | None
    built: frozenset[tuple[str, str]] = frozenset()
    unread: int = 0


def origin_file_hashes(tree: Tree) -> set[str]:
    """Return the sha256 of every file that `read_origins` reads."""
    budget = ListBudget()
    return {entry.sha256 for _, entry in _list_origin_files(tree) if budget.take_file(entry.size)}


def _list_origin_files(tree: Tree) -> list[tuple[str, TarEntry]]:
    """Return the files that tell origins, the names of dpkg first."""
    files = [item for item in tree.items() if item[1].type == "file" and _is_origin_file(item[0])]
    return sorted(files, key=lambda item: item[0] != _STATUS)


def _is_origin_file(path: str) -> bool:
    lists = path.startswith(_INFO) and path.endswith(".list")
    return lists or path == _STATUS or path.endswith(".dist-info/RECORD") or bool(_CONDA.fullmatch(path))


def read_origins(tree: Tree, read: Callable[[TarEntry], bytes | None], lock: Lock | None) -> Origins:
    """Return the origins of an image.

    Args:
        tree: the merged tree.
        read: returns the content of a file, or None if it was too large to be kept.
        lock: of the image, if one is known.
    """
    paths: dict[str, Input] = {}
    conda: dict[str, Input] = {}
    names: dict[str, str] = {}
    versions: dict[Input, str] = {}
    budget = ListBudget()
    for path, entry in _list_origin_files(tree):
        content = (read(entry) or b"") if budget.take_file(entry.size) else b""
        if path == _STATUS:
            status = read_status(budget.take_lines(io.BytesIO(content)))
            budget.unread += not status.is_complete
            names, versions = _name_packages(status.packages)
        elif _CONDA.fullmatch(path):
            listed_paths = chain((path,), budget.take_lines(_parse_conda_record(content)))
            conda_paths = budget.take_paths(_near(listed_paths, tree))
            conda.update(dict.fromkeys(conda_paths, ("conda", _CONDA.sub(r"\1", path))))
        elif path.startswith(_INFO):
            name = _dpkg_package(path[len(_INFO) : -len(".list")], names)
            system_paths = _parse_dpkg_list(budget.take_lines(io.BytesIO(content)), tree)
            paths.update(dict.fromkeys(budget.take_paths(_near(system_paths, tree)), ("system", name)))
        else:
            owner, files = _parse_wheel_record(path, content, budget)
            paths.update(dict.fromkeys(budget.take_paths(_near(files, tree)), owner))
    paths.update(
        conda
    )  # its Python packages have a RECORD, too; a file that pip installed over one has no RECORD of conda
    for path in tree:
        match = _DIST_INFO.match(path)
        if match:
            owner = ("python", str(canonicalize_name(match[2])))
            versions[owner] = match[3]
            paths.setdefault(path, owner)
        elif path.startswith(_INFO) and tree[path].type == "file":
            name = _dpkg_package(path[len(_INFO) :].rpartition(".")[0], names)
            if name:
                paths.setdefault(path, ("system", name))
    sources = {f"{s.path.strip('/')}": ("source", s.name) for s in lock.sources} if lock else {}
    return Origins(paths, versions, sources, lock, built_paths(lock), budget.unread)


def _near(paths: Iterable[str], tree: Tree) -> Iterator[str]:
    """Yield the paths that the tree has, or whose directory it has.

    The lists of an image can name any other path, of any length. A removed file still tells the origin of its
    directory, and of its bytecode.
    """
    return (path for path in paths if path in tree or path.rpartition("/")[0] in tree)


def _name_packages(packages: Iterable[DpkgPackage]) -> tuple[dict[str, str], dict[Input, str]]:
    """Return the names and versions of dpkg's packages.

    The names are {NAME:ARCHITECTURE: name}. A foreign package has its architecture in its name; dpkg itself
    is never foreign.
    """
    known = {(p.name, p.architecture): p.version for p in packages if p.version}
    native = next((architecture for name, architecture in known if name == "dpkg"), "")
    names: dict[str, str] = {}
    versions: dict[Input, str] = {}
    for (name, architecture), version in known.items():
        key = dpkg_name(name, architecture, native) if native else name
        names[f"{name}:{architecture}"] = key
        names.setdefault(name, key)
        versions["system", key] = version
    return names, versions


def _dpkg_package(stem: str, names: Mapping[str, str]) -> str:
    """Return the package of a file of dpkg.

    The file is `NAME.list`, or `NAME:ARCHITECTURE.list` of a `Multi-Arch: same` package.
    """
    return names.get(stem, stem.partition(":")[0])


def _parse_dpkg_list(lines: Iterable[bytes], tree: Tree) -> Iterator[str]:
    """Yield a package's paths except directories, as in the tree.

    For example, /bin is /usr/bin.
    """
    for line in lines:
        path = line.decode("utf-8", "surrogateescape").rstrip("\r\n").strip("/")
        top, slash, rest = path.partition("/")
        link = tree.get(top)
        if slash and link is not None and link.type == "symlink":
            path = f"{link.target.strip('/')}/{rest}"
        entry = tree.get(path)
        if path and (entry is None or entry.type != "directory"):
            yield path


def _parse_conda_record(content: bytes) -> Iterator[str]:
    """Yield the paths in conda's record of a package.

    A damaged record has none.
    """
    try:
        files = decode_json(content, _Record).files
    except (msgspec.DecodeError, ValueError, RecursionError):
        return
    yield from (f"{PREFIX[1:]}/{path}" for path in files)


def _parse_wheel_record(path: str, content: bytes, budget: ListBudget) -> tuple[Input, Iterator[str]]:
    """Return the project of a RECORD, and the paths in it.

    Those are up to a damaged row.
    """
    match = _DIST_INFO.match(path)
    assert match is not None
    owner = ("python", str(canonicalize_name(match[2])))
    site = path.rpartition("/")[0].rpartition("/")[0]
    names = (row[0] for row in budget.take_rows(content) if row and not row[0].startswith("/"))
    return owner, (posixpath.normpath(posixpath.join(site, name)) for name in names)


def candidate_inputs(path: str, origins: Origins) -> list[Input]:
    """Return the inputs that may provide a path, nearest first.

    The result is empty if no input is known.
    """
    folder = "/".join(path.split("/", 2)[:2])  # a source is at /src/NAME
    if source := origins.sources.get(folder):
        parts = [("realised", f"compiled parts of {source[1]}")]
        return [source, *(parts if (source[1], path[len(folder) + 1 :]) in origins.built else [])]
    lock = origins.lock
    if path == FILES[1:] or path.startswith(f"{FILES[1:]}/") or path.endswith(HOOK):
        return [*_runtime_inputs(path, lock), RUNTIME]
    owner = origins.paths.get(path) or origins.paths.get(source_of(path))
    if owner and owner[0] == "python":
        more = [("realised", f"wheel of {owner[1]}"), ("source", owner[1])]
        code = [("realised", f"bytecode of {owner[1]}")] if path.endswith(".pyc") else []
        return [owner, *more, *code]
    if owner:
        return [owner, TREE if owner[0] == "conda" else BASE]
    if lock is None:
        return []
    if _is_interpreter_file(path, lock):
        return [INTERPRETER, TREE]
    if path == PREFIX[1:] or path.startswith(f"{PREFIX[1:]}/"):
        return [INTERPRETER] if path in {part.path for part in virtual_environment_parts(lock)} else []
    return [BASE]


def source_of(path: str) -> str:
    """Return the source path of a compiled module (PEP 3147).

    It is "" if the name does not determine it.
    """
    folder, _, name = path.rpartition("/")
    if not name.endswith(".pyc"):
        return ""
    if folder == "__pycache__" or folder.endswith("/__pycache__"):
        above = folder[: -len("__pycache__")]
        return f"{above}{name.split('.')[0]}.py" if name.count(".") >= 2 else ""
    return f"{path[:-1]}"


def built_paths(lock: Lock | None) -> frozenset[tuple[str, str]]:
    """Return (source, path) of each file that a build added.

    The path is relative to the source.
    """
    builds = lock.realised.builds if isinstance(lock, SealedLock) else ()
    return frozenset((build.name, path) for build in builds for path in build.files)


def _is_interpreter_file(path: str, lock: Lock) -> bool:
    home = lock.interpreter.home[1:]
    return bool(home) and (path == home or path.startswith(f"{home}/"))


def _runtime_inputs(path: str, lock: Lock | None) -> list[Input]:
    """Return the inputs that a runtime file describes."""
    if lock and path.startswith(f"{FILES[1:]}/sources"):
        return [("source", source.name) for source in lock.sources]
    if lock and path == f"{FILES[1:]}/environ.json":
        return [("environment", setting.name) for setting in lock.environment]
    return []


def folder_owners(origins: Origins, tree: Tree) -> dict[str, Input]:
    """Return the single input of the files of each directory of a tree, or `NONE`."""
    owners: dict[str, Input] = {}
    for path, owner in origins.paths.items():
        above = path.rpartition("/")[0]
        while above in tree and above:
            former = owners.get(above)
            if former in (owner, NONE):
                break  # and all its parents have this owner or none
            owners[above] = owner if former is None else NONE
            above = above.rpartition("/")[0]
    return owners


class Cause(Struct, frozen=True, kw_only=True):
    """An input, with the number of its differing files.

    `one` and `other` are its values in the locks if both are known, else its versions in the images.
    `explains` is "yes" if those differ, "no" if they are equal, and "unknown" if they or the input are not known.
    """

    kind: str
    name: str
    one: str
    other: str
    explains: str
    files: int


Changed = Mapping[Input, tuple[str, str]]


def choose_culprit(candidates_: list[Input], changed: Changed) -> Input:
    """Return the first differing input, else the first, else `NONE`."""
    return next((item for item in candidates_ if item in changed), candidates_[0] if candidates_ else NONE)


def list_causes(
    counts: Mapping[Input, int], changed: Changed, same: Mapping[Input, str], *, locked: bool
) -> list[Cause]:
    """Return one culprit for each input, unexplained ones first.

    The likeliest follow.

    Args:
        counts: the number of differing files of each input.
        changed: the differences between the inputs of two images.
        same: the versions of inputs that are equal.
        locked: both locks are known, so that each input is compared.
    """
    causes = []
    for item, files in counts.items():
        first, second = changed.get(item, (same.get(item, ""),) * 2)
        explains = (
            "yes" if item in changed else "no" if item in same or (locked and item != NONE) else "unknown"
        )
        causes.append(
            Cause(kind=item[0], name=item[1], one=first, other=second, explains=explains, files=files)
        )
    order = ("unknown", "no", "yes")
    return sorted(causes, key=lambda c: (order.index(c.explains), -c.files, c.kind, c.name))
