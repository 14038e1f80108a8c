"""Standalone builds of Python, by uv.

uv knows the address and the sha256 of each.

uv downloads them from the user's configured addresses (`UV_PYTHON_INSTALL_MIRROR`, `UV_ASTRAL_MIRROR_URL`,
`UV_PYTHON_DOWNLOADS_JSON_URL`, uv.toml) and compares the sha256; the archive that it keeps goes into our store. The
lock has the publisher's address. https://docs.astral.sh/uv/reference/environment/
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.own_python import SAFE, own_module
from reprobuild.infra.proc.programs import with_absolute_paths
from reprobuild.infra.untrusted.decode import decode_json, decode_value
from reprobuild.infra.untrusted.strings import Href, Label, Version
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Artefact
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.secrets import redact
from reprobuild_portable.secrets.redact import strip_credentials

if TYPE_CHECKING:  # `show` needs no client of HTTP
    from reprobuild.resolve.context import ResolveContext

_FILES = ("UV_CONFIG_FILE",)
_MIRRORS = ("UV_PYTHON_INSTALL_MIRROR", "UV_ASTRAL_MIRROR_URL")
_FREE = "freethreaded"  # uv's name for PEP 703
_MASK = "****"  # uv prints this instead of a password in an address
_HINT = (
    "name a mirror as uv has it, UV_PYTHON_INSTALL_MIRROR=URL, or take the system's Python: `--python X.Y`; where the "
    "environment still is, `reprobuild capture --include interpreter` packs its own Python"
)


class NoBuildError(LockError):
    """There is no such build, or it is unavailable."""


class Build(Struct, frozen=True, kw_only=True):
    """A build of one version, with its archive in the store.

    `evidence` is set for a Python of this machine.
    """

    version: str
    file: Artefact
    evidence: str = ""


class _Listed(Struct, frozen=True, kw_only=True):
    """uv's list entry of a build."""

    version: Version
    url: Href
    implementation: Label
    variant: Label


def find_build(version: str, machine: str, context: ResolveContext) -> Build:
    """Fetch a version's standalone build of Python into the store.

    Args:
        version: `X.Y.Z`, or `X.Y` for its newest patch release; followed by `t`, the free-threaded build.
        machine: in the kernel's spelling, `x86_64`.

    Raises:
        NoBuildError: uv does not know it, or could not fetch it; the message has uv's text.
    """
    builds = _list_builds(version, machine, context.env, plain=True) or _list_builds(
        version, machine, context.env, plain=False
    )
    if not builds:
        raise NoBuildError(f"uv knows no standalone build of Python {version} for {machine}", hint=_HINT)
    url = strip_credentials(builds[0].url)[0]
    known = context.store.recall(_key(url))
    if known is not None:
        file = decode_value(known, Artefact)
        if context.store.has(file.sha256):
            return Build(version=builds[0].version, file=file)
    context.say(f"python: the standalone build of Python {builds[0].version}, by uv")
    file = _fetch_build(builds[0], machine, url, context)
    context.store.remember(_key(url), msgspec.to_builtins(file))
    return Build(version=builds[0].version, file=file)


def _uv_command(*words: str) -> list[str]:
    """Return a command line of the uv in the wheel that we depend on.

    It starts in a directory without files: uv reads `uv.toml` and `pyproject.toml` of the current directory and of all
    above it, which may be another project's. The user's and the system's own `uv.toml` count.
    """
    return own_module("uv", *words)


def _key(url: str) -> str:
    return hashlib.sha256(f"standalone\0{url}".encode()).hexdigest()


def _uv_request(version: str, machine: str) -> str:
    return f"cpython-{version}-linux-{machine}-gnu"


