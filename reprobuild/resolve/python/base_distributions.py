"""Lines of a freeze that no index has, and that the image under the environment has for its own Python."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.lock.model import Resolution
from reprobuild.resolve.python.rulings import rule
from reprobuild.snapshot.model import Requirement

OF_BASE = "base-distribution"  # the kind of a line that a distribution of the base stands for


class Below(Struct, frozen=True, kw_only=True):
    """What pip installed into the image of the base, for the Python that the environment is of, too.

    `distributions` are {name: version}. `same` tells that it is the very image that the snapshot was taken inside, so
    that a line without a version is of it. `image` is empty where the base is no image, or its Python another.
    """

    image: str = ""
    distributions: Mapping[str, str] = MappingProxyType({})
    same: bool = False


def rule_of_base(line: Requirement, refused: Resolution, below: Below) -> Resolution:
    """Return the ruling on a line that nothing else has: of the base where it has that version, else as it was.

    Args:
        line: the line.
        refused: the ruling that it has without the base.
        below: what the base has.
    """
    version = below.distributions.get(str(canonicalize_name(line.name)))
    if not below.image or refused.outcome != "unresolved":
        return refused
    if version is None or not (below.same if line.version is None else same_version(line.version, version)):
        return refused
    reason = f"{below.image} has {line.name} {version}, which the environment sees there"
    return rule(line, "in base", reason, OF_BASE)
