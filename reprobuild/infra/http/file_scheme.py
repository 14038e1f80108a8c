"""`file:` addresses; pip's and uv's indexes may be directories."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.errors import FetchError
from reprobuild.infra.atomic import FULL, add_path_to_errors
from reprobuild.infra.directory_fd import replace_file
from reprobuild.infra.http.model import CHUNK, OTHER, NotFoundError, Page, WrongSizeError
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild_portable.hashing import hash_stream

_LARGEST = 16 << 30  # bytes: a minute to hash; the largest wheel has some 4 GiB
_DENSEST, _SMALL = 16, 1 << 20  # a file system may compress, and keeps small files elsewhere


def local_path(url: str) -> Path:
    """Return the path in a `file:` address."""
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))


def local_page(url: str, most: int) -> Page:
    """Return a file, or a directory's index, as a page.

    `NotFoundError` is raised if it is missing or too large.
    """
    path = local_path(url)
    if path.is_dir():
        path = path / "index.html"
        url = url.rstrip("/") + "/index.html"
    try:
        source, size = open_plain(path, links=True)
        with source:
            if size > most:
                raise OSError(errno.EFBIG, f"it has more than {most} bytes")
            return Page(url=url, content_type="text/html", content=source.read(most))
    except OSError as err:
        raise NotFoundError(
            f"{path} cannot be read: {err.strerror}", hint="check the index in pip's configuration"
        ) from None


def local_size(url: str) -> int:
    """Return the size of the file at a `file:` address.

    The size is in bytes.

    Raises:
        NotFoundError: there is none. FetchError: it is not a regular file.
    """
    with _convert_errors(url), open_plain(local_path(url), links=True)[0] as source:
        return os.fstat(source.fileno()).st_size


def local_hash(url: str) -> str:
    """Return the sha256 (hex) of a `file:` address's file.

    Raises:
        NotFoundError: there is none.
        FetchError: it is not a regular file, is too large, has holes, or states no size, as those of /proc.
    """
    with _convert_errors(url), open_plain(local_path(url), links=True)[0] as source:
        facts = os.fstat(source.fileno())
        if (
            not facts.st_size
            or facts.st_size > _LARGEST
            or facts.st_size > _DENSEST * facts.st_blocks * 512 + _SMALL
        ):
            raise FetchError(
                f"{local_path(url)} is no archive of a distribution: it states {facts.st_size} bytes, and has "
                f"{facts.st_blocks * 512} on the disk",
                hint="remove it, or name another directory",
            )
        return hash_stream(source)


@contextlib.contextmanager
def _convert_errors(url: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise NotFoundError(f"{local_path(url)} does not exist", hint="it may have been removed") from None
    except OSError as err:
        raise FetchError(
            f"{local_path(url)} cannot be read: {err.strerror}", hint="check the index in pip's configuration"
        ) from None


def copy_local(url: str, part: Path, progress: Callable[[int], None], size: int, most: int) -> str:
    """Copy a local file, and return its sha256 (hex).

    `size` is the expected size, 0 if unknown; then `most` is the bound.

    Raises:
        NotFoundError: there is none. WrongSizeError: it has another size. FetchError: it is not a regular file.
    """
    digest = hashlib.sha256()
    try:
        source, rest = open_plain(local_path(url), links=True)
        with source, add_path_to_errors(part), replace_file(part) as target:
            if rest > most or (size and rest != size):
                raise WrongSizeError(
                    f"{local_path(url)} has {rest} bytes, and {size or most} are expected", hint=OTHER
                )
            while rest > 0 and (chunk := source.read(min(CHUNK, rest))):
                rest -= len(chunk)
                target.write(chunk)
                digest.update(chunk)
                progress(len(chunk))
    except FileNotFoundError:
        raise NotFoundError(f"{local_path(url)} does not exist", hint="it may have been removed") from None
    except OSError as err:
        if err.errno in FULL:
            raise
        raise FetchError(
            f"{local_path(url)} cannot be copied: {err.strerror}", hint=os.strerror(err.errno or 0)
        ) from None
    return digest.hexdigest()
