"""The tree of a conda environment.

Its packages are checked and linked, and their own scripts run in the sandbox.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.conda.linking import Linked, filename_stem, link
from reprobuild.ecosystems.conda.package import open_package, split_filename
from reprobuild.ecosystems.conda.unpacked_package import Unpacked, check_together, prepare_package
from reprobuild.errors import BuildError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.regular_files import is_unlinked, open_plain
from reprobuild.infra.untrusted.strings import TreePath
from reprobuild.lock.distributions import find_replaced_projects
from reprobuild.lock.model import Lock
from reprobuild.lock.python import CondaPackage
from reprobuild.lock.system import PREFIX
from reprobuild.realise.uninstall import remove_replaced
from reprobuild.realise.unpack import extract
from reprobuild.store.store import Store

RECIPE = 2  # to be raised if other bytes come out of the same packages
WORKERS = 4
_MOST = 64 << 20  # of a record of conda; the largest have some 10 MB
PLATFORMS = {"linux/amd64": "linux-64", "linux/arm64": "linux-aarch64"}
_ODD = "its script is hostile, or broken; leave the package out with `--drop NAME`"


class _Record(Struct, frozen=True):
    """The part of a `conda-meta` record in use."""

    files: tuple[TreePath, ...]


def link_conda(lock: Lock, tree: Path, root: Callable[[], Root], store: Store) -> None:
    """Link a lock's conda packages into a tree.

    Distributions that pip replaced are removed, with conda's record of them.

    Args, errors: see `link_packages`.

    Raises:
        BuildError: a replaced distribution is not there, or conda's record of it is damaged.
    """
    link_packages(lock.conda, lock.interpreter.minor, lock.platform, tree, root, store, lock.epoch)
    prefix, names = tree / PREFIX[1:], find_replaced_projects(lock)
    in_order = sorted(lock.conda, key=lambda package: package.name)  # a lock may list them in any order
    packages = [package for package in in_order if names & set(package.distributions)]
    files_by_name: dict[str, tuple[str, ...]] = {}
    for package in packages:
        record = f"conda-meta/{filename_stem(package.file.filename)}.json"
        files = _files(prefix, record)
        if names >= set(package.distributions):  # else the owner of each file is unknown
            files_by_name |= dict.fromkeys(package.distributions, files)
        (prefix / record).unlink()
    removed_names = remove_replaced(
        prefix, f"lib/python{lock.interpreter.minor}/site-packages", names, files_by_name
    )
    if missing := sorted(names - set(removed_names)):
        raise BuildError(
            f"pip installed {', '.join(missing)} over conda's, and conda's packages do not have it where pip looks",
            hint="leave conda's package out with `--drop NAME`, and name a wheel of it; or make the lock again",
        )


def _files(prefix: Path, record: str) -> tuple[str, ...]:
    """Return the files of a linked package, by conda's record.

    A script of a package may have replaced the record.
    """
    try:
        if not is_unlinked(prefix, record):
            raise OSError(errno.ELOOP, "a link leads there")
        stream, _ = open_plain(prefix / record, links=False)
        with stream:
            return decode_json(stream.read(_MOST), _Record).files
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BuildError(
            f"a script of conda's packages left something else than {record}", hint=_ODD
        ) from None


def conda_key(lock: Lock) -> list[Any]:
    """Return the linked tree's other inputs, as JSON.

    They are in addition to the interpreter, the base and the epoch. Each field of a package counts: the records that
    are written have its address and its size, and its distributions decide what pip replaced.
    """
    in_order = sorted(lock.conda, key=lambda package: package.name)
    packages = [msgspec.to_builtins(package) for package in in_order]
    replaced = sorted(find_replaced_projects(lock))
    return [RECIPE, version("py-rattler"), lock.platform, packages, replaced]


def link_packages(
    packages: Sequence[CondaPackage], minor: str, platform: str, tree: Path, root: Callable[[], Root], store: Store,
    epoch: int,
) -> None:  # fmt: skip
    """Link packages into a tree, at the image's prefix.

    Args:
        packages: all of an environment, in the store.
        minor: the Python of the environment, `X.Y`.
        platform: of the image.
        tree: a directory that gets `opt/env`.
        root: returns an unpacked base for the scripts of packages.
        epoch: SOURCE_DATE_EPOCH of these.

    Raises:
        BuildError: a package is damaged or malicious, two of them cannot be in one prefix, or a script fails.
        FetchError: one is not in the store.
    """
    prefix = tree / PREFIX[1:]
    with store.workspace() as scratch:
        cache, home = scratch / "cache", scratch / "home"
        cache.mkdir()
        home.mkdir()

        def unpack(package: CondaPackage) -> Unpacked:
            return _unpack_package(package, minor, cache, store)

        with ThreadPoolExecutor(WORKERS) as pool:  # zstd, bzip2 and hashing let other threads run
            by_filename = dict(
                zip((package.file.filename for package in packages), pool.map(unpack, packages), strict=True)
            )
        check_together(by_filename)
        linked = [
            Linked(package=package, index=by_filename[package.file.filename].index) for package in packages
        ]
        link(linked, cache, prefix, PREFIX, PLATFORMS[platform], home)
        _run_scripts(_sort_by_dependency(by_filename), prefix, root, epoch)
    _check_kinds(prefix)


def _unpack_package(package: CondaPackage, minor: str, cache: Path, store: Store) -> Unpacked:
    filename = package.file.filename
    if split_filename(filename) != (package.name, package.version, package.build):
        raise BuildError(
            f"the lock calls {package.name} {package.version} {package.build} by the file name {filename[:200]!r}",
            hint="make the lock again with `reprobuild lock DIR`",
        )
    folder = cache / filename_stem(filename)
    try:
        folder.mkdir()
    except FileExistsError:
        raise BuildError(
            f"the lock has {filename_stem(filename)} twice",
            hint="make the lock again with `reprobuild lock DIR`",
        ) from None
    path = store.verified(package.file.sha256, filename)
    with open_package(path, filename) as tars:
        for tar in tars:
            extract(tar, folder, f"the package {filename}", packed=path.stat().st_size)
    return prepare_package(folder, filename, PREFIX, minor)


def _sort_by_dependency(by_filename: Mapping[str, Unpacked]) -> list[Unpacked]:
    """Return the packages in dependency order.

    A cycle is ordered by name.
    """
    by_name = {package.index.name: package for _, package in sorted(by_filename.items())}
    done: dict[str, Unpacked] = {}
    waiting = [(name, False) for name in sorted(by_name, reverse=True)]
    begun: set[str] = set()
    while waiting:
        name, ready = waiting.pop()
        if ready:
            done.setdefault(name, by_name[name])
        elif name not in begun:
            begun.add(name)
            needs = sorted(
                {need.split()[0] for need in by_name[name].index.depends if need.split()}, reverse=True
            )
            waiting += [(name, True), *((need, False) for need in needs if need in by_name)]
    return list(done.values())


def _run_scripts(packages: Sequence[Unpacked], prefix: Path, root: Callable[[], Root], epoch: int) -> None:
    """Run post-link scripts in the sandbox, in dependency order.

    https://docs.conda.io/projects/conda-build/en/stable/resources/link-scripts.html; the `.messages.txt` of a script is
    for people.
    """
    for package in packages:
        script = f"bin/.{package.index.name}-post-link.sh"
        if script not in package.places:
            continue
        base = root()
        seeing = msgspec.structs.replace(
            base, binds=(*base.binds, Bind(source=prefix, target=PREFIX, writable=True))
        )
        env = {
            "PREFIX": PREFIX, "PKG_NAME": package.index.name, "PKG_VERSION": package.index.version,
            "PKG_BUILDNUM": str(package.index.build_number), "ROOT_PREFIX": PREFIX, "CONDA_PREFIX": PREFIX,
            "PATH": f"{PREFIX}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        }  # fmt: skip
        try:
            run_in_root(
                seeing, ["/bin/bash", f"{PREFIX}/{script}"], epoch=epoch, env=env, cwd=PREFIX,
                purpose=f"run the post-link script of conda's {package.index.name}",
            )  # fmt: skip
        except ProcessFailedError as err:
            raise BuildError(str(err), hint=_ODD) from None
        messages = prefix / ".messages.txt"
        if messages.is_symlink() or messages.is_file():
            messages.unlink()


def _check_kinds(prefix: Path) -> None:
    """Refuse devices and pipes, which a script may leave."""
    for folder, folders, names in os.walk(prefix):
        for name in (*folders, *names):
            mode = os.lstat(f"{folder}/{name}").st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise BuildError(f"a script of conda's packages left {name}, which is no file", hint=HOSTILE)
