"""Inference of a captured machine's release.

It follows from the package list, with evidence.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from collections.abc import Iterable
from importlib.resources import files

from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.resolve.override_words import RELEASE
from reprobuild.snapshot.model import SystemPackage

_EXAMPLE = "--base debian/bookworm"
_HINT = f"say which one it was, by `base:` in reprobuild.yaml or as an option, for example: {_EXAMPLE}"


class Known(Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
    """One row of the table `releases.toml`, which documents the fields."""

    distribution: str
    codename: str
    number: str
    base_files: str
    glibc: tuple[int, int]
    python: str
    standard: datetime.date
    lts: datetime.date
    seen: str

    @property
    def label(self) -> str:
        """The release in the form of a decision, `debian/bookworm`."""
        return f"{self.distribution}/{self.codename}"


@functools.lru_cache(maxsize=1)
def known_releases() -> tuple[Known, ...]:
    """Return the table of releases, from old to new.

    The order holds within one distribution.
    """
    raw = files("reprobuild.resolve.system").joinpath("releases.toml").read_bytes()
    return decode_toml(raw, dict[str, tuple[Known, ...]])["release"]


class DistributionRelease(Struct, frozen=True, kw_only=True):
    """A distribution's release, with the evidence."""

    distribution: str
    codename: str
    evidence: str


def infer_release(packages: Iterable[SystemPackage], base: str | None = None) -> DistributionRelease:
    """Infer the release of the captured packages.

    Args:
        packages: the captured package list.
        base: the decision of that name, `debian/bookworm`; it overrides.

    Raises:
        LockError: there is no evidence, or it contradicts itself.
    """
    if base is not None:
        if not RELEASE.fullmatch(base):
            raise LockError(
                f"`base: {base}` is not a distribution and a release", hint=_HINT, options=[_EXAMPLE]
            )
        distribution, _, codename = base.partition("/")
        if distribution == "localhost":  # users who have pulled an image of their own know it as a host
            raise LockError(
                f"`base: {base}` names no distribution",
                hint=f"if an image is meant, write `image:{base}:TAG`",
            )
        return DistributionRelease(
            distribution=distribution, codename=codename, evidence=f"decided: base: {base}"
        )
    packages = tuple(packages)
    releases = [
        f
        for f in (
            _infer_from_base_files(packages),
            _infer_from_suites(packages),
            _infer_from_versions(packages),
        )
        if f
    ]
    if not releases:
        raise LockError(
            "nothing in the snapshot tells which distribution it ran", hint=_HINT, options=[_EXAMPLE]
        )
    if len({(r.distribution, r.codename) for r in releases}) > 1:
        evidence = "; ".join(f"{r.evidence}: {r.distribution}/{r.codename}" for r in releases)
        raise LockError(
            f"the snapshot tells of more than one release ({evidence})", hint=_HINT, options=[_EXAMPLE]
        )
    return DistributionRelease(
        distribution=releases[0].distribution,
        codename=releases[0].codename,
        evidence="; ".join(r.evidence for r in releases),
    )


def _infer_from_base_files(packages: tuple[SystemPackage, ...]) -> DistributionRelease | None:
    for package in packages:
        if package.name == "base-files":
            for known in known_releases():
                if re.match(known.base_files, package.version):
                    evidence = f"base-files {package.version} ({package.place})"
                    return DistributionRelease(
                        distribution=known.distribution, codename=known.codename, evidence=evidence
                    )
    return None


def _infer_from_suites(packages: tuple[SystemPackage, ...]) -> DistributionRelease | None:
    """Return the code name in most packages' suites.

    `stable` and `testing` move and are ignored.
    """
    named = Counter(
        codename
        for package in packages
        for codename in {suite.partition("-")[0].partition("/")[0] for suite in package.suites}
    )
    return _most_frequent_release(named, "packages came from its suites")


def _infer_from_versions(packages: tuple[SystemPackage, ...]) -> DistributionRelease | None:
    """Return the release in version suffixes.

    `+deb12u3`, `~deb12u1` are updates to Debian 12; `ubuntu0.22.04.1` and `~22.04` to Ubuntu 22.04.
    """
    marked: Counter[str] = Counter()
    for package in packages:
        for known in known_releases():
            number = re.escape(known.number)
            mark = rf"deb{number}u\d" if known.distribution == "debian" else rf"(ubuntu0\.|~){number}"
            if re.search(mark, package.version):
                marked[known.codename] += 1
    return _most_frequent_release(marked, "package versions are marked as its updates")


def _most_frequent_release(counts: Counter[str], words: str) -> DistributionRelease | None:
    known = {release.codename: release.distribution for release in known_releases()}
    ranked = sorted((-count, name) for name, count in counts.items() if name in known)
    if not ranked:
        return None
    count, name = ranked[0]
    return DistributionRelease(distribution=known[name], codename=name, evidence=f"{-count} {words}")
