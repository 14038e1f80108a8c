"""Differences between two locks, the most likely cause first.

`Change` is one difference of two values. The package `environments` compares two environments of any kind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.lock.fields import FieldChange, compare_fields
from reprobuild.lock.model import BuildRecord, Bytecode, Lock, SealedLock
from reprobuild.lock.python import CondaPackage, Sdist, Source, Wheel
from reprobuild.lock.system import Deb, EnvVar, ImagePackage, dpkg_name
from reprobuild.snapshot.parsers.conda_names import find_pypi_name

# The order in which kinds explain different numbers or speed: in the chapter's case it was LD_PRELOAD.
ORDER = ("interpreter", "environment", "python", "conda", "source", "system", "realised", "other")


class Change(Struct, frozen=True, kw_only=True):
    """One difference between two values.

    `one` and `other` are None if that side has no value. Secrets have no values.
    """

    kind: str
    name: str
    one: str | None
    other: str | None


def compare_locks(first: Lock, second: Lock) -> list[Change]:
    """Return each difference of two locks that can change the image.

    A field that no line of an input covers has its own line, of the kind "other" and named by its path.
    """
    changes = [
        *_compare_mappings("interpreter", _interpreter_values(first), _interpreter_values(second)),
        *_compare_mappings("environment", _setting_values(first), _setting_values(second)),
        *_compare_mappings("python", _wheel_values(first), _wheel_values(second)),
        *_compare_mappings("conda", _conda_values(first), _conda_values(second)),
        *_compare_mappings("source", _source_values(first), _source_values(second)),
        *_compare_mappings("system", _package_values(first), _package_values(second)),
        *(
            _compare_mappings("realised", outputs, realised_values(second))
            if (outputs := realised_values(first)) and realised_values(second)
            else ()
        ),
        *_compare_mappings("other", recipe_values(first), recipe_values(second)),
    ]
    lines = {(change.kind, change.name) for change in changes}
    more = [
        Change(kind="other", name=field.path, one=field.one, other=field.other)
        for field in uncovered_changes(first, second, lines)
    ]
    return _sort_changes([*changes, *more])


def _sort_changes(changes: Iterable[Change]) -> list[Change]:
    return sorted(
        changes, key=lambda change: (ORDER.index(change.kind), change.name != "LD_PRELOAD", change.name)
    )


def _compare_mappings(kind: str, first: Mapping[str, str], second: Mapping[str, str]) -> Sequence[Change]:
    return [
        Change(kind=kind, name=name, one=first.get(name), other=second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name)
    ]


def _interpreter_values(lock: Lock) -> dict[str, str]:
    """Return the Python version and build of a lock.

    Other lines cover the packages of the base and of conda.
    """
    build = lock.interpreter.file
    return {
        "python": lock.interpreter.version + (f" {build.filename} sha256:{build.sha256}" if build else "")
    }


def _setting_values(lock: Lock) -> dict[str, str]:
    return {setting.name: setting.value for setting in lock.environment}


def _wheel_values(lock: Lock) -> dict[str, str]:
    """Return the wheels by name; builds may need several versions."""
    wheels: dict[str, list[str]] = {}
    for wheel in lock.wheels:
        name = f"{wheel.name}{' (build)' * (wheel.role == 'build')}"
        wheels.setdefault(name, []).append(
            f"{wheel.version} {wheel.file.filename} sha256:{wheel.file.sha256}"
        )
    for sdist in lock.sdists:
        wheels[sdist.name] = [f"{sdist.version} {sdist.file.filename} sha256:{sdist.file.sha256}"]
    return {name: ", ".join(sorted(files)) for name, files in wheels.items()}


def _conda_values(lock: Lock) -> dict[str, str]:
    return {
        package.name: f"{package.version} {package.build} sha256:{package.file.sha256}"
        for package in lock.conda
    }


def _source_values(lock: Lock) -> dict[str, str]:
    return {source.name: f"commit {source.commit} tree {source.tree}" for source in lock.sources}


def _package_values(lock: Lock) -> dict[str, str]:
    base, native = lock.base, lock.base.native
    return base.installed | {
        dpkg_name(deb.name, deb.architecture, native): f"{deb.version} sha256:{deb.file.sha256}"
        for deb in base.packages
    }


def realised_values(lock: Lock) -> dict[str, str]:
    """Return the sha256 of each realised output, by its description.

    The result is empty if the lock is not sealed.
    """
    if not isinstance(lock, SealedLock):
        return {}
    names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *lock.built_wheels)}
    codes = {f"bytecode of {names.get(c.artefact, c.artefact)}": c.tar for c in lock.realised.bytecode}
    return {
        "base tree": lock.realised.base,
        "runtime package": lock.realised.runtime,
        **({"tree of the interpreter": lock.realised.interpreter} if lock.realised.interpreter else {}),
        **codes,
        **{f"wheel of {w.name}": w.file.sha256 for w in lock.built_wheels},
        **{f"compiled parts of {build.name}": build.parts for build in lock.realised.builds if build.parts},
    }


def recipe_values(lock: Lock) -> dict[str, str]:
    """Return the fields that decide the image beyond its inputs."""
    return {
        "snapshot": lock.snapshot, "platform": lock.platform, "epoch": str(lock.epoch), "workdir": lock.workdir,
        "profile": lock.profile, "seed": str(lock.seed),
        **({"base image": lock.base.image.digest} if lock.base.image else {}),
    }  # fmt: skip


# --- fields without a line ----------------------------------------------------------------------

# Kind and name of a line, here or in the package `environments`.
_Line = tuple[str, str]
# Fields of an item that its line covers, "" for an item of one lock only. Each other field has its own line.
_TOLD: dict[type[Struct], frozenset[str]] = {
    Wheel: frozenset({"", "version", "file"}),
    Sdist: frozenset({"", "version", "file"}),
    CondaPackage: frozenset({"", "version", "build", "file"}),
    Source: frozenset({"", "commit", "tree", "patch", "epoch", "file"}),
    Deb: frozenset({"", "version", "file"}),
    ImagePackage: frozenset({"", "version"}),
    Bytecode: frozenset({"", "tar"}),
    BuildRecord: frozenset({"", "wheel", "parts", "files"}),
}
# Fields with a line of their own, by their path.
_ALONE: dict[str, tuple[_Line, ...]] = {
    "interpreter.version": (("interpreter", "python"),),
    "interpreter.file": (("interpreter", "python"),),
    "base.distribution": (("release", "system"),),
    "base.release": (("release", "system"),),
    "realised.base": (("realised", "base tree"),),
    "realised.runtime": (("realised", "runtime package"),),
    "realised.interpreter": (("realised", "tree of the interpreter"),),
}
_IMAGE = (("recipe", "base image"), ("other", "base image"))


def uncovered_changes(first: Lock, second: Lock, lines: Collection[_Line]) -> Iterator[FieldChange]:
    """Yield each differing field of two locks without a line.

    Args:
        first: a lock.
        second: another one.
        lines: kind and name of each difference that already has a line.
    """
    names: dict[str, list[_Line]] = {}
    for sha256, more in (*_artefact_lines(first), *_artefact_lines(second)):
        names.setdefault(sha256, []).extend(more)
    for change in compare_fields(first, second):
        if not any(line in lines for line in _covering_lines(change, names)):
            yield change


def _artefact_lines(lock: Lock) -> Iterator[tuple[str, tuple[_Line, ...]]]:
    """Yield each artefact's sha256 with the lines that can cover it."""
    for wheel in (*lock.wheels, *lock.built_wheels):
        more = ("realised", f"wheel of {wheel.name}"), ("realised", f"bytecode of {wheel.name}")
        yield wheel.file.sha256, (*_python_lines(wheel.name), *more)
    for source in lock.sources:
        yield source.file.sha256, (*_python_lines(source.name, "source"), ("job", source.name))