def _list_builds(version: str, machine: str, env: Mapping[str, str], *, plain: bool) -> Sequence[_Listed]:
    """Return uv's builds of a version, the newest first.

    `plain` asks for the publisher's addresses, without the user's mirrors.
    """
    uv_env = {name: value for name, value in env.items() if not (plain and name in _MIRRORS)}
    argv = _uv_command(
        "python", "list", _uv_request(version, machine), "--all-versions", "--only-downloads",
        "--output-format", "json", "--no-cache", *(["--no-config"] if plain else []),
    )  # fmt: skip
    try:
        output = run(
            argv,
            env=with_absolute_paths(uv_env, *_FILES),
            purpose="list standalone builds of Python",
            timeout=120,
            cwd=SAFE,
        )
        builds = decode_json(output, list[_Listed])
    except ProcessFailedError as err:
        raise NoBuildError(redact(str(err)), hint=_HINT) from None
    except (msgspec.MsgspecError, ValueError) as err:
        raise NoBuildError(
            f"uv lists builds of Python in another form than known: {err}", hint=_HINT
        ) from None
    prefix, variant = f"{version.removesuffix('t')}.", _FREE if version.endswith("t") else "default"
    return [
        build for build in builds
        if build.implementation == "cpython" and build.variant == variant and f"{build.version}.".startswith(prefix)
    ]  # fmt: skip


def _fetch_build(build: _Listed, machine: str, url: str, context: ResolveContext) -> Artefact:
    """Download a build by uv, and adopt the archive that it keeps.

    uv checks the archive.
    """
    with context.store.scratch() as scratch:
        cache, version = scratch / "kept", build.version + "t" * (build.variant == _FREE)
        argv = _uv_command(
            "python", "install", _uv_request(version, machine), "--install-dir", str(scratch.absolute() / "made"),
            "--no-bin", "--no-progress", "--no-cache", *(["--offline"] if context.net.offline else []),
        )  # fmt: skip
        try:
            run(
                argv, env={**with_absolute_paths(context.env, *_FILES), "UV_PYTHON_CACHE_DIR": str(cache.absolute())},
                timeout=1800, cwd=SAFE,
                purpose=f"bring the standalone build of Python {version}",
            )  # fmt: skip
        except ProcessFailedError as err:
            raise NoBuildError(redact(str(err)), hint=_HINT) from None
        archives = [path for path in cache.iterdir() if path.is_file() and not path.is_symlink()]
        if len(archives) != 1:
            raise NoBuildError(f"uv kept {len(archives)} archives of Python {build.version}", hint=_HINT)
        size, sha256 = archives[0].stat().st_size, hash_file(archives[0])
        context.store.adopt(archives[0], sha256)
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    return Artefact(filename=name, sha256=sha256, size=size, url=url)


def with_mirror_address(lock: Lock, file: Artefact, env: Mapping[str, str]) -> Artefact:
    """Return a locked interpreter's archive at uv's address.

    The interpreter is a standalone one.

    The build itself may be unknown to this uv: the difference between uv's two addresses of another build shows the
    mirror.

    Raises:
        NoBuildError: uv cannot be run.
    """
    machine = lock.machine
    minor = lock.interpreter.minor
    plain = {build.version: build.url for build in _list_builds(minor, machine, env, plain=True)}
    builds = _list_builds(minor, machine, env, plain=False)
    for build in builds:
        published = plain.get(build.version, build.url)
        mirror, publisher = _without_common_end(_with_password(build.url, env), published)
        if mirror != publisher and file.url.startswith(publisher):
            return msgspec.structs.replace(file, url=mirror + file.url[len(publisher) :])
    return file


def _without_common_end(first_url: str, second_url: str) -> tuple[str, str]:
    """Return two addresses without their common path ending."""
    first, second = first_url.split("/"), second_url.split("/")
    while len(first) > 3 and len(second) > 3 and first[-1] == second[-1]:
        first.pop()
        second.pop()
    return "/".join([*first, ""]), "/".join([*second, ""])


def _with_password(url: str, env: Mapping[str, str]) -> str:
    """Return an address of uv's output with its masked password.

    The password comes from the user's own setting.
    """
    split = urlsplit(url)
    for name in _MIRRORS if _MASK in split.netloc else ():
        setting = urlsplit(env.get(name, ""))
        if setting.netloc.rpartition("@")[2] == split.netloc.rpartition("@")[2]:
            return urlunsplit((split.scheme, setting.netloc, *split[2:]))
    return url
