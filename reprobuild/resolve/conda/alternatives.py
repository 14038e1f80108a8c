"""Alternatives to an unavailable package of conda.

They are other files of its channel, and files of earlier locks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import takewhile

from reprobuild.ecosystems.conda.channels import Channel
from reprobuild.ecosystems.conda.package import read_facts, split_filename
from reprobuild.ecosystems.conda.repodata import RepodataEntry
from reprobuild.ecosystems.pypi.versions import nearest_versions
from reprobuild.errors import FetchError, ReproError
from reprobuild.snapshot.model import CapturedCondaPackage
from reprobuild.store.roots import read_records, recorded_lock_path
from reprobuild.store.store import Store

_BUILDS = 3  # of one version
_SAME = 5  # if the exact version is there


def read_identity(package: CapturedCondaPackage) -> tuple[str, str, str]:
    """Return name, version and build of a line.

    The build is empty if the line does not have it.
    """
    named = split_filename(package.url.rpartition("/")[2]) if package.url else None
    return named or (package.name, package.version, package.build or "")


def describe_near_packages(package: CapturedCondaPackage, entries: Iterable[RepodataEntry]) -> str:
    """Describe the closest packages of a channel.

    The text is empty if it has no package of that name.
    """
    _, version, build = read_identity(package)
    others = sorted({(entry.version, entry.build, entry.filename) for entry in entries})
    if twins := [name for *both, name in others if both == [version, build]]:
        return f"; the same build is there as {', '.join(twins)}, which is another file"
    if builds := [other_build for at, other_build, _ in others if at == version]:
        return f"; of this version there is {', '.join(_sort_by_similarity(builds, build)[:_SAME])}"
    versions = {at for at, _, _ in others}
    close = nearest_versions(versions, version) or sorted(versions)[-3:]
    offers = [
        f"{at} ({', '.join(_sort_by_similarity([b for v, b, _ in others if v == at], build)[:_BUILDS])})"
        for at in close
    ]
    return f"; there is {', '.join(offers)}" if offers else ""


def _sort_by_similarity(builds: Iterable[str], build: str) -> list[str]:
    """Return builds, the most similar to the wanted one first.

    A common start means the same Python or the same CUDA.
    """
    return sorted(set(builds), key=lambda candidate: (-_common_prefix_length(candidate, build), candidate))


def _common_prefix_length(first: str, second: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


class KeptCondaPackages:
    """The conda packages of kept locks in a store.

    Args:
        store: the store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()

    def __call__(self, package: CapturedCondaPackage, places: Sequence[Channel]) -> str:
        """Describe a locked file for an unavailable package.

        The text is empty if no lock had it.

        Args:
            package: the line; a hash of its own rules out other files.
            places: the channels that were searched.
        """
        if package.sha256 or package.md5 or not places:
            return ""
        name, version, build = read_identity(package)
        with self._guard:  # read once, and only if a package is missing
            known = self._packages.get((name, version), [])
        for filename, known_build, sha256, lock in known:
            if build in ("", known_build):
                line = f"{places[0].url}/{self._subdir(filename, sha256)}/{filename}#{sha256}"
                return (
                    f"; the store has {filename} (sha256 {sha256}) of the lock {lock}: a file conda-explicit.txt in "
                    f"the snapshot takes it, with the lines @EXPLICIT and {line}"
                )
        return ""

    def _subdir(self, filename: str, sha256: str) -> str:
        try:
            return read_facts(self._store.blob(sha256), filename).index.subdir or "noarch"
        except ReproError:  # damaged: its user is told
            return "noarch"

    @cached_property
    def _packages(self) -> dict[tuple[str, str], list[tuple[str, str, str, str]]]:
        packages: dict[tuple[str, str], list[tuple[str, str, str, str]]] = {}
        try:
            records = read_records(self._store)
        except FetchError:  # `store gc` reports the damaged record
            return {}
        for _, record in records:
            for sha256, named in record.files.items():
                parts = split_filename(named.name)
                if parts and self._store.has(sha256):
                    package = (named.name, parts[2], sha256, str(recorded_lock_path(record)))
                    packages.setdefault((parts[0], parts[1]), []).append(package)
        return packages
