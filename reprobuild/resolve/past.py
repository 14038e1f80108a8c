"""The dated archives of a release as one: what they offered at a moment."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from reprobuild.apt.archives import Archive
from reprobuild.apt.dated import Indexes, Listed
from reprobuild.apt.index import PackagesFile
from reprobuild.errors import FetchError
from reprobuild.net import NotFound
from reprobuild.resolve.when import Key, Sample

_PACKAGE = re.compile(rb"^Package: *(\S+)", re.MULTILINE)
_VERSION = re.compile(rb"^Version: *(\S+)", re.MULTILINE)


class Past:
    """What the dated archives offered, asked at as few moments as possible.

    Args:
        archives: those with a past.
        indexes: how they are asked.
        names: the packages of interest.
    """

    def __init__(self, archives: Iterable[Archive], indexes: Indexes, names: Collection[str]) -> None:
        self._archives = tuple(archives)
        self._indexes = indexes
        self._names = {name.encode() for name in names}
        self._samples: dict[int, Sample | None] = {}
        self._listed: dict[int, tuple[Listed, ...]] = {}
        self._versions: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
        self.silent: dict[str, str] = {}  # archives that cannot be asked, with the reason

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Every moment that was looked at."""
        return tuple(sample for sample in self._samples.values() if sample is not None)

    def look(self, time: int) -> Sample | None:
        """Return what the archives offered at a moment, None where they have nothing of it."""
        if time not in self._samples:
            listed = self._at(time)
            offered: dict[Key, tuple[str, ...]] = {}
            for one in listed:
                if one.automatic:
                    for name, versions in self._of(one).items():
                        key = (name, one.architecture)
                        offered[key] = tuple(dict.fromkeys((*offered.get(key, ()), *versions)))
            self._samples[time] = Sample(time, offered) if listed else None
        return self._samples[time]

    def whole(self, time: int) -> tuple[PackagesFile, ...]:
        """Return every index of a moment."""
        return tuple(self._indexes.read(listed) for listed in self._at(time))

    def stanzas(self, time: int, name: str, version: str) -> tuple[PackagesFile, ...]:
        """Return what the indexes of a moment say of one version of a package, and nothing else of them."""
        found = []
        for listed in self._at(time):
            if version in self._of(listed).get(name, ()):
                file = self._indexes.read(listed)
                kept = [s for s in file.content.split(b"\n\n") if _is(s, name.encode(), version.encode())]
                found.append(PackagesFile(uri=file.uri, content=b"\n\n".join(kept), automatic=False))
        return tuple(found)

    def unasked(self, time: int, name: str, version: str) -> bool:
        """Tell whether only a suite that apt takes nothing from unasked has a version (backports)."""
        holders = [listed for listed in self._at(time) if version in self._of(listed).get(name, ())]
        return bool(holders) and not any(listed.automatic for listed in holders)

    def _at(self, time: int) -> tuple[Listed, ...]:
        if time not in self._listed:
            self._listed[time] = tuple(
                listed for archive in self._archives for listed in self._ask(archive, time)
            )
        return self._listed[time]

    def _ask(self, archive: Archive, time: int) -> Sequence[Listed]:
        if archive.url in self.silent:
            return ()
        try:
            listed = self._indexes.at(archive, time)
            for one in listed:
                self._of(one)
        except NotFound:
            return ()
        except FetchError as err:  # one that does not answer is not asked again; the others may do
            self.silent[archive.url] = str(err)
            return ()
        return listed

    def _of(self, listed: Listed) -> dict[str, tuple[str, ...]]:
        """Return the versions of the packages of interest in an index."""
        key = (listed.sha256, listed.architecture)
        if key not in self._versions:
            found: dict[str, tuple[str, ...]] = {}
            for stanza in self._indexes.read(listed).content.split(b"\n\n"):
                name = _PACKAGE.search(stanza)
                version = _VERSION.search(stanza)
                if name and version and name[1] in self._names:
                    text = name[1].decode()
                    found[text] = (*found.get(text, ()), version[1].decode(errors="replace"))
            self._versions[key] = found
        return self._versions[key]


def _is(stanza: bytes, name: bytes, version: bytes) -> bool:
    found, of = _PACKAGE.search(stanza), _VERSION.search(stanza)
    return bool(found and of and found[1] == name and of[1] == version)
