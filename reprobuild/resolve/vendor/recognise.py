"""Recognition of a vendor's image in a snapshot.

The evidence are variables, versions and paths, each with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from urllib.parse import unquote

from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.resolve.architecture import captured_platform
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation

_SHOWN = 60  # characters of a value; a longer one is left out
_LONGEST = 4000  # characters of a value that is searched
_LONGEST_LINE = 300  # of a distribution's name and version, or its path


class ImageRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of `images.toml`, which documents the fields."""

    service: str
    name: str
    own: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    least: int = 2
    certain: bool = False


class Sign(Struct, frozen=True, kw_only=True):
    """One captured line as evidence for the image.

    `own` is set if no other image has it; `facts` are the facts that it shows.
    """

    place: SourceLocation
    text: str
    own: bool = True
    version: bool = False
    facts: tuple[tuple[str, str], ...] = ()


class Recognised(Struct, frozen=True, kw_only=True):
    """The image that a snapshot was taken inside, with the evidence.

    The image is known by its service.
    """

    service: str
    name: str
    signs: tuple[Sign, ...]

    @property
    def facts(self) -> dict[str, str]:
        """The facts in the evidence.

        A version of the freeze overrides a variable.
        """
        ordered = sorted(self.signs, key=lambda sign: not sign.version)
        return {key: value for sign in reversed(ordered) for key, value in sign.facts}


class ImageTable(Struct, frozen=True, forbid_unknown_fields=True):
    """The table of images, with CUDA's last patch releases.

    There is one patch release for each version of CUDA.
    """

    image: tuple[ImageRule, ...]
    cuda: dict[str, str]


@cache
def read_image_table() -> ImageTable:
    """Return the shipped table."""
    raw = files("reprobuild.resolve.vendor").joinpath("images.toml").read_bytes()
    return decode_toml(raw, ImageTable)


def recognise_image(snapshot: Snapshot) -> Recognised | None:
    """Return the vendor's image that a snapshot was taken inside, or None."""
    for rule in read_image_table().image:
        signs = tuple(_find_signs(rule, snapshot))
        certain = rule.certain and any(sign.version for sign in signs) and not _may_be_jetson(snapshot)
        if certain or (len(signs) >= rule.least and any(sign.own for sign in signs)):
            return Recognised(service=rule.service, name=rule.name, signs=signs)
    return None


def _find_signs(rule: ImageRule, snapshot: Snapshot) -> Iterator[Sign]:
    values = {variable.name: variable for variable in snapshot.variables}
    for is_own, patterns in ((True, rule.own), (False, rule.signs)):
        for pattern in patterns:
            name, _, value_pattern = pattern.partition("=")
            variable = values.get(name)
            if variable is None:
                continue
            value = (variable.value or "")[:_LONGEST]
            if match := re.fullmatch(value_pattern, value) if value_pattern else re.match("", value):
                text = f"{name}={value}" if value_pattern and len(value) <= _SHOWN else name
                yield Sign(place=variable.place, text=text, own=is_own, facts=_match_facts(match))
    for line in snapshot.requirements:
        yield from _line_signs(rule, line)


def _line_signs(rule: ImageRule, line: Requirement) -> Iterator[Sign]:
    path = unquote(line.path or "")
    for written in (f"{line.name}=={line.version}", path.rpartition("/")[2]):
        for pattern in rule.versions:
            if match := re.fullmatch(pattern, written[:_LONGEST_LINE]):
                yield Sign(place=line.place, text=written, version=True, facts=_match_facts(match))
                return
    if any(re.fullmatch(pattern, path[:_LONGEST_LINE]) for pattern in rule.paths):
        yield Sign(place=line.place, text=f"{line.name} from {path}")


def _match_facts(match: re.Match[str]) -> tuple[tuple[str, str], ...]:
    groups: Mapping[str, str | None] = match.groupdict()
    return tuple((key, value) for key, value in groups.items() if value)


def _may_be_jetson(snapshot: Snapshot) -> bool:
    for line in snapshot.requirements:
        if line.name.lower().startswith("jetson") or "aarch64" in (line.path or line.url or ""):
            return True
    try:
        return captured_platform(snapshot) == "linux/arm64"
    except LockError:  # of another machine, or of two
        return True
