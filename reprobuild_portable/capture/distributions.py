"""Installed distributions and their origins."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
from importlib.machinery import PathFinder
from typing import Any, Dict, Iterator, Optional, Sequence, Tuple
from urllib.parse import unquote, urlsplit

from reprobuild_portable.capture.files import _path, _text
from reprobuild_portable.capture.limits import HEAD, METADATA
from reprobuild_portable.capture.model import Context, Taken
from reprobuild_portable.capture.scrub import _harmless
from reprobuild_portable.host import host
from reprobuild_portable.pip_freeze.pins import canonical_name
from reprobuild_portable.secrets.redact import strip_credentials

_LONGEST_WORD = 200  # characters of a name or a version
_LONGEST_PATH = 4096  # characters; PATH_MAX of Linux


def take_distributions(context: Context) -> Taken:
    """Capture each installed distribution and its origin.

    The first distribution of each name counts. A build leaves a bare `NAME.egg-info` in a source tree. If
    that tree comes first on the path, and the name is installed from it, the install is meant; pip leaves
    out the current directory, and prints the same. If the install is from another place, the imported one is
    uncertain: the name is then in `unclear`.
    """
    by_name: Dict[str, Dict[str, Any]] = {}
    bare: Dict[str, str] = {}
    unclear: Dict[str, Dict[str, Any]] = {}
    broken, withheld = [], []
    for dist, link in _distributions():
        context.left()
        try:
            entry = _describe(dist, link)
        except Exception as err:
            broken.append({"location": _path(str(getattr(dist, "_path", ""))), "why": _harmless(err)})
            continue
        if entry.pop("cut"):
            withheld.append({"what": "an address", "name": entry["name"], "reason": "secret"})
        folder = os.path.basename(str(getattr(dist, "_path", "")))
        if folder.startswith("~"):  # an interrupted pip renamed it; its metadata still has the name
            entry["name"] = folder.partition("-")[0]
        name = canonical_name(entry["name"])
        if name not in by_name:
            by_name[name] = entry
            if entry["origin"] is None and str(getattr(dist, "_path", "")).endswith(".egg-info"):
                bare[name] = str(dist.locate_file(""))
        elif name in bare and entry["origin"] is not None:
            if _is_inside(bare[name], entry["origin"].get("path")):
                by_name[name] = entry
                del bare[name]
                unclear.pop(name, None)
            else:
                first = by_name[name]["location"]
                unclear[name] = {"name": entry["name"], "first": first, "installed": entry}
    facts = {
        "found": [by_name[name] for name in sorted(by_name)],
        "broken": broken,
        "unclear": [unclear[name] for name in sorted(unclear)],
    }
    return Taken(facts, withheld=withheld)


def _is_inside(folder: str, outer: Optional[str]) -> bool:
    """Return whether `folder` is `outer` or inside of it.

    An example is `src`.
    """
    if outer is None:
        return False
    inner, outer = os.path.realpath(folder), os.path.realpath(outer)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


class Installed:
    """A distribution in one directory of the path.

    It replaces the class of `importlib.metadata`, because that module takes long to import.
    """

    def __init__(self, place: str, name: str) -> None:
        self._place = place
        self._path = os.path.join(place, name)

    def read_text(self, name: str) -> Optional[str]:
        """Return the text of one of its files, or None.

        The empty name stands for the distribution itself, if that is a file. Long metadata end early, behind
        the first empty line: the description may be a megabyte.
        """
        path = os.path.join(self._path, name) if name else self._path
        try:
            number = host.open(path, host.O_RDONLY | host.O_NONBLOCK | host.O_CLOEXEC)
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError):
            return None
        with open(number, "rb", buffering=0) as stream:
            if not stat.S_ISREG(host.fstat(number).st_mode):
                return None
            data = stream.read(HEAD)
            if len(data) == HEAD and (name.endswith(".json") or b"\n\n" not in data):
                data += stream.read(METADATA)
        if len(data) > METADATA:
            raise ValueError(f"{name} has more than {METADATA >> 20} MB")
        return data.decode("utf-8", "replace")

    def locate_file(self, name: str) -> str:
        """Return the path of a file that it installed."""
        return os.path.join(self._place, name) if name else self._place


def _distributions() -> Iterator[Tuple[Any, Optional[str]]]:
    """Yield each distribution on the path, with its linked directory.

    The directory is that of an `.egg-link` of `setup.py develop`, else None.
    """
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            names = []
        yield from ((dist, None) for dist in _in_place(place, names))
        for name in sorted(names):
            if name.endswith(".egg-link"):
                target = _text(os.path.join(place, name)).split("\n")[0].strip()
                with contextlib.suppress(OSError):
                    yield from ((dist, target) for dist in _in_place(target, os.listdir(target)))


def _in_place(place: str, names: Sequence[str]) -> Iterator[Any]:
    """Yield the distributions of one entry of the path.

    `importlib.metadata` reads a zip file, and the entries of custom finders.

    Args:
        place: the entry.
        names: the content of a directory; empty for other entries.
    """
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if names and finders == [PathFinder]:
        is_egg = place.lower().endswith(".egg")
        for name in names:
            low = name.lower()
            if low.endswith((".dist-info", ".egg-info")) or (is_egg and low == "egg-info"):
                yield Installed(place.rstrip("/") or place or ".", name)
    elif finders != [PathFinder] or os.path.isfile(place):
        from importlib import metadata  # it takes as long as all other imports

        yield from metadata.distributions(path=[place])


def _describe(dist: Any, link: Optional[str]) -> Dict[str, Any]:
    named: Dict[str, str] = {}
    text = dist.read_text("METADATA") or dist.read_text("PKG-INFO") or dist.read_text("") or ""
    for line in text.split("\n"):
        if not line.rstrip("\r"):
            break  # the description follows
        key, _, value = line.partition(":")
        if value.strip():
            named.setdefault(key.lower(), value.strip())
    if not _is_word(named.get("name", "")) or not _is_word(named.get("version", "")):
        raise ValueError
    origin, cut = _origin(dist.read_text("direct_url.json"))
    if link is not None:
        origin = {"kind": "folder", "path": os.path.abspath(link), "editable": True}
    return {
        "name": named["name"],
        "version": named["version"],
        "location": _path(str(dist.locate_file(""))),
        "installer": _read_installer(dist.read_text("INSTALLER") or ""),
        "origin": origin,
        "cut": cut,
    }


def _is_word(text: str) -> bool:
    return bool(text) and len(text) <= _LONGEST_WORD and len(text.split()) == 1


def _read_installer(text: str) -> str:
    """Return the name of the program that installed a distribution; the file may be a link to anything."""
    name = text.strip()
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,39}", name) else ""


def _origin(text: Optional[str]) -> Tuple[Optional[Dict[str, Any]], bool]:
    """Return the origin by PEP 610, and whether credentials were removed.

    `text` is the content of `direct_url.json`.
    """
    if not text:
        return None, False
    document = json.loads(text)
    url, cut = strip_credentials(str(document["url"]))
    origin: Dict[str, Any] = {"url": url, "subdirectory": document.get("subdirectory")}
    if "vcs_info" in document:
        info = document["vcs_info"]
        origin.update(kind=str(info["vcs"]), commit=str(info["commit_id"]))
    elif url.startswith("file:") and "archive_info" not in document:
        path = unquote(urlsplit(url).path)
        if len(path) > _LONGEST_PATH or "\0" in path:
            raise ValueError("direct_url.json has no valid path")
        origin.update(
            kind="folder", path=path, editable=bool((document.get("dir_info") or {}).get("editable"))
        )
    else:
        info = document.get("archive_info") or {}
        hashes = info.get("hashes") or dict(
            [str(info["hash"]).split("=", 1)] if "=" in str(info.get("hash")) else []
        )
        origin.update(kind="archive", sha256=hashes.get("sha256"))
    return origin, cut
