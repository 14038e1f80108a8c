"""Apptainer as a builder: `apptainer build` of OUT/Apptainer.def.

The image is read back from the build's sandbox. Owners need rights over more than one user number: root's, or
those of subordinate numbers (/etc/subuid), in a user namespace that util-linux makes. The build runs in a
network namespace of its own, because it would otherwise have the machine's network.

https://apptainer.org/docs/user/latest/build_a_container.html,
https://man7.org/linux/man-pages/man1/unshare.1.html
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from reprobuild.builders.leftovers import read_clean_config
from reprobuild.builders.model import ANSWER_SECONDS, BUILD_SECONDS, Say, build_error
from reprobuild.engines import apptainer as engine
from reprobuild.errors import BuildError
from reprobuild.image.oci.foreign import ForeignImage, ForeignLayer
from reprobuild.infra.proc import run
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.recipe.image_config import image_config

NAME = "apptainer"
DEFINITION, LOCK = "Apptainer.def", "reprobuild.lock"
# The caller's own rights, and for a user without them, those over the user's subordinate numbers.
ROOT: tuple[str, ...] = ()
SUBORDINATE = ("--user", "--map-root-user", "--map-auto")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_SCRIPTS = ".singularity.d"
_RIGHTS = (
    "be root, or have subordinate user numbers in /etc/subuid and /etc/subgid, `newuidmap` (uidmap or "
    "shadow-utils) and util-linux 2.38 or newer; or build with `--builder native`, which needs no rights"
)
_ANOTHER = "is the Apptainer.def that of the lock? Render it again with `reprobuild render`"


def version(env: Mapping[str, str]) -> str | None:
    """Return the version of the program on PATH, or None."""
    return engine.version(env)


@contextlib.contextmanager
def build(
    folder: Path, scratch: Path, *, platform: str, epoch: int, env: Mapping[str, str], say: Say
) -> Iterator[ForeignImage]:
    """Build the Apptainer.def; see `model.Builder`.

    The lock beside it determines the configuration that Apptainer must have written.
    """
    program = engine.find_usable_program(env)
    _check_machine(platform)
    scratch = scratch.absolute()  # the build runs in `folder`
    _check_place(scratch)
    rights, plain = _select_rights(env), _build_environment(env)
    say(f"apptainer: {version(env)}, {'as root' if rights == ROOT else 'with subordinate users'}")
    work, packed = scratch / "own", scratch / "layer.tar"
    try:
        (work / "tmp").mkdir(parents=True)
        _build(program, work / "root", folder, rights, {**plain, "APPTAINER_TMPDIR": str(work / "tmp")})
        config = _check_config(read_config(work / "root" / _SCRIPTS), read_lock(folder / LOCK))
        _pack_sandbox(work / "root", packed, rights, plain)
    finally:
        _remove(work, rights, plain)

    @contextlib.contextmanager
    def opened(_: Allowance) -> Iterator[IO[bytes]]:
        with packed.open("rb") as stream:
            yield stream

    yield ForeignImage(config, (ForeignLayer("sandbox", opened),))


def _check_place(folder: Path) -> None:
    """Refuse a directory path that Apptainer would split.

    Its own mounts and scripts take such a path apart, as observed with 1.4.5.
    """
    if odd := sorted(set(str(folder)) & set(",:'\"")):
        raise BuildError(
            f"Apptainer cannot build in {folder}, whose path has {' '.join(odd)}",
            hint="give -o a directory without commas, colons and quotes in its path, or take another builder",
        )


def _check_machine(platform: str) -> None:
    architecture = platform.split("/")[1]
    machine = os.uname().machine
    if _MACHINES.get(machine, machine) != architecture:
        raise BuildError(
            f"Apptainer builds for {machine} here, and not for {platform}",
            hint="build on a machine of that kind, or with another builder",
        )


def _select_rights(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return options for owner rights and a separate network.

    Raises:
        BuildError: the caller cannot get these rights.
    """
    rights = ROOT if os.geteuid() == 0 else SUBORDINATE
    try:
        run(
            _unshare_command((*rights, "--net"), "true"),
            env=_build_environment(env),
            purpose="build with Apptainer",
            hint=_RIGHTS,
            timeout=ANSWER_SECONDS,
        )
    except ProcessFailedError as err:
        raise BuildError(
            f"Apptainer would lose the owners of files, or have a network: {err.stderr.strip()}", hint=_RIGHTS
        ) from None
    return rights


