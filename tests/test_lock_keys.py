"""No sequence of a lock has two items of one name: their order would decide the image, and no comparison tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.lock import model, python, system
from reprobuild.lock.file import read_lock
from reprobuild.lock.keys import _KEYS
from reprobuild.lock.model import Lock, Resolution, encode
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import EnvVar, ImageLayer
from tests.conftest import reprobuild
from tests.recipe.full_lock import full_lock

# Items that have their place; rulings are said to people only.
PLACED = (ImageLayer, Resolution)


def sequences(value: Any, path: str = "$") -> Iterator[tuple[str, list[Any]]]:
    """Yield each sequence of items with its path."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        yield path, value
        for number, item in enumerate(value):
            yield from sequences(item, f"{path}[{number}]")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from sequences(item, f"{path}.{name}")


def document() -> Any:
    return json.loads(encode(full_lock()))


PATHS = [
    path
    for path, _ in sequences(document())
    if not path.startswith("$.decisions") and not path.endswith((".layers", ".rulings"))
]


def test_each_type_of_items_has_a_key() -> None:
    kinds = {
        kind
        for module in (model, python, system)
        for struct in vars(module).values()
        if isinstance(struct, type) and issubclass(struct, Struct) and struct is not RecordedDecisions
        for field in msgspec.structs.fields(struct)
        for kind in get_args(field.type)
        if isinstance(kind, type) and issubclass(kind, Struct) and get_args(field.type)[-1] is ...
    }
    assert len(kinds) > 8
    assert {kind for kind in kinds if not issubclass(kind, (*_KEYS, *PLACED))} == set()


def test_the_full_lock_has_items_of_each_type() -> None:
    assert len(PATHS) > 10
    for part in (
        "building.variables",
        "build_base.packages",
        "base.image.environment",
        "realised.builds",
        "base.tools",
    ):
        assert any(part in path for path in PATHS), part


@pytest.mark.parametrize("path", PATHS)
def test_two_items_of_one_name_are_refused(path: str, tmp_path: Path) -> None:
    whole = document()
    found = dict(sequences(whole))[path]
    found.append(found[0])
    (tmp_path / "x.lock").write_text(json.dumps(whole))
    with pytest.raises(LockError, match="is not a lock: ") as caught:
        read_lock(tmp_path / "x.lock")
    assert str(caught.value).endswith(f"at `{path}`")
    assert caught.value.hint == (
        "make it again with `reprobuild lock DIR`; if somebody handed it over, it was changed since, or made to harm"
    )


@pytest.mark.parametrize("values", ["12", "21"])
def test_locks_that_differ_in_the_order_of_two_variables_are_not_compared(
    values: str, tmp_path: Path
) -> None:
    lock = full_lock()
    (source,) = lock.sources
    building = msgspec.structs.replace(
        source.building, variables=tuple(EnvVar(name="X", value=value) for value in values)
    )
    changed = msgspec.structs.replace(lock, sources=(msgspec.structs.replace(source, building=building),))
    (tmp_path / "a.lock").write_bytes(encode(lock))
    (tmp_path / "b.lock").write_bytes(encode(changed))
    done = reprobuild("compare", tmp_path / "a.lock", tmp_path / "b.lock")
    assert done.returncode == 4
    assert "two items are X - at `$.sources[0].building.variables`" in done.stderr


def test_builds_may_import_two_versions_of_a_project(tmp_path: Path) -> None:
    lock = full_lock()
    wheel = msgspec.structs.replace(lock.wheels[0], role="build")
    other = msgspec.structs.replace(wheel, file=msgspec.structs.replace(wheel.file, sha256="c" * 64))
    both: Lock = msgspec.structs.replace(lock, wheels=(*lock.wheels, wheel, other))
    (tmp_path / "x.lock").write_bytes(encode(both))
    assert len(read_lock(tmp_path / "x.lock").wheels) == len(lock.wheels) + 2


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (b'"sources":', b'"sources":[],"sources":', "its JSON has the key 'sources' twice"),
        (b'"commit":', b'"commit":"' + b"0" * 40 + b'","commit":', "its JSON has the key 'commit' twice"),
        (
            b'"commit":',
            b'"c\\u006fmmit":"' + b"0" * 40 + b'","commit":',
            "its JSON has the key 'commit' twice",
        ),
        (b'"commit":', b'"Commit":"x","commit":', "unknown field `Commit`"),
    ],
)
def test_readers_do_not_take_different_values(tmp_path: Path, before: bytes, after: bytes, what: str) -> None:
    """Programs take the first or the last of two, or one of another case."""
    text = msgspec.json.format(encode(full_lock()), indent=-1)
    assert before in text
    (tmp_path / "x.lock").write_bytes(text)
    read_lock(tmp_path / "x.lock")
    (tmp_path / "x.lock").write_bytes(text.replace(before, after, 1))
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path / "x.lock")
    assert what in str(caught.value)
