"""Consistency checks between the fields of a lock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from packaging.utils import InvalidWheelFilename, canonicalize_name

from reprobuild.errors import LockError
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.wheels import read_wheel_filename
from reprobuild.lock.keys import identity
from reprobuild.lock.model import AnyLock, Lock, SealedLock, canonical, encode
from reprobuild.lock.python import Wheel

_HINT = (
    "it is one of a captured line, of an index or of a decision: correct it, or leave its project or package out with "
    "`--drop NAME`"
)


def check_consistency(lock: Lock) -> None:
    """Refuse a lock with contradictory or duplicate items.

    Raises:
        ValueError: the file of a wheel has no valid wheel name, or the name of another project; two wheels of the image
            have files of one name; two items of a sequence have one name, or two sources one path; a source has the
            path of another name. The message names the field.
    """
    _check_items(lock, "$")
    for path, wheels in (("wheels", lock.wheels), ("realised.wheels", lock.built_wheels)):
        for number, wheel in enumerate(wheels):
            _check_name(wheel, f"$.{path}[{number}].file.filename")
    environment = [wheel for wheel in (*lock.wheels, *lock.built_wheels) if wheel.role == "environment"]
    _check_unique((wheel.file.filename for wheel in environment), "wheels: two files are named")
    _check_unique((source.path for source in lock.sources), "sources: two stand in")
    for number, source in enumerate(lock.sources):
        if source.path != f"/src/{source.name}":  # a single path step, so sources do not nest
            raise ValueError(f"{source.path} is no place of {source.name} - at `$.sources[{number}].path`")


def check_readable(lock: AnyLock) -> AnyLock:
    """Return the canonical lock, checked by a round trip through JSON.

    Raises:
        LockError: a lock cannot hold one of the values, so that no program could read its file.
    """
    lock = canonical(lock)
    try:
        text = encode(lock)
        sealed = isinstance(lock, SealedLock)
        check_consistency(decode_json(text, SealedLock) if sealed else decode_json(text, Lock))
    except (msgspec.MsgspecError, ValueError) as err:
        raise LockError(f"a lock cannot hold a value: {display_error(err)}", hint=_HINT) from None
    return lock


def _check_name(wheel: Wheel, path: str) -> None:
    try:
        name = read_wheel_filename(wheel.file.filename)[0]
    except InvalidWheelFilename as err:
        raise ValueError(f"{err} - at `{path}`") from None
    if name != canonicalize_name(wheel.name):
        raise ValueError(f"{wheel.file.filename} is no wheel of {wheel.name} - at `{path}`")


def _check_items(struct: Struct, path: str) -> None:
    """Refuse two items of one name in any sequence.

    The comparison of locks finds items by name, so a duplicate would not be compared.
    """
    for name in struct.__struct_fields__:
        value = getattr(struct, name)
        if isinstance(value, Struct):
            _check_items(value, f"{path}.{name}")
        if not isinstance(value, tuple):
            continue
        items = [item for item in value if isinstance(item, Struct)]
        known = filter(None, map(identity, items))
        if twice := next(_find_duplicates(known), None):
            raise ValueError(f"two items are {twice} - at `{path}.{name}`")
        for number, item in enumerate(items):
            _check_items(item, f"{path}.{name}[{number}]")


def _check_unique(names: Iterable[str], words: str) -> None:
    if twice := next(_find_duplicates(names), None):
        raise ValueError(f"{words} {twice} - at `$`")


def _find_duplicates(names: Iterable[str]) -> Iterator[str]:
    yield from (name for name, count in Counter(names).items() if count > 1)
