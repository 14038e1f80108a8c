"""Requirements between the distributions of an environment.

They are from the metadata of the wheels, read once for each.

https://packaging.python.org/en/latest/specifications/core-metadata/ has the fields,
https://packaging.python.org/en/latest/specifications/dependency-specifiers/ the requirements.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta
from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.http.model import split_credentials
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.store.store import Store

VERSION = 1  # of the remembered format
MOST = 5000  # requirements of one wheel, of all its extras together
LONGEST = 2000  # characters of one requirement
_QUOTED = re.compile("[\"']([^\"']+)[\"']")
# A marker may be nested beyond the limit of Python's own parser.
UNREADABLE = (InvalidRequirement, InvalidVersion, RecursionError)
UNDECIDABLE = (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, RecursionError)

_Text = Annotated[str, Meta(max_length=LONGEST)]
_Texts = tuple[_Text, ...]


def with_requires(
    wheels: Sequence[Wheel],
    target: WheelTarget,
    store: Store,
    requested: Mapping[str, AbstractSet[str]] = MappingProxyType({}),
) -> tuple[Wheel, ...]:
    """Return the wheels with the requirements valid in their environment.

    A requirement of an extra is valid if a line or another wheel requires the distribution with that extra (a freeze
    does not record the extras that a person requested). An unreadable one stays as it is.

    Args:
        wheels: of one environment, all in the store.
        target: the environment for markers: the captured interpreter, never the running one.
        store: holds the wheels, and remembers their requirements.
        requested: the extras that lines name, by distribution; all names are in the form of PEP 503.

    Raises:
        FetchError: a wheel is not in the store.
        BuildError: a wheel is malicious or damaged.
    """
    markers = marker_environment(target.python, target.machine)
    waiting = {wheel.name: [_One(text) for text in read_requires(wheel.file, store)] for wheel in wheels}
    holding: dict[str, list[_One]] = {name: [] for name in waiting}
    extras: dict[str, set[str]] = {name: {"", *requested.get(name, ())} for name in waiting}
    unseen: dict[str, set[str]] = {name: set(names) for name, names in extras.items()}
    turns = list(waiting)
    while turns:  # extras require further ones
        name = turns.pop()
        new, unseen[name] = unseen[name], set()
        met = {requirement for requirement in waiting[name] if requirement.holds(new, markers)}
        waiting[name] = [requirement for requirement in waiting[name] if requirement not in met]
        holding[name] += met
        for requirement in met:
            if requirement.project in extras and not requirement.extras <= extras[requirement.project]:
                unseen[requirement.project] |= requirement.extras - extras[requirement.project]
                extras[requirement.project] |= requirement.extras
                turns.append(requirement.project)
    return tuple(
        msgspec.structs.replace(
            wheel, requires=tuple(sorted({requirement.text for requirement in holding[wheel.name]}))
        )
        for wheel in wheels
    )


def read_requires(file: Artefact, store: Store) -> tuple[str, ...]:
    """Return the requirements in a wheel's metadata, unchanged.

    The result is empty for a wheel without metadata.

    Raises:
        FetchError: the wheel is not in the store.
        BuildError: the wheel is malicious or damaged.
    """
    key = hashlib.sha256(f"requires {VERSION} {file.sha256}".encode()).hexdigest()
    try:
        return decode_value(store.recall(key), _Texts)
    except msgspec.ValidationError:  # not there yet, or damaged
        texts = _read_metadata(file, store)
        store.remember(key, texts)
        return texts


def marker_environment(python: str, machine: str) -> Mapping[str, str]:
    """Return the values of all marker variables.

    Values that no snapshot has (the kernel's release) are empty.

    Args:
        python: the version of the image's interpreter, `3.11.2`.
        machine: in the kernel's words, `x86_64`.
    """
    return {
        "implementation_name": "cpython", "implementation_version": python, "os_name": "posix",
        "platform_machine": machine, "platform_python_implementation": "CPython", "platform_release": "",
        "platform_system": "Linux", "platform_version": "", "python_full_version": python,
        "python_version": ".".join(python.split(".")[:2]), "sys_platform": "linux",
    }  # fmt: skip


def marker_holds(marker: Marker | None, markers: Mapping[str, str], extra: str = "") -> bool:
    """Return whether a marker holds; an undecidable one does not.

    pip does not install such a requirement either: it stops. Args: `markers` is of `marker_environment`.
    """
    try:
        return marker is None or marker.evaluate({**markers, "extra": extra})
    except UNDECIDABLE:
        return False


def _read_metadata(file: Artefact, store: Store) -> tuple[str, ...]:
    origin = file.filename
    with zips.open_zip(store.verified(file.sha256, origin), origin) as (archive, members):
        names = [name for name in members if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
        try:
            texts = [zips.read_text(archive, members[name], origin) for name in names[:1]]
            raw = read_metadata(texts[0], origin).get("requires_dist", []) if texts else []
        except zips.UNREADABLE as err:
            raise BuildError(f"{origin} is damaged at {names[0]}: {err}", hint=HOSTILE) from None
    if len(raw) > MOST:
        raise BuildError(f"{origin} has {len(raw)} requirements, and at most {MOST} are read", hint=HOSTILE)
    return tuple(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…" for text in raw)


class _One:
    """A requirement, as text and in its parts.

    `text` is its form in the lock; `project` and `extras` are in the form of PEP 503.
    """

    def __init__(self, written: str) -> None:
        self.project, self.extras, self._marker = "", frozenset[str](), None
        self._names: frozenset[str] = frozenset()
        try:
            requirement = Requirement(written)
        except UNREADABLE:
            self.text = display_text(written)
            return
        self.text = _requirement_text(requirement)
        self.project = str(canonicalize_name(requirement.name))
        self.extras = frozenset(str(canonicalize_name(extra)) for extra in requirement.extras)
        self._marker = requirement.marker
        # Only an extra that a marker names can change its result.
        self._names = frozenset(
            str(canonicalize_name(name)) for name in _QUOTED.findall(str(requirement.marker or ""))
        )

    def holds(self, extras: AbstractSet[str], markers: Mapping[str, str]) -> bool:
        """Return whether it holds with any of these extras.

        `""` means no extra. An unreadable requirement holds.
        """
        return any(marker_holds(self._marker, markers, extra) for extra in extras & {"", *self._names})


def _requirement_text(requirement: Requirement) -> str:
    """Return a requirement without its marker.

    Possible secrets in an address are left out.
    """
    parts = [requirement.name, f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""]
    if requirement.url:
        return f"{''.join(parts)} @ {display_text(split_credentials(requirement.url)[0].partition('?')[0])}"
    return "".join([*parts, str(requirement.specifier)])
