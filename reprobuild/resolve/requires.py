"""What the distributions of an environment require of each other: the metadata of their wheels, read once for each.

https://packaging.python.org/en/latest/specifications/core-metadata/ has the fields,
https://packaging.python.org/en/latest/specifications/dependency-specifiers/ the requirements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta
from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from reprobuild.errors import BuildError
from reprobuild.guard import zips
from reprobuild.guard.names import HOSTILE
from reprobuild.lock import Artefact, Wheel
from reprobuild.net import split_credentials
from reprobuild.resolve.python import Target
from reprobuild.snapshot.text import shown
from reprobuild.store import Store

VERSION = 1  # of what is remembered
# Of one wheel; apache-airflow with all its extras, the most of those seen, has fewer than a thousand.
MOST = 5000
LONGEST = 2000  # characters of one requirement
# A marker may nest until Python's own parser gives up.
_UNREADABLE = (InvalidRequirement, InvalidVersion, RecursionError)
_UNDECIDABLE = (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, RecursionError)

_Texts = tuple[Annotated[str, Meta(max_length=LONGEST)], ...]


def with_requires(wheels: Sequence[Wheel], target: Target, store: Store) -> tuple[Wheel, ...]:
    """Return the wheels, each with its requirements that hold in their environment.

    A requirement of an extra holds if another wheel asks for the distribution with that extra (a freeze does not tell
    what a person asked for with an extra). One that nobody can read stays as it is.

    Args:
        wheels: of one environment, all in the store.
        target: what markers are judged by: the captured interpreter, never the one that runs.
        store: it holds the wheels, and remembers what is in them.

    Raises:
        FetchError: a wheel is not in the store.
        BuildError: a wheel is hostile or damaged.
    """
    markers = environment_of(target)
    read = {wheel.name: [_parsed(text) for text in read_requires(wheel.file, store)] for wheel in wheels}
    asked: dict[str, set[str]] = {name: set() for name in read}
    waiting = list(read)
    while waiting:  # extras ask for further ones
        for one in _holding(read[name := waiting.pop()], asked[name], markers):
            other = canonicalize_name(one.name) if isinstance(one, Requirement) else ""
            if other in asked and isinstance(one, Requirement) and not one.extras <= asked[other]:
                asked[other] |= one.extras
                waiting.append(other)
    return tuple(
        msgspec.structs.replace(
            wheel,
            requires=tuple(
                sorted({_text(one) for one in _holding(read[wheel.name], asked[wheel.name], markers)})
            ),
        )
        for wheel in wheels
    )


def read_requires(file: Artefact, store: Store) -> tuple[str, ...]:
    """Return the requirements in the metadata of a wheel, as they stand there; none where it has no metadata.

    Raises:
        FetchError: the wheel is not in the store.
        BuildError: the wheel is hostile or damaged.
    """
    key = hashlib.sha256(f"requires {VERSION} {file.sha256}".encode()).hexdigest()
    try:
        return msgspec.convert(store.recall(key), type=_Texts)
    except msgspec.ValidationError:  # not there yet, or damaged
        found = _read(file, store)
        store.remember(key, found)
        return found


def environment_of(target: Target) -> Mapping[str, str]:
    """Return the variables that markers may ask for; what no snapshot tells (the kernel's release) is empty."""
    return {
        "implementation_name": "cpython", "implementation_version": target.python, "os_name": "posix",
        "platform_machine": target.machine, "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": "Linux", "platform_version": "", "python_full_version": target.python,
        "python_version": ".".join(target.python.split(".")[:2]), "sys_platform": "linux",
    }  # fmt: skip


def _read(file: Artefact, store: Store) -> tuple[str, ...]:
    origin = file.filename
    with zips.open_zip(store.verified(file.sha256, origin), origin) as (archive, members):
        found = [name for name in members if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
        try:
            texts = [zips.read_text(archive, members[name], origin) for name in found[:1]]
            raw = parse_email(texts[0])[0].get("requires_dist", []) if texts else []
        except zips.UNREADABLE as err:
            raise BuildError(f"{origin} is damaged at {found[0]}: {err}", hint=HOSTILE) from None
    if len(raw) > MOST:
        raise BuildError(f"{origin} has {len(raw)} requirements, and at most {MOST} are read", hint=HOSTILE)
    return tuple(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in raw)


def _parsed(text: str) -> Requirement | str:
    try:
        return Requirement(text)
    except _UNREADABLE:
        return text


def _holding(
    requirements: Iterable[Requirement | str], extras: Iterable[str], markers: Mapping[str, str]
) -> list[Requirement | str]:
    """Return those without a marker, or whose marker holds for no extra or for one of these."""
    wanted = ("", *extras)
    return [one for one in requirements if isinstance(one, str) or _holds(one, wanted, markers)]


def _holds(requirement: Requirement, extras: Iterable[str], markers: Mapping[str, str]) -> bool:
    if requirement.marker is None:
        return True
    try:
        if "extra" not in str(requirement.marker):
            return requirement.marker.evaluate({**markers})
        return any(requirement.marker.evaluate({**markers, "extra": extra}) for extra in extras)
    except _UNDECIDABLE:
        return False  # pip does not install it either: it stops


def _text(requirement: Requirement | str) -> str:
    """Return a requirement without its marker; what may hold a secret is left out of an address."""
    if isinstance(requirement, str):
        return shown(requirement)
    parts = [requirement.name, f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""]
    if requirement.url:
        return f"{''.join(parts)} @ {shown(split_credentials(requirement.url)[0].partition('?')[0])}"
    return "".join([*parts, str(requirement.specifier)])
