"""The check if the package indexes of pip and uv answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reprobuild.doctor.model import DoctorFinding
from reprobuild.doctor.services import MANNERS, SECONDS, probe_all
from reprobuild.ecosystems.pypi.indexes import PackageIndex, PackageIndexes, read_indexes
from reprobuild.errors import LockError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.file_scheme import local_path
from reprobuild.infra.http.netrc import Netrc

_MEANING = "a distribution that only it has can neither be locked nor fetched here"
_FIX = "correct its address in the configuration of pip or uv (`pip config debug` lists the files), or let it through"
_PROJECT = "pip"  # each index answers a request for a project, and be it that it has none


def judge_indexes(
    env: Mapping[str, str], *, offline: bool = False, netrc: Netrc | None = None,
    authorities: Authorities | None = None, seconds: float = SECONDS,
) -> Iterator[DoctorFinding]:  # fmt: skip
    """Request each index of this machine, and yield the findings in order.

    Args:
        env: the user's environment, as pip and uv would see it.
        offline: request none.
        netrc: the user's logins.
        authorities: the site's.
        seconds: the time after which an index counts as silent.
    """
    try:
        indexes = read_indexes(env)
    except LockError as err:
        yield DoctorFinding(name="indexes", state="warning", seen=str(err), meaning=_MEANING, fix=err.hint)
        return
    if not indexes.places:
        yield DoctorFinding(
            name="indexes", state="warning", seen="pip and uv have none", meaning="no distribution can be locked",
            fix="`pip config set global.index-url URL` names one",
        )  # fmt: skip
    elif offline:
        urls = ", ".join(place.url for place in indexes.places)
        yield DoctorFinding(
            name="indexes",
            state="not-asked",
            seen=f"{len(indexes.places)} were not probed (--offline): {urls}",
        )
    else:
        yield from _probe(indexes, netrc, authorities, seconds)


def _probe(
    indexes: PackageIndexes, netrc: Netrc | None, authorities: Authorities | None, seconds: float
) -> Iterator[DoctorFinding]:
    net = Net(manners=MANNERS, credentials=indexes.credentials, netrc=netrc, authorities=authorities)
    net.learn({}, indexes.tokens, indexes.configured)
    urls = {place.url: _address(place) for place in indexes.places if not place.url.startswith("file:")}
    answers = probe_all(net, set(urls.values()), seconds)
    for place in indexes.places:
        if place.url in urls:
            complaint = answers[urls[place.url]]
        else:
            complaint = "" if local_path(place.url).exists() else "it does not exist"
        yield _make_finding(place.url, complaint)


def _address(place: PackageIndex) -> str:
    return place.url if place.links else f"{place.url.rstrip('/')}/{_PROJECT}/"


def _make_finding(url: str, complaint: str) -> DoctorFinding:
    name = f"index {url}"
    if not complaint:
        return DoctorFinding(name=name, state="ok", seen="it answers")
    return DoctorFinding(name=name, state="warning", seen=complaint, meaning=_MEANING, fix=_FIX)
