"""Known prebuilt wheels, which are on no index.

They are files of a release, one for each torch, CUDA and C++ ABI.

The project's own setup.py uses such a file instead of building, so it was mostly the captured one. Its hash is not
published: it is locked on the first request, and kept in the store from then on.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name, parse_sdist_filename

from reprobuild.config.services import Service, fill_address
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.torch_build import TorchBuild, read_torch_build
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.model import NotFoundError, split_credentials
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.decode import decode_toml, decode_value
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.archives import download_file
from reprobuild.resolve.python.resolve import ResolvedLines
from reprobuild.resolve.python.rulings import BUILT
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store


class _Project(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One project of `prebuilt.toml`, which documents the fields."""

    name: str
    service: str
    file: str
    cuda: dict[str, tuple[str, ...]]
    source: str


@cache
def _read_projects() -> dict[str, _Project]:
    text = (files("reprobuild.resolve.python") / "prebuilt.toml").read_bytes()
    read = decode_toml(text, dict[str, tuple[_Project, ...]])
    return {project.name: project for project in read["project"]}


def use_prebuilt_wheels(
    lines: ResolvedLines, names: Collection[str], target: WheelTarget, services: Mapping[str, Service],
    context: ResolveContext,
) -> ResolvedLines:  # fmt: skip
    """Replace sources by their publisher's wheels for the locked torch.

    The resolution of a line lists the addresses tried, and the result.

    Args:
        lines: the resolution of the freeze's lines.
        names: the distributions with replaceable sources, as names of projects.
        target: the target that a wheel must fit.
        services: by name.
        context: the network and the store, which has torch's wheel and the found files afterwards.

    Raises:
        FetchError: the wheel of torch is unavailable. BuildError: it is malicious or damaged.
    """
    sdists = [sdist for sdist in lines.sdists if sdist.name in _read_projects() and sdist.name in names]
    torch = next((wheel for wheel in lines.wheels if wheel.name == "torch"), None)
    if not sdists or torch is None:
        return lines
    context.say(
        f"python: wheels that the publishers of {', '.join(sdist.name for sdist in sdists)} have for this torch"
    )
    fetch([torch.file], context.store, context.net, context.progress)
    build = read_torch_build(torch.file, context.store)
    for sdist in sdists:
        project = _read_projects()[sdist.name]
        wheel, message = _find_wheel(project, sdist, build, target, (services[project.service], context))
        lines = _apply_wheel(lines, sdist, wheel, message)
    return lines


def _apply_wheel(lines: ResolvedLines, sdist: Sdist, wheel: Wheel | None, message: str) -> ResolvedLines:
    """Return the resolution with the result for one source."""

    def said(reason: str) -> str:
        if wheel:
            return f"{message}; of the index: {reason.removesuffix(BUILT)}"
        return f"{reason}; {message}" if message else reason

    return replace(
        lines,
        wheels=(*lines.wheels, wheel) if wheel else lines.wheels,
        sdists=tuple(other for other in lines.sdists if other is not sdist or wheel is None),
        rulings=tuple(
            replace(ruling, reason=said(ruling.reason))
            if canonicalize_name(ruling.subject) == sdist.name
            else ruling
            for ruling in lines.rulings
        ),
    )


def _find_wheel(
    project: _Project,
    sdist: Sdist,
    build: TorchBuild,
    target: WheelTarget,
    where: tuple[Service, ResolveContext],
) -> tuple[Wheel | None, str]:
    """Return the wheel for a torch, if any, and a message."""
    if not build.cuda or target.free_threaded:
        return None, ""  # these have no such wheels
    if build.cxx11 is None:
        return None, "no prebuilt wheel was looked for, as torch's wheel does not state the C++ ABI"
    service, context = where
    version = str(parse_sdist_filename(sdist.file.filename)[1])
    place = fill_address(service, version=version).rstrip("/")
    shown, major = split_credentials(place)[0], build.cuda.partition(".")[0]
    torch = ".".join(build.version.partition("+")[0].split(".")[:2])
    python = "cp" + "".join(target.python.split(".")[:2])
    why = f"torch {torch}, CUDA {major} and {'the C++11' if build.cxx11 else 'the older C++'} ABI"
    # The name that setup.py gives, and pip then has: the label is only in the name of the release's file.
    filename = f"{project.file.partition('-')[0]}-{version}-{python}-{python}-linux_{target.machine}.whl"
    names = [
        project.file.format(
            version=version, cuda=label, torch=torch, abi=str(build.cxx11).upper(), python=python,
            machine=target.machine,
        )
        for label in project.cuda.get(major, (major,))
    ]  # fmt: skip
    # A file that was fetched once is used again, even offline, and before others are requested.
    for name in sorted(
        names, key=lambda candidate: _recall_wheel(f"{shown}/{candidate}", context.store) is None
    ):
        try:
            file = _fetch_wheel(f"{place}/{name}", filename, sdist, context)
        except NotFoundError:
            continue
        except (FetchError, BuildError) as err:
            return None, f"whether its publisher has a wheel for {why} is not known: {err}"
        wheel = Wheel(
            name=sdist.name, version=sdist.version, role="environment", file=file, yanked=sdist.yanked
        )
        return wheel, (
            f"{name} from {shown}, its publisher's prebuilt wheel for {why}; its hash is published nowhere, so it is "
            "what stood there when the lock was made"
        )
    return (
        None,
        f"its publisher has no prebuilt wheel for {why}: at {shown} there is no {', no '.join(names)}",
    )


def _fetch_wheel(url: str, filename: str, sdist: Sdist, context: ResolveContext) -> Artefact:
    """Fetch the file at an address, or reuse an earlier one.

    The earlier one is used while the store has it.
    """
    clean = split_credentials(url)[0]
    if known := _recall_wheel(clean, context.store):
        return replace(known, filename=filename)
    file = replace(download_file(url, filename, context.store, context.net), url=clean)
    _check_wheel(file, clean.rpartition("/")[2], sdist, context.store)
    context.store.remember(_key(clean), msgspec.to_builtins(file))
    return file


def _recall_wheel(url: str, store: Store) -> Artefact | None:
    try:
        known = decode_value(store.recall(_key(url)), Artefact)
    except msgspec.ValidationError:  # not there yet, or damaged
        return None
    return known if store.has(known.sha256) else None


def _key(url: str) -> str:
    return hashlib.sha256(f"prebuilt wheel, 1 {url}".encode()).hexdigest()


def _check_wheel(file: Artefact, name: str, sdist: Sdist, store: Store) -> None:
    """Check that a file is a wheel of the line's name and version.

    A server may return any file.

    Raises:
        BuildError: it is not.
    """
    with zips.open_zip(store.verified(file.sha256, name), name) as (archive, members):
        metadata = [
            info for path, info in members.items() if re.fullmatch(r"[^/]+\.dist-info/METADATA", path)
        ]
        try:
            raw = read_metadata(zips.read_text(archive, metadata[0], name), name)
            fits = canonicalize_name(raw["name"]) == sdist.name and same_version(
                raw["version"], sdist.version
            )
        except (IndexError, KeyError, *zips.UNREADABLE):
            fits = False
    if not fits:
        raise BuildError(
            f"{name} is no wheel of {sdist.name} {sdist.version}",
            hint=f"name another place of such wheels with --service {_read_projects()[sdist.name].service}=URL",
        )
