"""Freeze lines covered by distributions of the base image.

They are on no index, and the image has them for its own Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.lock.model import Resolution
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.snapshot.model import Requirement

OF_BASE = "base-distribution"  # the kind of a line that a distribution of the base covers


class Below(Struct, frozen=True, kw_only=True):
    """The distributions that pip installed into the base image.

    They are for the same Python as the environment.

    `distributions` are {name: version}. `same` is set if the snapshot was taken inside this exact image, so that a line
    without a version is of it. `image` is empty if the base is not an image, or if its Python is another.
    """

    image: str = ""
    distributions: Mapping[str, str] = MappingProxyType({})
    same: bool = False


def rule_base_distribution(line: Requirement, refused: Resolution, below: Below) -> Resolution:
    """Return the resolution of a line without any other source.

    It is in the base if the base has that version, else unchanged.

    Args:
        line: the line.
        refused: its resolution without the base.
        below: the distributions of the base.
    """
    version = below.distributions.get(str(canonicalize_name(line.name)))
    if not below.image or refused.outcome != "unresolved":
        return refused
    if version is None or not (below.same if line.version is None else same_version(line.version, version)):
        return refused
    reason = f"{below.image} has {line.name} {version}, which the environment sees there"
    return make_resolution(line, "in base", reason, OF_BASE)
