"""Two locks, field by field: what can change the image is told, and the rest is on a list with reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.compare.environments.lock import from_lock
from reprobuild.compare.environments.sides import compare_sides
from reprobuild.errors import LockError
from reprobuild.lock import model, python, system
from reprobuild.lock.diff import compare_locks
from reprobuild.lock.fields import MOST, SILENT
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, Resolution, SealedLock, unseal
from reprobuild.lock.python import CondaPackage
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Artefact, Deb, EnvVar, ImageBlob, InheritedSetting
from reprobuild.report.comparison import render_comparison
from tests.recipe.full_lock import Step, full_lock, replaced
from tests.verify.samples import SHA, artefact, deb, make_lock

TOKEN = "hf_" + "abcdefGHIJ" * 3 + "klmn"
Owner = tuple[type[Struct], str]
Leaf = tuple[tuple[Step, ...], tuple[Owner, ...], Any]


def owner_of(struct: Struct, name: str) -> Owner:
    """Return the type that declares a field, which a sealed lock has from `Lock`."""
    kind = type(struct)
    return (Lock if kind is SealedLock and name in Lock.__struct_fields__ else kind), name


def leaves(value: Any, steps: tuple[Step, ...] = (), owners: tuple[Owner, ...] = ()) -> Iterator[Leaf]:
    """Yield (steps, the fields that hold it, value) of each value of a lock that has no parts."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name), (*steps, name), (*owners, owner_of(value, name)))
    elif isinstance(value, (tuple, dict)):
        for key in range(len(value)) if isinstance(value, tuple) else value:
            yield from leaves(value[key], (*steps, key), owners)
    else:
        yield steps, owners, value


def parts(value: Any, steps: tuple[Step, ...] = (), owners: tuple[Owner, ...] = ()) -> Iterator[Leaf]:
    """Yield each sequence and each part that a lock can be without, with its empty value."""
    if isinstance(value, Struct):
        defaults = {field.name: field.default for field in msgspec.structs.fields(type(value))}
        for name in value.__struct_fields__:
            item, own = getattr(value, name), (*owners, owner_of(value, name))
            if (isinstance(item, Struct) and defaults[name] is None) or name in ("workload", "patch"):
                yield (*steps, name), own, None
            elif isinstance(item, tuple) and item:
                yield (*steps, name), own, ()
            yield from parts(item, (*steps, name), own)
    elif isinstance(value, tuple):
        for number, item in enumerate(value):
            yield from parts(item, (*steps, number), owners)


