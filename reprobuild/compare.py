"""What differs between two values of one kind, likeliest culprit first."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.lock import Lock
from reprobuild.snapshot.model import Snapshot

# Kinds in the order in which they explain different numbers or speed: the chapter's case was LD_PRELOAD.
ORDER = ("interpreter", "environment", "python", "source", "system", "realised", "module", "other")


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
            *_maps("interpreter", {"python": one.interpreter.version}, {"python": other.interpreter.version}),
            *_maps("environment", _settings(one), _settings(other)),
            *_maps("python", _wheels(one), _wheels(other)),
            *_maps("source", _sources(one), _sources(other)),
            *_maps("system", _packages(one), _packages(other)),
            *(_maps("realised", _realised(one), _realised(other)) if one.realised and other.realised else ()),
            *_maps("other", _rest(one), _rest(other)),
        ]
    )


def compare_snapshots(one: Snapshot, other: Snapshot) -> list[Change]:
    """Return every difference of two captured environments."""
    return _ordered(
        [
            *_maps("environment", _variables(one), _variables(other)),
            *_maps("python", _freeze(one), _freeze(other)),
            *_maps("source", _changes(one), _changes(other)),
            *_maps("system", _installed(one), _installed(other)),
            *_maps("module", _modules(one), _modules(other)),
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


def _settings(lock: Lock) -> dict[str, str]:
    return {setting.name: setting.value for setting in lock.environment}


def _wheels(lock: Lock) -> dict[str, str]:
    return {
        f"{w.name}{' (build)' * (w.role == 'build')}": f"{w.version} {w.file.filename} sha256:{w.file.sha256}"
        for w in lock.wheels
    }


def _sources(lock: Lock) -> dict[str, str]:
    return {source.name: f"commit {source.commit} tree {source.tree}" for source in lock.sources}


def _packages(lock: Lock) -> dict[str, str]:
    return {deb.name: f"{deb.version} sha256:{deb.file.sha256}" for deb in lock.base.packages}


def _realised(lock: Lock) -> dict[str, str]:
    if lock.realised is None:
        return {}
    names = {wheel.file.sha256: wheel.name for wheel in (*lock.wheels, *lock.realised.wheels)}
    codes = {f"bytecode of {names.get(c.artefact, c.artefact)}": c.tar for c in lock.realised.bytecode}
    return {
        "base tree": lock.realised.base,
        "runtime package": lock.realised.runtime,
        **codes,
        **{f"wheel of {w.name}": w.file.sha256 for w in lock.realised.wheels},
    }


def _rest(lock: Lock) -> dict[str, str]:
    return {
        "snapshot": lock.snapshot, "platform": lock.platform, "epoch": str(lock.epoch), "workdir": lock.workdir,
        "profile": lock.profile, "seed": str(lock.seed),
    }  # fmt: skip


def _variables(snapshot: Snapshot) -> dict[str, str]:
    return {v.name: "(secret)" if v.value is None else v.value for v in snapshot.variables}


def _freeze(snapshot: Snapshot) -> dict[str, str]:
    return {canonicalize_name(line.name): line.text for line in snapshot.requirements}


def _installed(snapshot: Snapshot) -> dict[str, str]:
    return {package.name: package.version for package in snapshot.packages}


def _changes(snapshot: Snapshot) -> dict[str, str]:
    return {
        patch.name: f"diff sha256:{hashlib.sha256(patch.content).hexdigest()}" for patch in snapshot.patches
    }


def _modules(snapshot: Snapshot) -> dict[str, str]:
    return {module.name: module.version or "" for module in snapshot.modules}
