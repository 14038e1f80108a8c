"""Comparison of two locks, field by field.

The walk covers every part, so that a new field cannot be forgotten.
"""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from reprobuild.lock.keys import key_of
from reprobuild.lock.model import BuildRecord, Lock, SealedLock, canonical, unseal
from reprobuild.lock.python import CondaPackage, Interpreter, Sdist, Wheel
from reprobuild.lock.system import Artefact, Deb, EnvVar
from reprobuild_portable import secrets

# Fields that may differ without a report, and why. Each other field of a lock is compared.
SILENT: dict[tuple[type[Struct], str], str] = {
    (Lock, "decisions"): "kept for people; the fields that decide the image say what came of them",
    (Lock, "rulings"): "say what became of captured lines; the fields that decide the image say the same",
    (Interpreter, "evidence"): "a text that is displayed only",
    (Wheel, "yanked"): "a text that is displayed only",
    (
        Wheel,
        "requires",
    ): "repeats metadata of the file for warnings and lists; the wheels are what is installed",
    (Sdist, "yanked"): "a text that is displayed only",
    (BuildRecord, "tools"): "say with what the wheel was made, once; the wheel has its own sha256",
    (BuildRecord, "variables"): "say with what the wheel was made, once; the wheel has its own sha256",
    (Artefact, "url"): "the sha256 decides; where that differs, the address is shown with it",
}
SECRET = "(secret)"
ANOTHER = "another value, which is not shown"
# The most characters of one value, and of all, to search for secrets. Of longer values only the length is shown.
LONGEST = 4096
MOST = 1 << 20


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field with different values in two locks.

    `path` is its path with the names of items, as `sources[mylib].building.requires`. `item` is the outermost item of a
    sequence that holds it, of the first lock if both have one; `place` is the path of that sequence without names and
    `field` the path below the item, empty for the item itself. Without an item, `place` is the whole path. `one` and
    `other` are the values without secrets, None if that lock has no value.
    """

    path: str
    place: str
    field: str
    item: Struct | None
    one: str | None
    other: str | None


class _Place(Struct, frozen=True):
    """A position of the walk."""

    eyes: _Eyes
    path: str = ""
    place: str = ""
    field: str = ""
    item: Struct | None = None

    def below(self, name: str) -> _Place:
        path = f"{self.path}.{name}" if self.path else name
        if self.item is None:
            return _Place(self.eyes, path, f"{self.place}.{name}" if self.place else name)
        return _Place(self.eyes, path, self.place, f"{self.field}.{name}" if self.field else name, self.item)

    def child(self, key: str, item: Struct) -> _Place:
        return _Place(self.eyes, f"{self.path}[{key}]", self.place, self.field, self.item or item)

    def change(self, first: Any, second: Any) -> FieldChange:
        first_text, second_text = (
            None if value is None else self.eyes.text(value) for value in (first, second)
        )
        if first_text == second_text:  # without their secrets
            second_text = ANOTHER
        return FieldChange(
            path=self.path,
            place=self.place,
            field=self.field,
            item=self.item,
            one=first_text,
            other=second_text,
        )


def compare_fields(first: Lock, second: Lock) -> Iterator[FieldChange]:
    """Yield each differing field of two locks, in field order.

    The fields of `SILENT` are left out, and the realised outputs unless both locks are sealed.
    """
    if not (isinstance(first, SealedLock) and isinstance(second, SealedLock)):
        first, second = unseal(first), unseal(second)
    yield from _compare_values(canonical(first), canonical(second), _Place(_Eyes()))


def is_same_part(first: Struct, second: Struct) -> bool:
    """Return whether two items of a lock make the same image; fields of `SILENT` may differ."""
    return next(_compare_values(first, second, _Place(_Eyes(), item=second)), None) is None


def _compare_values(first: Any, second: Any, place: _Place) -> Iterator[FieldChange]:
    if first == second:
        return
    struct = first if isinstance(first, Struct) else second
    if isinstance(first, tuple) and any(isinstance(item, Struct) for item in (*first[:1], *second[:1])):
        yield from _compare_items(first, second, place)
    elif isinstance(struct, Artefact):
        if not _same_file(first, second, place):
            yield place.change(first, second)
    elif first is None or second is None or not isinstance(struct, Struct):
        yield place.change(first, second)
    elif isinstance(first, EnvVar):
        if first.value != second.value:
            yield place.below("value").change(first, second)
        yield from _compare_values(first.needs, second.needs, place.below("needs"))
    else:
        for name in first.__struct_fields__:
            if not _is_silent(type(first), name):
                yield from _compare_values(getattr(first, name), getattr(second, name), place.below(name))


def _is_silent(kind: type[Struct], name: str) -> bool:
    return any((base, name) in SILENT for base in kind.__mro__)


def _same_file(first: Artefact | None, second: Artefact | None, place: _Place) -> bool:
    """Return whether two files differ in their address alone.

    Files of conda always count as different, because packages are unpacked with their address.
    """
    if first is None or second is None or isinstance(place.item, CondaPackage):
        return False
    return (first.filename, first.sha256, first.size) == (second.filename, second.sha256, second.size)


def _compare_items(first: Sequence[Struct], second: Sequence[Struct], place: _Place) -> Iterator[FieldChange]:
    first_groups, second_groups = _group_by_key(first), _group_by_key(second)
    for key in dict.fromkeys((*first_groups, *second_groups)):
        first_group, second_group = first_groups.get(key, []), second_groups.get(key, [])
        if first_group == second_group:
            continue
        pairs = zip_longest(
            _subtract_items(first_group, second_group), _subtract_items(second_group, first_group)
        )
        for number, (a, b) in enumerate(pairs):
            # Several items of one name are numbered among those that differ.
            yield from _compare_values(a, b, place.child(f"{key}, {number + 1}" if number else key, a or b))


def _group_by_key(items: Sequence[Struct]) -> dict[str, list[Struct]]:
    groups: dict[str, list[Struct]] = {}
    for number, item in enumerate(items):
        groups.setdefault(key_of(item) or str(number), []).append(item)
    return groups


def _subtract_items(items: list[Struct], others: list[Struct]) -> list[Struct]:
    return list((Counter(items) - Counter(others)).elements()) if others else items


# --- values, for the eyes ---------------------------------------------------------------------


def display_variable(setting: EnvVar) -> str:
    """Return the text of a variable's value, without secrets."""
    return _Eyes().setting(setting)


