"""Packages of conda as facts: those that are distributions of Python under their names on PyPI."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reprobuild.environments.facts import Gathered, equal, project
from reprobuild.snapshot.conda_names import names, on_pypi

# https://docs.conda.io/projects/conda-build/en/stable/concepts/package-naming-conv.html
_FILE = re.compile(r"(?P<name>[^/\s]{1,200})-(?P<version>[^-/\s]{1,100})-(?P<build>[^-/\s]{1,100})\Z")
# What the build of a package says that only one Python, or any, can use: py311h06a4308_0, pyhd8ed1ab_0.
_PYTHON = re.compile(r"(?:.*_)?(py\d+|pyh[0-9a-f]+)(_|h|\Z).*|pyh.*")


class Built(NamedTuple):
    """A package of conda: name, version, build."""

    name: str
    version: str
    build: str


def package(filename: str) -> Built | None:
    """Return what a file name of conda says, with or without its ending; None for what is none."""
    match = _FILE.match(filename.removesuffix(".conda").removesuffix(".tar.bz2").removesuffix(".json"))
    return Built(match["name"], match["version"], match["build"]) if match else None


def add(gathered: Gathered, packages: Iterable[Built]) -> None:
    """Add packages of conda to what pip lists; the latter is to be there already.

    A distribution of Python stands among the others, and gets the version that a freeze of conda's build
    paths does not tell. What is none stands in a kind of its own.
    """
    gathered.begin("conda")
    distributions = gathered.begin("python")
    for built in packages:
        name = on_pypi(built.name)
        if name in distributions or project(built.name) in names() or _PYTHON.fullmatch(built.build):
            version = distributions.get(name, {}).get("version", built.version)
            if equal("python", "version", version, built.version):  # else pip has put another one over it
                gathered.add("python", name, {"version": version, "build": built.build})
        else:
            gathered.add("conda", built.name, {"version": built.version, "build": built.build})
