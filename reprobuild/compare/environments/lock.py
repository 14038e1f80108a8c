"""A lock as facts: its image, and further fields."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.compare.environments import conda
from reprobuild.compare.environments.model import (
    HIDDEN,
    Aspects,
    Environment,
    EnvironmentBuilder,
    Facts,
    Kind,
    normalise_name,
    python_series,
)
from reprobuild.compare.environments.repositories import NONE
from reprobuild.image.choices.platform import describe_platform
from reprobuild.image.choices.record import read_choices
from reprobuild.lock.diff import realised_values, recipe_values
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock, Resolution
from reprobuild.recipe.image_config import static_variables
from reprobuild.snapshot.file_kinds import field_of

_KINDS: dict[str, Kind] = {  # by the field of Snapshot
    "requirements": "python",
    "packages": "system",
    "variables": "environment",
    "modules": "module",
}

# Classes of lines that a lock leaves out since they belong to the host, or since nothing needs them.
UNNEEDED = frozenset(
    {
        "container", "daemon", "desktop", "driver", "host-fabric", "host-library", "host-package", "host-scheduler",
        "init", "kernel", "leftover", "marker", "missing-library", "not-needed", "other-architecture",
        "plugin-library", "provisioning", "residual",
    }
)  # fmt: skip


def from_lock(path: Path, name: str) -> Environment:
    """Return the facts of a lock's image.

    Raises:
        LockError: see `read_lock`.
    """
    lock, gathered = read_lock(path), EnvironmentBuilder()
    version = lock.interpreter.version
    facts: Aspects = {
        "version": version,
        "series": python_series(version),
        "implementation": "CPython",
    }  # no other implementation is locked
    if lock.interpreter.kind == "captured" and lock.interpreter.file:
        facts["sha256"] = lock.interpreter.file.sha256
    gathered.add("interpreter", "python", facts)
    _add_distributions(gathered, lock)
    image, over = lock.base.image, {deb.name for deb in lock.base.packages}
    below = [package for package in image.packages if package.name not in over] if image else []
    gathered.packages(
        [
            *((deb.name, deb.version, deb.architecture, deb.file.sha256) for deb in lock.base.packages),
            *((package.name, package.version, package.architecture, "") for package in below),
        ]
    )
    settings = {setting.name: setting.value for setting in lock.environment}
    gathered.variables({**static_variables(lock), **settings}.items())
    gathered.add("release", "system", {"distribution": lock.base.distribution, "codename": lock.base.release})
    for description, value in recipe_values(lock).items():
        gathered.add("recipe", description, {"value": value})
    for description, value in realised_values(lock).items():
        gathered.add("realised", description, {"value": value})
    left_out, unneeded = _list_omissions(lock)
    return Environment(
        name=name, form="lock", known=gathered.known, unlisted={"python": HIDDEN}, doubled=gathered.doubled,
        repeats=frozenset(gathered.repeats),
        left_out=left_out,
        unneeded=frozenset(unneeded),
        lock=lock,
    )  # fmt: skip


def _list_omissions(lock: Lock) -> tuple[dict[tuple[Kind, str], str], set[tuple[Kind, str]]]:
    """Return why a lock leaves things out, and those that no job needs.

    Of several lines of one name, one that is left out against the captured environment counts.
    """
    reasons: dict[tuple[Kind, str], str] = {}
    unneeded: set[tuple[Kind, str]] = set()
    for ruling in sorted(lock.rulings, key=lambda ruling: ruling.outcome != "excluded"):
        for key, reason in _explain_omission(ruling):
            reasons[key] = reason
            if ruling.outcome != "excluded":
                unneeded.discard(key)
            elif ruling.kind in UNNEEDED and key[0] in ("python", "system"):
                unneeded.add(key)
    return reasons, unneeded


def with_choices(side: Environment, out: Path) -> Environment:
    """Return the facts of an output directory: those of its lock, and the saved choices of compilers.

    Several records can have one description: it leaves out the driver, flags and packages. So each archive is joined
    with its target. A run uses the first record of a target, so that their order counts. The value has no blanks, which
    would separate possible values of one file.

    Raises:
        UsageError: a record is damaged.
    """
    archives: dict[str, dict[str, list[str]]] = {}
    for file in read_choices(out):
        targets = archives.setdefault(describe_platform(file.saved.platform), {})
        targets.setdefault(file.saved.target, []).append(file.saved.archive.sha256)
    choices: Facts = {
        platform: {
            "sha256": ",".join(f"{'+'.join(hashes)}@{target}" for target, hashes in sorted(targets.items()))
        }
        for platform, targets in archives.items()
    }
    return msgspec.structs.replace(side, known={**side.known, "choices": choices})


def _add_distributions(gathered: EnvironmentBuilder, lock: Lock) -> None:
    gathered.begin("python")
    gathered.begin("source")
    built = {normalise_name(wheel.name): wheel.version for wheel in lock.built_wheels}
    for wheel in lock.wheels:
        if wheel.role == "environment":
            gathered.add(
                "python", normalise_name(wheel.name), {"version": wheel.version, "sha256": wheel.file.sha256}
            )
        else:
            gathered.add("recipe", f"build with {wheel.name}", {"value": wheel.version})
    if lock.conda:
        packages = (
            (conda.CondaBuild(package.name, package.version, package.build), package.file)
            for package in lock.conda
        )
        conda.add(
            gathered, (conda.with_hashes(it, file.filename, sha256=file.sha256) for it, file in packages)
        )
    for sdist in lock.sdists:
        facts: Aspects = {"version": sdist.version, "sha256": sdist.file.sha256}
        if not sdist.file.filename.endswith(".whl"):
            facts["subdirectory"] = sdist.subdirectory or "."
        gathered.add("python", normalise_name(sdist.name), facts)
    for source in lock.sources:
        name = normalise_name(source.name)
        changes = f"sha256:{source.patch}" if source.patch else NONE
        aspects: Aspects = {"commit": source.commit, "tree": source.tree, "changes": changes}
        if source.installed:
            aspects["subdirectory"] = source.subdirectory or "."
            aspects["install"] = "editable" if source.editable else "copy"
            gathered.add("python", name, {"version": built.get(name)})
            gathered.add("source", name, aspects)
        else:
            gathered.add("job", source.name, aspects)


def _explain_omission(ruling: Resolution) -> list[tuple[tuple[Kind, str], str]]:
    """Return why a captured line is missing or changed."""
    kind = _KINDS.get(field_of(ruling.file))
    if kind is None or ruling.outcome not in ("excluded", "replaced", "unresolved"):
        return []
    name = normalise_name(ruling.subject) if kind == "python" else ruling.subject
    return [((kind, name), f"{ruling.outcome}: {ruling.reason}")]
