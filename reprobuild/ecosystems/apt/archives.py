"""The package archives of a release.

They are the distribution's own, and those that the user names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files

from msgspec import Struct

from reprobuild.config.overrides import ArchiveDecision
from reprobuild.config.services import Service
from reprobuild.ecosystems.apt.index import without_credentials
from reprobuild.errors import LockError
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.snapshot.model import AptList

_PPA = re.compile(r"ppa:([a-z0-9][a-z0-9.+-]{0,99})/([a-z0-9][a-z0-9.+-]{0,99})")
_PPA_LIST = re.compile(r"ppa\.launchpad(?:content)?\.net_([^_]+)_(.+)_ubuntu_dists_")
_KEY = re.compile(r"(?i)[0-9a-f]{40}|[0-9a-f]{64}")

_PC = ("amd64", "i386")


class AptArchive(Struct, frozen=True, kw_only=True):
    """An archive of Debian packages.

    `url` ends in a slash; `{time}` in it stands for a moment, as `20240301T030400Z`. `pockets` are the suites
    from which apt takes packages, `unasked` those from which it takes only named ones. `keys` are
    fingerprints; `ppa` is `OWNER/NAME` of Launchpad's.
    """

    url: str
    pockets: tuple[str, ...]
    components: tuple[str, ...]
    keys: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    ppa: str = ""

    @property
    def dated(self) -> bool:
        """Whether the archive keeps its past."""
        return "{time}" in self.url


class _Known(Struct, frozen=True, forbid_unknown_fields=True):
    distribution: str
    service: str
    present: str
    pockets: tuple[str, ...]
    components: tuple[str, ...]
    keys: tuple[str, ...]
    unasked: tuple[str, ...] = ()
    ports: str = ""


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    archive: tuple[_Known, ...]


def archives_of(
    distribution: str,
    codename: str,
    services: Mapping[str, Service],
    decisions: Iterable[ArchiveDecision] = (),
) -> tuple[AptArchive, ...]:
    """Return the archives of a release.

    Args:
        distribution: `debian` or `ubuntu`; for others only the given archives are known.
        codename: of the release.
        services: the addresses of the dated copies.
        decisions: the override `archives`.

    Raises:
        LockError: a given archive has no address and is not a PPA, its address has a login, or its key is
            missing or not a fingerprint.
    """
    archives = [
        _service_archive(entry, services[entry.service], codename) for entry in _read_archives(distribution)
    ]
    return (*archives, *(_decision_archive(decision, codename, services) for decision in decisions))


def present_archives(
    distribution: str, codename: str, services: Mapping[str, Service], architecture: str
) -> tuple[AptArchive, ...]:
    """Return the present archives of a release.

    They are for a machine whose apt has no source for it.

    Args:
        distribution: `debian` or `ubuntu`; for others the result is empty.
        codename: of the release.
        services: the addresses.
        architecture: Debian's name of it.
    """
    return tuple(
        _service_archive(
            entry,
            services[entry.ports if entry.ports and architecture not in _PC else entry.present],
            codename,
        )
        for entry in _read_archives(distribution)
    )


def _read_archives(distribution: str) -> list[_Known]:
    text = files("reprobuild.ecosystems.apt").joinpath("archives.toml").read_bytes()
    return [entry for entry in decode_toml(text, _File).archive if entry.distribution == distribution]


def _service_archive(known: _Known, service: Service, codename: str) -> AptArchive:
    pockets, unasked = (
        tuple(suite.format(release=codename) for suite in suites) for suites in (known.pockets, known.unasked)
    )
    return AptArchive(
        url=service.url, pockets=pockets, unasked=unasked, components=known.components, keys=known.keys
    )


def ppas_of(lists: Iterable[AptList]) -> tuple[ArchiveDecision, ...]:
    """Return the PPAs in the captured machine's apt lists."""
    urls = {f"ppa:{match[1]}/{match[2]}" for apt_list in lists if (match := _PPA_LIST.match(apt_list.file))}
    return tuple(ArchiveDecision(url=url) for url in sorted(urls) if _PPA.fullmatch(url))


def _decision_archive(
    decision: ArchiveDecision, codename: str, services: Mapping[str, Service]
) -> AptArchive:
    if without_credentials(decision.url) != decision.url:
        raise LockError(
            f"the archive {without_credentials(decision.url)} is given with a login",
            hint="put the login into ~/.netrc, for the packages, too",
        )
    keys = (decision.key,) if decision.key else ()
    if any(not _KEY.fullmatch(key) for key in keys):
        raise LockError(
            f"`{decision.key}` is not the fingerprint of a key of {without_credentials(decision.url)}",
            hint="40 hex digits: `gpg --show-keys FILE` shows them",
        )
    ppa = _PPA.fullmatch(decision.url)
    if ppa:
        url = services["ppa-snapshot"].url.replace("{owner}", ppa[1]).replace("{name}", ppa[2])
        return AptArchive(
            url=url, pockets=decision.suites or (codename,), components=decision.components or ("main",),
            keys=keys, ppa=f"{ppa[1]}/{ppa[2]}",
        )  # fmt: skip
    if not re.match(r"(https?|file)://", decision.url):
        raise LockError(
            f"`{decision.url}` is not an archive of packages",
            hint="an address (with {time} where it keeps its past), or ppa:OWNER/NAME",
        )
    if not keys:
        raise LockError(
            f"nothing says which key signs the archive {without_credentials(decision.url)}",
            hint="give its fingerprint in reprobuild.yaml: `archives: [{url: ..., key: ...}]`",
        )
    return AptArchive(
        url=decision.url.rstrip("/") + "/", pockets=decision.suites or (codename,),
        components=decision.components or ("main",), keys=keys,
    )  # fmt: skip
