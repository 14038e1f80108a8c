"""What differs between two values: one change; and the inputs in which two locks differ, likeliest culprit first.

Two environments of any kind are compared in the room `environments`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from reprobuild.lock import Lock, dpkg_name

# Kinds in the order in which they explain different numbers or speed: the chapter's case was LD_PRELOAD.
ORDER = ("interpreter", "environment", "python", "conda", "source", "system", "realised", "other")


class Change(Struct, frozen=True, kw_only=True):
    """One difference. `one` and `other` are None where that side has nothing; secrets have no values."""

    kind: str
    name: str
    one: str | None
    other: str | None


def compare_locks(one: Lock, other: Lock) -> list[Change]:
    """Return every difference of two locks that can change the image, by input."""
    return _ordered(
        [
            *_maps("interpreter", _interpreter(one), _interpreter(other)),
            *_maps("environment", _settings(one), _settings(other)),
            *_maps("python", _wheels(one), _wheels(other)),
            *_maps("conda", _conda(one), _conda(other)),
            *_maps("source", _sources(one), _sources(other)),
            *_maps("system", _packages(one), _packages(other)),
            *(_maps("realised", realised(one), realised(other)) if one.realised and other.realised else ()),
            *_maps("other", rest(one), rest(other)),
        ]
    )


def _ordered(changes: Iterable[Change]) -> list[Change]:
    return sorted(
        changes, key=lambda change: (ORDER.index(change.kind), change.name != "LD_PRELOAD", change.name)
    )


def _maps(kind: str, one: Mapping[str, str], other: Mapping[str, str]) -> Sequence[Change]:
    return [
        Change(kind=kind, name=name, one=one.get(name), other=other.get(name))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    ]


def _interpreter(lock: Lock) -> dict[str, str]:
    """Return the Python of a lock; of the base's own packages and conda's the rest is told elsewhere."""
    build = lock.interpreter.file
    return {
        "python": lock.interpreter.version + (f" {build.filename} sha256:{build.sha256}" if build else "")
    }


def _settings(lock: Lock) -> dict[str, str]:
    return {setting.name: setting.value for setting in lock.environment}


def _wheels(lock: Lock) -> dict[str, str]:
    """Return the wheels by name; builds may need several versions of one."""
    found: dict[str, list[str]] = {}
    for wheel in lock.wheels:
        name = f"{wheel.name}{' (build)' * (wheel.role == 'build')}"
        found.setdefault(name, []).append(f"{wheel.version} {wheel.file.filename} sha256:{wheel.file.sha256}")
    for sdist in lock.sdists:
        found[sdist.name] = [f"{sdist.version} {sdist.file.filename} sha256:{sdist.file.sha256}"]
    return {name: ", ".join(sorted(files)) for name, files in found.items()}


def _conda(lock: Lock) -> dict[str, str]:
    return {one.name: f"{one.version} {one.build} sha256:{one.file.sha256}" for one in lock.conda}


def _sources(lock: Lock) -> dict[str, str]:
    return {source.name: f"commit {source.commit} tree {source.tree}" for source in lock.sources}


def _packages(lock: Lock) -> dict[str, str]:
    base, native = lock.base, lock.base.native
    return base.installed | {
        dpkg_name(deb.name, deb.architecture, native): f"{deb.version} sha256:{deb.file.sha256}"
        for deb in base.packages
    }


def realised(lock: Lock) -> dict[str, str]:
    """Return {what was run once: sha256 of what came out}, empty where the lock is not sealed."""
    if lock.realised is None:
        return {}
    names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *lock.realised.wheels)}
    codes = {f"bytecode of {names.get(c.artefact, c.artefact)}": c.tar for c in lock.realised.bytecode}
    return {
        "base tree": lock.realised.base,
        "runtime package": lock.realised.runtime,
        **({"tree of the interpreter": lock.realised.interpreter} if lock.realised.interpreter else {}),
        **codes,
        **{f"wheel of {w.name}": w.file.sha256 for w in lock.realised.wheels},
        **{f"compiled parts of {one.name}": one.parts for one in lock.realised.builds if one.parts},
    }


def rest(lock: Lock) -> dict[str, str]:
    """Return what a lock decides of the image beyond its inputs."""
    return {
        "snapshot": lock.snapshot, "platform": lock.platform, "epoch": str(lock.epoch), "workdir": lock.workdir,
        "profile": lock.profile, "seed": str(lock.seed),
        **({"base image": lock.base.image.digest} if lock.base.image else {}),
    }  # fmt: skip