def _python_lines(name: str, kind: str = "python") -> tuple[_Line, ...]:
    return (kind, name), (kind, str(canonicalize_name(name)))


def _covering_lines(change: FieldChange, names: Mapping[str, Sequence[_Line]]) -> Iterator[_Line]:
    """Yield the lines that cover a field, if they exist."""
    place, item = change.place, change.item
    if place.startswith("base.image"):
        yield from _IMAGE
    if item is None:
        yield from _ALONE.get(place, ())
        yield from ((kind, place) for kind in ("recipe", "other"))
    elif isinstance(item, EnvVar):
        if place in ("environment", "base.image.environment") and change.field in ("", "value"):
            yield "environment", item.name
    elif place.startswith(("build_base", "base.tools")) or change.field not in _TOLD.get(type(item), ()):
        return
    else:
        yield from _item_lines(item, place, names)


def _item_lines(item: Struct, place: str, names: Mapping[str, Sequence[_Line]]) -> Iterator[_Line]:
    if isinstance(item, Wheel) and item.role == "build":
        yield from (("python", f"{item.name} (build)"), ("recipe", f"build with {item.name}"))
    elif isinstance(item, (Wheel, Sdist)):
        yield from _python_lines(item.name)
        if place == "realised.wheels":
            yield "realised", f"wheel of {item.name}"
    elif isinstance(item, CondaPackage):
        yield from (("conda", item.name), ("python", item.name), ("python", find_pypi_name(item.name)))
    elif isinstance(item, Source):
        yield from (*_python_lines(item.name, "source"), ("job", item.name))
    elif isinstance(item, (Deb, ImagePackage)):
        yield from (("system", item.name), ("system", f"{item.name}:{item.architecture}"))
    elif isinstance(item, Bytecode):
        yield from (*names.get(item.artefact, ()), ("realised", f"bytecode of {item.artefact}"))
    elif isinstance(item, BuildRecord):
        yield "realised", f"wheel of {item.name}"
        yield "realised", f"compiled parts of {item.name}"
