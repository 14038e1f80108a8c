"""Conda packages as facts.

Python distributions among them have their names on PyPI.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reprobuild.compare.environments.model import (
    Aspects,
    EnvironmentBuilder,
    Kind,
    normalise_name,
    same_statement,
)
from reprobuild.compare.environments.origin import CONDA, INDEX
from reprobuild.snapshot.parsers.conda_names import find_pypi_name, read_conda_names

# https://docs.conda.io/projects/conda-build/en/stable/concepts/package-naming-conv.html
_FILE = re.compile(r"(?P<name>[^/\s]{1,200})-(?P<version>[^-/\s]{1,100})-(?P<build>[^-/\s]{1,100})\Z")
# Builds for only one Python, or for any: py311h06a4308_0, pyhd8ed1ab_0.
_PYTHON = re.compile(r"(?:.*_)?(py\d+|pyh[0-9a-f]+)(_|h|\Z).*|pyh.*")


class CondaBuild(NamedTuple):
    """A conda package: name, version, build, channels and hashes.

    The hashes are those of its file; `packed` is true for a .tar.bz2. `cut` are the digests of its channels that were
    cut.
    """

    name: str
    version: str
    build: str
    md5: str = ""
    sha256: str = ""
    packed: bool = False
    channel: str = ""
    cut: tuple[str, ...] = ()

    @property
    def file(self) -> Aspects:
        """The known facts of its file."""
        facts: Aspects = {"build": self.build, "channel": self.channel}
        if self.packed:
            return {**facts, "md5 of .tar.bz2": self.md5, "sha256 of .tar.bz2": self.sha256}
        return {**facts, "md5": self.md5, "sha256": self.sha256}


def parse_filename(filename: str) -> CondaBuild | None:
    """Return the package of a conda file name, or None.

    The ending of the name is optional.
    """
    match = _FILE.match(filename.removesuffix(".conda").removesuffix(".tar.bz2").removesuffix(".json"))
    return CondaBuild(match["name"], match["version"], match["build"]) if match else None


def with_hashes(
    built: CondaBuild, address: str, *, md5: str | None = None, sha256: str | None = None
) -> CondaBuild:
    """Return a package with the hashes of its file.

    `address` is the address or the name of the file.
    """
    if not address.endswith((".conda", ".tar.bz2")):
        return built
    return built._replace(md5=md5 or "", sha256=sha256 or "", packed=address.endswith(".tar.bz2"))


def add(gathered: EnvironmentBuilder, packages: Iterable[CondaBuild]) -> None:
    """Add conda packages to the list of pip, already present.

    A Python distribution joins the other distributions, and gets the version that a freeze of conda's build
    paths lacks. Other packages have a kind of their own.
    """
    gathered.begin("conda")
    distributions = gathered.begin("python")
    for built in packages:
        name = find_pypi_name(built.name)
        if (
            name in distributions
            or normalise_name(built.name) in read_conda_names()
            or _PYTHON.fullmatch(built.build)
        ):
            distribution = distributions.get(name, {})
            version = distribution.get("version", built.version)
            if _is_conda_version(version, built):  # else pip has installed another one over it
                if distribution.get("origin") == INDEX:
                    del distribution["origin"]  # a freeze lists conda's by name and version, too
                # A build for any Python is the same from every channel.
                origin = "" if built.build.startswith("pyh") else CONDA
                _add_built(gathered, "python", name, built, {"version": version, "origin": origin})
        else:
            _add_built(gathered, "conda", built.name, built, {"version": built.version})


def _add_built(
    gathered: EnvironmentBuilder, kind: Kind, name: str, built: CondaBuild, aspects: Aspects
) -> None:
    """Add a package, and the digests of its channels: two packages can be one distribution."""
    gathered.add(kind, name, {**aspects, **built.file})
    if built.cut and built.channel:  # a list on one line has the digests of all its packages
        gathered.cut[kind, name, "channel"] = gathered.cut.get((kind, name, "channel"), ()) + built.cut


def _is_conda_version(version: str, built: CondaBuild) -> bool:
    """Return whether pip's version is that of a conda package.

    conda-forge's torch has the number of its build as a post-release: 2.5.1.post306 is of
    cuda126_py311h..._306.
    """
    number = built.build.rpartition("_")[2]
    return any(
        same_statement("python", "version", version, candidate)
        for candidate in (built.version, f"{built.version}.post{number}")
    )
