"""Builds of wheels by the projects' own back ends.

They run in the sandbox without network.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.ecosystems.conda.package import read_facts
from reprobuild.ecosystems.pypi.requires import UNREADABLE, marker_environment, marker_holds
from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root, check_output_file
from reprobuild.infra.sandbox.namespaces import PATH
from reprobuild.infra.untrusted.decode import decode_json, decode_value
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.strings import Line
from reprobuild.lock.model import BuildRecord, Lock
from reprobuild.lock.python import Sdist, Source, Wheel
from reprobuild.lock.system import PREFIX, Artefact, Base, EnvVar
from reprobuild.realise.base import ingredients
from reprobuild.realise.build_outputs import keep_parts, paths_below
from reprobuild.realise.bytecode import interpreter_facts
from reprobuild.realise.canonical import canonical_wheel
from reprobuild.realise.editable import make_editable_wheel
from reprobuild.realise.prefix import make_prefix
from reprobuild.realise.projects import build_epoch, project_directory, project_path, unpack_project
from reprobuild.realise.rootfs import place_script
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

RECIPE = 5  # to be raised if other bytes come out of the same inputs
# The path of a build's environment. It differs from that of the image's environment, which it is not.
_ISOLATED = "/opt/build"
# PYTHONHASHSEED: the order of sets in the outputs of back ends. The rest turns off caches and the network.
_CONSTANT = {
    "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC",
    "CARGO_NET_OFFLINE": "true", "PIP_NO_INDEX": "1",
}  # fmt: skip
_MOST = 1 << 20


class BuiltWheel(Struct, frozen=True, kw_only=True):
    """A built wheel, and the record of its build."""

    wheel: Wheel
    built: BuildRecord


class _Answer(Struct, frozen=True, kw_only=True):
    """The document that `build_wheel.py` writes."""

    requires: tuple[Line, ...] = ()
    editable: bool = False
    tools: tuple[Line, ...] = ()


def wheel_key(project: Source | Sdist, needs: Iterable[Wheel], lock: Lock, tree: str) -> str:
    """Return the key of a project's wheel.

    It depends on the project's files and path, its name and version, the build's tools, and the base.

    The tools have their names, in the order of their installation: a later one replaces files of an earlier one.
    `tree` is that of an interpreter outside the base, or empty.
    """
    python = [*interpreter_facts(lock.interpreter, tree), lock.interpreter.shared, lock.platform]
    place = [project_directory(project), isinstance(project, Source) and project.editable]
    identity = [
        project.name,
        project.file.filename,
        project.subdirectory,
        project.version if isinstance(project, Sdist) else "",
    ]
    tools = [[need.name, need.version, need.file.filename, need.file.sha256] for need in needs]
    conda = [[package.file.sha256, package.file.filename, package.distributions] for package in lock.conda]
    building = [msgspec.to_builtins(project.building), sorted(_variables(project, lock).items())]
    parts = [
        "wheel",
        RECIPE,
        project.file.sha256,
        identity,
        place,
        tools,
        sorted(conda) if project.building.environment else [],
        building,
        ingredients(_choose_base(project, lock)),
        python,
        build_epoch(project),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def recall_wheel(key: str, store: Store) -> BuiltWheel | None:
    """Return the stored build for a key, or None."""
    known = store.recall(key)
    if known is None:
        return None
    built_wheel = decode_value(known, BuiltWheel)
    hashes = [built_wheel.wheel.file.sha256, *([built_wheel.built.parts] if built_wheel.built.parts else [])]
    return built_wheel if all(store.has(sha256) for sha256 in hashes) else None


def build_wheel(
    project: Source | Sdist, needs: Sequence[Wheel], lock: Lock, root: Root, store: Store
) -> BuiltWheel:
    """Build a project's wheel.

    The wheel of an editable project points to the source's path in the image.

    Args:
        project: a project in the store.
        needs: wheels that the build imports.
        lock: has the interpreter and the base.
        root: that base, unpacked.
        store: receives the wheel.

    Raises:
        BuildError: the back end failed, and the message ends with its output; or a requirement is missing, or it left
            other files than the project's wheel.
    """
    with store.workspace() as scratch:
        tree, prefix, out = scratch / "tree", scratch / "prefix", scratch / "out"
        for folder in (tree, prefix, out):
            folder.mkdir()
        unpack_project(project, store, tree)
        before = paths_below(tree)
        # conda's packages are the interpreter's own tree, at the path of the image's environment.
        conda = lock.interpreter.kind == "conda"
        place = PREFIX if project.building.environment and not conda else _ISOLATED
        shared = project.building.environment and (conda or lock.interpreter.shared)
        make_prefix(prefix, place, needs, lock.interpreter, store, shared=shared)
        variables = _variables(project, lock)
        present = partial(_installed_version, project, needs, lock, store)
        binds = [
            Bind(source=tree, target=project_path(project), writable=True), Bind(source=prefix, target=place),
            Bind(source=out, target="/mnt/out", writable=True),
            Bind(source=place_script("build_wheel.py", scratch), target="/mnt/build_wheel.py"),
        ]  # fmt: skip
        path = f"{place}/bin:{variables.get('PATH', PATH)}:/usr/local/cuda/bin"
        editable = isinstance(project, Source) and project.editable
        argv = [
            f"{place}/bin/python", "/mnt/build_wheel.py", project_directory(project), "/mnt/out",
            "editable" if editable else "plain", "compiles" if project.building.compiles else "pure",
        ]  # fmt: skip
        try:
            run_in_root(
                root, argv, epoch=build_epoch(project), binds=binds, env=variables | {"PATH": path},
                purpose=f"build {project.name}", timeout=_TIMEOUT,
            )  # fmt: skip
        except ProcessFailedError as err:
            _check_requirements(project, _answer(out), present, lock)
            raise BuildError(str(err), hint=_remedy(project, err)) from None
        answer = _answer(out)
        _check_requirements(project, answer, present, lock)
        wheel_file, module_paths = _find_wheel(project, out), frozenset[str]()
        if isinstance(project, Source) and editable and not answer.editable:
            wheel_file, module_paths = make_editable_wheel(wheel_file, tree, project, scratch)
        wheel = _store_wheel(project, wheel_file, scratch, store)
        origin = f"the build of {project.name}"
        parts, files = (
            keep_parts(tree, before, project.subdirectory, module_paths, origin, store)
            if editable
            else ("", ())
        )
        settings = tuple(EnvVar(name=name, value=value) for name, value in sorted(variables.items()))
        built = BuildRecord(
            name=wheel.name,
            wheel=wheel.file.sha256,
            tools=answer.tools,
            variables=settings,
            parts=parts,
            files=files,
        )
    return BuiltWheel(wheel=wheel, built=built)


# Large extensions need an hour on a small machine.
_TIMEOUT = 6 * 3600


def _choose_base(project: Source | Sdist, lock: Lock) -> Base:
    return lock.build_base if project.building.compiles and lock.build_base else lock.base


def _variables(project: Source | Sdist, lock: Lock) -> dict[str, str]:
    """Return the variables for a build.

    They are the constant ones, those of an image to compile in, and those of the decisions.
    """
    image = _choose_base(project, lock).image
    inherited = {setting.name: setting.value for setting in (image.environment if image else ())}
    return _CONSTANT | inherited | {setting.name: setting.value for setting in project.building.variables}


def _answer(out: Path) -> _Answer:
    """Return the back end's answer, or an empty one."""
    path = out / "answer.json"
    if not path.exists() and not path.is_symlink():
        return _Answer()
    stream, _ = open_plain(check_output_file(path, "the build"), links=False)
    with stream:
        raw = stream.read(_MOST)  # the size of a file with holes is not that of its content
    try:
        return decode_json(raw, _Answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Answer()


def _installed_version(
    project: Source | Sdist, needs: Sequence[Wheel], lock: Lock, store: Store, name: str
) -> Version | None:
    """Return the version of a distribution that a build can import.

    It comes from a wheel, or with `environment` from a package of conda.
    """
    wheel = next((need for need in needs if canonicalize_name(need.name) == name), None)
    if wheel is not None:
        return Version(wheel.version)
    package = next((package for package in lock.conda if name in package.distributions), None)
    if package is None or not project.building.environment:
        return None
    facts = read_facts(store.verified(package.file.sha256, package.file.filename), package.file.filename)
    versions = {
        canonicalize_name(distribution): version for distribution, version in facts.distributions.items()
    }
    try:
        return Version(versions.get(canonicalize_name(name), ""))
    except InvalidVersion:
        return None


def _check_requirements(
    project: Source | Sdist, answer: _Answer, present: Callable[[str], Version | None], lock: Lock
) -> None:
    """Check that the requirements of the back end are present.

    Markers are evaluated for the image's interpreter, which builds, and never for the one that runs reprobuild.
    """
    markers = marker_environment(lock.interpreter.version, lock.machine)
    missing = []
    for text in answer.requires:
        try:
            requirement = Requirement(text)
        except UNREADABLE:
            continue  # the build came to its own end with it
        if not marker_holds(requirement.marker, markers):
            continue
        version = present(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            missing.append(display_text(str(requirement)))
    if missing:
        raise BuildError(
            f"the back end of {project.name} asks for {', '.join(missing)}, which its files did not tell when the lock "
            "was made",
            hint=f"add in reprobuild.yaml: build: {{{project.name}: {{requires: {json.dumps(missing)}}}}}, "
            "and lock again",
        )


def _remedy(project: Source | Sdist, err: ProcessFailedError) -> str:
    """Return a hint for a failed build.

    Back ends report missing requirements in different ways.
    """
    if "setuptools-scm was unable to detect version" in err.stderr or "setuptools_scm" in err.stderr:
        name = project.name.upper().replace("-", "_").replace(".", "_")
        variable = f"SETUPTOOLS_SCM_PRETEND_VERSION_FOR_{name}"
        return (
            f"an image has no repository to read the version from: build: {{{project.name}: {{variables: {{{variable}: "
            "VERSION}}} in reprobuild.yaml, and lock again"
        )
    if not project.building.environment and "No module named 'torch'" in err.stderr:
        return (
            f"it imports what the environment has: build: {{{project.name}: {{environment: true}}}} in "
            "reprobuild.yaml, and lock again"
        )
    return f"build {project.name} by hand with its backend; there is no network while it is built"


def _find_wheel(project: Source | Sdist, out: Path) -> Path:
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise BuildError(
            f"the backend of {project.name} left {len(wheels) or 'no'} wheel{'s' * (len(wheels) > 1)}",
            hint="build it by hand with `python -m build --wheel`",
        )
    return check_output_file(wheels[0], f"the backend of {project.name}")


def _store_wheel(project: Source | Sdist, wheel_file: Path, scratch: Path, store: Store) -> Wheel:
    """Store the wheel in canonical form."""
    target = scratch / wheel_file.name
    version = canonical_wheel(wheel_file, target, project.name)
    # A direct address may not have a version.
    if isinstance(project, Sdist) and project.version and Version(version) != Version(project.version):
        raise BuildError(
            f"the archive {project.file.filename} was built to {project.name} {version}, and the freeze says "
            f"{project.version}",
            hint="it is not what was installed: find the archive of that version, or name a wheel of it",
        )
    size, sha256 = target.stat().st_size, hash_file(target)
    store.adopt(target, sha256)
    file = Artefact(filename=wheel_file.name, sha256=sha256, size=size)
    return Wheel(name=project.name, version=version, role="environment", file=file)