def _unshare_command(options: tuple[str, ...], *argv: str) -> list[str]:
    return ["unshare", *options, "--", *argv] if options else [*argv]


def _build_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without user variables that change the build."""
    names = ("PATH", "HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "APPTAINER_CONFIGDIR")
    return {**{name: env[name] for name in names if name in env}, "LC_ALL": "C.UTF-8"}


def _build(program: str, root: Path, folder: Path, rights: tuple[str, ...], env: Mapping[str, str]) -> None:
    argv = _unshare_command(
        (*rights, "--net"), program, "--silent", "build", "--sandbox", str(root), DEFINITION
    )
    try:
        run(argv, env=env, purpose=f"build the {DEFINITION}", cwd=folder, timeout=BUILD_SECONDS)
    except ProcessFailedError as err:
        raise build_error(NAME, err, None) from None


def _pack_sandbox(root: Path, packed: Path, rights: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Write the sandbox as a tar, with owner numbers.

    Only the extended attributes that a recipe can set are written; labels of a security module are the
    machine's.
    """
    argv = (
        "tar", "--create", "--file", str(packed), "--directory", str(root), "--sort=name", "--format=posix",
        "--xattrs", "--xattrs-include=security.capability", "--xattrs-include=user.*", ".",
    )  # fmt: skip
    run(_unshare_command(rights, *argv), env=env, purpose="read what Apptainer built", timeout=BUILD_SECONDS)


def _remove(path: Path, rights: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Remove a directory that may hold subordinate users' files."""
    if rights:
        with contextlib.suppress(ProcessFailedError):
            run(_unshare_command(rights, "rm", "-rf", "--", str(path)), env=env, purpose=f"remove {path}")
    shutil.rmtree(path, ignore_errors=True)


def _check_config(config: Mapping[str, Any], lock: Lock) -> dict[str, Any]:
    """Return Apptainer's configuration if it equals the lock's."""
    expected, clean = image_config(lock), read_clean_config(config, NAME).document()
    lock_config = {**expected.document(), "Env": expected.settings}  # the definition file has this order
    for name in sorted({*lock_config, *clean}):
        if clean.get(name) != lock_config.get(name):
            values = f"{clean.get(name)!r}, not {lock_config.get(name)!r}"
            raise BuildError(
                f"Apptainer built another {name} than the lock says: {values}"[:2000],
                hint=_ANOTHER,
            )
    return clean


_LARGEST = 4 << 20  # of a file that describes the image


def read_config(folder: Path) -> dict[str, Any]:
    """Return the OCI configuration that a `.singularity.d` directory describes.

    It has the variables, commands and labels.

    Raises:
        BuildError: a file in it does not have the form that our definition files produce.
    """
    try:
        labels = json.loads(read_plain(folder / "labels.json", _LARGEST))
        variables = [
            _parse_export(words) for words in _read_script_words(folder / "env" / "90-environment.sh")
        ]
        change, default, execute = _read_script_words(folder / "runscript")
        if (change[0], change[2:]) != ("cd", ["||", "exit", "1"]) or len(change) != 5:
            raise ValueError(f"runscript: {shlex.join(change)}")
        if default[:7] != ["[", "$#", "-gt", "0", "]", "||", "set"] or default[7:8] != ["--"]:
            raise ValueError(f"runscript: {shlex.join(default)}")
        if execute[0] != "exec" or execute[-1] != "$@":
            raise ValueError(f"runscript: {shlex.join(execute)}")
        return {
            "Env": variables, "WorkingDir": change[1], "Cmd": default[8:], "Entrypoint": execute[1:-1],
            "Labels": {str(name): str(value) for name, value in labels.items()},
        }  # fmt: skip
    except (OSError, ValueError, LookupError, AttributeError) as err:
        raise BuildError(f"what Apptainer wrote cannot be read: {err}", hint=_ANOTHER) from None


def _read_script_words(path: Path) -> list[list[str]]:
    """Return the words of each line of a script.

    Comments and empty lines are skipped.
    """
    lines = (line.strip() for line in read_plain(path, _LARGEST).decode().split("\n"))
    return [shlex.split(line) for line in lines if line and not line.startswith("#")]


def _parse_export(words: list[str]) -> str:
    if len(words) != 2 or words[0] != "export" or "=" not in words[1]:
        raise ValueError(f"90-environment.sh: {shlex.join(words)}")
    return words[1]