def others(value: Any) -> list[Any]:
    """Return values that may stand in the place of another one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    digits = "e" if value and not value.startswith(("e", "sha256:e")) else "f"
    words = {"standalone": "conda", "environment": "build", "replaced": "excluded", "all": "needed"}
    return [
        words.get(value, value), value + "x", value + "1", value + "/y", value.capitalize(),
        value.replace("-py3-", "-py2-"),
        digits * len(value), f"sha256:{digits * 64}",
    ]  # fmt: skip


def with_its_pair(lock: Lock, steps: tuple[Any, ...], value: str) -> Lock:
    """Return a lock in which the name and the place of a source follow one another."""
    if len(steps) != 3 or steps[0] != "sources":
        return lock
    if steps[-1] == "name":
        return replaced(lock, (*steps[:-1], "path"), f"/src/{value}")
    if steps[-1] == "path":
        return replaced(lock, (*steps[:-1], "name"), value.rpartition("/")[2])
    return lock


def is_silent(owners: tuple[Owner, ...]) -> bool:
    kinds = [kind for kind, _ in owners]
    for kind, name in owners:
        owner = (Artefact if kind is ImageBlob else kind, name)
        if owner in SILENT:
            return owner != (Artefact, "url") or CondaPackage not in kinds
    return False


def compared(one: Lock, other: Lock, folder: Path) -> EnvironmentComparison:
    sides = []
    for name, lock in (("one", one), ("other", other)):
        write_lock(lock, folder / name)
        sides.append(from_lock(folder / name, name))
    return compare_sides(sides[0], sides[1])


def check(one: Lock, other: Lock, silent: bool, folder: Path) -> None:
    for a, b in ((one, other), (other, one)):
        found = compared(a, b, folder)
        assert found.is_same == silent, [(d.name, d.one, d.other) for d in found.differences]
        assert (compare_locks(a, b) == []) == silent
        text = render_comparison(found)
        assert text.startswith("no difference between the two locks;" if silent else "likeliest: ")


def named(leaf: Leaf) -> str:
    return ".".join(map(str, leaf[0]))


# The version has one value; None is a decision that was not taken.
LEAVES = [leaf for leaf in leaves(full_lock()) if leaf[0] != ("version",) and leaf[2] is not None]
PARTS = list(parts(full_lock()))


@pytest.mark.parametrize("leaf", LEAVES, ids=named)
def test_each_value_is_compared_or_on_the_list(leaf: Leaf, tmp_path: Path) -> None:
    steps, owners, value = leaf
    for another in others(value):
        lock = with_its_pair(replaced(full_lock(), steps, another), steps, str(another))
        try:
            write_lock(lock, tmp_path / "tried")
            read_lock(tmp_path / "tried")
        except LockError:
            continue
        if lock != full_lock():
            check(full_lock(), lock, is_silent(owners), tmp_path)
            return
    raise AssertionError("no other value can stand there: add one to `others`")


@pytest.mark.parametrize("leaf", PARTS, ids=named)
def test_each_part_is_compared_or_on_the_list(leaf: Leaf, tmp_path: Path) -> None:
    steps, owners, empty = leaf
    check(full_lock(), replaced(full_lock(), steps, empty), is_silent(owners), tmp_path)


def test_every_field_of_every_type_is_tried() -> None:
    kinds = {
        kind
        for module in (model, python, system)
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Struct) and kind is not Struct
    }
    fields = {(kind, name) for kind in kinds - {SealedLock} for name in kind.__struct_fields__}
    fields.add((SealedLock, "realised"))
    tried = {owner for leaf in (*LEAVES, *PARTS) for owner in leaf[1]} | {(Lock, "version")}
    assert len(fields) > 80
    assert fields - tried == {
        (RecordedDecisions, "seed")
    }  # which was not taken; no decision decides an image


def test_the_list_says_why_and_has_no_more_than_is_used() -> None:
    assert all(len(reason) > 20 for reason in SILENT.values())
    used = {owner for leaf in (*LEAVES, *PARTS) for owner in leaf[1]}
    assert {*SILENT} <= used


# --- names that stand twice, secrets, noise ----------------------------------------------------


def with_second(**changes: Any) -> Lock:
    second = msgspec.structs.replace(deb("bash"), **changes)
    base = make_lock().base
    return make_lock(base=msgspec.structs.replace(base, packages=(deb("bash", "0"), second)))


def test_a_second_of_one_name_is_refused(tmp_path: Path) -> None:
    """The first would count elsewhere, and the other one would decide the image, too."""
    with pytest.raises(LockError, match=r"two items are bash:amd64 - at `\$\.base\.packages`"):
        compared(with_second(), with_second(), tmp_path)


def with_variable(name: str, value: str) -> Lock:
    return make_lock(environment=(EnvVar(name=name, value=value),))


def test_a_secret_that_differs_is_told_without_its_value(tmp_path: Path) -> None:
    """A value that looks like a secret must not hide a library that is loaded into every process."""
    one, other = with_variable("LD_PRELOAD", f"/a.so:{TOKEN}"), with_variable("LD_PRELOAD", f"/b.so:{TOKEN}")
    found = compared(one, other, tmp_path)
    (difference,) = found.differences
    assert (difference.name, difference.group) == ("environment[LD_PRELOAD].value", "preload")
    assert (difference.one, difference.other) == ("(secret)", "another value, which is not shown")
    assert TOKEN not in render_comparison(found, everything=True) + msgspec.json.encode(found).decode()


def test_a_variable_that_is_noise_counts_in_an_image(tmp_path: Path) -> None:
    found = compared(with_variable("PWD", "/a"), with_variable("PWD", "/b"), tmp_path)
    assert not found.is_same
    assert render_comparison(found).startswith("likeliest: environment[PWD].value: /a -> /b (")


def test_values_are_fit_to_print(tmp_path: Path) -> None:
    variable = EnvVar(name="CFLAGS", value="\x1b[2J" + "x" * 3000)
    source = full_lock().sources[0]
    building = msgspec.structs.replace(source.building, variables=(variable,))
    url = "https://ada:hunter22@git.example.org/project.git"
    evil = msgspec.structs.replace(source, building=building, url=url)
    text = render_comparison(
        compared(full_lock(), msgspec.structs.replace(full_lock(), sources=(evil,)), tmp_path),
        everything=True,
    )
    assert "sources[project].url" in text
    assert "\\x1b[2J" in text
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "hunter22" not in text
    assert max(map(len, text.splitlines())) < 400


def test_long_and_many_values_are_only_counted(tmp_path: Path) -> None:
    """The search for secrets takes a second for some 300,000 characters; a lock may have 64 MiB."""

    def lock(letter: str) -> Lock:
        source, word = full_lock().sources[0], letter * 4000
        values = [letter * 200_000, *(f"{word}{number}" for number in range(400))]
        variables = tuple(EnvVar(name=f"V{number}", value=value) for number, value in enumerate(values))
        building = msgspec.structs.replace(source.building, variables=variables)
        sources = (msgspec.structs.replace(source, building=building),)
        return msgspec.structs.replace(full_lock(), sources=sources)

    found = compared(lock("x"), lock("y"), tmp_path)
    told = {d.name.rpartition("[V")[2]: (d.one or "", d.other) for d in found.differences}
    assert len(told) == 401
    assert told["0].value"] == ("(200000 characters)", "another value, which is not shown")
    assert told["1].value"][0] == "x" * 4000 + "0"
    assert sum(one.startswith("x") for one, _ in told.values()) < MOST // 4000


# --- what stays as it was ----------------------------------------------------------------------


def test_a_field_that_follows_from_a_line_has_no_line_of_its_own(tmp_path: Path) -> None:
    """Another commit has another tree, another time and another tar: one line says it."""
    source = full_lock().sources[0]
    other = msgspec.structs.replace(
        source, commit="1" * 40, tree="2" * 40, epoch=1, patch=None,
        file=Artefact(filename="project-111.tar", sha256="3" * 64, size=4),
    )  # fmt: skip
    found = compared(full_lock(), msgspec.structs.replace(full_lock(), sources=(other,)), tmp_path)
    assert [(d.kind, d.name) for d in found.differences] == [("source", "project")]


def test_another_image_below_has_one_line(tmp_path: Path) -> None:
    image = full_lock().base.image
    assert image is not None
    setting = InheritedSetting(name="BELOW", value="of it", needs=("/other.so",))
    other = msgspec.structs.replace(
        image, digest=f"sha256:{'9' * 64}", config=ImageBlob(filename="config", sha256="8" * 64, size=1),
        environment=(setting,),
    )  # fmt: skip
    lock = msgspec.structs.replace(full_lock(), base=msgspec.structs.replace(full_lock().base, image=other))
    found = compared(full_lock(), lock, tmp_path)
    assert [(d.kind, d.name) for d in found.differences] == [("recipe", "base image")]


def test_explanations_and_addresses_may_differ(tmp_path: Path) -> None:
    ruling = Resolution(file="env.nul", line=1, subject="A", outcome="excluded", reason="another")
    lock = full_lock()
    moved = msgspec.structs.replace(lock.wheels[0].file, url="https://mirror.example.org/first.whl")
    other = msgspec.structs.replace(
        lock, rulings=(ruling,), wheels=(msgspec.structs.replace(lock.wheels[0], file=moved),)
    )
    assert lock.digest != other.digest
    check(lock, other, True, tmp_path)


def test_of_one_sealed_lock_and_one_that_is_not_the_first_line_says_so(tmp_path: Path) -> None:
    sealed = full_lock()
    found = compared(sealed, unseal(sealed), tmp_path)
    first = render_comparison(found).splitlines()[0]
    assert first == "no difference between the two locks, of which one is not sealed; no image was read"


def test_one_side_only(tmp_path: Path) -> None:
    lock = full_lock()
    tool = Deb(name="evil", version="1", architecture="amd64", essential=False, file=artefact("evil.deb"))
    other = msgspec.structs.replace(
        lock, base=msgspec.structs.replace(lock.base, tools=(*lock.base.tools, tool))
    )
    (difference,) = compared(lock, other, tmp_path).only_in_other
    assert (difference.name, difference.other) == (
        "base.tools[evil:amd64]", f"1, evil.deb, 1 bytes, sha256:{SHA}",
    )  # fmt: skip