class _Eyes:
    """Converts values to text for display.

    The search for secrets takes time, so the amount of text is limited.
    """

    def __init__(self) -> None:
        self._left = MOST

    def redact(self, text: str) -> str:
        """Return a text without secrets, or only its length."""
        return secrets.redact(text) if self._affords(text) else f"({len(text)} characters)"

    def setting(self, setting: EnvVar) -> str:
        """Return the text of a variable's value, without secrets."""
        if not self._affords(setting.value):
            return f"({len(setting.value)} characters)"
        hidden = secrets.secret_variable(setting.name, setting.value)
        return SECRET if hidden else secrets.redact(setting.value)

    def text(self, value: Any) -> str:
        """Return a value as one line of text."""
        if isinstance(value, Artefact):
            origin = f" from {self.redact(value.url)}" if value.url else ""
            return f"{value.filename}, {value.size} bytes, sha256:{value.sha256}{origin}"
        if isinstance(value, EnvVar):
            return self.setting(value)
        if isinstance(value, (Wheel, Sdist, CondaPackage, Deb)):
            return f"{value.version}, {self.text(value.file)}".removeprefix(", ")
        plain = self._plain(value)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)

    def _affords(self, text: str) -> bool:
        if len(text) > LONGEST or len(text) > self._left:
            return False
        self._left -= len(text)
        return True

    def _plain(self, value: Any) -> Any:
        if isinstance(value, EnvVar):
            return {"name": value.name, "value": self.setting(value), "needs": list(value.needs)}
        if isinstance(value, Struct):
            fields = ((name, getattr(value, name)) for name in value.__struct_fields__)
            return {name: self._plain(field) for name, field in fields if not _is_silent(type(value), name)}
        if isinstance(value, tuple) and any(isinstance(item, Struct) for item in value):
            return [self._plain(item) for item in value]
        if isinstance(value, tuple):
            return self.redact(shlex.join(value))
        return self.redact(value) if isinstance(value, str) else value
