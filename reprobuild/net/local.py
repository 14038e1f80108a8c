"""`file:` addresses: pip's and uv's indexes may be folders."""

from __future__ import annotations

import hashlib
import os
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

from reprobuild.errors import FetchError
from reprobuild.net.model import CHUNK, NotFound, Page
from reprobuild.whole import FULL, naming


def local_path(url: str) -> Path:
    """Return the path that a `file:` address names."""
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))


def local_page(url: str) -> Page:
    """Return a file, or the index of a folder, as a page; NotFound where there is none."""
    path = local_path(url)
    if path.is_dir():
        path = path / "index.html"
        url = url.rstrip("/") + "/index.html"
    try:
        return Page(url=url, content_type="text/html", content=path.read_bytes())
    except OSError as err:
        raise NotFound(
            f"{path} cannot be read: {err.strerror}", hint="check the index in pip's configuration"
        ) from None


def copy_local(url: str, part: Path, progress: Callable[[int], None]) -> str:
    """Copy a file and return its sha256 (hex); NotFound where there is none, FetchError where it is no file."""
    digest = hashlib.sha256()
    try:
        with naming(part), local_path(url).open("rb") as source, part.open("wb") as target:
            while chunk := source.read(CHUNK):
                target.write(chunk)
                digest.update(chunk)
                progress(len(chunk))
    except FileNotFoundError:
        raise NotFound(f"{local_path(url)} does not exist", hint="it may have been removed") from None
    except OSError as err:
        if err.errno in FULL:
            raise
        raise FetchError(
            f"{local_path(url)} cannot be copied: {err.strerror}", hint=os.strerror(err.errno or 0)
        ) from None
    return digest.hexdigest()
