"""The versions of a project that were on the machine's indexes by a moment, for what a build requires.

uv chooses the versions of lines (`dated_indexes`); the requirements of a build are chosen one by one.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from packaging.utils import canonicalize_name
from packaging.version import Version

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.resolve.ages.age import parse_time
from reprobuild.resolve.ages.evidence import AgeReader
from reprobuild.resolve.ages.releases import date_releases, group_files
from reprobuild.resolve.context import ResolveContext

_WORKERS = 8


class PastReleases:
    """The releases of projects by a moment.

    Args:
        moment: of RFC 3339.
        files: the lists of the indexes.
        context: the machine's indexes, the store and the network.
        target: the version of Python and the machine.
    """

    def __init__(
        self, moment: str, files: FileLists, context: ResolveContext, target: tuple[str, str]
    ) -> None:
        self.moment = parse_time(moment) or 0
        self._files = files
        self._reader = AgeReader(context.store, context.net, self.moment, context.now, target)
        self._places = [
            place for place in context.indexes.places if not place.links and place.url.startswith("http")
        ]
        self._versions: dict[str, frozenset[Version] | None] = {}

    def find_versions(self, name: str) -> frozenset[Version] | None:
        """Return the versions that were there; None if no index has the project, as one of the user's own files.

        An upload time counts first, then the evidence in the files of a release.
        """
        project = str(canonicalize_name(name))
        if project not in self._versions:
            self._versions[project] = self._find_versions(project)
        return self._versions[project]

    def _find_versions(self, project: str) -> frozenset[Version] | None:
        for place in self._places:
            groups = group_files(self._files.list_page(place, project))
            if not groups:
                continue
            with ThreadPoolExecutor(_WORKERS) as pool:
                dated = date_releases(groups, self.moment, self._reader.date, pool)
            return frozenset(dated.present)
        return None
