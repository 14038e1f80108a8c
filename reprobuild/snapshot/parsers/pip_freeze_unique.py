"""Deduplication of a freeze's distributions.

A pin occurs several times only with markers for different environments. A line without a version stays unless a pin has
what it asks for: each of several such lines of one name can exclude other versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from packaging.markers import InvalidMarker, Marker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, Requirement
from reprobuild.snapshot.parsers.pip_freeze_hashes import with_hashes

_Key = tuple[str, str]  # the name of a line, and its marker or ""


def read_marker(written: str | None) -> str | UnsetType:
    """Return a marker (PEP 508) as `packaging` writes it, or UNSET.

    It is UNSET if it is absent or cannot be read.
    """
    if written is None:
        return UNSET
    try:
        return str(Marker(written))
    except (InvalidMarker, RecursionError):
        return UNSET


def same_version(first: str | None, second: str | None) -> bool:
    """Return whether two versions are equal under PEP 440.

    Other versions are compared as text.
    """
    try:
        return first == second or (
            first is not None and second is not None and Version(first) == Version(second)
        )
    except InvalidVersion:
        return False


def read_extras(written: str | None) -> tuple[str, ...] | UnsetType:
    """Return the extras in the brackets of a line in the form of PEP 503, sorted; UNSET without any."""
    names = {str(canonicalize_name(name.strip())) for name in (written or "").split(",")}
    return tuple(sorted(names - {""})) or UNSET


def with_extras(line: Requirement, other: Requirement) -> Requirement:
    """Return a line with its extras and those of another line of its name."""
    return replace(line, extras=tuple(sorted({*(line.extras or ()), *(other.extras or ())})) or UNSET)


def list_extras(lines: Iterable[Requirement]) -> dict[str, frozenset[str]]:
    """Return the extras of lines by canonical name."""
    extras: dict[str, frozenset[str]] = {}
    for line in lines:
        if line.extras:
            name = str(canonicalize_name(line.name))
            extras[name] = extras.get(name, frozenset()) | set(line.extras)
    return extras


def is_open(line: Requirement) -> bool:
    """Return whether a line of an index names no version."""
    return line.kind == "index" and line.version is None


def line_name(line: Requirement) -> str:
    """Return the name by which lines repeat each other."""
    return f"{line.kind}:{line.name}" if line.kind == "leftover" else str(canonicalize_name(line.name))


def fulfils(pin: Requirement, line: Requirement) -> bool:
    """Return whether the version of a pin is one that a line without a version allows.

    An unknown version counts as fitting, as in `find_conflicts`.
    """
    specifier = _read_specifier(line)
    if specifier is None:
        return False
    try:
        return (
            not specifier or pin.version is None or specifier.contains(Version(pin.version), prereleases=True)
        )
    except InvalidVersion:
        return False


def find_pins(line: Requirement, pins: Mapping[_Key, Requirement]) -> list[Requirement]:
    """Return the pins that are for each environment of a line without a version."""
    name, marker = _key(line)
    return [pins[key] for key in dict.fromkeys(((name, marker), (name, ""))) if key in pins]


def list_pins(lines: Iterable[Requirement]) -> Mapping[_Key, Requirement]:
    """Return the first pin of each name and marker."""
    pins: dict[_Key, Requirement] = {}
    for line in lines:
        if not is_open(line):
            pins.setdefault(_key(line), line)
    return pins


def merge_duplicates(
    requirements: Sequence[Requirement],
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Return each pin once for each marker, the lines without a version that no pin fulfils, and remarks.

    The remarks are on repetitions.

    Raises:
        SnapshotError: one of them has two versions or two origins.
    """
    lines = sorted(requirements, key=lambda line: line.place)
    pins: dict[_Key, Requirement] = {}
    repeated: list[ParseNote] = []
    for line in lines:
        first = pins.setdefault(_key(line), line) if not is_open(line) else line
        if first is not line:
            pins[_key(line)] = _join_pins(first, line)
            repeated.append(_repetition_remark(line, first))
    others: dict[tuple[object, ...], Requirement] = {}
    for line in filter(is_open, lines):
        pin = next(
            (pin for pin in find_pins(line, pins) if fulfils(pin, line) and _has_extras(pin, line)), None
        )
        specifier = _read_specifier(line)
        # A text that is cut may differ from an equal one.
        parts = (line.place,) if specifier is None else (str(specifier), line.extras, line.hashes)
        first = pin or others.setdefault((*_key(line), *parts), line)
        if pin is not None:
            pins[_key(pin)] = with_extras(pin, line)
        if first is not line:
            repeated.append(_repetition_remark(line, first))
    return tuple(sorted((*pins.values(), *others.values()), key=lambda line: line.place)), tuple(repeated)


def is_same_pin(first: Requirement, line: Requirement) -> bool:
    """Return whether two pins can be of one file; a hash that only one of them states is no contradiction."""
    places = [
        (item.kind, item.url, item.commit, item.path, item.subdirectory or None) for item in (first, line)
    ]
    hashes, others = _stated_hashes(first), _stated_hashes(line)
    agree = all(others.get(algorithm, value) == value for algorithm, value in hashes.items())
    return agree and places[0] == places[1] and same_version(first.version, line.version)


def _key(line: Requirement) -> _Key:
    return line_name(line), line.marker or ""


def _read_specifier(line: Requirement) -> SpecifierSet | None:
    """Return the versions that a line without a version allows; None if its text is cut."""
    try:
        return Pep508(line.text).specifier
    except (InvalidRequirement, RecursionError):
        return None


def _has_extras(pin: Requirement, line: Requirement) -> bool:
    """Return whether a pin has the extras of a line wherever the line holds, or may take them."""
    return _key(pin) == _key(line) or set(line.extras or ()) <= set(pin.extras or ())


def _stated_hashes(line: Requirement) -> dict[str, str]:
    stated = dict(digest.split(":", 1) for digest in line.digests or ())
    return {**stated, "sha256": line.sha256} if line.sha256 else stated


def _join_pins(first: Requirement, line: Requirement) -> Requirement:
    """Return a pin with the hashes and extras of its repetition."""
    if not is_same_pin(first, line):
        raise text.parse_error(
            line.place,
            f"`{display_text(line.name)}` is pinned again, and differently from {first.place}",
            "keep the line of the environment that ran, or capture that environment alone",
        )
    pin = with_hashes(first, line.hashes) if line.hashes else first
    digests = tuple(dict.fromkeys((*(pin.digests or ()), *(line.digests or ())))) or UNSET
    return replace(with_extras(pin, line), sha256=pin.sha256 or line.sha256, digests=digests)


def _repetition_remark(line: Requirement, first: Requirement) -> ParseNote:
    return text.remark(line.place.file, line.place.line, line.text, f"repeats {first.place}")
