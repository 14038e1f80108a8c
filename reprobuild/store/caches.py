"""Caches of the user's other programs.

A file in them with the right hash need not be fetched.

Many programs write to caches, so their contents are untrusted: a file is copied while its hash is computed, never
linked, and an entry that is not a plain file is skipped. uv's cache is left out: it keeps wheels of indexes unpacked
(docs.astral.sh/uv/concepts/cache), and an unpacked wheel cannot be packed again to the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from msgspec import Struct

from reprobuild.infra.atomic import add_path_to_errors
from reprobuild.infra.directory_fd import replace_file
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.system import Artefact

CHUNK = 1 << 20
APT = Path("/var/cache/apt/archives")
# apt writes the colon of an epoch, which names in archives leave out (apt-pkg/acquire-item.cc, QuoteString).
_EPOCH = re.compile(r"_\d+%3a")


class Caches(Struct, frozen=True, kw_only=True):
    """Directories of caches.

    pip's has files by address, conda's and apt's by their names.
    """

    pip: tuple[Path, ...] = ()
    conda: tuple[Path, ...] = ()
    apt: tuple[Path, ...] = ()


def user_caches(env: Mapping[str, str]) -> Caches:
    """Return the caches that the environment variables name.

    The rules are those of pip (platformdirs), conda and apt.

    Args:
        env: PIP_CACHE_DIR, XDG_CACHE_HOME, CONDA_PKGS_DIRS, CONDA_EXE, MAMBA_ROOT_PREFIX and HOME are read.
    """
    home = Path(env["HOME"]) if env.get("HOME") else None
    cache_home = env.get("XDG_CACHE_HOME") or (str(home / ".cache") if home else "")
    pip = env.get("PIP_CACHE_DIR") or (f"{cache_home}/pip" if cache_home else "")
    conda = [Path(part) for part in env.get("CONDA_PKGS_DIRS", "").split(",") if part]
    if env.get("CONDA_EXE"):
        conda.append(Path(env["CONDA_EXE"]).parent.parent / "pkgs")
    if env.get("MAMBA_ROOT_PREFIX"):
        conda.append(Path(env["MAMBA_ROOT_PREFIX"]) / "pkgs")
    if home:
        conda.append(home / ".conda" / "pkgs")
    return Caches(pip=(Path(pip),) if pip else (), conda=tuple(dict.fromkeys(conda)), apt=(APT,))


def copy_from_cache(artefact: Artefact, caches: Caches, part: Path) -> bool:
    """Copy a file to `part` from a cache with the right hash.

    Return whether there is one.

    Raises:
        OSError: `part` cannot be written.
    """
    return any(_copy(path, artefact, part) for path in _cached_paths(artefact, caches))


def _cached_paths(artefact: Artefact, caches: Caches) -> Iterator[Path]:
    if artefact.url:
        # cachecontrol: the key of an answer, and five directories of one letter each (pip 23.3 and newer).
        key = hashlib.sha224(_normalise_address(artefact.url).encode(errors="surrogateescape")).hexdigest()
        yield from (folder.joinpath("http-v2", *key[:5], f"{key}.body") for folder in caches.pip)
    name = artefact.filename
    if "/" in name or "\0" in name:
        return
    if name.endswith((".conda", ".tar.bz2")):
        yield from (folder / name for folder in caches.conda)
    elif name.endswith(".deb"):
        for folder in caches.apt:
            yield from (
                folder / entry for entry in _list_names(folder) if _EPOCH.sub("_", entry, count=1) == name
            )


def _normalise_address(url: str) -> str:
    """Return an address in cachecontrol's normal form.

    It has no credentials, as pip requests it, and no fragment.
    """
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urllib.parse.urlunsplit((parts.scheme.lower(), host, parts.path or "/", parts.query, ""))


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _copy(path: Path, artefact: Artefact, part: Path) -> bool:
    try:
        source, rest = open_plain(path, links=False)
    except OSError:
        return False
    with source:
        if artefact.size and rest != artefact.size:
            return False
        digest = hashlib.sha256()
        part.parent.mkdir(parents=True, exist_ok=True)
        with add_path_to_errors(part), replace_file(part) as target:
            while rest > 0 and (chunk := _read(source, min(CHUNK, rest))):
                target.write(chunk)
                digest.update(chunk)
                rest -= len(chunk)
    if digest.hexdigest() == artefact.sha256:
        return True
    part.unlink()
    return False


def _read(source: IO[bytes], size: int) -> bytes:
    try:
        return source.read(size)
    except OSError:  # a disk or a server that fails: the hash will not be right
        return b""
